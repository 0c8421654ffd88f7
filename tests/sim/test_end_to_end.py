"""Real parts only: processes of agents, the gate on a file, a provider over loopback.

What the provider's own journal says is what counts; the gate is told nothing but its answers.
"""

import json
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from headgate import Gate
from headgate.core.display.snapshots import Event, PoolStatus, Waiting
from headgate.sim import journal
from headgate.sim.journal import JournalLine, most_at_once, refusals
from headgate.sim.server.serve import account_of
from tests.sim.clients import ENV
from tests.sim.serve_client import replayed
from tests.support import HEADGATE, Box, Program, pool_of, until

SECRET = "sk-test-4f1c0ffee5ba5eba11"
KEY = "umans/opus"
CLIENTS = str(Path(__file__).with_name("clients.py"))
QUICK = ("--duration", "250ms", "--lag", "100ms", "--usage-lag", "50ms")
UMANS = f'usage = {{ kind = "umans", url = "URL/v1/usage", key_env = "{ENV}", every = "250ms" }}'
LONG_WORK = "[[sim duration=40]]"


class Provider:
    """`headgate sim serve` in a process of its own."""

    def __init__(self, box: Box, *words: str) -> None:
        self._log = box.folder / "journal"
        self._box = box
        box.env[ENV] = SECRET
        server = box.start(HEADGATE, "sim", "serve", "--json", "--log", str(self._log), *words)
        self.url: str = json.loads(server.line())["url"]
        self.gate: Gate

    def plan(self, **changes: object) -> None:
        """Have it behave otherwise from now on."""
        body = json.dumps(changes).encode()
        with urllib.request.urlopen(f"{self.url}/sim/plan", body) as answer:  # noqa: S310 - ours
            assert answer.status == 200

    def lines(self) -> list[JournalLine]:
        return journal.read(self._log)

    def count(self, event: str) -> int:
        return sum(line.event == event for line in self.lines())

    def crew(self, agents: int, requests: int, prompt: str = "hi") -> Program:
        """Start a process of agents; it is at work when this returns."""
        (program,) = self.crews(1, agents, requests, prompt)
        return program

    def crews(
        self, processes: int, agents: int, requests: int, prompt: str = "hi"
    ) -> list[Program]:
        """Start so many of them; they begin together, however long each takes to be up."""
        words = (self.url, KEY, str(agents), str(requests), prompt)
        argv = (sys.executable, "-u", CLIENTS, *words)
        programs = [self._box.start(*argv) for _ in range(processes)]
        assert {program.line() for program in programs} == {"up"}
        for program in programs:
            program.go()
        return programs

    def work(self, processes: int, agents: int, requests: int) -> Counter[str]:
        """Let so many processes of agents work until they are done; what they were told."""
        return told(self.crews(processes, agents, requests))

    @property
    def pool(self) -> PoolStatus:
        """What the gate says of the provider's pool."""
        return pool_of(self.gate, "umans")

    def events(self, *kinds: str) -> list[Event]:
        """What the gate wrote down of these kinds."""
        found = self.gate.events(after=0, most=10_000)
        return [event for event in found if event.event in kinds]


Start = Callable[..., Provider]


@pytest.fixture
def start(box: Box) -> Start:
    """Start a provider, and have a pool for it with these settings."""

    def started(*words: str, pool: str, usage: str = "") -> Provider:
        provider = Provider(box, *words)
        source = usage.replace("URL", provider.url)
        box.config(f"[pools.host]\nlimit = 99\n[pools.umans]\n{pool}\n{source}\n")
        provider.gate = box.gate()
        return provider

    return started


def told(crew: Iterable[Program]) -> Counter[str]:
    """What the agents were told, once they are done."""
    found: Counter[str] = Counter()
    for program in list(crew):
        said = program.line()
        assert program.end() == 0, program.line(stream="stderr")
        found.update(json.loads(said))
    return found


def never_over(lines: list[JournalLine]) -> None:
    """Nothing was let in beyond the cap, and each that was let in ended once."""
    assert all(line.counted <= line.cap for line in lines if line.event == "enter")
    assert not [line for line in lines if line.event == "fault"]
    replayed([line for line in lines if line.account == account_of(SECRET)])


def secret_nowhere(box: Box) -> None:
    """The key is in no file of the store."""
    files = [path for path in box.folder.rglob("*") if path.is_file()]
    assert box.path in files
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


