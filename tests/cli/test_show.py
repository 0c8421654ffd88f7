"""The verbs that show something: status, queue, capacity, why, events."""

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from typing import Any

import apsw
import pytest

from headgate import Gate, HeadgateError
from headgate.cli import capacity, queue, status, why
from headgate.cli.shared import requests, terminal
from headgate.core.display import json_shapes
from headgate.core.display.snapshots import (
    Capacity,
    Event,
    Metered,
    Past,
    PoolStatus,
    Queue,
    RequestStatus,
    Running,
    Status,
    UpstreamStatus,
    Waiting,
)
from headgate.core.times import Ms, Seconds
from tests.cli.golden.compare import Ask, check, timeless
from tests.support import HEADGATE, LONG, Box

OPUS = "anthropic/claude-opus-4-6"
NOON = Seconds(1_700_000_000.0)
EVIL = "\x1b[31mred\x1b]0;owned\x07\nnew line\x9b2J\u202egnp\x7f"
PLAIN = terminal.Pen()
HAPPENED = Event(7, NOON, "released", 7, OPUS, "oracle-1", "", "")


def stand_in_line(
    gate: Gate, key: str, task: str, priority: str = "normal", weight: int = 1
) -> threading.Thread:
    """Ask for a seat in a thread of its own, and come back once the request waits."""
    waits = threading.Event()

    def wait() -> None:
        with contextlib.suppress(HeadgateError):  # the gate is closed at the end of the test
            gate.slot(
                key, task=task, priority=priority, weight=weight, on_wait=lambda _: waits.set()
            ).acquire()

    thread = threading.Thread(target=wait)
    thread.start()
    assert waits.wait(LONG)
    return thread


@pytest.fixture
def busy(box: Box) -> Iterator[Gate]:
    """A gate with three at work, so that the machine is full, and two in line."""
    gate = box.gate()
    for number in (1, 2):
        gate.slot(OPUS, task=f"oracle-{number}").acquire()
    gate.slot("openai/gpt-5", task="日本語", priority="interactive", label="codex").acquire()
    waiters = [
        stand_in_line(gate, OPUS, task="first"),
        stand_in_line(gate, "openai/gpt-5", task="second", priority="background", weight=2),
    ]
    yield gate
    gate.close()
    for thread in waiters:
        thread.join(LONG)


def pool(name: str, limit: int | None, in_use: int = 0) -> PoolStatus:
    return PoolStatus(
        pool=name,
        limit=limit,
        configured_limit=limit,
        source="default",
        in_use=in_use,
        cooling=0,
        queued=0,
        paused=False,
        paused_until=None,
        cooldown_ms=Ms(0),
        max_hold=None,
        reserve={},
    )


COUNT = UpstreamStatus(
    fresh=True,
    in_use=2.5,
    limit=4,
    hard_cap=None,
    estimate=3,
    cap=4,
    age=Seconds(1.2),
    lag_ms=None,
    low_priority=False,
    note="",
    problem="",
)
FULL_STATUS = Status(
    pools=(
        pool("*/claude-opus-*", 4, 2)._replace(cooling=1, queued=2),
        pool("anthropic", 200, 7)._replace(source="file", queued=11),
        pool("forgotten", None)._replace(source="none", cooldown_ms=Ms(2000), adapt="learn"),
        pool("found", 2, 1)._replace(source="learned", adapt="learn", probing=True),
        pool("host", 3, 3)._replace(source="environment"),
        pool("lifted", None, 5)._replace(source="hand"),
        pool("mistral", 2, 5)._replace(source="hand"),
        pool("openai", 4, 0)._replace(paused=True, paused_until=Seconds(NOON + 120)),
        pool("rated", None)._replace(source="none", rpm=50, spacing_ms=Ms(1500)),
        pool("seen", 8, 2)._replace(source="none", foreign=2, cooling=1),
        pool("umans", 2, 1)._replace(
            paused=True, auto_reduced=True, auto_reduced_from=4, notice="429s"
        ),
        pool("upstream", 4, 1)._replace(upstream=COUNT, foreign=1),
        pool("upstream-2", None, 1)._replace(
            source="none", upstream=COUNT._replace(fresh=False, limit=None, age=Seconds(7200.0))
        ),
        pool("upstream-3", 4)._replace(
            upstream=COUNT._replace(fresh=False, in_use=None, age=None, problem="HTTP 401")
        ),
        pool("upstream-4", 4)._replace(
            upstream=COUNT._replace(low_priority=True, note="boxed until noon")
        ),
        pool("upstream-5", 4)._replace(upstream=COUNT._replace(in_use=None, age=None, note="")),
    ),
    total_running=12,
    total_waiting=13,
    unlimited={"xai/grok-4": 2, "(no model)": 1},
    at=NOON,
)


