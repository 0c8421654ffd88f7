"""Signals and terminals: the program gets each signal once, as if headgate were not in between."""

import os
import signal
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runner.conftest import Agent, Terminal
from tests.support import HEADGATE, LONG, Box, until

pytestmark = pytest.mark.usefixtures("steady")
CTRL_C, CTRL_D, CTRL_Z, CTRL_BACKSLASH = "\x03", "\x04", "\x1a", "\x1c"
Opener = Callable[..., Terminal]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGINT", "SIGQUIT", "SIGCONT"])
def test_a_signal_to_the_wrapper_reaches_the_program_once(
    box: Box, agent: Agent, name: str
) -> None:
    """Passed on, and neither lost nor doubled."""
    program = box.start(*agent.command)
    agent.says("ready")
    program.send(getattr(signal, name))
    agent.says(name)
    program.send(signal.SIGUSR2)
    assert program.wait() == 0
    assert agent.signals() == [name, "SIGUSR2"]
    assert box.left_over() == {}


def test_signals_in_a_row_all_arrive(box: Box, agent: Agent) -> None:
    """Each one is passed on as soon as it comes, again and again."""
    program = box.start(*agent.command)
    agent.says("ready")
    for number in range(1, 21):
        program.send(signal.SIGUSR1)
        until(lambda number=number: len(agent.signals()) == number)  # type: ignore[misc]
    program.send(signal.SIGUSR2)
    assert program.wait() == 0


def test_a_program_that_dies_of_the_signal(box: Box) -> None:
    """The exit code says by which one."""
    program = box.run("--", "sh", "-c", "echo up; exec sleep 1000")
    assert program.line() == "up"
    program.send(signal.SIGTERM)
    assert program.wait() == 143
    assert box.left_over() == {}


def test_a_stop_from_outside_stops_both(box: Box, agent: Agent) -> None:
    """SIGTSTP to the wrapper stops the program too, and SIGCONT continues both."""
    # In a group of its own, whose parent is in the same session: in an orphaned process group, as
    # after the end of the shell that started the tests, the kernel stops nobody for a SIGTSTP.
    program = box.start(*agent.command, process_group=0)
    pid = agent.pid
    program.send(signal.SIGTSTP)
    _both_are("T", program.pid, pid)
    program.send(signal.SIGCONT)
    _both_are("S", program.pid, pid)
    program.send(signal.SIGUSR2)
    assert program.wait() == 0


def _both_are(state: str, *pids: int) -> None:
    """Wait until both are; if they never are, tell all that the kernel knows of why."""
    try:
        until(lambda: all(_state(pid) == state for pid in pids))
    except AssertionError as error:
        told = [
            f"{path}: {path.read_text()}"
            for pid in (os.getpid(), *pids)
            for name in ("stat", "status", "wchan")
            for path in Path(f"/proc/{pid}/task").glob(f"*/{name}")
        ]
        raise AssertionError("\n".join([str(error), *told])) from None


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - short-lived
        return file.read().rpartition(")")[2].split()[0]


def test_the_program_has_the_terminal(agent: Agent, terminal: Opener) -> None:
    """It sees a terminal of the right size, and hears when that changes."""
    screen = terminal(*agent.command, rows=31, columns=87)
    agent.says("ready")
    assert agent.said()[0].endswith("tty 31x87")
    screen.resize(40, 132)
    agent.says("SIGWINCH")
    screen.program.send(signal.SIGUSR2)
    assert screen.program.wait() == 0
    assert agent.signals() == ["SIGWINCH 40x132", "SIGUSR2"]


def test_what_is_typed_reaches_the_program(terminal: Opener) -> None:
    """Lines typed are its input, Ctrl-D is its end."""
    screen = terminal(HEADGATE, "run", "--", "sh", "-c", "read x; echo got $x; cat; echo end")
    screen.type("hello\n")
    screen.shows("got hello")
    screen.type(CTRL_D)
    screen.shows("end")
    assert screen.program.wait() == 0


@pytest.mark.parametrize("key, name", [(CTRL_C, "SIGINT"), (CTRL_BACKSLASH, "SIGQUIT")])
def test_a_key_reaches_the_program_once(
    agent: Agent, terminal: Opener, key: str, name: str
) -> None:
    """The terminal signals everyone in the foreground; the wrapper does not add a second one."""
    screen = terminal(*agent.command)
    agent.says("ready")
    screen.type(key)
    agent.says(name)
    screen.type(key)
    until(lambda: agent.signals().count(name) == 2)
    screen.program.send(signal.SIGUSR2)
    assert screen.program.wait() == 0
    assert agent.signals() == [name, name, "SIGUSR2"]


