"""What is kept of requests that pass on the wire: real programs, a stand-in provider, the store."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.core.times import Ms
from headgate.core.wire.token_usage import Usage
from headgate.wire.exchange_owner import ExchangeRecord
from headgate.wire.records import RequestRecords, as_row
from tests.support import HEADGATE, LONG, Box, Program, until

OPUS = "anthropic/claude-opus-4-6"
SECRET, PROMPT = "sk-ant-never-kept-0123456789", "the prompt that nobody keeps"
ASK = """
import json, os, sys, urllib.error, urllib.request
def ask(text, stream=False):
    try:
        with open_stream(text, stream) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        return error.read()
def open_stream(text="x", stream=True):
    body = {"model": "claude-opus-4-6", "max_tokens": 99, "stream": stream}
    body["messages"] = [{"role": "user", "content": text}]
    request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages",
        json.dumps(body).encode(), {"x-api-key": os.environ["KEY"],
        "content-type": "application/json", "anthropic-version": "2023-06-01"})
    return urllib.request.urlopen(request)
"""


class Provider:
    """A stand-in provider, and the agents that ask it."""

    def __init__(self, box: Box, *words: str) -> None:
        self.box = box
        box.headgate("status")  # makes the store, so that others can look into it
        program = box.start(HEADGATE, "sim", "serve", "--json", *words)
        self.url = json.loads(program.line())["url"]

    def agent(self, script: str, *words: str) -> Program:
        """Start a script of which each request is seen."""
        env = {"ANTHROPIC_BASE_URL": self.url, "KEY": SECRET}
        argv = ("--meter", "wire", *words, "--", sys.executable, "-c", ASK + script, PROMPT)
        return self.box.run("-m", OPUS, *argv, env=env)


def metered(box: Box) -> dict[str, Any]:
    """The only row of the agent's meter and sums, by the names of its columns."""
    names = "work meter why hint in_flight oldest requests refused waited took input output cached"
    return dict(zip(names.split(), *box.rows("metered"), strict=True))


def requests(box: Box) -> list[dict[str, Any]]:
    """The requests that are remembered."""
    names = "seq work at key task outcome status waited first_byte took input output cached tries"
    return [dict(zip([*names.split(), "refused"], row, strict=True)) for row in box.rows("request")]


@pytest.fixture
def whole(box: Box) -> Iterator[bytearray]:
    """Every byte of the store, and of what is beside it, when the test is over."""
    found = bytearray()
    yield found
    for path in sorted(box.folder.glob("s.db*")):
        for file in [path] if path.is_file() else path.rglob("*"):
            found += file.read_bytes() if file.is_file() else b""
    assert SECRET.encode() not in found
    assert PROMPT.encode() not in found


@pytest.mark.usefixtures("whole")
def test_each_request_is_kept_and_summed(box: Box) -> None:
    """Times, tokens and outcome, under the lease of the agent; neither its key nor its prompt."""
    provider = Provider(box, "--duration", "20ms")
    program = provider.agent("ask(sys.argv[1])\nask(sys.argv[1], stream=True)")
    assert program.wait() == 0
    until(lambda: len(requests(box)) == 2)
    first, second = requests(box)
    (granted,) = box.events("granted")
    assert {first["work"], second["work"]} == {granted[3]}
    for one in (first, second):
        assert (one["key"], one["outcome"], one["status"]) == (OPUS, "complete", 200)
        assert (one["tries"], one["refused"], one["waited"]) == (1, 0, 0)
        assert 0 < one["first_byte"] <= one["took"]
        assert one["input"] > 0
        assert one["output"] > 0
    sums = metered(box)
    assert (sums["meter"], sums["why"], sums["in_flight"]) == ("wire", "--meter says so", 0)
    assert (sums["requests"], sums["refused"]) == (2, 0)
    for name in ("took", "input", "output"):
        assert sums[name] == first[name] + second[name]


