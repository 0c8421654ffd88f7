"""Who is alive: one suite for everything that answers it, real or made up.

Each implementer comes with a stage on which a member can be brought into a situation. What it has
to answer there is a table, `ANSWERS`. What a stage cannot bring about is a table too, `CANNOT`,
with the reason, and a test sees to it that no other situation is left out.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

from headgate.core.times import Ms
from headgate.gate.liveness.local_members import LocalRegistry
from headgate.gate.liveness.member_pipes import PipeRegistry
from headgate.gate.liveness.process_marks import MARK
from headgate.ledger.transaction.remote_rows import MACHINE, PREFIX
from headgate.ledger.transaction.rows import Liveness, Member
from headgate.sim.simulated_liveness import SimulatedLiveness
from headgate.store.machine_and_clock import machine_id, pid_space, process_start
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
    "lives, but its pipes were removed": THERE,
    "lives, but its folder was removed": THERE,
    "lives, but files are in place of its pipes": THERE,
    "lives, but folders are in place of its pipes": THERE,
    "lives, but other pipes are in place of its own": THERE,
    "lives, is of an older version, and its pipes were removed": THERE,
    "is out of sight, and its pipes were removed": THERE,
    "is on another machine": THERE,
    "is on another machine, and its files were removed": THERE,
    "has ended, and its pipes were removed": GONE,
    "has ended, files are in place of its pipes": GONE,
    "has ended, its pipes were removed, and another has its number": GONE,
    "has ended, is of an older version, its pipes were removed, and another has its number": GONE,
    "has ended with the last boot, and its pipes were removed": GONE,
    "left a program with its pipe, which was removed": Answer(
        listening=False, alive=True, dead=False
    ),
    "left a program with its mark only, and its pipes were removed": Answer(
        listening=False, alive=False, dead=False
    ),
}

HOME = "a store in memory has no programs and no pipes: its members are gates of this process"
NO_FILES = "it has no files that could be removed"
STORE_SAYS = "the store says that of a client on another machine, and it is not asked"
WITH_FILES = [each for each in ANSWERS if "removed" in each or "in place" in each]
CANNOT = {
    ("home", "left a program with its pipe"): HOME,
    ("home", "left a program with its mark only"): HOME,
    **{("home", each): HOME for each in WITH_FILES},
    ("home", "is on another machine"): STORE_SAYS,
    ("simulated", "is on another machine"): STORE_SAYS,
    ("simulated", "oneself"): "it is nobody itself: it answers for a whole world",
    **{("simulated", each): NO_FILES for each in WITH_FILES},
}


class Stage(Protocol):
    """An implementer, and somebody to ask it about."""

    @property
    def liveness(self) -> Liveness:
        """The implementer."""

    def bring(self, situation: str) -> tuple[Member, list[str]]:
        """Bring somebody into a situation; its row, and the marks of its leases."""


def row(id: str, pid: int = 2**31 - 1) -> Member:
    """The row of a member; no process has the number that it gets by default."""
    return Member(id, machine_id(), pid, pid_space(), Ms(0), started=process_start(pid))


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

    def bring(self, situation: str) -> tuple[Member, list[str]]:
        """A process joins, starts what it starts, and ends if it has to."""
        if situation in STRANGERS:
            return row(STRANGERS[situation]), []
        if situation == "oneself":
            return row(self.liveness.me, os.getpid()), []
        if "another machine" in situation:
            return self._on_another_machine(situation)
        program = "mark" if "its mark" in situation else "pipe" if "a program" in situation else ""
        mark = f"{os.urandom(4).hex()}.1"
        process, id = self._join(program or "nothing", mark)
        member = row(id, process.pid)
        if "older version" in situation:
            member = member._replace(started=0)
        if "out of sight" in situation:
            member = member._replace(pid_space="pid:[1]")
        if "last boot" in situation:
            member = member._replace(machine="01234567-89ab")
        if not situation.startswith(("lives", "is out of sight")):
            process.kill()
            process.wait(10)
        if "another has its number" in situation:
            member = member._replace(pid=self._join("nothing", mark)[0].pid)
        self._spoil([self.folder / f"{id}.{kind}" for kind in ("life", "wake")], situation)
        return member, [mark]

    def _on_another_machine(self, situation: str) -> tuple[Member, list[str]]:
        """A client that some server has joined for, which is gone."""
        id = f"{PREFIX}{os.urandom(4).hex()}"
        self.liveness.announce(id)
        assert self.liveness.is_announced(id)
        self.liveness.wake(id)
        self._spoil([self.folder / f"{id}.{kind}" for kind in ("life", "wake")], situation)
        assert self.liveness.is_announced(id) is ("removed" not in situation)
        return Member(id, MACHINE, 0, "", Ms(0)), []

    def stop(self, member: Member) -> None:
        """Stop a member's process."""
        os.kill(member.pid, signal.SIGSTOP)

    def go_on(self, member: Member) -> None:
        """Let it go on."""
        os.kill(member.pid, signal.SIGCONT)

    def _spoil(self, pipes: list[Path], situation: str) -> None:
        """Do to a member's pipes what people do to files."""
        if "folder was removed" in situation:
            shutil.rmtree(self.folder)
        elif "removed" in situation or "in place" in situation:
            for pipe in pipes:
                pipe.unlink()
                if "files are" in situation:
                    pipe.touch()
                elif "folders are" in situation:
                    pipe.mkdir()
                elif "other pipes are" in situation:
                    os.mkfifo(pipe)

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

    def bring(self, situation: str) -> tuple[Member, list[str]]:
        """Another gate opens, and closes if it has to."""
        if situation in STRANGERS:
            return row(STRANGERS[situation]), []
        if situation == "oneself":
            return row(self.liveness.me), []
        other = LocalRegistry(lambda: None)
        other.join()
        self._others.append(other)
        if situation == "has ended":
            other.leave(remove=True)
        return row(other.me), []


