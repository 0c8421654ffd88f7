"""Every key that a configuration file can have, for the reference page."""

from collections.abc import Iterator

from headgate.config.check import RUN, TABLES
from headgate.config.jobs import FIELDS as JOBS
from headgate.config.notify import FIELDS as NOTIFY
from headgate.config.notify import ONLY
from headgate.config.pool_fields import FIELDS as POOL
from headgate.config.pool_fields import HOST_FIELDS, OBSERVE, RESERVE, SHARED_FIELDS
from headgate.config.profile_fields import FIELDS as PROFILE
from headgate.config.profile_fields import TOOL
from headgate.config.server import FIELDS as SERVER
from headgate.config.server import TEMPLATE
from headgate.config.store import FIELDS as STORE
from headgate.config.usage import FIELDS as USAGE
from headgate.core.answers.answer_rules import FIELDS as CLASSIFY
from headgate.core.named_tuple import NamedTuple
from headgate.core.table_fields import Fields

FIELDS: dict[str, Fields] = {
    "": TABLES,
    "pools.host": HOST_FIELDS,
    "pools.NAME": POOL,
    "pools.NAME.reserve": RESERVE,
    "pools.NAME.observe": OBSERVE,
    "pools.NAME.usage": USAGE,
    "defaults": SHARED_FIELDS,
    "classify": CLASSIFY,
    "run": RUN,
    "jobs": JOBS,
    "profiles.NAME": PROFILE,
    "profiles.NAME.tools": TOOL,
    "notify": NOTIFY,
    "notify.only": ONLY,
    "server": SERVER,
    "store": STORE,
    "templates.NAME": TEMPLATE,
}
"""The fields of each table; the one without a name is the file itself."""


class ConfigKey(NamedTuple):
    """One key of a configuration file, in words for people."""

    table: str
    name: str
    type: str
    """What it may be, as in "a whole number from 1 to 20"."""
    default: str
    """As it would be written in the file; empty if nothing counts without it."""
    text: str
    """One sentence."""


def all_fields() -> Iterator[ConfigKey]:
    """Every key there is, table by table."""
    for table, fields in FIELDS.items():
        for name, field in fields.items():
            yield ConfigKey(table, name, type=field.allowed, default=field.default, text=field.text)