def test_ctrl_c_ends_a_program_that_dies_of_it(terminal: Opener) -> None:
    """130, as the shell would say."""
    screen = terminal(HEADGATE, "run", "--", "sh", "-c", "echo up; exec sleep 1000")
    screen.shows("up")
    screen.type(CTRL_C)
    assert screen.program.wait() == 130


def test_a_terminal_that_goes_away_is_heard_of_once(
    box: Box, agent: Agent, terminal: Opener
) -> None:
    """The window is closed: the system tells the program, the wrapper does not tell it again."""
    screen = terminal(*agent.command)
    pid = agent.pid
    screen.hang_up()
    agent.says("SIGHUP")
    os.kill(pid, signal.SIGUSR2)
    screen.program.wait()
    assert [word for word in agent.signals() if word != "SIGCONT"] == ["SIGHUP", "SIGUSR2"]
    until(lambda: box.left_over() == {})


def test_a_terminal_is_left_as_it_was_found(agent: Agent, terminal: Opener) -> None:
    """A program that is killed in raw mode does not spoil its owner's terminal."""
    screen = terminal(*agent.command, "raw")
    before = termios.tcgetattr(screen.master)
    pid = agent.pid
    assert termios.tcgetattr(screen.master) != before
    os.kill(pid, signal.SIGKILL)
    assert screen.program.wait() == 137
    assert termios.tcgetattr(screen.master) == before


def shell(terminal: Opener) -> Terminal:
    """An interactive shell with job control."""
    screen = terminal("bash", "--norc", "--noprofile", "-i")
    screen.type("echo rea''dy\n")
    screen.shows("ready")
    return screen


def test_ctrl_z_and_fg(agent: Agent, terminal: Opener) -> None:
    """Ctrl-Z gives the shell back, with both stopped; fg continues both."""
    screen = shell(terminal)
    screen.type(f"{' '.join(agent.command)}; echo code=$?\n")
    pid = agent.pid
    screen.type(CTRL_Z)
    screen.shows("Stopped")
    until(lambda: _state(pid) == "T")
    assert _state(_parent(pid)) == "T"
    screen.type("fg\n")
    agent.says("SIGCONT")
    until(lambda: _state(_parent(pid)) == "S")
    os.kill(pid, signal.SIGUSR2)
    screen.type("echo al''ive\n")
    screen.shows("alive")
    screen.type("exit\n")
    assert screen.program.wait() == 0


def _parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - short-lived
        return int(file.read().rpartition(")")[2].split()[1])


def test_a_program_that_stops_itself_gives_the_shell_back(agent: Agent, terminal: Opener) -> None:
    """Agents in raw mode see Ctrl-Z as a key and stop themselves: the shell must notice."""
    screen = shell(terminal)
    screen.type(f"{' '.join(agent.command)}\n")
    pid = agent.pid
    os.kill(pid, signal.SIGSTOP)
    screen.shows("Stopped", within=5)
    screen.type("fg\n")
    agent.says("SIGCONT")
    os.kill(pid, signal.SIGUSR2)
    screen.type("echo al''ive $?\n")
    screen.shows("alive 0")


def test_a_job_in_the_background(agent: Agent, terminal: Opener) -> None:
    """`headgate run … &` leaves the terminal to the shell; Ctrl-C there does not touch it."""
    screen = shell(terminal)
    screen.type(f"{' '.join(agent.command)} &\n")
    pid = agent.pid
    screen.type(f"sleep 1000{CTRL_C}\n")
    screen.type("echo al''ive\n")
    screen.shows("alive")
    os.kill(pid, signal.SIGUSR2)
    screen.type("wait; echo code=$?\n")
    screen.shows("code=0")
    assert agent.signals() == ["SIGUSR2"]


def test_a_pipeline_of_jobs(terminal: Opener) -> None:
    """In `headgate run -- cat | cat` everyone shares a job, and Ctrl-C ends it as a whole."""
    screen = shell(terminal)
    screen.type(
        f"{HEADGATE} run -- sh -c 'echo u''p; exec cat' | cat; echo codes=${{PIPESTATUS[*]}}\n"
    )
    screen.shows("up\r\n")
    screen.type("hello\n")
    screen.shows("hello\r\nhello")
    screen.type(CTRL_D)
    screen.shows("codes=0 0")
    screen.type(f"{HEADGATE} run -- sh -c 'echo u''p; exec sleep 1000' | cat\n")
    screen.shows("up\r\n")
    screen.type(CTRL_C)
    screen.type("echo codes=${PIPESTATUS[*]}\n")
    screen.shows("codes=130")