def asked(outcome: str, **more: Any) -> RequestStatus:  # noqa: ANN401 - a field's
    """A request of an agent; all but its outcome is as usual."""
    usual = RequestStatus(
        at=NOON,
        key=OPUS,
        task="",
        outcome=outcome,
        status=200,
        waited=Seconds(0),
        first_byte=Seconds(0.9),
        took=Seconds(12.5),
        input_tokens=12_000,
        output_tokens=310,
        cached_tokens=9_000,
        tries=1,
    )
    return usual._replace(**more)


METERED = Metered(
    meter="wire",
    reason="claude sends the same by way of headgate",
    hint="",
    requests=41,
    refused=3,
    waited=Seconds(14.0),
    took=Seconds(512.0),
    input_tokens=1_203_400,
    output_tokens=9_310,
    cached_tokens=1_100_000,
    last_requests=(
        asked("complete"),
        asked("complete", waited=Seconds(4.0), tries=2),
        asked("refused", status=429, input_tokens=None, output_tokens=None, cached_tokens=None),
        asked("upstream_failed", status=None, first_byte=None, task=EVIL),
    ),
)


def test_why_tells_the_meter_and_the_requests() -> None:
    """Which meter counts and why, what all requests come to, and the last of them."""
    work = Running(
        *(7, OPUS, "oracle-1", 0, 1, "claude", "running", NOON, Seconds(60.0), 4711, None),
        in_flight=2,
        oldest_request=None,
    )
    lines = [*why.lines(7, work, ["host"], PLAIN, METERED), *requests.table(METERED, PLAIN)]
    check("why-metered", timeless("\n".join(lines)) + "\n")
    assert all(map(str.isprintable, lines))


def test_why_gives_the_hint() -> None:
    """Of an agent that is judged by its output although its requests could be seen."""
    judged = METERED._replace(meter="agent", reason="nobody asked", hint="--meter wire")
    judged = judged._replace(requests=0, last_requests=())
    lines = why.lines(7, Past((HAPPENED,)), [], PLAIN, judged)
    assert [line.split() for line in lines if "agent" in line or "hint" in line] == [
        ["meter", "agent", "(nobody", "asked)"],
        ["hint", "--meter", "wire"],
    ]
    assert requests.table(judged, PLAIN) == requests.table(None, PLAIN) == []


def test_queue_shows_requests_only_if_there_are_any() -> None:
    """How many are on their way, and for how long the oldest has been."""
    work = Running(*(7, OPUS, "t", 0, 1, "claude", "running", NOON, Seconds(60.0), 0, None))
    assert "requests" not in "\n".join(queue.lines(Queue((work,), (), 0), PLAIN))
    hour_ago = Seconds(time.time() - 3_600)
    asks = work._replace(in_flight=3, oldest_request=hour_ago)
    shown = "\n".join(queue.lines(Queue((work, asks), (), 0), PLAIN))
    assert "requests" in shown
    assert "3 for 1h" in shown


def test_status_is_drawn_with_bars_and_only_the_columns_that_say_something() -> None:
    """Each pool has a bar, its figures and its state; pools that do nothing are left out."""
    check("status", "\n".join(status.lines(FULL_STATUS, PLAIN)) + "\n")


def test_status_fits_a_narrow_terminal() -> None:
    """Long cells end in … and no line is wider than the terminal."""
    lines = status.lines(FULL_STATUS, terminal.Pen(width=66))
    check("status-narrow", "\n".join(lines) + "\n")
    assert max(map(terminal.columns_of, lines)) <= 66


def test_what_to_do_about_a_pool_is_never_cut_off() -> None:
    """A notice goes below the table, on as many lines as the terminal needs."""
    advice = "limit reduced from 4 to 3 after a 429; restore it: headgate limits restore 'umans'"
    view = FULL_STATUS._replace(pools=(pool("umans", 3)._replace(notice=f"{EVIL} {advice}"),))
    lines = status.lines(view, terminal.Pen(width=60))
    assert max(map(terminal.columns_of, lines)) <= 60
    assert all(map(str.isprintable, lines))
    assert advice in " ".join(line.strip() for line in lines)


