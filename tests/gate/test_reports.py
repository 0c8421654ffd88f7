"""What programs tell about upstream counts at once, for every program; and upstream is asked."""

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from headgate import Gate, NoRoomError, UsageError, WaitTimeoutError
from headgate.core.display.snapshots import Waiting
from tests.gate.conftest import Opener
from tests.support import Box, pool_of, until
from tests.usage.server import Peer, Server, answer

HOUR = 3600.0
KEY = "sk-test-0123456789abcdef0123456789abcdef"


def poll(box: Box, *, every: str = "250ms", port: int = 9, more: str = "") -> None:
    """Configure pool u with a usage endpoint."""
    box.config(
        "[pools.u]\nlimit = 2\ncooldown = 0\n"
        f'usage = {{ kind = "json", url = "http://127.0.0.1:{port}/v1/usage", used = "n", '
        f'every = "{every}"{more} }}\n'
    )


@pytest.fixture
def pool_a(box: Box) -> None:
    box.config("[pools.host]\nlimit = 99\n[pools.a]\nlimit = 4\ncooldown = 0\n")


@pytest.mark.usefixtures("pool_a")
def test_one_incident_told_by_four(open_gate: Opener) -> None:
    """Four leases report the same incident: one less, a pause, and everybody is told why."""
    gate, other = open_gate(), open_gate()
    leases = [gate.slot("a/b").acquire() for _ in range(4)]
    for lease in reversed(leases):
        lease.report("concurrency-limited", retry_after=60)
    status = pool_of(gate, "a")
    assert (status.limit, status.configured_limit, status.auto_reduced_from) == (3, 4, 4)
    assert status.paused
    assert status.paused_until == pytest.approx(time.time() + 60, abs=5)
    assert "concurrency-limited" in (status.notice or "")
    with pytest.raises(NoRoomError, match="paused for"):
        other.slot("a/b", timeout=0).acquire()
    assert other.capacity("a/b").state == "paused"
    for lease in leases:
        lease.release()
    assert other.resume("a")
    other.slot("a/b", timeout=0).acquire().release()


def test_a_limit_is_found(open_gate: Opener) -> None:
    """Nothing is known: each acceptance opens the next seat."""
    gate = open_gate()
    gate.set_limit("host", 99)
    gate.set_limit("a", "learn")
    leases = []
    for _ in range(5):
        leases.append(gate.slot("a/b", timeout=5).acquire())
        leases[-1].report("accepted")
    assert pool_of(gate, "a").limit == 5
    probe = gate.slot("a/b", timeout=5).acquire()
    assert pool_of(gate, "a").probing
    probe.report("concurrency-limited")
    probe.release()
    status = pool_of(gate, "a")
    assert (status.limit, status.probing, status.paused) == (5, False, False)
    with pytest.raises(NoRoomError):
        gate.slot("a/b", timeout=0).acquire()


@pytest.mark.usefixtures("pool_a")
def test_from_an_event_loop(open_gate: Opener) -> None:
    """`async with` and a report: nothing blocks the loop, and the order is kept."""
    gate = open_gate()

    async def work() -> None:
        async with gate.slot("a/b") as lease:
            lease.report("accepted")
            lease.report("rate-limited", retry_after="2m", note="x-test")
            assert lease.answered(529, {}, b'{"error": {"type": "overloaded_error"}}')
        status = await asyncio.to_thread(pool_of, gate, "a")
        assert (status.limit, status.in_use, status.paused) == (4, 0, True)
        assert status.notice == "rate-limited: x-test"
        with pytest.raises(NoRoomError):
            async with gate.slot("a/b", timeout=0):
                pass

    asyncio.run(work())


