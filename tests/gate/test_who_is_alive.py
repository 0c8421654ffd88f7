"""Who is alive: one suite for everything that answers it, real or made up.

Each implementer comes with a stage on which a member can be brought into a situation. What it has
to answer there is a table, `ANSWERS`. What a stage cannot bring about is a table too, `CANNOT`,
with the reason, and a test sees to it that no other situation is left out.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

from headgate.core.times import Ms
from headgate.gate.liveness.member_pipes import LocalRegistry, PipeRegistry
from headgate.gate.liveness.process_marks import MARK
from headgate.ledger.transaction.rows import Liveness, Member
from headgate.sim.simulated_liveness import SimulatedLiveness
from tests.support import until


class Answer(NamedTuple):
    """What the three questions have to be answered with."""

    listening: bool
    alive: bool
    dead: bool


GONE = Answer(listening=False, alive=False, dead=True)
THERE = Answer(listening=True, alive=True, dead=False)

ANSWERS = {
    "lives": THERE,
    "oneself": THERE,
    "has ended": GONE,
    "never was": GONE,
    "has no id": GONE,
    "has an id that cannot be one": GONE,
    "left a program with its pipe": Answer(listening=False, alive=True, dead=False),
    "left a program with its mark only": Answer(listening=False, alive=False, dead=False),
    # The one expectation that changes when a missing pipe is no death any more, and the
    # process is asked after by its number and start time.
    "lives, but its pipes were removed": GONE,
}

HOME = "a store in memory has no programs and no pipes: its members are gates of this process"
CANNOT = {
    ("home", "left a program with its pipe"): HOME,
    ("home", "left a program with its mark only"): HOME,
    ("home", "lives, but its pipes were removed"): HOME,
    ("simulated", "oneself"): "it is nobody itself: it answers for a whole world",
    ("simulated", "lives, but its pipes were removed"): "it has no files that could be removed",
}


class Stage(Protocol):
    """An implementer, and somebody to ask it about."""

    @property
    def liveness(self) -> Liveness:
        """The implementer."""

    def bring(self, situation: str) -> tuple[str, list[str]]:
        """Bring somebody into a situation; the id, and the marks of its leases."""


STRANGERS = {
    "never was": "0123456789ab",
    "has no id": "",
    "has an id that cannot be one": "a/../\0" + "x" * 5_000,
}

_MEMBER = """
import os, subprocess, sys
from pathlib import Path
from headgate.gate.liveness.member_pipes import PipeRegistry
registry = PipeRegistry(Path(sys.argv[1]))
registry.join()
program = "import sys; print(flush=True); sys.stdin.read()"
children = []
if sys.argv[2] != "nothing":
    pipe = [registry.life_fd] if sys.argv[2] == "pipe" else []
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", program], stdout=subprocess.PIPE,
        pass_fds=pipe, env={**os.environ, **({"HEADGATE_LEASE": sys.argv[3]} if not pipe else {})})
    child.stdout.readline()
print(registry.me, flush=True)
sys.stdin.readline()
os._exit(0)
"""


class FolderStage:
    """Real processes with real pipes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "members"
        self.liveness = PipeRegistry(self.folder)
        self.liveness.join()
        self._members: list[subprocess.Popen[str]] = []

    def close(self) -> None:
        """End every program: they read until their input is closed."""
        for member in self._members:
            for pipe in (member.stdin, member.stdout):
                if pipe is not None:
                    pipe.close()
            member.wait(10)
        self.liveness.leave(remove=True)

    def bring(self, situation: str) -> tuple[str, list[str]]:
        """A process joins, starts what it starts, and ends if it has to."""
        if situation in STRANGERS:
            return STRANGERS[situation], []
        if situation == "oneself":
            return self.liveness.me, []
        program = {
            "left a program with its pipe": "pipe",
            "left a program with its mark only": "mark",
        }.get(situation, "nothing")
        mark = f"{os.urandom(4).hex()}.1"
        process, id = self._join(program, mark)
        if "pipes were removed" in situation:
            for kind in ("life", "wake"):
                (self.folder / f"{id}.{kind}").unlink()
        elif situation != "lives":
            process.kill()
            process.wait(10)
        return id, [mark]

    def _join(self, program: str, mark: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-c", _MEMBER, str(self.folder), program, mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={name: value for name, value in os.environ.items() if name != MARK},
        )
        self._members.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()


