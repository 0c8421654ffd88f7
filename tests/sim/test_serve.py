"""The stand-in provider over real connections: caps, counts, ends. Its journal is the truth."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import struct
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from headgate.errors import HeadgateError
from headgate.sim import journal
from headgate.sim.journal import excess, most_at_once, refusals
from headgate.sim.server.behaviour import Spread, fixed
from headgate.sim.server.serve import account_of, running
from headgate.sim.upstream import ProviderPlan
from tests.sim.serve_client import (
    PROMPT,
    QUICK,
    ask,
    client,
    happened,
    play,
    post,
    posted,
    replayed,
)
from tests.support import Box, until_async

SLOW = "[[sim duration=30]]"


def test_a_cap_is_never_exceeded() -> None:
    """However many come at once, as many as the cap allows are let in, and the others get a 429."""

    async def test() -> None:
        plan = PROMPT._replace(cap=((0, 5),), model_caps=(("opus", 2),))
        async with running(plan, QUICK) as server, client(server) as session:
            asked = [ask(model="opus" if n % 2 else "haiku", stream=n % 3 == 0) for n in range(40)]
            answers = await asyncio.gather(*(post(session, body) for body in asked))
            lines = server.journal.lines()
            assert sorted({status for status, _, _ in answers}) == [200, 429]
            assert most_at_once(lines) == 5
            assert most_at_once(lines, "opus") == 2
            assert most_at_once(lines, "haiku") == 3
            assert refusals(lines) == {"concurrency": 35}
            assert excess(lines) == 1
            replayed(lines)

    play(test)


def test_who_has_read_the_end_may_come_again() -> None:
    """A request is over before its last byte is out: one after the other never meets a 429."""

    async def test() -> None:
        plan = PROMPT._replace(cap=((0, 1),))
        behaviour = QUICK._replace(duration=fixed(4), headers=0, first_token=0)
        async with running(plan, behaviour) as server, client(server) as session:
            paths = ("/v1/messages", "/v1/chat/completions", "/v1/responses")
            for n, path in itertools.product(range(15), paths):
                status, _, _ = await post(session, ask(stream=bool(n % 2)), path)
                assert status == 200
            assert most_at_once(server.journal.lines()) == 1
            assert excess(server.journal.lines()) == 0

    play(test)


def test_an_ended_request_is_counted_for_a_while() -> None:
    """The provider's count lags: what has ended still takes a place."""

    async def test() -> None:
        plan = ProviderPlan(cap=((0, 1),), lag=((0, 300),))
        async with running(plan, QUICK) as server, client(server) as session:
            assert (await post(session, ask()))[0] == 200
            assert (await post(session, ask()))[0] == 429
            await until_async(lambda: server.upstream.counted(server.provider.now()) == 0)
            assert (await post(session, ask()))[0] == 200
            ended = next(line for line in server.journal.lines() if line.event == "exit")
            assert (ended.in_flight, ended.counted) == (0, 1)

    play(test)


def test_accounts_do_not_share_a_cap() -> None:
    """An account is a key, however it is sent; nobody sees the key again."""

    async def test() -> None:
        plan = PROMPT._replace(cap=((0, 1),))
        async with running(plan, QUICK) as server, client(server, "secret-a") as one:
            bearer = {"authorization": "Bearer secret-b"}
            async with aiohttp.ClientSession(server.url, headers=bearer) as two:
                answers = await asyncio.gather(
                    post(one, ask()), post(two, ask()), post(one, ask()), post(two, ask())
                )
            assert sorted(status for status, _, _ in answers) == [200, 200, 429, 429]
            lines = server.journal.lines()
            names = {account_of("secret-a"), account_of("secret-b")}
            assert {line.account for line in lines} == names
            assert server.upstream in {server.account("secret-a"), server.account("secret-b")}
            assert "secret" not in str([line._asdict() for line in lines])
            async with one.get("/sim/state") as answer:
                assert "secret" not in await answer.text()

    play(test)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("wait", ["first_token=30", "first_token=0"])
def test_a_client_that_goes_away_is_noticed_at_once(wait: str, stream: bool) -> None:  # noqa: FBT001
    """It counts as cancelled, and is counted for as long as it would have taken."""

    async def test() -> None:
        async with running(PROMPT._replace(cap=((0, 1),)), QUICK) as server:
            async with client(server) as session:
                text = f"[[sim duration=30 {wait} headers=0]]"
                task = asyncio.create_task(post(session, ask(text, stream=stream)))
                await happened(server, "enter")
                await asyncio.sleep(0.05)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            began = time.monotonic()
            await happened(server, "cancelled")
            assert time.monotonic() - began < 1
            line = server.journal.lines()[-1]
            assert (line.event, line.in_flight, line.counted, line.status) == (
                "cancelled",
                0,
                1,
                499,
            )
            now = server.provider.now()
            assert 25_000 < server.upstream.next_release() - now <= 30_000
            async with client(server) as session:
                assert (await post(session, ask()))[0] == 429
                server.change(cancelled_lag=0)
            replayed(server.journal.lines())

    play(test)