@pytest.mark.parametrize(
    "key, status, headers, body, expected, pause",
    [
        ("anthropic/claude-x", 200, {}, b"", "accepted", None),
        (
            "anthropic/claude-x",
            429,
            {"Retry-After": "90"},
            {"type": "error", "error": {"type": "rate_limit_error", "message": "per minute"}},
            "rate-limited",
            90,
        ),
        (
            "anthropic/claude-x",
            529,
            {},
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            "overloaded",
            30,
        ),
        (
            "openai/gpt-x",
            429,
            {},
            {"error": {"code": "insufficient_quota", "message": "You exceeded your quota"}},
            "quota-gone",
            -1,
        ),
        ("moonshot/kimi", 429, {}, {"error": {"message": "max concurrency: 3"}}, None, None),
        ("anthropic/claude-x", 401, {}, {"error": {"type": "authentication_error"}}, None, None),
        ("anthropic/claude-x", 500, {}, b"\xff\x00", None, None),
    ],
)
def test_an_answer_is_read(  # noqa: PLR0917 - its columns
    open_gate: Opener,
    key: str,
    status: int,
    headers: dict[str, str],
    body: object,
    expected: str | None,
    pause: float | None,
) -> None:
    """Status, headers and body become a signal, and that pauses the pool or does not."""
    gate = open_gate()
    pool = key.partition("/")[0]
    gate.set_limit(pool, 4)
    lease = gate.slot(key).acquire()
    text = body if isinstance(body, bytes) else json.dumps(body)
    found = lease.answered(status, headers, text)
    if expected is None and status == 429:
        assert found == "concurrency-limited"
        return
    assert found == expected or (expected is None and found in (None, "overloaded"))
    paused = [one for one in gate.status().pools if one.paused]
    if pause is None:
        assert not paused or found == "overloaded"
    elif pause > 0:
        (one,) = paused
        assert one.paused_until == pytest.approx(time.time() + pause, abs=5)
    else:
        assert paused
    assert pool_of(gate, pool).limit == 4
    lease.release()


