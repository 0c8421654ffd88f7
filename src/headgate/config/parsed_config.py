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