class SimulatedStage:
    """A made-up world, as tests, benchmarks and the simulator use it."""

    def __init__(self, _: Path) -> None:
        self.liveness = SimulatedLiveness("somebody")

    def stop(self, member: Member) -> None:
        """A process is stopped."""
        self.liveness.stopped_members.add(member.id)

    def go_on(self, member: Member) -> None:
        """It goes on."""
        self.liveness.stopped_members.discard(member.id)

    def close(self) -> None:
        """Nothing is left."""

    def bring(self, situation: str) -> tuple[Member, list[str]]:
        """A member joins, and ends if it has to."""
        if situation in STRANGERS:
            return row(STRANGERS[situation]), []
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
        return row("m"), ["u.1"]


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


def ask(liveness: Liveness, member: Member, marks: list[str]) -> Answer:
    dead = liveness.dead([(member, lambda: marks)])
    listening = liveness.listening(member.id, lambda _: member)
    return Answer(listening, liveness.alive(member.id, lambda _: member), dead == [member.id])


@pytest.mark.parametrize("stage, situation", CASES, indirect=["stage"])
def test_everybody_answers_alike_who_is_alive(stage: Stage, situation: str) -> None:
    """Each implementer says of somebody in a situation what the table says."""
    member, marks = stage.bring(situation)
    # The kernel closes the pipes of a process a moment after it can be waited for.
    until(lambda: ask(stage.liveness, member, marks) == ANSWERS[situation])
    assert ask(stage.liveness, member, marks) == ANSWERS[situation]


@pytest.mark.parametrize("stage", ["folder", "simulated"], indirect=True)
def test_everybody_answers_alike_who_is_stopped(stage: FolderStage | SimulatedStage) -> None:
    """A process in SIGSTOP is, one that goes on is not."""
    member, _ = stage.bring("lives")

    def stopped() -> bool | None:
        return stage.liveness.stopped(member.id, lambda _: member)

    assert stopped() is False
    stage.stop(member)
    until(stopped)
    stage.go_on(member)
    until(lambda: stopped() is False)


