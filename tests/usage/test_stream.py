"""A stream that is kept open: what it has heard, how it comes back, how it ends."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.admission.pools import UsageSource
from headgate.core.answers.signals import Reading
from headgate.http_client import events
from headgate.usage import Stream
from tests.support import LONG, until
from tests.usage.server import STREAM, Peer, Server, answer, event

SLACK = 3.0
Serve = Callable[..., Server]
Listen = Callable[..., Stream]


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Opens streams that reconnect quickly."""
    opened: list[Stream] = []

    def start(url: str, environ: dict[str, str] | None = None, **options: Any) -> Stream:  # noqa: ANN401
        source = UsageSource("featherless", url, "THE_KEY")
        options = {"pause": (0.02, 0.1), **options}
        stream = Stream(
            source, environ={"THE_KEY": "sk-1"} if environ is None else environ, **options
        )
        opened.append(stream)
        return stream

    yield start
    for one in opened:
        one.close()
        assert not one._thread.is_alive()


def reading(stream: Stream) -> Reading | None:
    return stream.latest.reading if stream.latest else None


def costs(*numbers: float) -> bytes:
    return b"".join(event({"limit": 8, "used_cost": number, "requests": []}) for number in numbers)


def test_the_latest_reading_and_when_it_came(serve: Serve, listen: Listen) -> None:
    """Each event replaces the one before it; the time is that of its arrival."""
    more = threading.Event()

    def script(peer: Peer) -> None:
        peer.send(STREAM + costs(1))
        more.wait(LONG)
        peer.send(costs(2, 3))
        peer.hold()

    stream = listen(serve(script).url)
    begun = time.monotonic()
    first = until(lambda: stream.latest)
    assert first is not None
    assert first.reading == Reading(1.0, 8)
    assert stream.trouble == ""
    more.set()
    until(lambda: reading(stream) == Reading(3.0, 8))
    assert stream.latest is not None
    assert begun - SLACK < first.at <= stream.latest.at <= time.monotonic()


def test_it_comes_back(serve: Serve, listen: Listen) -> None:
    """After an end, a refusal and a reset it connects again, one connection at a time."""
    turns = []

    def script(peer: Peer) -> None:
        turns.append(1)
        turn = len(turns)
        if turn == 2:
            peer.send(answer(b"", "503 Service Unavailable"))
        elif turn == 3:
            peer.send(STREAM)
            peer.reset()
        else:
            peer.send(STREAM + costs(turn))
            if turn > 4:
                peer.hold()

    server = serve(script)
    stream = listen(server.url)
    until(lambda: reading(stream) == Reading(5.0, 8))
    assert server.most_open == 1
    assert len(server.heads) == 5


def test_what_was_heard_stays(serve: Serve, listen: Listen) -> None:
    """While it cannot connect it says why, and keeps the last reading with its age."""
    turns = []

    def script(peer: Peer) -> None:
        turns.append(1)
        peer.send(STREAM + costs(1) if len(turns) == 1 else answer(b"", "401 Unauthorized"))

    stream = listen(serve(script).url)
    until(lambda: stream.trouble == "127.0.0.1 answered 401; is THE_KEY right?")
    assert reading(stream) == Reading(1.0, 8)


def test_silence(serve: Serve, listen: Listen) -> None:
    """A stream without readings is given up, however lively it is otherwise."""
    turns = []

    def script(peer: Peer) -> None:
        turns.append(1)
        peer.send(STREAM + costs(len(turns)))
        if len(turns) < 3:
            peer.drip(b": still here\n\n")
        peer.hold()

    server = serve(script)
    stream = listen(server.url, silence=0.2)
    until(lambda: (reading(stream) or Reading(0)).in_use >= 3)
    assert server.most_open == 1


def test_bad_events_are_passed_over(serve: Serve, listen: Listen) -> None:
    """They leave the last reading as it was, and a good one sets all right."""
    more = threading.Event()

    def script(peer: Peer) -> None:
        peer.send(STREAM + costs(1) + b"data: {}\n\n" + b"data: \xff\n\n" + b"data: [\n\n")
        more.wait(LONG)
        peer.send(costs(2))
        peer.hold()

    server = serve(script)
    stream = listen(server.url)
    until(lambda: stream.trouble == "127.0.0.1 sent something that is not JSON")
    assert reading(stream) == Reading(1.0, 8)
    more.set()
    until(lambda: reading(stream) == Reading(2.0, 8))
    assert stream.trouble == ""
    assert len(server.heads) == 1


