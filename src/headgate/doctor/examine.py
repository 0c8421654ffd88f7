"""Runs all checks, family by family."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from headgate.core.admission.setting_precedence import with_project
from headgate.core.named_tuple import NamedTuple
from headgate.doctor import (
    deadlocks,
    files,
    limit_sources,
    machine,
    meters,
    overlapping_pools,
    settings,
    storage,
    store_size,
    timeouts,
    try_notification,
    unmanaged_agents,
)
from headgate.doctor.facts import Facts, gather
from headgate.doctor.finding import PROBLEM, Finding, warning
from headgate.errors import ConfigError
from headgate.gate.project_here import project_here
from headgate.store.locate import as_url, default_url

Check = Callable[[Facts], Iterable[Finding]]
_CHECKS: tuple[tuple[str, tuple[Check, ...]], ...] = (
    ("Limits", (limit_sources.check, overlapping_pools.check)),
    ("Timeouts", (timeouts.check,)),
    ("Waits", (deadlocks.check,)),
    ("Store", (storage.check, store_size.check)),
    ("Machine", (machine.check,)),
    ("Agents", (unmanaged_agents.check, meters.check)),
)


class Report(NamedTuple):
    """All findings, in groups with a heading."""

    groups: tuple[tuple[str, tuple[Finding, ...]], ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of them."""
        return tuple(finding for _, group in self.groups for finding in group)

    def count(self, level: str) -> int:
        """How many there are of a level."""
        return sum(finding.level == level for finding in self.findings)

    @property
    def healthy(self) -> bool:
        """Whether nothing has to be mended."""
        return not self.count(PROBLEM)


def examine(
    environ: Mapping[str, str],
    *,
    store: str | None = None,
    config: str | None = None,
    notify: bool = False,
) -> Report:
    """Look at everything; `notify` also sends a test to whoever is to be told of events."""
    read, about_config = settings.read_config(config)
    view, about_limits = settings.read_limits(environ)
    with suppress(ConfigError):  # which is among the files, with what is wrong
        project = project_here()
        view = with_project(view, project.limits) if project is not None else view
    about_files = files.check(files.look(environ, store=store, config=config))
    url = as_url(store) if store else default_url()
    facts, about_store = gather(read, environ, url, view)
    about_environment = settings.check_environment(read, environ, store)
    groups = {"Files": about_files}
    groups["Settings"] = [*about_config, *about_limits, *about_environment]
    for heading, checks in _CHECKS:
        groups[heading] = about_store if heading == "Store" else []
        for check in checks:
            groups[heading] = groups[heading] + _safely(check, facts)
    if notify:
        groups["Notifications"] = _safely(try_notification.send, facts)
    return Report(tuple((heading, tuple(found)) for heading, found in groups.items() if found))


def _safely(check: Check, facts: Facts) -> list[Finding]:
    """What a check finds; a file that vanishes or a sandbox that forbids to look ends only it."""
    try:
        return list(check(facts))
    except Exception as error:  # noqa: BLE001 - the other checks are still worth having
        name = check.__module__.rpartition(".")[2].replace("_", " ")
        return [warning("unchecked", f"{name} could not be checked: {type(error).__name__}")]
