"""Agents that headgate did not start are found by their command lines; its own are not."""

import os
import signal
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from shlex import quote
from uuid import uuid4

import psutil
import pytest

from headgate.config import load
from headgate.core.admission.pools import AGENTS
from headgate.gate.host.foreign_agents import _LONGEST, Ours, count, is_headgate
from headgate.gate.host.known_agents import key_of_agents
from headgate.gate.liveness.process_marks import MARK
from tests.support import HEADGATE, Box, Program, end, gone, until

OPUS = "anthropic/claude-opus-*"


class Field:
    """A model that no other test on this machine uses, and agents that claim to use it."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.model = f"anthropic/claude-opus-{uuid4().hex}"
        self.pattern = f"opencode.*-m {self.model}"
        self.agent = f"exec -a 'opencode -m {self.model}' sleep 600"

    def count(self, ours: Ours | None = None, *, pattern: str | None = None) -> int:
        ours = ours or Ours()
        found = count({OPUS: (pattern or self.pattern,), "none": ("no such thing",)}, ours)
        assert found.keys() == {OPUS, "none"}
        assert found["none"] == 0
        return found[OPUS]

    def is_soon(self, number: int, ours: Ours | None = None) -> None:
        until(lambda: self.count(ours) == number)

    def bash(self, script: str, **env: str) -> Program:
        return self.box.start("bash", "-c", script, env=env)

    def ours(self) -> Ours:
        """What the store says, as a gate would tell it."""
        members = {row[2] for row in self.box.rows("member")}
        pids = {row["pid"] for row in self.box.running() if row["pid"]}
        return Ours(frozenset(members), frozenset(pids))


@pytest.fixture
def field(box: Box) -> Field:
    return Field(box)


def test_six_agents_as_in_the_seed(field: Field, tmp_path: Path) -> None:
    """Six sleepers named like opus workers are six, and a sonnet worker is none of them."""
    script = tmp_path / "spawn"
    script.write_text(
        f"for i in 1 2 3 4 5 6; do ({field.agent} & echo $!); done\n"
        "exec -a 'opencode -m anthropic/claude-sonnet-4-6' sleep 600\n"
    )
    program = field.box.start("bash", str(script))
    field.box.pids += [int(program.line()) for _ in range(6)]
    field.is_soon(6)
    for left in (5, 4, 3, 2, 1, 0):
        end(field.box.pids[left])
        field.is_soon(left)


def test_known_agents_are_counted_with_one_word(field: Field) -> None:
    """In the pools of their models, and in `host`; what only looks like one is none."""
    key_of = key_of_agents(load(None))
    own, others = field.model, field.model.replace("anthropic", "openai")
    pools = dict.fromkeys((own, others, "host"), (AGENTS,))
    started = [
        field.agent,
        f"exec -a claude sh -c 'sleep 600; true' --model {own.partition('/')[2]}",
        f"exec -a 'claude mcp serve --model {own.partition('/')[2]}' sleep 600",
        f"exec -a 'vi notes about opencode -m {own}' sleep 600",
        f"exec -a 'opencode run -m {others}' sleep 600",
    ]
    program = field.bash("".join(f"({one} & echo $!)\n" for one in started))
    field.box.pids += [int(program.line()) for _ in started]
    until(lambda: count(pools, Ours(), key_of) | {"host": 0} == {own: 2, others: 1, "host": 0})
    assert count(pools, Ours(), key_of)["host"] >= 3
    assert count(pools, Ours()) == {own: 0, others: 0, "host": 0}


def test_several_pools_and_patterns(field: Field) -> None:
    """One look counts for every pool; a pool's patterns are alternatives."""
    program = field.bash(f"echo up; {field.agent}")
    assert program.line() == "up"
    found = count(
        {"a": (field.pattern, field.model), "b": ("nothing", field.model), "c": ()}, Ours()
    )
    assert found == {"a": 1, "b": 1, "c": 0}
    assert count({}, Ours()) == {}


def test_arguments_with_line_breaks(field: Field) -> None:
    """A prompt's line breaks do not hide what stands behind them."""
    script = f"exec -a opencode sh -c 'echo up; read x' 'fix\nthis' -m {field.model}"
    assert field.bash(script).line() == "up"
    assert field.count() == 1


