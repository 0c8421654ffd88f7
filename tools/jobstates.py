"""Write the states of jobs into docs/jobs.md: a diagram and two tables, made from the code's own.

Usage: `python tools/jobstates.py`. A test fails while the docs say something else.
"""

from collections.abc import Iterable
from pathlib import Path

from headgate.core.jobs.states import TRANSITIONS, JobEvent, State

TARGET = Path(__file__).resolve().parent.parent / "docs" / "jobs.md"
BEGIN = "<!-- Made from src/headgate/core/jobs/states.py by tools/jobstates.py: -->"
END = "<!-- End of what tools/jobstates.py made. -->"
_OVER = "ended"


def main() -> None:
    """Write it."""
    TARGET.write_text(renewed(TARGET.read_text()))


def renewed(page: str) -> str:
    """A page with all between the marks made anew."""
    before, found, rest = page.partition(BEGIN)
    _, ends, after = rest.partition(END)
    if not found or not ends:
        raise SystemExit(f"{TARGET.name} lacks the marks between which the states belong")
    return f"{before}{BEGIN}\n\n{_diagram()}\n\n{_states()}\n\n{_transitions()}\n\n{END}{after}"


def _diagram() -> str:
    """The states as Mermaid draws them; those of jobs that have ended are one box."""
    drawn = ["```mermaid", "stateDiagram-v2", "    [*] --> held: submit"]
    edges: dict[tuple[str, str], list[str]] = {}
    for (state, event), step in TRANSITIONS.items():
        names = edges.setdefault((_box(state), _box(step.to)), [])
        if _name(event) not in names:
            names.append(_name(event))
    drawn += [
        f"    {here} --> {there}: {', '.join(names)}" for (here, there), names in edges.items()
    ]
    over = ", ".join(_name(state) for state in State if state.ended)
    return "\n".join([*drawn, f"    {_OVER}: {over}", "```"])


def _box(state: State) -> str:
    return _OVER if state.ended else _name(state)


def _states() -> str:
    rows = (
        (_name(state), f"`{state.word}`", state.value, state.place.value, state.timer.value)
        for state in State
    )
    return _table(("state", "shown as", "the job", "has", "what time does"), rows)


def _transitions() -> str:
    rows = []
    for event in JobEvent:
        ways: dict[tuple[str, str], list[str]] = {}
        for (state, what), step in TRANSITIONS.items():
            if what is event:
                sets = "; ".join(effect.value for effect in step.effects)
                ways.setdefault((_name(step.to), sets), []).append(_name(state))
        rows += [
            (f"{_name(event)}: {event.value}", ", ".join(states), to, sets)
            for (to, sets), states in ways.items()
        ]
    return _table(("event", "in", "leads to", "and sets"), rows)


def _name(it: State | JobEvent) -> str:
    return it.name.lower().replace("_", " " if isinstance(it, JobEvent) else "_")


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(heads)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