def test_a_limit_that_is_too_high_is_found_out(box: Box, start: Start) -> None:
    """Eight are configured, four are let in: one burst of refusals, then never again."""
    prompt = ("--cap", "4", "--lag", "0", "--retry-after", "300ms", "--duration", "500ms")
    provider = start(*prompt, pool="limit = 8\ncooldown = 0")
    said = provider.work(3, 4, 2)
    lines = provider.lines()
    never_over(lines)
    assert said["accepted"] == provider.count("exit") == 24
    assert most_at_once(lines) == 4
    # The burst is what eight seats had too many. Who was refused in it may have been any of the
    # eight; so one more, alone, may have to find out what it meant.
    assert 1 <= refusals(lines)["concurrency"] == said["concurrency-limited"] <= 4 + 1
    found = provider.pool
    assert (found.limit, found.configured_limit, found.auto_reduced_from) == (4, 8, 8)
    assert found.next_probe is not None
    assert found.next_probe > time.time()
    cuts = provider.events("limit_reduced")
    assert 1 <= len(cuts) <= 2
    assert cuts[0].text.startswith("8 to ")
    assert cuts[-1].text.partition(":")[0].endswith(" to 4")
    assert all("refused at" in cut.text and "429" in cut.text for cut in cuts)
    assert {cut.pool for cut in cuts} == {"umans"}
    assert "429" in (found.notice or "")
    secret_nowhere(box)


def test_usage_readings_keep_everybody_below_the_cap(box: Box, start: Start) -> None:
    """Twice the cap is configured, yet nobody is ever refused, and the cap is used in full."""
    pool = 'limit = 8\ncooldown = "250ms"'
    provider = start("--cap", "4", *QUICK, pool=pool, usage=UMANS)
    assert provider.work(3, 4, 2) == {"accepted": 24}
    lines = provider.lines()
    never_over(lines)
    assert refusals(lines) == {}
    assert most_at_once(lines) == 4
    assert {line.status for line in lines if line.event == "usage"} == {200}
    assert {line.account for line in lines if line.event == "usage"} == {account_of(SECRET)}
    found = provider.pool
    assert (found.limit, found.auto_reduced) == (8, False)
    assert found.upstream is not None
    assert (found.upstream.limit, found.upstream.problem) == (4, "")
    assert provider.events("limit_reduced", "refused", "usage_failed") == []
    secret_nowhere(box)


def test_what_others_use_is_left_to_them(box: Box, start: Start) -> None:
    """People take two of four: the gate takes the other two. They leave: it takes more."""
    provider = start("--cap", "4", *QUICK, pool='limit = 4\ncooldown = "250ms"', usage=UMANS)
    provider.plan(foreign=2)
    assert provider.work(2, 2, 1) == {"accepted": 4}
    assert most_at_once(provider.lines()) == 2
    provider.plan(foreign=0)
    crews = [provider.crew(2, 1, LONG_WORK) for _ in range(2)]
    # All four, but for the seat that `test_a_free_seat_is_not_lost_for_good` is about.
    until(lambda: most_at_once(provider.lines()) >= 3)
    for crew in crews:
        crew.kill()
    lines = provider.lines()
    never_over(lines)
    assert refusals(lines) == {}
    assert provider.pool.limit == 4


def test_people_who_come_are_made_room_for(box: Box, start: Start) -> None:
    """The count says so before long: one burst may be refused, not more."""
    provider = start("--cap", "4", *QUICK, pool='limit = 4\ncooldown = "250ms"', usage=UMANS)
    crews = [provider.crew(4, 2), provider.crew(4, 1)]
    until(lambda: most_at_once(provider.lines()) == 4)
    provider.plan(foreign=2)
    said = told(crews)
    assert said["accepted"] == 12
    lines = provider.lines()
    never_over(lines)
    assert refusals(lines).get("concurrency", 0) == said["concurrency-limited"] <= 4
    come = next(n for n, line in enumerate(lines) if line.event == "plan")
    assert most_at_once(lines[come:]) <= 2


def test_a_stream_of_readings_does_as_well(box: Box, start: Start) -> None:
    """The count comes as events over one connection; again nobody is refused."""
    usage = (
        'usage = { kind = "featherless", url = "URL/account/concurrency/stream", '
        f'key_env = "{ENV}", every = "250ms" }}'
    )
    pool = 'limit = 8\ncooldown = "250ms"'
    provider = start("--cap", "4", *QUICK, pool=pool, usage=usage)
    assert provider.work(2, 4, 2) == {"accepted": 16}
    lines = provider.lines()
    never_over(lines)
    assert refusals(lines) == {}
    assert most_at_once(lines) == 4
    assert {line.kind for line in lines if line.event == "usage"} == {"featherless"}
    found = provider.pool
    assert found.limit == 8
    assert found.upstream is not None
    assert (found.upstream.limit, found.upstream.problem) == (4, "")
    assert provider.events("limit_reduced", "refused", "usage_failed") == []
    secret_nowhere(box)