@pytest.mark.parametrize(
    "wrapper",
    [
        "{agent} & wait",
        "true; ({agent}) ; true",
        'bash -c "true; bash -c \\"{agent}\\"; true"; true',
    ],
    ids=["a child", "a subshell", "a shell in a shell"],
)
def test_a_wrapper_and_its_agent_are_one(field: Field, wrapper: str) -> None:
    """A shell whose command line repeats the agent's is counted with it, once."""
    program = field.bash("echo up; " + wrapper.format(agent=field.agent))
    assert program.line() == "up"
    for _ in range(20):
        assert field.count() == 1
    until(lambda: psutil.Process(program.pid).children())
    assert field.count() == 1
    family = psutil.Process(program.pid).children(recursive=True)
    field.box.pids += [one.pid for one in family]
    program.kill()
    until(lambda: gone(program.pid))
    for one in family[:-1]:
        one.kill()
    field.is_soon(1)


def test_one_agent_in_two_pools(field: Field) -> None:
    """A wrapper that matches one pool does not hide its child from another."""
    other = uuid4().hex
    program = field.bash(
        f'exec -a {other} bash -c \'echo up; "$@"; true\' x bash -c "{field.agent}"'
    )
    assert program.line() == "up"
    until(lambda: psutil.Process(program.pid).children())
    until(
        lambda: (
            count({"outer": (f"^{other}",), "inner": (f"^opencode -m {field.model}",)}, Ours())
            == {"outer": 1, "inner": 1}
        )
    )


def test_zombies_are_none(field: Field) -> None:
    """An agent that has ended and was not reaped is not counted."""
    script = (
        "import os, sys\n"
        "pid = os.fork()\n"
        "if not pid:\n"
        f"    os.execv('/bin/sleep', ['opencode -m {field.model}', '600'])\n"
        "print(pid, flush=True)\n"
        "sys.stdin.readline()\n"
        "os._exit(0)\n"
    )
    path = field.box.folder / "parent.py"
    path.write_text(script)
    program = field.box.start(sys.executable, "-I", "-S", str(path))
    pid = int(program.line())
    field.box.pids.append(pid)
    field.is_soon(1)
    os.kill(pid, signal.SIGKILL)
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    assert field.count() == 0


def test_this_process_is_none(field: Field) -> None:
    """Whoever looks is not counted, whatever its own command line says."""
    code = (
        "from headgate.gate.host.foreign_agents import Ours, count; import sys; "
        "print(count({'x': (sys.argv[1],)}, Ours())['x'])"
    )
    program = field.box.start(sys.executable, "-c", code, field.model)
    assert program.line() == "0"


def test_members_are_none(field: Field) -> None:
    """A process that waits or holds is none, but what it starts without a lease is."""
    program = field.bash(f"echo up; {field.agent} & wait")
    assert program.line() == "up"
    assert field.count() == 1
    until(lambda: psutil.Process(program.pid).children())
    child = psutil.Process(program.pid).children()[0].pid
    field.box.pids.append(child)
    until(lambda: psutil.Process(child).name() == "sleep")
    assert field.count(Ours(members=frozenset({program.pid}))) == 1
    assert field.count(Ours(members=frozenset({program.pid, child}))) == 0


def test_programs_are_ours_with_all_they_start(field: Field) -> None:
    """A lease's program and its descendants are none."""
    program = field.bash(f'echo up; bash -c "{field.agent} & wait"; true')
    assert program.line() == "up"
    for _ in range(20):
        assert field.count(Ours(programs=frozenset({program.pid}))) == 0
    family = until(lambda: psutil.Process(program.pid).children(recursive=True)[1:])
    field.box.pids += [one.pid for one in psutil.Process(program.pid).children(recursive=True)]
    assert field.count(Ours(programs=frozenset({family[0].pid, 0, -1}))) == 1
    assert field.count() == 1


@pytest.mark.parametrize("marks, number", [({"s:7"}, 0), ({"s:8", ""}, 1), ((), 1)])
def test_marks(field: Field, marks: Collection[str], number: int) -> None:
    """Who carries a living lease's mark is ours, wherever it is; another mark says nothing."""
    assert field.bash(f"echo up; {field.agent}", **{MARK: "s:7"}).line() == "up"
    assert field.count(Ours(marks=frozenset(marks))) == number