def test_a_cancelled_request_may_be_forgotten_sooner() -> None:
    """`cancelled_lag` says for how long the provider counts what nobody waits for."""

    async def test() -> None:
        plan = PROMPT._replace(cap=((0, 1),), cancelled_lag=0)
        async with running(plan, QUICK) as server, client(server) as session:
            answer = await session.post("/v1/messages", json=ask(SLOW, stream=True))
            assert answer.status == 200
            answer.close()
            await happened(server, "cancelled")
            assert (await post(session, ask()))[0] == 200

    play(test)


@pytest.mark.parametrize("by", ["rst", "eof", "error"])
def test_a_stream_is_cut_as_asked(by: str) -> None:
    """By a reset, by an end that comes too early, or by an error event; half-way."""

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, client(server) as session:
            text = f"[[sim duration=0.2 tokens=20 cut=0.5 by={by}]]"
            async with session.post("/v1/messages", json=ask(text, stream=True)) as answer:
                found = ""
                with contextlib.suppress(aiohttp.ClientPayloadError) as _:
                    async for chunk in answer.content.iter_any():
                        found += chunk.decode()
                broken = answer.content.exception() is not None
            assert broken == (by == "rst")
            assert "content_block_delta" in found
            assert "message_stop" not in found
            assert ("event: error" in found) == (by == "error")
            last = server.journal.lines()[-1]
            assert (last.event, last.note, last.in_flight) == ("cut", by, 0)

    play(test)


def test_a_reset_is_a_reset() -> None:
    """What the socket says is `connection reset`, not the end of the file."""

    async def test() -> None:
        async with running(PROMPT, QUICK) as server:
            host, port = server.url.removeprefix("http://").split(":")
            for stream in (True, False):
                body = json.dumps(ask("[[sim duration=0.1 cut=0.5]]", stream=stream)).encode()
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(posted(body))
                with pytest.raises(ConnectionResetError):
                    await reader.read(-1)
                writer.transport.abort()
            await happened(server, "cut", 2)

    play(test)


def test_a_share_of_the_streams_is_cut_and_of_the_requests_fails() -> None:
    """Both shares are left to chance, and the same seed has the same chances."""

    async def ends(seed: int) -> list[str]:
        behaviour = QUICK._replace(cuts=0.4, cut_by="eof", errors=0.2, duration=Spread(5, 20))
        async with running(PROMPT, behaviour, seed=seed) as server, client(server) as session:
            for _ in range(30):
                await post(session, ask(stream=True))
            lines = [line for line in server.journal.lines() if line.event != "enter"]
            return [line.kind or line.event for line in lines]

    async def test() -> None:
        first, again, other = [await ends(seed) for seed in (1, 1, 2)]
        assert first == again != other
        assert {"cut", "exit", "error"} == set(first)

    play(test)


def test_a_punished_account_is_slow() -> None:
    """Each 429 makes everything take longer for a while."""

    async def test() -> None:
        plan = PROMPT._replace(cap=((0, 1),), penalty=60_000, slowdown=3.0)
        behaviour = QUICK._replace(duration=fixed(100))
        async with running(plan, behaviour) as server, client(server) as session:
            before = time.monotonic()
            await asyncio.gather(post(session, ask()), post(session, ask()))
            between = time.monotonic()
            assert server.upstream.punished(server.provider.now())
            await post(session, ask(stream=True))
            assert 0.09 < between - before < 0.28
            assert time.monotonic() - between > 0.29

    play(test)


def test_a_plan_changes_by_itself() -> None:
    """A cap that falls at a time refuses from then on."""

    async def test() -> None:
        plan = PROMPT._replace(cap=((0, 2), (400, 0)))
        async with running(plan, QUICK) as server, client(server) as session:
            assert (await post(session, ask()))[0] == 200
            await until_async(lambda: server.provider.now() >= 400)
            assert (await post(session, ask()))[0] == 429
            assert [line.cap for line in server.journal.lines()] == [2, 2, 0]

    play(test)


def test_a_task_is_known_by_its_path_or_its_headers() -> None:
    """A prefix of the path goes before a session that the headers name."""

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, client(server) as session:
            await post(session, ask(), "/t/task-42/v1/messages?beta=true")
            await post(session, ask(), "/some/where/v1/chat/completions")
            session.headers["X-Claude-Code-Session-Id"] = "abc"
            await post(session, ask())
            await post(session, ask(), "/t/b/v1/responses")
            tasks = [line.task for line in server.journal.lines() if line.event == "enter"]
            assert tasks == ["task-42", "some/where", "abc", "b"]

    play(test)


