"""The description of every configuration key, from which the reference page is made."""

import re
import tomllib
from typing import Any

import pytest

from headgate.config.key_descriptions import FIELDS, ConfigKey, all_fields
from headgate.config.parsed_config import GRACE, Retention
from headgate.config.template import TEMPLATE
from headgate.core.admission.pools import COOLDOWN, LEARN, Declared, UsageSource
from headgate.core.agents.profile import Profile, Tool
from headgate.core.agents.run_limits import JobPolicy, RunLimits
from headgate.core.answers.answer_rules import Rule
from headgate.core.host.auto_limit import AGENT_MEMORY
from headgate.core.notification_targets import NotifyTarget, Only
from headgate.core.server_settings import ServerSettings

KEYS = list(all_fields())
JOB_DEFAULTS = {**RunLimits()._asdict(), **JobPolicy()._asdict()}
COUNTS: dict[str, dict[str, Any]] = {
    "pools.host": {
        "limit": 3,
        "cooldown": 0,
        "max_hold": None,
        "adapt": "off",
        "spacing": 0,
        "memory_floor": 0,
        "load_ceiling": 0,
        "agent_memory": AGENT_MEMORY,
        "order": "oldest",
    },
    "pools.NAME": {
        "limit": "unlimited",
        "cooldown": COOLDOWN,
        "max_hold": None,
        "adapt": LEARN,
        "spacing": 0,
        "order": "oldest",
    },
    "pools.NAME.reserve": {"interactive": 0, "normal": 0, "background": 0},
    "pools.NAME.usage": UsageSource._field_defaults,
    "defaults": {"adapt": LEARN, "cooldown": COOLDOWN},
    "classify": Rule._field_defaults,
    "run": {"grace": GRACE},
    "jobs": JOB_DEFAULTS,
    "profiles.NAME": Profile._field_defaults,
    "profiles.NAME.tools": Tool._field_defaults,
    "notify": NotifyTarget._field_defaults,
    "server": ServerSettings._field_defaults,
    "store": Retention._field_defaults,
}
"""What counts without a key."""
IN_WORDS = {"name", "programs", "provider", "status", "profile", "meter"}
"""Keys whose default depends on something else, and is told in words."""


@pytest.mark.parametrize("key", KEYS, ids=lambda key: f"{key.table}.{key.name}")
def test_every_key_has_its_words(key: ConfigKey) -> None:
    """Each has a sentence, and says what it may be."""
    assert re.fullmatch(r"[A-Z].*\.", key.text)
    assert key.type


@pytest.mark.parametrize(
    "key",
    [key for key in KEYS if key.default[:1] not in {"", "[", "{"} and key.name not in IN_WORDS],
    ids=lambda key: f"{key.table}.{key.name}",
)
def test_the_default_that_is_told_is_the_one_that_counts(key: ConfigKey) -> None:
    """Written into a file, the default of a key is read as what counts without it."""
    read = FIELDS[key.table][key.name].read
    assert read is not None
    value = tomllib.loads(f"default = {key.default.partition(';')[0]}")["default"]
    assert read(value) == COUNTS[key.table][key.name]


def test_the_usual_events_are_those_that_are_told() -> None:
    """A target that names no events is told of the kinds that its default lists."""
    events = FIELDS["notify"]["events"]
    assert events.read is not None
    assert events.read(tomllib.loads(f"a = {events.default}")["a"]) == NotifyTarget("a").events


def test_the_template_shows_the_same_defaults() -> None:
    """Each setting that stands in the template behind a # is there with the default told."""
    told = {key.name: key for key in KEYS if key.table in {"pools.NAME", "run", "jobs"}}
    told |= {key.name: key for key in KEYS if key.table == "pools.host" and key.name not in told}
    shown = re.findall(r"(?m)^#(\w+) = (\"[^\"]*\"|\S+)", TEMPLATE)
    assert len(shown) > 25
    for name, value in shown:
        assert name == "limit" or told[name].default.partition(";")[0] == value


@pytest.mark.parametrize(
    "table, names",
    [
        ("pools.NAME.usage", UsageSource._fields),
        ("classify", Rule._fields),
        ("jobs", (*RunLimits._fields, *JobPolicy._fields)),
        ("profiles.NAME", ("like", "base_url", *Profile._fields)),
        ("profiles.NAME.tools", Tool._fields),
        ("notify", NotifyTarget._fields),
        ("notify.only", Only._fields),
    ],
)
def test_no_key_is_forgotten(table: str, names: tuple[str, ...]) -> None:
    """What a value can hold can be written into the file, but for what only headgate sets."""
    hidden = {"jobs": {"limits"}, "profiles.NAME": {"builtin", "name", "speaks"}}.get(table, set())
    assert set(FIELDS[table]) == {*names} - hidden


def test_no_key_of_a_pool_is_forgotten() -> None:
    """Every setting of a pool is one of host, of other pools, or of both."""
    assert {*FIELDS["pools.host"], *FIELDS["pools.NAME"]} == {*Declared._fields}