def test_a_mark_above(field: Field) -> None:
    """What a marked program started is ours though it has shed its environment."""
    shed = f"echo up; env -i bash -c {quote(field.agent)}; true"
    program = field.bash(f"bash -c {quote(shed)}; true", **{MARK: "s:7"})
    assert program.line() == "up"
    until(lambda: len(psutil.Process(program.pid).children(recursive=True)) >= 2)
    family = psutil.Process(program.pid).children(recursive=True)
    field.box.pids += [one.pid for one in family]
    ours = Ours(marks=frozenset({"s:7"}))
    pattern = f"^opencode -m {field.model}"
    until(lambda: field.count(pattern=pattern) == 1)
    assert field.count(ours, pattern=pattern) == 0


def test_an_unreadable_environment_is_not_ours(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user's agent is counted."""
    assert field.bash(f"echo up; {field.agent}", **{MARK: "s:7"}).line() == "up"

    def refuse(process: psutil.Process) -> dict[str, str]:
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "environ", refuse)
    assert field.count(Ours(marks=frozenset({"s:7"}))) == 1


def run(field: Field) -> Program:
    """A real `headgate run` of something whose command line is an agent's."""
    words = ("sh", "-c", "echo up; read x; true", f"opencode -m {field.model}")
    return field.box.run("-m", field.model, "--", *words)


def test_real_runners_and_their_agents(field: Field) -> None:
    """Neither who holds nor who waits nor an agent under `headgate run` is foreign."""
    field.box.gate().set_limit(field.model, 1)
    holder = run(field)
    assert holder.line() == "up"
    waiter = run(field)
    assert " waits, " in waiter.line(stream="stderr")
    ours = field.ours()
    assert {holder.pid, waiter.pid} <= ours.members
    assert ours.programs
    assert field.count(ours) == 0
    foreign = field.bash(f"echo up; {field.agent}")
    assert foreign.line() == "up"
    assert field.count(ours) == 1


def test_a_runner_of_another_store(field: Field) -> None:
    """It is no agent itself; the agent that it runs is foreign, and counted once."""
    program = run(field)
    assert program.line() == "up"
    assert field.count() == 1
    (agent,) = psutil.Process(program.pid).children()
    assert field.count(Ours(programs=frozenset({agent.pid}))) == 0
    assert field.count(Ours(marks=frozenset({agent.environ()[MARK]}))) == 0


def test_what_a_runner_adopted(field: Field) -> None:
    """A stray that shed its mark and lost its parent is below its runner, and so ours."""
    stray = f"setsid env -i bash -c {quote(field.agent)} & echo $!"
    script = f"sh -c {quote(stray)}; echo up; read x"
    program = field.box.run("-m", field.model, "--", "sh", "-c", script)
    field.box.pids.append(int(program.line()))
    assert program.line() == "up"
    members = frozenset({program.pid})
    pattern = f"^opencode -m {field.model}"
    until(lambda: field.count(pattern=pattern) == 1)
    assert field.count(Ours(members), pattern=pattern) == 0


def test_the_keeper(field: Field) -> None:
    """The process that keeps seats for strays has its runner's command line, and is none."""
    leave = "sleep 600 <&- >&- 2>&- & echo $!"
    program = field.box.run(
        "-m", field.model, "--", "sh", "-c", leave, f"opencode -m {field.model}"
    )
    pid = int(program.line())
    field.box.pids.append(pid)
    assert program.wait() == 0
    until(lambda: psutil.Process(pid).name() == "sleep")
    keepers = until(lambda: naming(field.model))
    assert field.count() == 0
    end(pid)
    until(lambda: all(gone(keeper) for keeper in keepers))


def naming(word: str) -> list[int]:
    """The processes in whose command lines a word is."""
    found = []
    for process in psutil.process_iter():
        try:
            if word in " ".join(process.cmdline()):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def test_a_wrapper_around_headgate_is_none(field: Field) -> None:
    """`sh -c "headgate run … -- opencode …"` must not count against the work it waits for."""
    field.box.gate().set_limit(field.model, 1)
    command = (
        f"{HEADGATE} run -m {field.model} -- sh -c 'echo up; read x' opencode -m {field.model}"
    )
    holder = field.bash(f"true; {command}; true")
    assert holder.line() == "up"
    waiter = field.bash(f"true; {command}; true")
    assert " waits, " in waiter.line(stream="stderr")
    assert field.count(field.ours()) == 0


