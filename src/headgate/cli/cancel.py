"""End work, waiting or running, one piece or many; wait until it has ended."""

import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence

from headgate.cli.shared import terminal
from headgate.cli.shared.open_gate import find_id, open_anyway, print_json, say
from headgate.cli.shared.progress import CountLine
from headgate.core.display import json_shapes, old_json_names
from headgate.core.display.snapshots import CancelOutcome, SelectedWork
from headgate.core.quantities import parse_duration
from headgate.core.times import Seconds, seconds
from headgate.errors import HeadgateError, UsageError
from headgate.gate import Gate

_FEW = 10
"""Up to so many, people are told of each."""
_SHOWN = 20
_COLUMNS = (
    ("id", "right"),
    ("state", ""),
    ("task", "shrinks"),
    ("key", "shrinks"),
    ("name", "shrinks"),
    ("label", "shrinks"),
)


def arguments(parser: ArgumentParser) -> None:
    """What `cancel` takes."""
    parser.usage = (
        "headgate cancel [options] (ID... | --all | --task ID | --name NAME | -m PATTERN)"
    )
    parser.epilog = (
        "With several of --task, --name and -m, only what fits all of them is cancelled. On a "
        "terminal it is shown first, and you are asked. Of work that runs headgate cancel itself, "
        "only its id cancels it."
    )
    parser.add_argument(
        "ids",
        nargs="*",
        metavar="ID",
        help="its id, or the name of a job",
    )
    parser.add_argument("--all", action="store_true", help="all that waits or runs")
    parser.add_argument("--task", metavar="ID", help="what waits or runs for this task")
    parser.add_argument("--name", help="the jobs of this name")
    parser.add_argument(
        "-m",
        "--model",
        metavar="PATTERN",
        help="what uses these models, as in anthropic or anthropic/claude-opus-*",
    )
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--grace", metavar="DUR", help="how long it has to end by itself before it is killed (10s)"
    )
    parser.add_argument("--json", action="store_true", help="print what became of each as JSON")


def run(args: Namespace) -> int:
    """Cancel them side by side; one that cannot be cancelled does not keep the others."""
    chosen = {"task": args.task, "name": args.name, "key": args.model}
    selects = args.all or any(given is not None for given in chosen.values())
    if selects == bool(args.ids):
        raise UsageError("give either ids, or --all, --task, --name or -m to say which work")
    grace = None if args.grace is None else seconds(parse_duration(args.grace, "grace"))
    with open_anyway(args) as gate:
        told = _Told(gate, args.ids, json=args.json)
        if selects:
            work = gate.find_work(**chosen)
            if not work:
                say("nothing that waits or runs is like that")
            elif not args.yes and not _confirmed(work):
                say("nothing was cancelled")
                return 1
            told.ids = {one.id: str(one.id) for one in work}
        _cancel(gate, told, grace)
    if args.json:
        print_json(told.results(), old_json_names.OUTCOME)
    return told.code


def _cancel(gate: Gate, told: "_Told", grace: Seconds | None) -> None:
    try:
        gate.cancel_all(told.ids, grace=grace, on_outcome=told.tell)
    except KeyboardInterrupt:
        told.done()
        say(
            "stopped waiting; what waited is out of the line, and what runs was asked to end: "
            "headgate queue shows what is left"
        )
        raise
    told.done()


def _confirmed(work: Sequence[SelectedWork]) -> bool:
    """Show on a terminal what would be cancelled, and ask; elsewhere nobody is there to ask."""
    if not terminal.somebody_is_there():
        return True
    states = Counter(one.state for one in work)
    parts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    rows = [
        (one.id, one.state, one.task, one.key or "(no model)", one.name, one.label)
        for one in work[:_SHOWN]
    ]
    lines = terminal.table(_COLUMNS, rows, terminal.pen(sys.stderr))
    if len(work) > _SHOWN:
        lines.append(f"… and {len(work) - _SHOWN} more")
    print("\n".join(lines), file=sys.stderr)
    return terminal.agrees(f"cancel {len(work)} ({parts})?")


class _Told:
    """What people and programs are told of the outcomes."""

    def __init__(self, gate: Gate, texts: Sequence[str], *, json: bool) -> None:
        self.code = 0
        self.ids: dict[int, str] = {}
        """What is to be cancelled, and as what it was typed."""
        self._json = json
        self._found: dict[str, json_shapes.Json] = {}
        self._counts: Counter[str] = Counter()
        self._line = CountLine()
        for text in texts:
            try:
                self.ids.setdefault(find_id(gate, text), text)
            except HeadgateError as error:
                self._fail(text, error)
        self._order = list(texts)

    def tell(self, outcome: CancelOutcome) -> None:
        """Tell of an outcome."""
        text = self.ids[outcome.id]
        if outcome.error is not None:
            self._line.clear()
            self._fail(text, outcome.error)
            return
        self._counts[outcome.outcome] += 1
        shown = json_shapes.outcome(str(outcome.id), outcome.outcome)
        self._found[text] = json_shapes.document(shown)
        if self._few:
            what = "is out of the line" if outcome.outcome == "withdrawn" else "has ended"
            if not self._json:
                say(f"{text} {what}")
        else:
            self._line.show(f"cancelled {sum(self._counts.values())} of {len(self.ids)}")

    def done(self) -> None:
        """Sum up what was too much to tell one by one."""
        self._line.clear()
        if self._few or self._json:
            return
        words = (("withdrawn", "out of the line"), ("ended", "ended"))
        parts = [f"{self._counts[what]} {said}" for what, said in words if self._counts[what]]
        say(f"cancelled {sum(self._counts.values())} of {len(self.ids)}: {', '.join(parts)}")

    def results(self) -> list[json_shapes.Json]:
        """All outcomes as JSON, in the order in which the ids were given."""
        texts = self._order or list(self.ids.values())
        return [self._found[text] for text in dict.fromkeys(texts) if text in self._found]

    @property
    def _few(self) -> bool:
        return len(self.ids) <= _FEW

    def _fail(self, text: str, error: HeadgateError) -> None:
        self.code = self.code or error.exit_code
        say(str(error))
        self._found[text] = json_shapes.document(json_shapes.outcome(text, "failed", str(error)))
