"""An agent is told from its tools, and from the script that starts it."""

import shutil
import sys
from pathlib import Path

import pytest

from headgate.gate.liveness.process_marks import MARK
from headgate.wire.own_program import OwnProgram
from tests.support import Box, Program, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it asks /proc")
STARTS = """
import subprocess, sys
program = subprocess.Popen([sys.argv[1], "-"], stdin=subprocess.PIPE)
tool = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
print(program.pid, tool.pid, flush=True)
sys.stdin.read()
"""


def start(box: Box, mark: str, *argv: str) -> Program:
    return box.start(*argv, env={MARK: mark})


def is_agent(argv: object) -> bool:
    return isinstance(argv, list) and any(Path(word).name == "some-agent" for word in argv[:2])


def test_a_script_that_starts_the_agent_is_not_the_agent(box: Box) -> None:
    """`node codex.js` starts `codex`: tools that run in node are not the agent."""
    native = box.folder / "native" / "some-agent"
    native.parent.mkdir()
    shutil.copy(shutil.which("cat") or "", native)
    script = box.folder / "some-agent"
    script.write_text(STARTS)
    starter = start(box, "m.1", sys.executable, str(script), str(native))
    program, tool = map(int, starter.line().split())
    own = OwnProgram("m.1", is_agent)
    assert [own.runs_in(pid) for pid in (program, tool, starter.pid)] == [True, False, False]
    assert starter.end() == 0


def test_an_agent_that_no_command_line_tells_is_what_was_started_first(box: Box) -> None:
    """It may have changed its title: then its executable is that of the lease's first process."""
    first = start(box, "m.2", "sh", "-c", "sleep 60 & echo $!; cat; kill $!")
    tool = int(first.line())
    until(lambda: Path(f"/proc/{tool}/comm").read_text().strip() == "sleep")
    own = OwnProgram("m.2", lambda _: False)
    assert own.runs_in(first.pid)
    assert not own.runs_in(tool)
    first.end()