@pytest.mark.usefixtures("whole")
def test_a_request_on_its_way_is_seen(box: Box) -> None:
    """While it runs it is in flight; a client that leaves ends it, and then none is."""
    provider = Provider(box, "--duration", "30s")
    program = provider.agent("ask(sys.argv[1], stream=True)")
    until(lambda: box.rows("metered") and metered(box)["in_flight"] == 1)
    (running,) = json.loads(box.headgate("queue", "--json"))["running"]
    assert running["in_flight"] == 1
    assert running["oldest_request"] >= running["started"]
    assert "1 for " in box.headgate("queue")
    box.headgate("cancel", str(running["id"]))
    assert program.wait() != 0
    until(lambda: [one["outcome"] for one in requests(box)] == ["client_gone"])
    assert metered(box)["in_flight"] == 0


@pytest.mark.parametrize("meter", ["wire", "requests"])
def test_who_leaves_after_the_last_event_has_cancelled_nothing(box: Box, meter: str) -> None:
    """Codex hangs up when its answer is complete, before upstream has ended it; so it is kept."""
    box.headgate("status")
    events = (
        '"message_start","message":{"usage":{"input_tokens":3,"output_tokens":1}}',
        '"message_stop"',
    )
    answer = "".join(f'data: {{"type":{event}}}\n\n' for event in events)
    head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    leaves = "answer = open_stream()\nwhile b'message_stop' not in answer.readline(): pass\n"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(LONG)
        env = {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{listening.getsockname()[1]}"}
        words = ("--meter", meter, "-m", OPUS, "--", sys.executable, "-c", ASK + leaves)
        program = box.run(*words, env={**env, "KEY": SECRET})
        upstream, _ = listening.accept()
        with upstream:
            asked = b""
            while not asked.endswith(b"}]}"):
                asked += upstream.recv(65_536)
            upstream.sendall((head + answer).encode())
            assert program.wait() == 0
            until(lambda: [one["outcome"] for one in requests(box)] == ["complete"])


def test_what_a_killed_process_had_on_its_way_is_forgotten(box: Box) -> None:
    """The one that follows it knows that nothing is, although the agent asks nothing more."""
    provider = Provider(box, "--duration", "30s")
    agent = "try: ask('x', stream=True)\nexcept Exception: pass\nprint('on', flush=True)\ninput()"
    program = provider.agent(agent)
    until(lambda: box.rows("metered") and metered(box)["in_flight"] == 1)
    (pid,) = _wires(box)
    os.kill(pid, signal.SIGKILL)
    assert program.line() == "on"
    until(lambda: metered(box)["in_flight"] == 0)
    (other,) = _wires(box)
    assert other != pid
    program.go()
    program.wait()


def _wires(box: Box) -> list[int]:
    """The processes beside the agents of a box."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                words = (entry / "cmdline").read_bytes().decode().split("\0")
                if "headgate.wire" in words and any(str(box.folder) in word for word in words):
                    found.append(int(entry.name))
    return found


def test_a_refusal_is_an_outcome(box: Box) -> None:
    """One that is passed on says so, and `why` tells of it, after the agent has ended too."""
    provider = Provider(box, "--cap", "0", "--retry-after", "10m")
    program = provider.agent("ask(sys.argv[1])")
    assert program.wait() == 0
    until(lambda: requests(box))
    (one,) = requests(box)
    assert (one["outcome"], one["status"], one["refused"], one["tries"]) == ("refused", 429, 1, 1)
    found = json.loads(box.headgate("why", "--json", str(one["work"])))["metered"]
    assert (found["meter"], found["reason"]) == ("wire", "--meter says so")
    assert (found["requests"], found["refused"]) == (1, 1)
    assert [last["outcome"] for last in found["last_requests"]] == ["refused"]
    shown = box.headgate("why", str(one["work"]))
    assert "wire (--meter says so)" in shown
    assert "1, 1 refused" in shown


def test_a_plain_program_costs_no_row(box: Box) -> None:
    """Nobody asked how it is metered, and it is no agent that is known: nothing is kept."""
    assert box.run("-m", OPUS, "--", "true").wait() == 0
    assert box.rows("metered") == []


@pytest.mark.parametrize("code, hinted", [(3, True), (0, False), (130, False)])
def test_a_hint_follows_a_failure(box: Box, code: int, hinted: bool) -> None:  # noqa: FBT001 - a case
    """`run` tells once that the wire would know more of an agent judged by output; `why` too."""
    claude = box.folder / "claude"
    claude.write_text(f"#!/bin/sh\nexit {code}\n")
    claude.chmod(0o755)
    env = {"PATH": f"{box.folder}:{box.env['PATH']}", "HOME": str(box.folder)}
    program = box.run("--", "claude", "-p", PROMPT, env=env)
    assert program.wait() == code
    assert program.process.stderr is not None
    said = program.process.stderr.read().decode().splitlines()
    assert [("--meter wire" in line) for line in said] == [True] * hinted
    until(lambda: box.rows("metered"))
    found = metered(box)
    assert found["meter"] == "agent"
    assert "--meter wire" in box.headgate("why", str(found["work"]))


def test_sums_of_a_job_are_those_of_all_attempts(box: Box) -> None:
    """Each attempt adds to them, and `why` tells of them when the job has ended."""
    provider = Provider(box, "--duration", "20ms")
    script = box.folder / "agent.py"
    script.write_text(f"{ASK}\nask('x')\nsys.exit(int(os.environ['HEADGATE_ATTEMPT']) < 2)\n")
    env = {"ANTHROPIC_BASE_URL": provider.url, "KEY": SECRET, "HEADGATE_METER": "wire"}
    box.config('[jobs]\nbackoff = "1ms"\n')
    words = [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
    words += ["--retries", "1", "--", sys.executable, str(script)]
    id = box.headgate("submit", "-q", "-m", OPUS, *words).strip()
    box.start(HEADGATE, "worker")
    box.headgate("wait", id, within=60)
    until(lambda: len(requests(box)) == 2)
    found = json.loads(box.headgate("why", "--json", id))
    assert (found["state"], found["attempts"]) == ("done", 2)
    assert (found["metered"]["meter"], found["metered"]["requests"]) == ("wire", 2)
    assert found["metered"]["reason"] == "--meter says so"
    assert len(found["metered"]["last_requests"]) == 2


def test_a_flood_is_summed_and_not_listed(box: Box) -> None:
    """Of many requests within a second the last ones are listed; the sums count all of them."""
    gate = box.gate()
    record = ExchangeRecord(OPUS, "", 200, "complete", 0.5, 0.1, 0.25, Usage(100, 20, None))

    async def flood() -> None:
        records = RequestRecords(gate, 7)
        for _ in range(1_000):
            exchange = Asked()
            records.begun(exchange)
            records.ended(exchange, record)
        records.flush()
        records.flush()  # there is nothing more to write

    asyncio.run(flood())
    gate.status()
    assert len(requests(box)) == 200
    sums = metered(box)
    assert (sums["requests"], sums["in_flight"]) == (1_000, 0)
    assert (sums["waited"], sums["took"]) == (500_000, 250_000)
    assert (sums["input"], sums["output"], sums["cached"]) == (100_000, 20_000, 0)


class Asked:
    """A request that a model works for."""

    conversation = ""

    counts = True


@pytest.mark.parametrize(
    "how, status, tries, refused, expected",
    [
        ("complete", 200, 3, 2, "complete"),
        ("complete", 429, 1, 1, "refused"),
        ("complete", 400, 1, 0, "error"),
        ("complete", 500, 3, 2, "error"),
        ("truncated", 200, 1, 0, "truncated"),
        ("client_gone", 0, 1, 0, "client_gone"),
    ],
)
def test_outcomes(how: str, status: int, tries: int, refused: int, expected: str) -> None:
    """A complete answer may be a refusal or an error: the last try decides."""
    record = ExchangeRecord(OPUS, "", status, how, 0.0, None, 0.0, tries=tries, refused=refused)
    assert as_row(record, Ms(5)).outcome == expected