def test_status_of_an_unused_store_is_friendly(ask: Ask) -> None:
    """With nothing going on, status shows the limits and how to start."""
    check("status-empty", ask("status").out)


def test_status_json_keeps_the_contract(busy: Gate, box: Box) -> None:
    """A real process prints each promised field, with times as text."""
    busy.pause("openai", "2m")
    busy.pause("umans")
    said = json.loads(box.headgate("status", "--json"))
    assert list(said) == ["schema", *json_shapes.STATUS]
    assert (said["total_running"], said["total_waiting"]) == (3, 2)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", said["at"])
    pools = {row["pool"]: row for row in said["pools"]}
    assert list(pools["host"]) == list(json_shapes.POOL)
    assert pools["host"]["in_use"] == pools["host"]["limit"] == 3
    assert pools["host"]["paused_until"] is None
    assert pools["openai"]["paused_until"] > said["at"]
    assert (pools["umans"]["paused"], pools["umans"]["paused_until"]) == (True, None)


@pytest.mark.parametrize(
    "limit, in_use, cooling, expected",
    [
        (4, 0, 0, "░░░░"),
        (4, 1, 2, "█▒▒░"),
        (4, 9, 0, "████"),
        (4, 3, 5, "███▒"),
        (1, 1, 0, "█"),
        (1000, 1, 0, "█" + "░" * 19),
        (1000, 999, 0, "█" * 19 + "░"),
        (1000, 1000, 0, "█" * 20),
        (1000, 500, 1, "█" * 10 + "░" * 10),
        (None, 7, 0, ""),
    ],
)
def test_a_bar_is_never_full_or_empty_unless_the_pool_is(
    limit: int | None, in_use: int, cooling: int, expected: str
) -> None:
    """One cell per seat up to twenty, then shares; at least one for any, all only for all."""
    drawn = terminal.bar(limit, in_use, cooling, PLAIN)
    assert not isinstance(drawn, int)
    assert "".join(span[0] for span in drawn) == expected


def test_wide_characters_are_counted_as_a_terminal_shows_them() -> None:
    """Columns line up below CJK text, and a cut never halves such a character."""
    lines = terminal.table(
        [("a", "shrinks"), ("b", "right")], [("日本語のタスク", 1), ("e\u0301", 22)], PLAIN
    )
    assert [terminal.columns_of(line) for line in lines] == [18, 18, 18]
    assert terminal.clip("日本語", 4) == "日…"
    assert terminal.columns_of("e\u0301") == 1


def test_queue_shows_two_tables(busy: Gate, ask: Ask) -> None:
    """Those who run, then those who wait with place and reason; priority and weight if special."""
    check("queue", timeless(ask("queue").out))


def test_queue_is_lined_up() -> None:
    """Numbers to the right, text to the left, and odd states in a column of their own."""
    runs = Running(
        7, OPUS, "oracle-1", 0, 1, "claude", "running", NOON, Seconds(3725.0), 4711, None
    )
    rows = (
        runs,
        runs._replace(id=12, task="child", state="orphaned", held=Seconds(0.25), pid=99, borrows=7),
        runs._replace(
            id=13, key="", task="", label="", priority=3, held=Seconds(86400.0 * 3), pid=0
        ),
    )
    waits = Waiting(
        20,
        OPUS,
        "x",
        0,
        1,
        "",
        1,
        "pool_full",
        "host",
        "host is full (3/3)",
        Seconds(95.0),
        NOON,
        Seconds(7.0),
    )
    view = Queue(
        rows, (waits, waits._replace(id=21, position=10, eta=None, waited=Seconds(600.0))), 2
    )
    check("queue-aligned", "\n".join(queue.lines(view, PLAIN, running=3)) + "\n")


def test_queue_pages(busy: Gate, ask: Ask) -> None:
    """A page says which part of the line it shows, and one past the end says so."""
    assert "3 running (the first 1; for more: --size N)" in ask("queue", "--size", "1").out
    assert "2 waiting (from 1 to 1; the next: --page 2)" in ask("queue", "--size", "1").out
    second = ask("queue", "--page", "2", "--size", "1").out
    assert "2 waiting (from 2 to 2)" in second
    assert "first" not in second.partition("waiting")[2]
    assert "2 waiting (this page is past the last)" in ask("queue", "--page", "9").out


