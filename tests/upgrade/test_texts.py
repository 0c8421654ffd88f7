"""Texts that are kept: both versions write the same, and each goes on with what the other wrote.

Ledgers of the version before and of this one do the steps of one history in turn. Whoever does
which step, the same have seats after it, and every text is the same to the byte.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from headgate.core.stored_text import stored_values
from headgate.core.stored_text.formats import StoredText, Unreadable
from tests.upgrade.conftest import Installed

pytestmark = pytest.mark.timeout(90)

PROGRAM = Path(__file__).with_name("ledger_program.py")
START = 1_700_000_000_000
Step = tuple[int, str, dict[str, Any]]


class State(NamedTuple):
    """Who has seats, and every text that is kept."""

    held: list[int]
    texts: dict[str, str]


class Process:
    """A ledger of one version, in a process of its own."""

    def __init__(self, python: str, store: Path) -> None:
        self._process = subprocess.Popen(
            [python, PROGRAM, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def do(self, step: Step) -> list[int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(step) + "\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        assert isinstance(said, list), said
        return said

    def end(self) -> None:
        self._process.communicate(timeout=30)


class Pair:
    """The version before and this one, on one store."""

    def __init__(self, before: str, store: Path) -> None:
        self._store = store
        self.old = Process(before, store)
        self.old.do((START, "join", {}))
        self.new = Process(sys.executable, store)

    def play(self, turns: str, steps: Iterable[Step]) -> list[State]:
        """Do each step; `turns` says by whom: o and n, again and again."""
        states = []
        for i, step in enumerate(steps):
            who = self.old if turns[i % len(turns)] == "o" else self.new
            states.append(State(who.do(step), self.texts()))
        return states

    def texts(self) -> dict[str, str]:
        db = apsw.Connection(str(self._store), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            found = dict(db.execute("SELECT name, text FROM note"))
            for name in ("schema", "uid", "wall_clock"):
                found.pop(name, None)
            clocks = [name for name in found if name.startswith("clock:")]
            for name in clocks:
                del found[name]
            found |= db.execute("SELECT 'learned:' || name, learned FROM pool")
            found |= db.execute("SELECT 'sent:' || id, sent FROM lease")
            found |= db.execute("SELECT 'overtaken:' || id, overtaken FROM ticket")
        finally:
            db.close()
        return {name: text for name, text in found.items() if text}

    def end(self) -> None:
        self.old.end()
        self.new.end()


@contextmanager
def pair(before: Installed, store: Path) -> Iterator[Pair]:
    them = Pair(before.python, store)
    try:
        yield them
    finally:
        them.end()


def history(*steps: tuple[int, str, dict[str, Any]]) -> list[Step]:
    """Steps, each so many milliseconds after the one before."""
    now = START
    found = []
    for after, what, words in steps:
        now += after
        found.append((now, what, words))
    return found


def ask(key: str, count: int = 1, *, after: int = 10, **more: int) -> tuple[int, str, Any]:
    return after, "ask", {"key": key, "count": count, **more}


def report(kind: str, id: int, after: int = 10) -> tuple[int, str, Any]:
    return after, "report", {"kind": kind, "id": id}


def release(id: int, after: int = 2_000) -> tuple[int, str, Any]:
    return after, "release", {"id": id}


NO, YES = "concurrency-limited", "accepted"
FREE, FULL = [2**34, 2**33, 4.0, 0.123456], [2**34, 12345, 4.0, 9.87654]

HISTORIES = {
    "learning": history(
        ask("a/x", 9),
        report(NO, 8),
        report(NO, 7),
        *(report(YES, id) for id in range(1, 7)),
        *(release(id) for id in (7, 8, 1, 2)),
        ask("a/x", 3, after=700_000),
        report(NO, 10),
        *(release(id) for id in (3, 4, 5, 6, 9, 10)),
        ask("a/x", 4, after=900_000),
        report(YES, 11),
        report(YES, 12),
    ),
    "a limit from nothing": history(
        ask("free/x", 6),
        *(report(YES, id, 1_000) for id in range(1, 5)),
        report(NO, 4, 9_000),
        *(release(id) for id in range(1, 5)),
        (100, "limit", {"pool": "free", "limit": 3}),
        report(NO, 5, 6_000),
        (40_000, "rest", {}),
    ),
    "rates": history(
        *(ask("rates/x", tokens=150, after=300) for _ in range(6)),
        *((750, "rest", {}) for _ in range(6)),
        report(NO, 3),
        release(1),
        (61_000, "rest", {}),
    ),
    "readings": history(
        *(
            step
            for i in range(30)
            for step in (
                ask("read/x", after=400),
                (100, "claim", {"pool": "read"}),
                (60, "usage", {"pool": "read", "in_use": None if i == 7 else 1 + i % 4 + 0.5}),
                *([release(i - 1, after=30)] if i > 1 else []),
            )
        ),
        report(NO, 30),
        (100, "claim", {"pool": "told"}),
        (60, "usage", {"pool": "told", "in_use": 4}),
        ask("told/x", 3),
    ),
    "programs that never asked": history(
        (0, "sighted", {"space": "pid:[1]", "programs": 2}),
        (100, "sighted", {"space": "", "programs": 3}),
        ask("seen/x", 3),
        (3_500, "sighted", {"space": "pid:[1]", "programs": 0}),
        (7_000, "sighted", {"space": "pid:[1]", "programs": 1}),
        (20_000, "rest", {}),
    ),
    "a line": history(
        ask("line/x", 2),
        ask("line/x", weight=2),
        release(1, after=10),
        ask("line/x", 2, urgency=-1),
        release(2, after=10),
        ask("line/y", 2),
        *(release(id, after=10) for id in (4, 5, 6, 3)),
    ),
    "strain": history(
        (0, "strain", {"space": "pid:[1]", "host": FULL}),
        (100, "strain", {"space": "pid:[2]", "host": [2**34, 12, 0.75, None]}),
        ask("b/x", 2),
        (2_000, "strain", {"space": "pid:[1]", "host": FREE}),
        (9_000, "strain", {"space": "pid:[2]", "host": FREE}),
        (1, "rest", {}),
    ),
}

SHAPES: dict[str, StoredText[Any]] = {
    "learned": stored_values.LEARNED,
    "pace": stored_values.PACE,
    "meter": stored_values.METER,
    "usage": stored_values.SIGHT,
    "gated": stored_values.GATED,
    "foreign": stored_values.SIGHTINGS,
    "strain": stored_values.STRAINED,
    "overtaken": stored_values.OVERTAKEN,
    "reset": stored_values.RESET,
}


@pytest.mark.parametrize("name", HISTORIES)
def test_whoever_does_a_step_leaves_the_same_texts(
    name: str, before: Installed, tmp_path: Path
) -> None:
    """Alone, in turn or in pairs: what is written is the same, and so is what follows from it."""
    steps = HISTORIES[name]
    with ExitStack() as stack:
        runs = {
            turns: stack.enter_context(pair(before, tmp_path / f"{turns}.db")).play(turns, steps)
            for turns in ("o", "n", "on", "no", "oonn")
        }
    for i, step in enumerate(steps):
        for turns, states in runs.items():
            assert states[i] == runs["o"][i], (turns, i, step)
    for state in runs["o"]:
        for note, text in state.texts.items():
            _reads(note, text)


def _reads(note: str, text: str) -> None:
    """This version reads it, and would write it so."""
    kind = note.partition(":")[0]
    if kind == "sent":
        marks = stored_values.read_sent(text)
        assert marks is not None
        assert stored_values.write_sent(list(marks)) == text
    elif kind in SHAPES:
        value = SHAPES[kind].read(text)
        assert not isinstance(value, Unreadable), (note, text)
        assert SHAPES[kind].write(value) == text


@pytest.fixture(params=["on", "no"])
def turns(request: pytest.FixtureRequest) -> str:
    """Who begins, and who goes on."""
    return str(request.param)


def test_a_refusal_told_to_one_lowers_the_limit_of_the_other(
    turns: str, before: Installed, tmp_path: Path
) -> None:
    """Of eight seats one learns that there are seven, and the other lets in no more."""
    steps = history(ask("a/x", 8), report(NO, 8), (0, "rest", {}), release(1), release(2))
    more = history(*(ask("a/x", 4, after=90_000) for _ in range(2)))
    with pair(before, tmp_path / "s.db") as them:
        states = them.play(turns[0], steps)
        assert states[1].texts["learned:a"].startswith("[7,8,")
        assert len(them.play(turns[1], more)[-1].held) == 7
        assert "unreadable" not in str(them.texts())


def test_what_one_is_charged_the_other_sees(turns: str, before: Installed, tmp_path: Path) -> None:
    """Five a minute, and 700 ms between two of them, whoever lets them in."""
    with pair(before, tmp_path / "s.db") as them:
        apart = them.play(turns, history(ask("rates/x"), ask("rates/x", after=600)))
        assert [len(state.held) for state in apart] == [1, 1]
        later = history(ask("rates/x", 9, after=2_000), *[(1_000, "rest", {})] * 9)
        assert len(them.play(turns, later)[-1].held) == 5


def test_for_who_was_overtaken_under_one_the_other_keeps_seats(
    turns: str, before: Installed, tmp_path: Path
) -> None:
    """It needs both seats of a pool: once overtaken, it gets the next two that become free."""
    with pair(before, tmp_path / "s.db") as them:
        under_one = history(ask("line/x", 2), ask("line/x", weight=2), ask("line/y", 9), release(1))
        states = them.play(turns[0], under_one)
        assert states[-1].held == [2, 4]
        assert "overtaken:3" in states[-1].texts
        now = history((5_000, "release", {"id": 2}), release(4))
        assert [state.held for state in them.play(turns[1], now)] == [[4], [3]]


def test_the_histories_leave_every_kind_of_text(before: Installed, tmp_path: Path) -> None:
    """None of them is forgotten above."""
    kinds = set()
    for name, steps in HISTORIES.items():
        with pair(before, tmp_path / f"{name}.db") as them:
            for state in them.play("on", steps):
                kinds |= {note.partition(":")[0] for note in state.texts}
    assert kinds >= {*SHAPES, "sent"}
