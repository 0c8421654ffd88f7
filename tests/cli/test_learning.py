"""What learning looks like: limits, status, why and events of pools that adapt."""

import contextlib
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headgate import Gate
from headgate.cli import limits
from headgate.cli.events import event_line
from headgate.cli.shared import terminal
from headgate.core.display import json_shapes
from headgate.core.display.snapshots import Event, PoolStatus, UpstreamStatus
from headgate.core.times import Ms, Seconds
from tests.cli.golden.compare import Ask, check, timeless
from tests.support import LONG, Box, Program, until

NOON = Seconds(1_700_000_000.0)
PLAIN = terminal.Pen()


class Provider:
    """A usage endpoint whose answer a test decides on."""

    def __init__(self) -> None:
        self.used: object = 0
        self.status = 200
        self.go = threading.Event()
        self.go.set()
        provider = self

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.go.wait(LONG)
                body = json.dumps({"used": provider.used, "limit": 4}).encode()
                with contextlib.suppress(OSError):  # whoever asked may be gone
                    self.send_response(provider.status)
                    self.send_header("content-length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self) -> None:
        self.go.set()
        self.server.shutdown()
        self.thread.join(LONG)
        self.server.server_close()


@pytest.fixture
def provider(box: Box) -> Iterator[Provider]:
    """A provider that counts, and a pool of four that reads it."""
    it = Provider()
    url = f"http://127.0.0.1:{it.server.server_port}/usage"
    box.config(
        "[pools.host]\nlimit = 20\n[pools.a]\nlimit = 4\n"
        f'usage = {{ kind = "json", url = "{url}", used = "used", limit = "limit", '
        'every = "250ms" }\n'
    )
    yield it
    it.close()


def end(*programs: Program) -> None:
    for program in programs:
        assert program.end() == 0


def reason(box: Box) -> str:
    """What the only one who waits is told."""
    (waits,) = json.loads(box.headgate("queue", "--json"))["waiting"]
    return str(waits["reason"])


LEARNED = PoolStatus(
    pool="learned",
    limit=5,
    configured_limit=None,
    source="learned",
    in_use=2,
    cooling=0,
    queued=0,
    paused=False,
    paused_until=None,
    cooldown_ms=Ms(2000),
    max_hold=None,
    reserve={},
    adapt="learn",
    next_probe=Seconds(NOON + 3600),
)
COUNT = UpstreamStatus(
    fresh=True,
    in_use=2,
    limit=4,
    hard_cap=None,
    estimate=2,
    cap=4,
    age=Seconds(1.2),
    lag_ms=Ms(900),
    low_priority=False,
    note="",
    problem="",
)


def test_limits_show_how_pools_adapt() -> None:
    """What was learned, when more is tried, and rates: each in a column if there is any."""
    reduced = LEARNED._replace(limit=3, configured_limit=4, auto_reduced=True)
    pools = [
        LEARNED,
        LEARNED._replace(pool="probing", source="file", configured_limit=8, probing=True),
        reduced._replace(
            pool="reduced", source="file", auto_reduced_from=4, adapt="step-down", next_probe=None
        ),
        reduced._replace(pool="by hand", source="hand", auto_reduced_from=6),
        LEARNED._replace(
            pool="fixed", source="file", adapt="off", next_probe=None, cooldown_ms=Ms(0)
        ),
        LEARNED._replace(
            pool="free",
            limit=None,
            source="none",
            next_probe=None,
            rpm=50,
            tpm=40_000,
            spacing_ms=Ms(1500),
            upstream=COUNT,
        ),
    ]
    check("limits-learning", "\n".join(limits.lines(pools, PLAIN, NOON)) + "\n")
    found = json_shapes.settings(pools[-1])
    assert (found["lag_ms"], found["tpm"], found["next_probe"]) == (900, 40_000, None)
    assert json_shapes.settings(LEARNED)["next_probe"] == "2023-11-14T23:13:20.000Z"


def test_a_pool_can_be_told_to_learn(box: Box, ask: Ask) -> None:
    """By hand, at once and for good; what it began with is said."""
    said = ask("limits", "set", "umans", " Learn ")
    new = " (a new pool: it takes in all work whose provider fits)"
    assert said == (0, "", f"headgate: umans learns its limit now; it begins with 2{new}\n")
    said = ask("limits", "set", "*/claude-opus-*", "learn")
    assert said.err == (
        "headgate: */claude-opus-* learns its limit now (it had 4); it begins with 2\n"
    )
    assert "umans" in ask("status").out
    rows = {row["pool"]: row for row in json.loads(box.headgate("limits", "--json"))["pools"]}
    assert (rows["umans"]["source"], rows["umans"]["limit"]) == ("learned", 2)
    assert rows["*/claude-opus-*"]["configured_limit"] == 4
    assert ask("limits", "restore", "umans").err == (
        "headgate: umans is as configured again: nothing is said about it any more\n"
    )


def test_a_machine_cannot_learn(ask: Ask) -> None:
    """There is nobody who would refuse it anything."""
    said = ask("limits", "set", "host", "learn")
    assert said.code == 2
    assert said.err.startswith("headgate: bad limit 'learn': host has nobody to learn it from, ")


@pytest.mark.parametrize("adapt", ["off", "step-down"])
def test_nothing_learns_where_it_must_not(box: Box, ask: Ask, adapt: str) -> None:
    """A pool keeps its limit if the configuration forbids to find another; a new one is told."""
    box.config(f'[defaults]\nadapt = "{adapt}"\n[pools.a]\nlimit = 4\n')
    said = ask("limits", "set", "a", "learn")
    assert said.code == 2
    assert said.err.startswith(f"headgate: bad limit 'learn': a has adapt = \"{adapt}\" in the ")
    rows = {row["pool"]: row for row in json.loads(ask("limits", "--json").out)["pools"]}
    assert rows["a"]["limit"] == 4
    said = ask("limits", "set", "b", "learn")
    assert f'adapt = "{adapt}" for it, with which no limit is found' in said.err


def test_restore_says_that_learning_starts_again(box: Box, ask: Ask) -> None:
    """A configured `learn` begins anew, and the help says so too."""
    box.config('[pools.a]\nlimit = "learn"\n')
    gate = box.gate()
    gate.slot("a/b").acquire()
    gate.report("a", "concurrency-limited", retry_after=0)
    assert ask("limits", "restore", "a").err == (
        "headgate: a is as configured again, and what it learned is forgotten: "
        "a limit that it learns, 2 to begin with, cooldown 2s\n"
    )
    assert "forget what was set by hand, and what was learned" in ask("limits", "--help").out


def test_status_shows_the_providers_own_count(box: Box, provider: Provider) -> None:
    """A reading with its age, as text and as JSON; then why there is none."""
    provider.used = 1
    holder = box.holder("a/b")
    said = box.headgate("status")
    assert "upstream 1/4, " in said
    assert " old" in said
    found = next(
        row for row in json.loads(box.headgate("status", "--json"))["pools"] if row["pool"] == "a"
    )
    assert set(found["upstream"]) == set(UpstreamStatus._fields)
    assert (found["upstream"]["in_use"], found["upstream"]["limit"]) == (1, 4)
    provider.used = 4
    box.headgate("report", "a", "usage", "--in-use", "4")
    waiter = box.waiter("a/b")
    until(lambda: "upstream 4/4, " in box.headgate("status"))
    until(lambda: "the provider's own count (" in reason(box))
    provider.status = 401
    until(lambda: "no usage reading: " in box.headgate("status"))
    assert "usage_failed" in box.headgate("events")
    provider.status, provider.used = 200, 1
    assert waiter.line() == "up"
    end(holder, waiter)


def test_a_pool_that_only_reads_usage_is_shown(box: Box, provider: Provider, ask: Ask) -> None:
    """Without a limit of its own it still keeps work out, so people see it."""
    path = box.config("")
    url = f"http://127.0.0.1:{provider.server.server_port}/"
    path.write_text(f'[pools.b]\nusage = {{ kind = "json", url = "{url}", used = "used" }}\n')
    assert "usage not read yet" in ask("status").out
    end(box.holder("b/c"))
    assert "upstream 0, " in ask("status").out


def test_who_waits_for_a_reading_is_told_so(box: Box, provider: Provider) -> None:
    """While the provider takes its time to answer, that is the reason."""
    provider.go.clear()
    waiter = box.run("-m", "a/b", "--", "sh", "-c", "echo up; exec cat")
    said = waiter.line(stream="stderr")
    assert said.endswith("1st in line: a waits for a reading of what the provider counts")
    provider.go.set()
    assert waiter.line() == "up"
    end(waiter)


def test_after_a_cut_the_next_waits_for_an_answer(box: Box, ask: Ask) -> None:
    """Levels that are not confirmed are entered one by one, and capacity calls that full."""
    box.config("[pools.host]\nlimit = 20\n[pools.a]\nlimit = 4\n")
    gate = box.gate()
    leases = [gate.slot("a/b").acquire() for _ in range(4)]
    gate.set_cooldown("a", 0)
    leases[0].report("accepted")
    gate.report("a", "concurrency-limited", retry_after=0)
    for lease in leases:
        lease.release()
    lease = gate.slot("a/b").acquire()
    found = json.loads(ask("capacity", "a/b", "--json").out)
    assert (found["state"], found["code"]) == ("full", "confirming")
    waiter = box.waiter("a/b")
    said = reason(box)
    assert said == "a waits for an answer before it lets in another one (1/3)"
    lease.report("accepted")
    assert waiter.line() == "up"
    end(waiter)


def test_rates_and_spacing_are_shown_and_explained(box: Box, ask: Ask) -> None:
    """As columns of limits, as the state of a pool without a limit, and as reasons."""
    box.config('[pools.a]\nrpm = 1\n[pools.b]\nlimit = 5\nspacing = "5m"\ntpm = 900\n')
    check("limits-rates", ask("limits").out)
    assert "1 rpm" in ask("status").out
    gate = box.gate()
    for key, code in (("a/x", "rate"), ("b/x", "spacing")):
        with gate.slot(key):
            pass
        said = ask("capacity", key, "--json")
        found = json.loads(said.out)
        assert (said.code, found["state"], found["code"]) == (75, "full", code)
        assert found["eta"] > 50
    assert timeless(ask("capacity", "a/x").out).startswith(
        "a/x: full, a has used up its requests of this minute, for"
    )
    assert ask("capacity", "b/x").out.startswith("b/x: full, b keeps its starts apart, for ")
    waiter = box.waiter("b/x")
    (id,) = (str(row["id"]) for row in json.loads(box.headgate("queue", "--json"))["waiting"])
    assert "because   b keeps its starts apart, for " in box.headgate("why", id)
    box.headgate("cancel", id)
    assert waiter.wait() != 0


def test_no_seat_is_free_while_a_rate_is_used_up(box: Box, ask: Ask) -> None:
    """Status says what is short and until when, and agrees with capacity."""
    box.config(
        '[defaults]\ncooldown = "0s"\n[pools.a]\nlimit = 4\nrpm = 1\n'
        '[pools.b]\nlimit = 4\ntpm = 10\n[pools.c]\nlimit = 4\nspacing = "5m"\n'
        "[pools.d]\nlimit = 4\nrpm = 2\n"
    )
    gate = box.gate()
    for key in ("a/x", "b/x", "c/x", "d/x"):
        with gate.slot(key, tokens=10):
            pass
    found = {pool.pool: (pool.free, pool.short_of) for pool in gate.status().pools}
    free = [(0, "rpm"), (0, "tpm"), (0, "spacing"), (3, "")]  # of the last, the machine takes 3
    assert [found[name] for name in "abcd"] == free
    shown = ask("status").out
    assert "rpm used up, next start in " in shown
    assert "tpm used up, next start in " in shown
    (row,) = (line for line in shown.splitlines() if line.startswith("c "))
    assert row.split()[2:6] == ["0/4", "0", "next", "start"]
    pools = {row["pool"]: row for row in json.loads(ask("status", "--json").out)["pools"]}
    assert pools["a"]["next_start"].endswith("Z")
    assert pools["d"]["next_start"] is None


def test_agents_outside_headgate_are_shown(box: Box) -> None:
    """A process that never asked takes a seat, in the bar and in the figures."""
    token = f"agent-{box.folder.name}"
    box.config(f'[pools.a]\nlimit = 4\nobserve = [{{ process = "{token}" }}]\n')
    script = "print('up', flush=True); input()"
    outside = [box.start(sys.executable, "-c", script, token) for _ in range(2)]
    assert [program.line() for program in outside] == ["up", "up"]
    inside = box.run("-m", "a/b", "--", sys.executable, "-c", script, token)
    assert inside.line() == "up"
    said = until(lambda: found if "2 outside headgate" in (found := box.headgate("status")) else "")
    (row,) = (line for line in said.splitlines() if line.startswith("a "))
    assert row.split()[1:4] == ["█▒▒░", "3/4", "1"]
    found = next(
        row for row in json.loads(box.headgate("status", "--json"))["pools"] if row["pool"] == "a"
    )
    assert (found["foreign"], found["in_use"], found["free"]) == (2, 1, 1)
    for program in (*outside, inside):
        program.close()


def test_events_of_learning_are_lined_up() -> None:
    """The longest kind fits its column, and colours tell good from bad."""
    kinds = {
        "probed": "tries 4 at once",
        "limit_raised": "3 to 4: a request was accepted at 4",
        "limit_reduced": "4 to 3: refused at 4 (429)",
        "refused": "an echo (429)",
        "paused": "for 30s: rate-limited: 429",
        "usage_failed": "HTTP 401",
        "usage_again": "3 in use",
    }
    events = [
        Event(n, NOON, kind, n, "", "", "anthropic", text)
        for n, (kind, text) in enumerate(kinds.items(), 1)
    ]
    lines = [event_line(event, PLAIN).partition(":20  ")[2] for event in events]
    check("events-learning", "\n".join(lines) + "\n")
    coloured = event_line(events[2], terminal.Pen(colour=True))
    assert "\x1b[33mlimit_reduced\x1b[0m" in coloured


def test_learning_is_told_in_events(box: Box, ask: Ask) -> None:
    """A cut, its echo and the pause are lines of their own."""
    gate: Gate = box.gate()
    gate.report("*/claude-opus-*", "concurrency-limited", note="429")
    gate.report("*/claude-opus-*", "concurrency-limited", note="429")
    kinds = [json.loads(line)["event"] for line in ask("events", "--json").out.splitlines()]
    assert kinds == ["limit_reduced", "paused", "refused"]
    assert "refused        */claude-opus-*" in " ".join(ask("events").out.split("  "))