def test_queue_json_keeps_the_contract(busy: Gate, ask: Ask) -> None:
    """Each promised field is there; times are text and durations seconds."""
    said = json.loads(ask("queue", "--json").out)
    assert list(said) == ["schema", *json_shapes.QUEUE]
    assert (said["total_running"], said["total_waiting"]) == (3, 2)
    first, second = said["waiting"]
    assert list(first) == list(json_shapes.WORK)
    assert (first["type"], first["state"]) == ("slot", "queued")
    assert (first["task"], first["position"], first["code"]) == ("first", 1, "pool_full")
    assert (second["task"], second["priority"], second["weight"]) == ("second", -10, 2)
    assert first["since"].endswith("Z")
    assert first["waited"] >= 0
    assert list(said["running"][0]) == list(json_shapes.WORK)


def test_capacity_answers_with_its_exit_code(busy: Gate, box: Box) -> None:
    """A script sees 0 while there is room and 75 when there is none."""
    assert (
        subprocess.run([HEADGATE, "capacity", OPUS], env=box.env, check=False, stdout=-3).returncode
        == 75
    )
    env = {**box.env, "HEADGATE_STORE": f"sqlite://{box.folder}/other.db"}
    assert (
        subprocess.run([HEADGATE, "capacity", OPUS], env=env, check=False, stdout=-3).returncode
        == 0
    )


def test_capacity_json_keeps_the_contract(ask: Ask, box: Box) -> None:
    """Each promised field is there, in every state."""
    fields = ["schema", *json_shapes.CAPACITY]
    said = ask("capacity", f"  {OPUS.title()}".replace("/C", "/c"), "--json")
    assert list(json.loads(said.out)) == fields
    box.gate().pause("anthropic", "2m", note="quota")
    said = ask("capacity", OPUS, "--json")
    found = json.loads(said.out)
    assert (said.code, found["state"], found["code"]) == (75, "paused", "pool_paused")
    assert 110 < found["eta"] <= 120
    assert list(found) == fields


@pytest.mark.parametrize(
    "view, expected",
    [
        (Capacity(OPUS, "open", 3, 0, None, None, None, None), f"{OPUS}: open, 3 free"),
        (Capacity("", "near", 1, 0, None, None, None, None), "work with no model: near, 1 free"),
        (Capacity("a/b", "open", None, 0, None, None, None, None), "a/b: open, no limit"),
        (
            Capacity(
                "a/b", "full", 0, 2, Seconds(5.0), Seconds(95.0), "a is full (4/4)", "pool_full"
            ),
            "a/b: full, a is full (4/4), 2 waiting, room in about 1m35s",
        ),
    ],
)
def test_capacity_is_one_line(view: Capacity, expected: str) -> None:
    """State, figure or reason, and when there may be room."""
    assert capacity.line(view) == expected


def test_capacity_depends_on_priority(ask: Ask, box: Box) -> None:
    """Seats that are reserved for a class are free to that class only."""
    box.config("[pools.a]\nlimit = 2\nreserve = { interactive = 1 }\n")
    with box.gate() as gate, gate.slot("a/b"):
        assert ask("capacity", "a/b").code == 75
        assert ask("capacity", "a/b", "-p", "interactive").code == 0


def test_why_tells_what_a_ticket_waits_for(busy: Gate, ask: Ask) -> None:
    """Place, each reason as a sentence of its own, how long so far, and its pools."""
    busy.pause("anthropic", note="quota gone")
    ticket = busy.queue().waiting[0]
    check("why-waiting", timeless(ask("why", str(ticket.id)).out))
    said = json.loads(ask("why", str(ticket.id), "--json").out)
    assert (said["state"], said["position"]) == ("queued", 1)
    assert said["pools"] == ["*/claude-opus-*", "anthropic", "host"]


def test_why_tells_since_when_work_runs(busy: Gate, ask: Ask) -> None:
    """Task, start, and the pools it sits in."""
    check("why-running", timeless(ask("why", "3").out))
    said = json.loads(ask("why", "3", "--json").out)
    assert (said["state"], said["task"], said["pools"]) == ("running", "日本語", ["host"])


def test_why_tells_how_work_ended(box: Box, ask: Ask) -> None:
    """What is over is told by its events."""
    gate = box.gate()
    lease = gate.slot("a/b", task="brief").acquire()
    lease.release()
    check("why-ended", timeless(ask("why", str(lease.id)).out))
    said = json.loads(ask("why", str(lease.id), "--json").out)
    assert (said["state"], said["code"]) == ("ended", "released")
    assert [event["event"] for event in said["events"]] == ["granted", "released"]