def test_a_flood_of_nothing(serve: Serve, listen: Listen) -> None:
    """More than an event's worth of bytes without one ends the connection."""
    flood = STREAM + b": " + b"x" * 1_000_000
    stream = listen(serve(lambda peer: peer.send(flood)).url)
    until(lambda: stream.trouble == "127.0.0.1 sent more than 256 KiB")


def test_it_goes_on_for_long(serve: Serve, listen: Listen) -> None:
    """The bound is on each event, not on the stream."""
    count = 600
    pad = b": " + b"x" * 1_000 + b"\n"

    def script(peer: Peer) -> None:
        peer.send(STREAM)
        for number in range(1, count + 1):
            peer.send(pad + costs(number))
        peer.hold()

    server = serve(script)
    stream = listen(server.url)
    until(lambda: reading(stream) == Reading(float(count), 8))
    assert len(server.heads) == 1


def test_attempts_are_spaced(serve: Serve, listen: Listen) -> None:
    """Each failure in a row doubles the wait, up to the most."""
    times = []
    server = serve(lambda _: times.append(time.monotonic()))
    listen(server.url, pause=(0.02, 0.08))
    until(lambda: len(times) >= 6)
    gaps = [after - before for before, after in pairwise(times[:6])]
    least = [0.02, 0.04, 0.08, 0.08, 0.08]
    assert all(gap > 0.9 * floor for gap, floor in zip(gaps, least, strict=True))
    assert server.most_open == 1


def test_a_key_that_comes_later(serve: Serve, listen: Listen) -> None:
    """Without a key nobody is asked; once it is there, it is used."""
    environ: dict[str, str] = {}

    def script(peer: Peer) -> None:
        peer.send(STREAM + costs(1))
        peer.hold()

    server = serve(script)
    stream = listen(server.url, environ)
    until(lambda: stream.trouble == "THE_KEY is not set")
    assert server.heads == []
    environ["THE_KEY"] = "sk-2"
    until(lambda: stream.latest)
    assert "Bearer sk-2\r\n" in server.heads[0]


@pytest.mark.parametrize("state", ["listening", "unanswered", "in a pause"])
def test_closing_is_prompt(serve: Serve, listen: Listen, state: str) -> None:
    """Whatever it waits for, it ends at once, and does not come back."""

    def script(peer: Peer) -> None:
        if state == "listening":
            peer.send(STREAM + costs(1))
        if state != "in a pause":
            peer.hold()

    server = serve(script)
    stream = listen(server.url, timeout=LONG, silence=LONG, pause=(LONG, LONG))
    until(lambda: len(server.heads) == 1 and (state != "listening" or stream.latest))
    if state == "in a pause":
        until(lambda: stream.trouble)
    begun = time.monotonic()
    stream.close()
    stream.close()
    assert time.monotonic() - begun < SLACK
    assert not stream._thread.is_alive()
    until(lambda: server.open == 0)
    assert len(server.heads) == 1


def test_closing_during_a_look_up(listen: Listen, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that the system cannot find yet keeps nobody."""
    looking, found = threading.Event(), threading.Event()

    def slow(*_: object, **options: object) -> None:
        if not options.get("flags"):  # numbers need no looking up
            looking.set()
            found.wait(LONG)
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    try:
        stream = listen("http://slow.example/", timeout=LONG)
        assert looking.wait(LONG)
        stream.close()
        assert not stream._thread.is_alive()
    finally:
        found.set()


def test_closing_at_any_moment(serve: Serve) -> None:
    """Closed right after it was opened, it leaves no connection and no thread."""
    server = serve(Peer.hold)
    source = UsageSource("featherless", server.url, "THE_KEY")
    for _ in range(30):
        with Stream(source, environ={"THE_KEY": "k"}) as stream:
            pass
        assert not stream._thread.is_alive()
    until(lambda: server.open == 0)


@given(st.data())
def test_events_cut_anywhere(data: st.DataObject) -> None:
    """However the bytes are cut into pieces, the same events come out."""
    text = (
        b"\xef\xbb\xbfdata: one\r\n\r\n: remark\n\nevent: usage\nid: 7\ndata:two\ndata: three\n\n"
        b'retry: 5\n\ndata: {"a":\ndata:  1}\n\ndata: cut off\n'
    )
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1))))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    found = list(events(pieces))
    assert found == [b"one", b"two\nthree", b'{"a":\n 1}']