def test_a_reader_that_leaves_a_pipeline_ends_the_program(box: Box) -> None:
    """SIGPIPE is the program's to die of: `headgate run -- yes | head -1` ends."""
    program = box.start("sh", "-c", f"{HEADGATE} run -- yes | head -1")
    assert program.line() == "y"
    assert program.wait() == 0
    until(lambda: box.left_over() == {})


@pytest.fixture
def full(box: Box) -> Box:
    gate = box.gate()
    gate.set_limit("a/b", 1)
    gate.slot("a/b").acquire()
    return box


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"])
def test_a_signal_ends_the_wait_and_leaves_nothing(full: Box, name: str) -> None:
    """128 and its number; no ticket, no member, no pipe, and nothing was started."""
    program = full.run("-m", "a/b", "--", "echo", "started")
    assert "waits" in program.line(stream="stderr")
    program.send(getattr(signal, name))
    assert program.wait() == 128 + getattr(signal, name)
    assert program.line() == ""
    assert full.rows("ticket") == []
    assert len(full.rows("member")) == 1
    assert len(list(full.members.iterdir())) == 2


def test_ctrl_c_ends_the_wait_and_leaves_nothing(full: Box, terminal: Opener) -> None:
    """The same typed on a terminal, where the line that tells the position is cleared."""
    screen = terminal(HEADGATE, "run", "-m", "a/b", "--", "echo", "started")
    screen.shows("1st in line")
    screen.type(CTRL_C)
    assert screen.program.wait() == 130
    assert full.rows("ticket") == []
    screen.shows("\x1b[2K")


def test_ctrl_z_in_the_line(full: Box, terminal: Opener) -> None:
    """A wait can be stopped and continued like any job, and goes on where it stood."""
    screen = shell(terminal)
    screen.type(f"{HEADGATE} run -m a/b -- echo started\n")
    screen.shows("1st in line")
    screen.type(CTRL_Z)
    screen.shows("Stopped")
    assert len(full.rows("ticket")) == 1
    screen.type("fg\n")
    full.headgate("limits", "set", "a/b", "2")
    screen.shows("started\r\n")


@pytest.mark.parametrize("name", ["SIGHUP", "SIGQUIT", "SIGINT"])
def test_a_signal_that_was_to_be_ignored_does_not_end_the_wait(full: Box, name: str) -> None:
    """`nohup headgate run …` waits on when the terminal has gone."""
    argv = ["sh", "-c", f'trap "" {name[3:]}; exec "$@"', "sh", HEADGATE, "run", "-m", "a/b"]
    program = full.start(*argv, "--", "echo", "up")
    assert "waits" in program.line(stream="stderr")
    program.send(getattr(signal, name))
    time.sleep(0.3)  # it would end in a moment, if it did
    assert program.alive()
    full.headgate("limits", "set", "a/b", "2")
    assert program.line() == "up"
    assert program.wait() == 0


def test_signals_at_any_moment_leave_nothing(box: Box) -> None:
    """SIGTERM at random moments from start to end: no row, no pipe, no program is left."""
    box.env["HEADGATE_LIMITS"] = "a/b=2,host=9"
    begun = time.monotonic()
    assert box.run("-m", "a/b", "--", "true").wait() == 0
    usual = time.monotonic() - begun
    for step in range(0, 40, 4):
        programs = [box.run("-m", "a/b", "-q", "--", "sleep", "0.1") for _ in range(4)]
        for offset, program in enumerate(programs):
            time.sleep(usual / 40)
            if step:
                time.sleep(usual * (step + offset) / 200)
            program.send(signal.SIGTERM)
        for program in programs:
            assert program.wait() in {-15, 143, 0}
    until(lambda: not box.running())
    long_ago = time.time() - 7200
    for path in box.members.iterdir():  # killed before they were written down
        os.utime(path, (long_ago, long_ago))
    assert box.run("--", "true").wait() == 0
    assert box.left_over() == {}


def test_a_program_that_asks_who_it_is(box: Box, terminal: Opener) -> None:
    """Under a terminal the program is in the foreground group, as it would be without headgate."""
    script = "import os; print('foreground', os.tcgetpgrp(0) == os.getpgrp(), os.isatty(0))"
    screen = terminal(HEADGATE, "run", "--", sys.executable, "-I", "-c", script)
    screen.shows("foreground True True")
    assert screen.program.wait(LONG) == 0
