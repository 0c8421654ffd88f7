"""What each kind of what a store keeps costs in bytes, and how to keep less of it."""

from collections.abc import Iterator

from headgate.core.quantities import show_size
from headgate.doctor.facts import Facts
from headgate.doctor.finding import Finding, note, ok

_KINDS = {
    "event": "events",
    "request": "requests",
    **dict.fromkeys(("metered", "work_role", "task_turn", "history"), "history"),
    **dict.fromkeys(("job", "after", "attempt", "submission"), "jobs"),
    "": "unused",
}
"""What the tables of a store are about; the others are about what goes on."""
_MUCH = 64 * 2**20


def check(facts: Facts) -> Iterator[Finding]:
    """How large the store is, and what of."""
    if facts.path is None or not facts.path.is_file():
        return
    from headgate.store.maintenance import sizes

    kinds: dict[str, int] = {}
    for table, size in sizes(facts.path).items():
        kind = _KINDS.get(table, "what goes on")
        kinds[kind] = kinds.get(kind, 0) + size
    if not kinds:  # it would take too long, or cannot be told
        return
    parts = sorted(kinds.items(), key=lambda part: -part[1])
    whole = sum(kinds.values())
    said = ", ".join(f"{show_size(size)} {kind}" for kind, size in parts if size)
    if 2 * kinds.get("unused", 0) > whole > _MUCH:
        advice = "give it back: headgate store compact"
        yield note("store_size", f"the store has {show_size(whole)}: {said}", advice)
    elif whole > _MUCH:
        advice = "keep less of it: [store] in the configuration, and keep in [jobs]"
        yield note("store_size", f"the store has {show_size(whole)}: {said}", advice)
    else:
        yield ok("store_size", f"the store has {show_size(whole)}: {said}")
