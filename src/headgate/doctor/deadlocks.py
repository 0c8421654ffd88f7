"""Work that waits for each other in a circle."""

from headgate.doctor.facts import Facts
from headgate.doctor.finding import Finding, problem


def check(facts: Facts) -> list[Finding]:
    """Each circle is something that only a person can end."""
    return [
        problem("deadlock", f"a deadlock: {found.words}", found.advice) for found in facts.deadlocks
    ]