def test_a_server_ends_with_streams_open() -> None:
    """It is gone at once, its streams are reset, and the journal says that they were cut."""

    async def test() -> None:
        async with contextlib.AsyncExitStack() as stack:
            async with running(PROMPT, QUICK) as server:
                session = await stack.enter_async_context(client(server))
                wait = [
                    asyncio.create_task(post(session, ask(SLOW, stream=n < 2))) for n in range(3)
                ]
                headers = {"x-api-key": "k1"}
                counts = await session.get("/account/concurrency/stream", headers=headers)
                await counts.content.readany()
                await happened(server, "enter", 3)
                began = time.monotonic()
            assert time.monotonic() - began < 2
            for found in await asyncio.gather(*wait, return_exceptions=True):
                assert isinstance(found, aiohttp.ClientError)
            lines = server.journal.lines()
            assert [line.note for line in lines if line.event == "cut"] == ["shutdown"] * 3
            assert not any(line.event in {"cancelled", "fault"} for line in lines)
            replayed(lines)

    play(test)


def test_a_taken_port_and_a_bad_log_are_said_plainly(tmp_path: Path) -> None:
    """Neither is a traceback."""

    async def test() -> None:
        async with running() as server:
            port = int(server.url.rsplit(":", 1)[1])
            with pytest.raises(HeadgateError, match="cannot listen on 127"):
                async with running(port=port):
                    pass
        with pytest.raises(HeadgateError, match="cannot write the log"):
            async with running(log=tmp_path / "no" / "where"):
                pass

    play(test)


MAIN = """
import sys
from argparse import ArgumentParser
from headgate.sim.server import serve
parser = ArgumentParser()
serve.arguments(parser)
sys.exit(serve.run(serve.options_of(parser.parse_args())))
"""


def request(url: str, body: dict[str, Any]) -> bytes:
    wanted = urllib.request.Request(  # noqa: S310 - our own server
        f"{url}/v1/messages", json.dumps(body).encode(), {"x-api-key": "k1"}
    )
    with urllib.request.urlopen(wanted, timeout=10) as answer:  # noqa: S310
        found: bytes = answer.read()
        return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_serves_until_it_is_told_to_end(box: Box, number: int) -> None:
    """It says where it listens, ends with 0, and writes nothing else whatever clients do."""
    log = box.folder / "log"
    words = ("--cap", "2", "--lag", "0", "--duration", "50ms", "--log", str(log))
    program = box.start(sys.executable, "-c", MAIN, *words)
    url = program.line().removeprefix("listening on ")
    assert b'"end_turn"' in request(url, ask())
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as idle:
        with socket.create_connection((host, int(port))) as rude:
            rude.sendall(b"\x16\x03\x01 what is this\r\n\r\n")
            rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        body = json.dumps(ask(SLOW, stream=True)).encode()
        idle.sendall(posted(body))
        assert idle.recv(12) == b"HTTP/1.1 200"
        program.send(number)
        assert program.wait(5) == 0
    assert program.line() == ""
    assert program.line(stream="stderr") == ""
    found = [line.event for line in journal.read(log)]
    assert found == ["enter", "exit", "enter", "cut"]


def test_a_killed_process_leaves_a_whole_log(box: Box) -> None:
    """All but perhaps the last line is there, and the next process goes on in the same file."""
    log = box.folder / "log"
    words = ("--json", "--lag", "0", "--duration", "1ms", "--log", str(log))
    for run in (1, 2):
        program = box.start(sys.executable, "-c", MAIN, *words)
        url = json.loads(program.line())["url"]
        for _ in range(5):
            request(url, ask())
        program.kill()
        lines = journal.read(log)
        assert [line.event for line in lines] == ["enter", "exit"] * 5 * run
    with log.open("ab") as file:
        file.write(b'{"n": 99, "ev')
    assert len(journal.read(log)) == 20


def test_a_full_disk_ends_the_log_not_the_server(capfd: pytest.CaptureFixture[str]) -> None:
    """It is said once, and requests are answered as before."""
    if not os.path.exists("/dev/full"):  # noqa: PTH110
        pytest.skip("no /dev/full here")

    async def test() -> None:
        async with running(PROMPT, QUICK, log="/dev/full") as server, client(server) as session:
            assert (await post(session, ask()))[0] == 200
            assert (await post(session, ask()))[0] == 200
            assert len(server.journal.lines()) == 4

    play(test)
    assert capfd.readouterr().err.count("the log ends here") == 1