def test_who_cannot_be_seen_is_neither_stopped_nor_not(tmp_path: Path) -> None:
    """Nobody knows of a process in another container, or of one whose row is gone."""
    stage = FolderStage(tmp_path)
    member, _ = stage.bring("is out of sight, and its pipes were removed")
    assert stage.liveness.stopped(member.id, lambda _: member) is None
    assert stage.liveness.stopped(member.id, lambda _: None) is None
    stage.close()


def test_what_was_begun_is_told_by_the_pipe(tmp_path: Path) -> None:
    """Of each lease by itself, and by a new pipe as by the first."""
    asks, tells = PipeRegistry(tmp_path), PipeRegistry(tmp_path)
    asks.join()
    tells.join()
    assert tells.begin(7)
    assert [asks.has_begun(tells.me, lease) for lease in (6, 7, 8)] == [False, True, False]
    for pipe in tmp_path.iterdir():
        pipe.unlink()
    assert asks.has_begun(tells.me, 6)  # nobody knows
    tells.renew()
    assert [asks.has_begun(tells.me, lease) for lease in (6, 7, 8)] == [False, True, False]
    tells.leave(remove=True)
    asks.leave(remove=True)


@pytest.mark.parametrize("loop", [False, True])
def test_what_was_given_back_is_told_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, loop: bool
) -> None:
    """Some time: no number comes again. What is held between them stays told throughout."""
    if loop:
        monkeypatch.setitem(sys.modules, "asyncio", asyncio)
    else:
        monkeypatch.delitem(sys.modules, "asyncio")
    asks, tells = PipeRegistry(tmp_path), PipeRegistry(tmp_path)
    asks.join()
    tells.join()
    numbers = range(1000, 2000, 2)
    kept = {1000, 1100, 1102, 1500}
    assert all(map(tells.begin, numbers))
    for number in numbers:
        if number not in kept:
            tells.end(number)
        assert all(asks.has_begun(tells.me, it) for it in kept)
    told = {it for it in range(990, 2010) if asks.has_begun(tells.me, it)}
    assert told >= kept
    assert len(told) < 256 + len(kept)
    assert not told - {*numbers}
    tells.leave(remove=True)
    asks.leave(remove=True)


def test_of_an_owner_that_does_not_tell_everything_may_have_begun(tmp_path: Path) -> None:
    """Version 0.1.0 locks nothing."""
    asks = PipeRegistry(tmp_path)
    asks.join()
    os.mkfifo(tmp_path / "0123456789ab.life")
    pipe = os.open(tmp_path / "0123456789ab.life", os.O_RDONLY | os.O_NONBLOCK)
    assert asks.has_begun("0123456789ab", 6)
    os.close(pipe)
    asks.leave(remove=True)


@pytest.mark.parametrize("stage", STAGES, indirect=True)
def test_each_is_judged_by_itself(stage: Stage) -> None:
    """Of several, just those are dead that have ended; the living are not asked for their marks."""
    ended, marks = stage.bring("has ended")
    lives, _ = stage.bring("lives")
    if ended == lives:  # one that has come back
        assert ask(stage.liveness, lives, marks) == THERE
        return
    until(lambda: not stage.liveness.alive(ended.id, lambda _: ended))

    def no_marks() -> list[str]:
        raise AssertionError("nobody needs to know")

    assert stage.liveness.dead([(lives, no_marks), (ended, lambda: marks)]) == [ended.id]


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
        if "    def listening(self, member: str, " in path.read_text() and path != Path(__file__)
    }
    assert found == {
        "src/headgate/gate/liveness/local_members.py",
        "src/headgate/gate/liveness/member_pipes.py",
        "src/headgate/ledger/transaction/rows.py",
        "src/headgate/sim/simulated_liveness.py",
    }