class HomeStage:
    """Gates of this process."""

    def __init__(self, _: Path) -> None:
        self.liveness = LocalRegistry(lambda: None)
        self.liveness.join()
        self._others: list[LocalRegistry] = []

    def close(self) -> None:
        """All leave."""
        for one in (self.liveness, *self._others):
            one.leave(remove=True)

    def bring(self, situation: str) -> tuple[str, list[str]]:
        """Another gate opens, and closes if it has to."""
        if situation in STRANGERS:
            return STRANGERS[situation], []
        if situation == "oneself":
            return self.liveness.me, []
        other = LocalRegistry(lambda: None)
        other.join()
        self._others.append(other)
        if situation == "has ended":
            other.leave(remove=True)
        return other.me, []


class SimulatedStage:
    """A made-up world, as tests, benchmarks and the simulator use it."""

    def __init__(self, _: Path) -> None:
        self.liveness = SimulatedLiveness("somebody")

    def close(self) -> None:
        """Nothing is left."""

    def bring(self, situation: str) -> tuple[str, list[str]]:
        """A member joins, and ends if it has to."""
        if situation in STRANGERS:
            return STRANGERS[situation], []
        self.liveness.join("m")
        match situation:
            case "has ended":
                self.liveness.end("m")
            case "left a program with its pipe":
                self.liveness.orphan("m")
            case "left a program with its mark only":
                self.liveness.end("m")
                self.liveness.marks.add("u.1")
            case _:
                pass
        return "m", ["u.1"]


STAGES: dict[str, Callable[[Path], FolderStage | HomeStage | SimulatedStage]] = {
    "folder": FolderStage,
    "home": HomeStage,
    "simulated": SimulatedStage,
}
CASES = [(kind, each) for kind in STAGES for each in ANSWERS if (kind, each) not in CANNOT]


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    it = STAGES[request.param](tmp_path)
    yield it
    it.close()


def ask(liveness: Liveness, id: str, marks: list[str]) -> Answer:
    row = Member(id, "m", 1, "", Ms(0))
    dead = liveness.dead([(row, lambda: marks)])
    return Answer(liveness.listening(id), liveness.alive(id), dead == [id])


@pytest.mark.parametrize("stage, situation", CASES, indirect=["stage"])
def test_everybody_answers_alike_who_is_alive(stage: Stage, situation: str) -> None:
    """Each implementer says of somebody in a situation what the table says."""
    id, marks = stage.bring(situation)
    # The kernel closes the pipes of a process a moment after it can be waited for.
    until(lambda: ask(stage.liveness, id, marks) == ANSWERS[situation])
    assert ask(stage.liveness, id, marks) == ANSWERS[situation]


@pytest.mark.parametrize("stage", STAGES, indirect=True)
def test_each_is_judged_by_itself(stage: Stage) -> None:
    """Of several, just those are dead that have ended; the living are not asked for their marks."""
    ended, marks = stage.bring("has ended")
    lives, _ = stage.bring("lives")
    if ended == lives:  # one that has come back
        assert ask(stage.liveness, lives, marks) == THERE
        return
    until(lambda: not stage.liveness.alive(ended))

    def no_marks() -> list[str]:
        raise AssertionError("nobody needs to know")

    rows = [
        (Member(lives, "m", 1, "", Ms(0)), no_marks),
        (Member(ended, "m", 1, "", Ms(0)), lambda: marks),
    ]
    assert stage.liveness.dead(rows) == [ended]


def test_all_that_cannot_be_staged_is_listed() -> None:
    """Every entry is about a stage and a situation that exist, and says why."""
    for (kind, situation), why in CANNOT.items():
        assert kind in STAGES
        assert situation in ANSWERS
        assert why


def test_every_implementer_is_in_the_suite() -> None:
    """No other class in the project answers who is alive: there is one fake, in one place."""
    root = Path(__file__).parents[2]
    found = {
        str(path.relative_to(root))
        for folder in ("src", "tests", "bench", "tools")
        for path in (root / folder).rglob("*.py")
        if "    def listening(self, member: str)" in path.read_text() and path != Path(__file__)
    }
    assert found == {
        "src/headgate/gate/liveness/member_pipes.py",
        "src/headgate/ledger/transaction/rows.py",
        "src/headgate/sim/simulated_liveness.py",
    }
