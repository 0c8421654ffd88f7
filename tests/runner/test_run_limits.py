"""Limits of a `run`: by the clock, and by what passes on the wire beside it."""

import json
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support import HEADGATE, LONG, Box
from tests.wire.stage import Asker
from tests.work.conftest import JobBox


def test_a_run_is_ended_when_its_time_is_up(box: Box) -> None:
    """It ends as its program does, with what was too much; nothing of it is left."""
    began = time.monotonic()
    program = box.run("--max-runtime", "500ms", "--", "sleep", "60")
    out, err = program.process.communicate(timeout=LONG)
    assert (program.wait(), out) == (143, b"")
    assert b"headgate: warning: max_runtime: agents run for hours" in err
    assert b"headgate: ending sleep: it ran for " in err
    assert b"max_runtime is 500ms" in err
    assert time.monotonic() - began < LONG
    assert not box.rows("lease")


def test_a_run_that_is_over_in_time_keeps_its_code(box: Box) -> None:
    """A limit that is not reached changes nothing."""
    program = box.run("-q", "--max-runtime", "1h", "--", "sh", "-c", "exit 7")
    assert program.process.communicate(timeout=LONG) == (b"", b"")
    assert program.wait() == 7


@pytest.mark.parametrize(
    "option", ["--max-tool-calls", "--same-tool-calls", "--stale-after", "--message-stale-after"]
)
def test_what_nobody_would_see_is_refused(box: Box, option: str) -> None:
    """Without a wire only the clock is known; that is said before anything is started."""
    done = subprocess.run(
        [HEADGATE, "run", option, "50", "--", "touch", str(box.folder / "started")],
        env=box.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"bad {option}" in done.stderr
    assert "give --meter wire" in done.stderr
    assert not (box.folder / "started").exists()


def test_bad_limits_are_named(box: Box) -> None:
    """As for jobs."""
    done = subprocess.run(
        [HEADGATE, "run", "--max-tool-calls", "none", "--max-runtime", "x", "--", "true"],
        env=box.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "max_tool_calls" in done.stderr
    assert "max_runtime" in done.stderr


class _CallsTools(BaseHTTPRequestHandler):
    """A provider whose every answer calls a tool."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
        answer = {"id": "msg_1", "type": "message", "role": "assistant", "content": [call]}
        text = json.dumps({**answer, "stop_reason": "tool_use", "usage": {}}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize(
    "option, said",
    [
        ("--max-tool-calls", "it made 4 tool calls; max_tool_calls is 3"),
        ("--same-tool-calls", "it made the same call of Bash 3 times in a row"),
    ],
)
def test_tool_calls_of_a_run_are_counted_on_the_wire(
    tmp_path: Path, option: str, said: str
) -> None:
    """An agent whose requests are seen is ended when it has called too many tools."""
    box = JobBox(tmp_path)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _CallsTools)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        box.env["ANTHROPIC_BASE_URL"] = f"http://127.0.0.1:{server.server_port}"
        agent = Asker(box, "--meter", "wire", "-q", option, "3")
        calls = 3 if option == "--same-tool-calls" else 4
        for _ in range(calls):
            agent.ask("claude-opus-4-6", "plain")
        assert said in agent.program.line(stream="stderr")
        assert agent.program.wait() == 143
    finally:
        box.close()
        server.shutdown()
        server.server_close()