def test_why_names_orphans() -> None:
    """Work whose headgate is gone is said to run on, with the pid to look for."""
    lost = Running(7, OPUS, "oracle-1", 0, 2, "claude", "orphaned", NOON, Seconds(90.0), 4711, 3)
    text = "\n".join(why.lines(7, lost, ["host"], PLAIN))
    assert text.startswith("7 runs on without the headgate that started it\n")
    assert "pid       4711" in text
    assert "seats of  3" in text


def test_why_of_something_unknown_is_an_error(ask: Ask) -> None:
    """An id that nothing is known of is named, and the exit code is 2."""
    said = ask("why", "12")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("headgate: nothing is known of 12: ")


@pytest.mark.parametrize(
    "words",
    [
        ("why", "x"),
        ("why", "-1"),
        ("why", "9" * 30),
        ("why", "٣"),
        ("queue", "--page", "0"),
        ("queue", "--page", "-1"),
        ("queue", "--size", "1e3"),
        ("queue", "--size", "9" * 5000),
        ("events", "-n", "many"),
        ("capacity", "claude"),
        ("capacity", "a/b", "-p", "urgent"),
        ("capacity", "a/*"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(ask: Ask, words: tuple[str, ...]) -> None:
    """What was typed is named, with what is expected, and nothing goes to stdout."""
    said = ask(*words)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("headgate: bad ")
    assert said.err.count("\n") == 1


def test_events_are_lines(box: Box, ask: Ask) -> None:
    """One line each: time, kind, id, whom or what it is about, and what happened."""
    gate = box.gate()
    with gate.slot(OPUS, task="oracle-1"):
        gate.pause("openai", "2m", note="quota")
        gate.resume("openai")
        gate.set_limit("host", 5)
    check("events", timeless(ask("events").out))
    assert ask("events", "-n", "1").out.count("\n") == 1
    assert ask("events", "-n", "0").out == ""


def test_events_of_an_unused_store(ask: Ask) -> None:
    """People are told that there is nothing; programs get no line at all."""
    assert ask("events").out == "Nothing has happened yet.\n"
    assert ask("events", "--json").out == ""


def test_events_json_is_one_object_per_line(box: Box, ask: Ask) -> None:
    """Each line is a whole JSON object, with the time as text."""
    with box.gate() as gate, gate.slot("a/b", task="t"):
        pass
    granted, released = map(json.loads, ask("events", "--json").out.splitlines())
    assert list(granted) == ["schema", *json_shapes.EVENT]
    assert (granted["event"], granted["work"], granted["task"]) == ("granted", 1, "t")
    assert released["at"].endswith("Z")


def test_events_can_be_followed_until_interrupted(box: Box) -> None:
    """-f goes on with what happens next; Ctrl-C ends it quietly with 130."""
    gate = box.gate()
    gate.pause("a")
    box.env.pop("PYTHONUNBUFFERED", None)
    following = box.start(HEADGATE, "events", "-f", "--json")
    assert json.loads(following.line())["event"] == "paused"
    gate.resume("a")
    assert json.loads(following.line())["event"] == "resumed"
    following.send(signal.SIGINT)
    assert following.wait() == 130
    assert following.line(stream="stderr") == ""


def test_following_ends_quietly_when_nobody_reads(box: Box) -> None:
    """`events -f | head -1` leaves no message behind."""
    gate = box.gate()
    gate.pause("a")
    box.env.pop("PYTHONUNBUFFERED", None)
    following = box.start(HEADGATE, "events", "-f")
    assert "paused" in following.line()
    assert following.process.stdout
    following.process.stdout.close()
    gate.resume("a")
    assert following.wait() == 141
    assert following.line(stream="stderr") == ""


@pytest.mark.parametrize("words", [("status",), ("events",), ("events", "--json"), ("limits",)])
def test_a_closed_pipe_is_no_error(box: Box, words: tuple[str, ...]) -> None:
    """`status | true` says nothing on stderr."""
    box.gate().pause("a")
    box.env.pop("PYTHONUNBUFFERED", None)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([HEADGATE, *words], env=box.env, stdout=writer, stderr=-1, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def on_a_terminal(*words: str, env: dict[str, str], columns: int = 100) -> str:
    """What a verb draws on a real (pseudo) terminal."""
    terminal, end = pty.openpty()
    env = {name: value for name, value in env.items() if name != "COLUMNS"}
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    with subprocess.Popen([HEADGATE, *words], env=env, stdin=end, stdout=end, stderr=end) as it:
        os.close(end)
        drawn = b""
        while True:
            try:
                more = os.read(terminal, 65536)
            except OSError:  # how Linux says that the last program has closed the terminal
                break
            if not more:
                break
            drawn += more
        os.close(terminal)
    assert it.returncode == 0, drawn
    return drawn.decode()


COLOURED = {"TERM": "xterm-256color"}


def test_colours_are_for_terminals(busy: Gate, box: Box) -> None:
    """Bars are drawn everywhere; escape codes reach a terminal and nothing else."""
    box.env.pop("NO_COLOR", None)
    drawn = on_a_terminal("status", env={**box.env, **COLOURED})
    assert "\x1b[31m███\x1b[0m" in drawn
    piped = box.headgate("status")
    assert "███" in piped
    assert "\x1b" not in piped


@pytest.mark.parametrize("env", [{**COLOURED, "NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_terminals_without_colours_are_respected(box: Box, env: dict[str, str]) -> None:
    """NO_COLOR and TERM=dumb leave the bars and take the colours."""
    drawn = on_a_terminal("status", env={**box.env, **env})
    assert "░░░" in drawn
    assert "\x1b" not in drawn


def test_lines_are_cut_to_the_terminal(busy: Gate, box: Box) -> None:
    """On a terminal of 72 columns no line of the queue is longer."""
    drawn = on_a_terminal("queue", env={**box.env, "TERM": "dumb"}, columns=72)
    lines = drawn.replace("\r\n", "\n").splitlines()
    assert max(map(terminal.columns_of, lines)) <= 72
    assert "…" in drawn


def test_output_that_knows_only_ascii_gets_ascii(busy: Gate, box: Box) -> None:
    """Where stdout has no blocks, bars are made of # and ., and nothing fails."""
    box.env["PYTHONIOENCODING"] = "ascii"
    assert "###" in box.headgate("status")
    assert "???" in box.headgate("queue")


def test_names_cannot_reach_the_terminal_raw(busy: Gate, box: Box, ask: Ask) -> None:
    """Control characters that got into the store by whatever way are taken out on every screen."""
    db = apsw.Connection(str(box.path))
    db.execute("UPDATE lease SET task = ?, label = ?, key = key || ?", (EVIL, EVIL, EVIL))
    db.execute("UPDATE ticket SET task = ?, label = ?", (EVIL, EVIL))
    db.execute("UPDATE event SET task = ?, text = ?, kind = ?", (EVIL, EVIL, EVIL))
    pool = 'INSERT INTO pool (name, "limit", paused_until, pause_note) VALUES (?, ?, ?, ?)'
    db.execute(pool, (f"host/{EVIL}", 1, 2**62, EVIL))
    db.execute(pool, ("host", None, 2**62, EVIL))
    db.close()
    verbs = (("status",), ("queue",), ("why", "1"), ("why", "4"), ("events",), ("limits",))
    for words in (*verbs, ("capacity", OPUS)):
        said = ask(*words)
        assert said.code in {0, 75}
        assert "gnp" in said.out or words[0] == "capacity"
        odd = [c for c in said.out.replace("\n", "") if not c.isprintable()]
        assert not odd, words
    drawn = on_a_terminal("queue", env={**box.env, **COLOURED}, columns=300)
    assert re.sub(r"\x1b\[\d+m", "", drawn).replace("\r\n", "").isprintable()


def test_a_look_loads_nothing_heavy(box: Box) -> None:
    """Agents call status and capacity often: nothing slow to import sneaks in."""
    heavy = (
        "aiohttp asyncio dataclasses datetime difflib h11 http inspect json logging psutil ssl "
        "subprocess tempfile tomllib unicodedata headgate.core.answers.classify "
        "headgate.core.answers.builtin_rules headgate.http_client headgate.sim headgate.usage"
    )
    for words in (["status"], ["capacity", OPUS]):
        script = (
            "import sys; from headgate.cli import main\n"
            f"main({words!r}); print(*sorted(set({heavy.split()!r}) & set(sys.modules)))"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], env=box.env, capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[-1] == ""


def test_the_past_is_a_value_of_its_own(box: Box) -> None:
    """Programs can tell waiting, running and past work apart by type."""
    gate = box.gate()
    lease = gate.slot("a/b").acquire()
    assert isinstance(gate.why(lease.id), Running)
    lease.release()
    assert isinstance(gate.why(lease.id), Past)
    assert gate.why(10**9) == Past(())