def test_a_script_that_passes_its_words_on_is_none(field: Field) -> None:
    """So with a script that does not name headgate, but repeats what it runs."""
    script = field.box.folder / "agent.sh"
    script.write_text(f'{HEADGATE} run -m {field.model} -- "$@"\ntrue\n')
    program = field.box.start(
        "bash", str(script), "sh", "-c", "echo up; read x", f"opencode -m {field.model}"
    )
    assert program.line() == "up"
    assert field.count(field.ours()) == 0


def test_a_foreign_agent_that_uses_headgate_is_one(field: Field) -> None:
    """An agent above a runner is counted if its command line is its own."""
    script = field.box.folder / "opencode"
    script.write_text(f"{HEADGATE} run -m a/b -- sh -c 'echo up; read x'\ntrue\n")
    program = field.box.start("bash", str(script), "-m", field.model, "/home/me/headgate/x")
    assert program.line() == "up"
    assert field.count(field.ours()) == 1


@pytest.mark.parametrize(
    "method, error",
    [
        ("cmdline", psutil.AccessDenied),
        ("cmdline", psutil.NoSuchProcess),
        ("cmdline", psutil.ZombieProcess),
        ("parent", psutil.NoSuchProcess),
        ("parent", psutil.AccessDenied),
        ("environ", psutil.AccessDenied),
        ("environ", psutil.ZombieProcess),
        ("status", psutil.NoSuchProcess),
        ("is_running", psutil.NoSuchProcess),
    ],
)
def test_processes_that_cannot_be_looked_at(
    field: Field,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    error: type[psutil.NoSuchProcess | psutil.AccessDenied],
) -> None:
    """Whatever the system refuses to tell, nothing is raised."""
    assert field.bash(f"echo up; {field.agent}").line() == "up"

    def refuse(process: psutil.Process) -> None:
        raise error(process.pid)

    monkeypatch.setattr(psutil.Process, method, refuse)
    expected = {"parent": 1, "environ": 1}.get(method, 0)
    assert field.count(Ours(marks=frozenset({"s:7"}))) == expected


def test_a_number_that_was_given_again(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is another one by the end of the look is not counted."""
    assert field.bash(f"echo up; {field.agent}").line() == "up"
    real: Callable[[psutil.Process], list[str]] = psutil.Process.cmdline

    def reused(process: psutil.Process) -> list[str]:
        process._ident = (process.pid, 1.0)  # type: ignore[attr-defined]
        return real(process)

    monkeypatch.setattr(psutil.Process, "cmdline", reused)
    assert field.count() == 0


def test_long_command_lines(field: Field) -> None:
    """Only the first 32 KiB are looked at."""
    for padding, number in ((_LONGEST - 200, 1), (_LONGEST, 0)):
        program = field.box.start(
            "sh", "-c", "echo up; read x", "x" * padding, f"opencode -m {field.model}"
        )
        assert program.line() == "up"
        assert field.count() == number
        program.close()


@pytest.mark.parametrize(
    "argv, own",
    [
        ("python3.11 /home/me/.venv/bin/headgate run -- opencode", True),
        ("/usr/bin/python -I -X dev -W error -m headgate run -- opencode", True),
        ("headgate run -- opencode", True),
        ("python -u -m headgate", True),
        ("python -c headgate_is_here", False),
        ("python script.py headgate", False),
        ("python -m pytest headgate", False),
        ("opencode headgate run", False),
        ("bash -c headgate", False),
        ("python", False),
        ("", False),
    ],
)
def test_what_headgate_looks_like(argv: str, own: bool) -> None:  # noqa: FBT001
    """By the program that is run, not by words among its arguments."""
    assert is_headgate(argv.split()) is own


def test_outside_agents_are_within_the_figure(field: Field) -> None:
    """With `observe = "agents"` they are part of what is in use, and take what is free."""
    field.box.config(f'[pools."{field.model}"]\nlimit = 3\nobserve = "agents"\n')
    program = field.bash(f"({field.agent} & echo $!); ({field.agent} & echo $!)")
    field.box.pids += [int(program.line()) for _ in range(2)]
    with field.box.gate() as gate, gate.slot(field.model):
        shown = until(lambda: said if "3/3" in (said := field.box.headgate("status")) else "")
        assert "2 outside headgate" in shown
        capacity = gate.capacity(field.model)
        assert capacity.free == 0
