"""What a configuration file says, once it was checked."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.core.admission.pools import Declared
from headgate.core.agents.run_limits import JobPolicy
from headgate.core.named_tuple import NamedTuple
from headgate.core.server_settings import ServerSettings
from headgate.core.times import Ms

if TYPE_CHECKING:
    from headgate.core.answers.answer_rules import Rule
    from headgate.core.notification_targets import NotifyTarget

GRACE = Ms(10_000)
"""Milliseconds an ended agent has between SIGTERM and SIGKILL, unless the file says otherwise."""


class Retention(NamedTuple):
    """How much a store keeps of what is over; it may be late with forgetting by a hundred."""

    events: int = 10_000
    requests: int = 10_000
    history: int = 10_000
    """Of how much work that has ended, beside jobs, sums and roles are kept."""


class Config(NamedTuple):
    """What a configuration file says. Times are in milliseconds."""

    path: Path | None
    pools: Mapping[str, Declared]
    grace: Ms
    warnings: tuple[str, ...]
    defaults: Declared = Declared()
    """The `adapt` and `cooldown` of every pool but host that does not say otherwise."""
    classify: "tuple[Rule, ...]" = ()
    """Rules for reading answers, which come before the built-in ones."""
    jobs: JobPolicy = JobPolicy()
    profiles: Mapping[str, Mapping[str, Any]] = {}
    """What the file itself says of agents; `headgate.config.profiles` has all of them."""
    notify: "tuple[NotifyTarget, ...]" = ()
    """Where notifications go."""
    server: ServerSettings = ServerSettings()
    store: Retention = Retention()
    """How much the store keeps of what is over."""