def test_a_rate_that_is_known_is_kept(box: Box, start: Start) -> None:
    """As many requests a minute as the provider takes: not one more is sent, by any process."""
    provider = start("--cap", "50", "--rpm", "12", *QUICK, pool="rpm = 12")
    crews = [provider.crew(4, 12) for _ in range(2)]
    until(lambda: provider.count("exit") == 12)
    until(lambda: len(provider.gate.queue().waiting) == 8)
    lines = provider.lines()
    assert refusals(lines) == {}
    assert provider.count("enter") == 12
    capacity = provider.gate.capacity(KEY)
    assert (capacity.state, capacity.code, capacity.free) == ("full", "rate", 0)
    assert capacity.eta is not None
    assert 30 < capacity.eta <= 61
    for crew in crews:
        crew.kill()
    never_over([line for line in provider.lines() if line.event != "refused"])
    assert refusals(provider.lines()) == {}


def capacity(box: Box) -> dict[str, Any]:
    """What `headgate capacity` says, and whether its exit code agrees."""
    program = box.start(HEADGATE, "capacity", KEY, "--json")
    found: dict[str, Any] = json.loads(program.line())
    assert program.wait() == (0 if found["state"] in {"open", "near"} else 75)
    return found


def test_a_quota_that_is_gone_closes_the_pool_for_everybody(box: Box, start: Start) -> None:
    """One refused request is enough; it is known until when, and a person may open it again."""
    pool = 'limit = 4\ncooldown = "250ms"'
    provider = start("--cap", "4", *QUICK, pool=pool)
    assert provider.work(2, 2, 1) == {"accepted": 4}
    until(lambda: capacity(box)["state"] == "open")  # their seats rest for 250 ms
    provider.plan(quota=600_000)
    gone = time.time() + 600
    first = provider.crew(1, 1)
    until(lambda: refusals(provider.lines()) == {"quota": 1})
    until(lambda: capacity(box)["state"] == "paused")
    others = [provider.crew(3, 1) for _ in range(2)]
    waiting = until(lambda: found if len(found := provider.gate.queue().waiting) == 7 else ())
    assert refusals(provider.lines()) == {"quota": 1}
    found = capacity(box)
    assert (found["state"], found["code"], found["free"]) == ("paused", "pool_paused", 0)
    assert found["eta"] == pytest.approx(gone - time.time(), abs=10)
    assert "quota-gone" in found["reason"]
    paused = provider.pool
    assert paused.paused_until == pytest.approx(gone, abs=10)
    why = provider.gate.why(waiting[-1].id)
    assert isinstance(why, Waiting)
    assert why.eta == pytest.approx(gone - time.time(), abs=10)
    said = box.headgate("why", str(waiting[-1].id))
    assert "quota-gone" in said
    assert "paused for 9m" in said or "paused for 10m" in said
    provider.plan(quota=0)
    assert capacity(box)["state"] == "paused"
    box.headgate("resume", "umans")
    assert told([first, *others])["accepted"] == 7
    assert refusals(provider.lines()) == {"quota": 1}
    assert (provider.pool.limit, provider.pool.paused) == (4, False)
    never_over(provider.lines())


def test_a_killed_process_gives_its_seats_back(box: Box, start: Start) -> None:
    """Its seats are free, what it learned and the pause it caused stay; others go on with it."""
    cap = ("--cap", "2", "--retry-after", "10m", "--cancelled-lag", "100ms")
    provider = start(*cap, *QUICK, pool='limit = 3\ncooldown = "250ms"')
    crew = provider.crew(3, 1, LONG_WORK)
    until(lambda: provider.pool.limit == 2 and provider.pool.in_use == 2)
    before = provider.pool
    assert before.paused
    others = provider.crew(3, 1)
    until(lambda: provider.pool.queued == 4)
    crew.kill()
    until(lambda: provider.pool.in_use == 0)
    until(lambda: provider.count("cancelled") == 2)
    after = provider.pool
    assert (after.limit, after.auto_reduced_from, after.queued) == (2, 3, 3)
    assert after.paused_until == pytest.approx(before.paused_until, abs=0.1)
    until(lambda: provider.pool.cooling == 0)
    assert provider.count("enter") == 2
    box.headgate("resume", "umans")
    assert told([others]) == {"accepted": 3}
    lines = provider.lines()
    never_over(lines)
    assert refusals(lines) == {"concurrency": 1}
    assert most_at_once(lines) == 2
    assert provider.pool.limit == 2
    until(lambda: box.left_over() == {})
