"""A test notification to each target that the configuration names."""

from headgate.config.error_text import hide
from headgate.core.printable_text import printable
from headgate.doctor.facts import Facts
from headgate.doctor.finding import Finding, note, ok, problem


def send(facts: Facts) -> list[Finding]:
    """Send it, and say where it arrived."""
    targets = facts.config.notify
    if not targets:
        return [note("notify", "no notifications are configured, so none was sent")]
    from headgate.notify import try_out

    found = []
    for target in targets:
        name, trouble = printable(target.name), try_out(target)
        if trouble:
            found.append(problem("notify_failed", f"{name}: {hide(printable(trouble))}"))
        else:
            found.append(ok("notify", f"{name}: a test was sent"))
    return found