def test_headers_correct_the_rates(box: Box, open_gate: Opener) -> None:
    """Upstream has less left than we thought: the next waits for the minute to be over."""
    box.config("[pools.a]\nrpm = 100\ntpm = 1000\n")
    gate = open_gate()
    lease = gate.slot("a/b", tokens=100).acquire()
    gate.slot("a/b", tokens=100, timeout=0).acquire().release()
    headers = {"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "0"}
    assert lease.answered(200, headers) == "accepted"
    capacity = gate.capacity("a/b")
    assert (capacity.code, capacity.state) == ("rate", "full")
    assert "requests of this minute" in (capacity.reason or "")
    lease.release()


def test_tokens_that_were_used(box: Box, open_gate: Opener) -> None:
    """What was really used takes the place of the estimate."""
    box.config("[pools.a]\ntpm = 1000\n")
    gate = open_gate()
    lease = gate.slot("a/b", tokens=900).acquire()
    with pytest.raises(NoRoomError, match="tokens of this minute"):
        gate.slot("a/b", tokens=500, timeout=0).acquire()
    lease.report("accepted", tokens=200)
    gate.slot("a/b", tokens=500, timeout=0).acquire().release()
    lease.release()


@pytest.mark.usefixtures("pool_a")
def test_a_lease_that_was_given_back_still_closes_its_pool(open_gate: Opener) -> None:
    """A late answer pauses; the limit learns nothing from it."""
    gate = open_gate()
    lease = gate.slot("a/b").acquire()
    lease.release()
    before = gate.status().pool("a")
    assert lease.answered(429, {}, b"") is not None
    lease.report("quota-gone", retry_after=HOUR)
    after = gate.status().pool("a")
    assert after.limit == before.limit
    assert after.paused_until is not None
    assert after.paused_until - time.time() > HOUR - 60


def test_words_that_are_none(open_gate: Opener) -> None:
    """What is no signal, no time and no number is refused, and nothing is paused."""
    gate = open_gate()
    lease = gate.slot("a/b").acquire()
    for wrong in ("", "429", "limited", "accept"):
        with pytest.raises(UsageError, match="bad signal"):
            lease.report(wrong)
        with pytest.raises(UsageError, match="bad signal"):
            gate.report("a", wrong)
    with pytest.raises(UsageError, match="retry_after"):
        gate.report("a", "rate-limited", retry_after="soon")
    for in_use in (None, -1, float("nan"), float("inf"), True):
        with pytest.raises(UsageError, match="bad usage"):
            gate.report("a", "usage", in_use=in_use)
    with pytest.raises(UsageError):
        lease.report("usage")
    assert not any(pool.paused for pool in gate.status().pools)
    lease.release()


@pytest.mark.parametrize("long", ["1000d", float("inf")])
def test_no_wait_is_longer_than_a_day(open_gate: Opener, long: float | str) -> None:
    """However long upstream asks to be left alone, it is asked again after a day."""
    gate = open_gate()
    gate.report("a", "quota-gone", retry_after=long)
    status = gate.status()
    until = status.pool("a").paused_until
    assert until is not None
    assert until - status.at == pytest.approx(86_400, abs=60)


@pytest.mark.usefixtures("pool_a")
def test_whoever_waits_knows_until_when(open_gate: Opener) -> None:
    """`why` names what upstream said and how long it is, and resuming lets the waiter in."""
    gate = open_gate()
    gate.report("a", "quota_gone", retry_after="2h", note="weekly")
    heard: list[Waiting] = []
    thread = threading.Thread(
        target=lambda: gate.slot("a/b", on_wait=heard.append).acquire().release()
    )
    thread.start()
    until(lambda: heard)
    found = gate.why(heard[0].id)
    assert isinstance(found, Waiting)
    assert found.code == "pool_paused"
    assert "for 1h59m" in found.reason or "for 2h" in found.reason
    assert "quota-gone: weekly" in found.reason
    assert found.eta == pytest.approx(2 * HOUR, abs=5)
    gate.resume("a")
    thread.join(20)
    assert not thread.is_alive()


@pytest.mark.usefixtures("pool_a")
def test_quota_gone_closes_the_pool_for_another_process(box: Box) -> None:
    """One process is told; the next to ask in any other waits, and says until when."""
    gate = box.gate()
    lease = gate.slot("a/b").acquire()
    lease.report("quota-gone", retry_after=2 * HOUR)
    lease.release()
    waiter = box.run("-m", "a/b", "--", "sh", "-c", "echo up; exec cat")
    line = waiter.line(stream="stderr")
    assert "paused for" in line
    assert "quota-gone" in line
    (row,) = gate.queue().waiting
    said = box.headgate("why", str(row.id))
    assert "1h59m" in said or "2h" in said
    box.headgate("resume", "a")
    assert waiter.line() == "up"


@pytest.mark.usefixtures("pool_a")
def test_another_process_closes_the_pool_for_this_one(box: Box) -> None:
    """And it stays closed when that process is killed right after."""
    gate = box.gate()
    assert gate.capacity("a/b").state == "open"
    script = "gate.report('a', 'quota-gone', retry_after=7200)\nprint('told')\ntime.sleep(600)\n"
    program = box.python(script)
    assert program.line() == "told"
    capacity = gate.capacity("a/b")
    assert (capacity.state, capacity.code) == ("paused", "pool_paused")
    assert capacity.eta == pytest.approx(2 * HOUR, abs=10)
    program.kill()
    assert gate.capacity("a/b").state == "paused"
    assert box.gate().capacity("a/b").state == "paused"


def test_a_killed_probe_is_forgotten(box: Box) -> None:
    """A process is killed while it tries one more: neither up nor down, and the next may try."""
    box.config('[pools.a]\nlimit = "learn"\ncooldown = 0\n')
    script = (
        "for _ in range(2):\n"
        "    gate.slot('a/b').acquire().report('accepted')\n"
        "gate.slot('a/b').acquire()\n"
        "print('up')\n"
        "time.sleep(600)\n"
    )
    program = box.python(script)
    assert program.line() == "up"
    gate = box.gate()
    status = pool_of(gate, "a")
    assert (status.limit, status.in_use, status.probing) == (2, 3, True)
    program.kill()
    until(lambda: pool_of(gate, "a").in_use == 0)
    status = pool_of(gate, "a")
    assert (status.limit, status.probing, status.auto_reduced) == (2, False, False)


class Counter:
    """A function that tells what upstream counts; it can be asked how often it was called."""

    def __init__(self, value: object) -> None:
        self.value = value
        self.calls = 0

    def __call__(self) -> object:
        self.calls += 1
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


@pytest.fixture
def counted(box: Box, open_gate: Opener) -> Iterator[Callable[[Counter], Gate]]:
    """Opens a gate whose pool u is told about by a function."""
    opened: list[Gate] = []

    def start(counter: Counter) -> Gate:
        opened.append(Gate.open(box.url, usage={"u": counter}))
        opened[-1].set_limit("u", 2)
        return opened[-1]

    yield start
    for gate in opened:
        gate.close()


def test_a_function_tells_what_upstream_counts(counted: Callable[[Counter], Gate]) -> None:
    """It is asked before anybody gets in, while somebody waits, and not when nobody does."""
    counter = Counter((2, 4))
    gate = counted(counter)
    assert counter.calls == 0
    with pytest.raises(WaitTimeoutError):
        gate.slot("u/m", timeout=0.5).acquire()
    assert counter.calls == 1
    upstream = pool_of(gate, "u").upstream
    assert upstream is not None
    assert (upstream.in_use, upstream.limit, upstream.fresh) == (2.0, 4, True)
    assert gate.capacity("u/m").code == "upstream_full"
    counter.value = 1
    lease = gate.slot("u/m", timeout=10).acquire()
    calls = counter.calls
    assert calls >= 2
    lease.release()
    time.sleep(0.4)
    assert counter.calls == calls, "nobody waits, and it is asked"


@pytest.mark.parametrize(
    "value",
    [None, "two", -1, ValueError("no"), (1, 2, 3)],
    ids=["none", "word", "-1", "raises", "3"],
)
def test_a_function_that_cannot_tell(counted: Callable[[Counter], Gate], value: object) -> None:
    """Then the limit counts, as if there were no function; people are told."""
    counter = Counter(value)
    gate = counted(counter)
    leases = [gate.slot("u/m", timeout=10).acquire() for _ in range(2)]
    assert counter.calls == 1
    with pytest.raises(NoRoomError):
        gate.slot("u/m", timeout=0).acquire()
    upstream = pool_of(gate, "u").upstream
    assert upstream is not None
    assert upstream.problem
    for lease in leases:
        lease.release()


class Upstream:
    """A usage endpoint that notes how many ask at once."""

    def __init__(self) -> None:
        self.used = 2
        self.inside = 0
        self.most = 0
        self.asked = 0
        self._lock = threading.Lock()
        self.server = Server(self._serve)

    def _serve(self, peer: Peer) -> None:
        with self._lock:
            self.asked += 1
            self.inside += 1
            self.most = max(self.most, self.inside)
        time.sleep(0.1)
        with self._lock:
            self.inside -= 1
        peer.send(answer({"n": self.used}))


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    it = Upstream()
    yield it
    it.server.close()


def test_one_asks_for_all(box: Box, upstream: Upstream) -> None:
    """Several processes wait: their polls never overlap, and end when nobody waits any more."""
    poll(box, port=upstream.server.port)
    waiters = [box.waiter("u/m") for _ in range(4)]
    gate = box.gate()
    until(lambda: upstream.asked >= 5)
    assert upstream.most == 1
    assert {row.code for row in gate.queue().waiting} == {"upstream_full"}
    assert waiters[0].silent()
    upstream.used = 0
    assert waiters[0].line() == "up"
    assert waiters[1].line() == "up"
    assert upstream.most == 1
    for waiter in waiters:
        waiter.kill()
    until(lambda: not gate.queue().waiting)
    time.sleep(0.3)  # one that has just begun may end
    asked = upstream.asked
    time.sleep(0.8)
    assert upstream.asked == asked, "nobody waits, and upstream is asked"
    assert upstream.most == 1


def test_the_poller_may_be_killed(box: Box, upstream: Upstream) -> None:
    """Another of those who wait goes on asking."""
    poll(box, port=upstream.server.port)
    first = box.waiter("u/m")
    second = box.waiter("u/m")
    until(lambda: upstream.asked >= 2)
    until(lambda: not upstream.inside)
    first.kill()
    asked = upstream.asked
    until(lambda: upstream.asked > asked + 1)
    upstream.used = 0
    assert second.line() == "up"
    assert upstream.most == 1


def test_keys_are_never_kept(box: Box, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key goes from the environment to upstream, and into no file of ours."""
    poll(box, port=upstream.server.port, more=', key_env = "UPSTREAM_TEST_KEY"')
    waiter = box.waiter("u/m", env={"UPSTREAM_TEST_KEY": KEY})
    until(lambda: upstream.asked >= 2)
    assert all(f"Authorization: Bearer {KEY}" in head for head in upstream.server.heads)
    gate = box.gate()
    lease = gate.slot("x/y").acquire()
    lease.answered(429, {"authorization": KEY, "x-api-key": KEY}, json.dumps({"error": KEY}))
    lease.release()
    said = json.dumps(gate.status().pool("u")._asdict(), default=str) + repr(gate.events(most=999))
    assert KEY not in said
    assert waiter.silent()
    files = [Path(folder, name) for folder, _, names in os.walk(box.folder) for name in names]
    stored = [path for path in files if path.name.startswith("s.db") and path.is_file()]
    assert stored
    for path in files:
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path
            assert KEY[8:].encode() not in path.read_bytes(), path


def test_programs_that_never_asked_are_counted(box: Box) -> None:
    """An agent started by hand takes a seat, and gives it back when it ends."""
    name = f"opencode-{uuid4().hex}"
    box.config(f'[pools.a]\nlimit = 1\ncooldown = 0\nobserve = [{{ process = "^{name}" }}]\n')
    gate = box.gate()
    gate.slot("a/b", timeout=0).acquire().release()
    foreign = box.start("bash", "-c", f"echo up; exec -a {name} sleep 600")
    assert foreign.line() == "up"
    until(lambda: pool_of(gate, "a").foreign == 1)
    assert gate.capacity("a/b").state == "full"
    with pytest.raises(NoRoomError):
        gate.slot("a/b", timeout=0).acquire()
    waiter = box.waiter("a/b")
    foreign.kill()
    assert waiter.line() == "up"
    assert pool_of(gate, "a").foreign == 0
