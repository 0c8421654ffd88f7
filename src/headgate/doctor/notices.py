"""A test notification to each target that the configuration names."""

from importlib import import_module
from typing import Any

from headgate.config.words import hide, plain
from headgate.doctor.facts import Facts
from headgate.doctor.finding import Finding, note, ok, problem


def send(facts: Facts) -> list[Finding]:
    """Send it, and say where it arrived."""
    targets: Any = getattr(facts.config, "notify", ())
    if not targets:
        return [note("notify", "no notifications are configured, so none was sent")]
    try_out = import_module("headgate.notify").try_out
    found = []
    for target in targets:
        name, trouble = plain(str(target.name)), str(try_out(target))
        if trouble:
            found.append(problem("notify_failed", f"{name}: {hide(plain(trouble))}"))
        else:
            found.append(ok("notify", f"{name}: a test was sent"))
    return found
