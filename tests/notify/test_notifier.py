"""Every event to every target that wants it, whatever happens to targets and notifiers."""

import os
import signal
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from headgate import Gate
from headgate.notify import Notifier
from tests.notify.conftest import Desk
from tests.notify.receiver import Receiver
from tests.support import HEADGATE, LONG, Box, Program, end, until

Failures = Callable[[Gate], list[str]]


def texts(told: list[dict[str, Any]]) -> list[str]:
    return [said["text"] for said in told]


def happen(gate: Gate, *notes: str) -> None:
    """Events with these texts, one after the other."""
    for note in notes:
        gate.pause("a", note=note)


def note_of(text: str) -> str:
    return text.removeprefix("until resumed: ")


def notifying(box: Box) -> Program:
    """`headgate notify run`, at work."""
    program = box.start(HEADGATE, "notify", "run")
    assert "delivers to" in program.line(stream="stderr")
    return program


def test_events_are_told_in_order_and_once(box: Box, desk: Desk) -> None:
    """A target that is seen for the first time is told what happens next, not what was."""
    box.config(desk.target(name="book", events="all"))
    gate = box.gate()
    happen(gate, "before")
    with desk.delivering(gate, "book"):
        happen(gate, *"abcdef")
        told = desk.wait_for(6)
    assert [note_of(text) for text in texts(told)] == [*"abcdef"]
    assert {said["event"] for said in told} == {"paused"}
    assert len({said["delivery"] for said in told}) == 6


def test_a_restart_tells_what_happened_meanwhile_and_nothing_twice(box: Box, desk: Desk) -> None:
    """How far it came is in the store: nobody at work loses nothing."""
    box.config(desk.target(name="book"))
    gate = box.gate()
    with desk.delivering(gate, "book"):
        happen(gate, "a")
        desk.caught_up(gate, "book")
    happen(gate, "b", "c")
    with desk.delivering(gate, "book"):
        desk.caught_up(gate, "book")
    assert [note_of(text) for text in texts(desk.told())] == ["a", "b", "c"]


def test_a_pool_closed_by_upstream_is_told_with_its_end(box: Box, desk: Desk) -> None:
    """A refusal that cuts and pauses is two messages: the new limit, and until when it is shut."""
    box.config("[pools.a]\nlimit = 4\n" + desk.target(name="book"))
    gate = box.gate()
    with desk.delivering(gate, "book"), gate.slot("a/b"):
        gate.report("a", "concurrency-limited", retry_after=120, note="429")
        reduced, paused = desk.wait_for(2)
    assert (reduced["event"], reduced["pool"]) == ("limit_reduced", "a")
    assert paused["text"] == "for 2m: concurrency-limited: 429"
    start, ends = (datetime.fromisoformat(paused[name]) for name in ("at", "until"))
    assert ends - start == timedelta(minutes=2)


def test_filters(box: Box, desk: Desk) -> None:
    """Patterns over kinds, keys, tasks and pools pick what is told; what lacks a field is not."""
    folder = box.folder
    box.config(
        desk.target(name="usual", command=f"cat >> {folder}/usual")
        + desk.target(name="grants", command=f"cat >> {folder}/grants", events=["grant*"])
        + desk.target(
            name="only",
            command=f"cat >> {folder}/only",
            events="all",
            **{"only.task": ["oracle-?"], "only.key": "b"},
        )
        + desk.target(
            name="pool", command=f"cat >> {folder}/pool", events="all", **{"only.pool": "a*"}
        )
    )
    names = ("usual", "grants", "only", "pool")
    gate = box.gate()
    with desk.delivering(gate, *names):
        for key, task in (("b/x", "oracle-1"), ("c/x", "oracle-2"), ("b/x", "oracle-12")):
            with gate.slot(key, task=task):
                pass
        gate.pause("a")
        gate.resume("a")
        desk.caught_up(gate, *names)
    kinds = {name: [s["event"] for s in desk.told(folder / name)] for name in names}
    assert kinds == {
        "usual": ["paused"],
        "grants": ["granted"] * 3,
        "only": ["granted", "released"],
        "pool": ["paused", "resumed"],
    }


def test_a_busy_receiver_is_asked_again(box: Box, desk: Desk, receiver: Receiver) -> None:
    """After 503 the same event comes again under the same name, and what follows stays behind."""
    box.config(desk.target(name="web", url=receiver.url))
    receiver.answers = [(503, {"Retry-After": "0.05"}), (429, {})]
    gate = box.gate()
    with desk.delivering(gate, "web"):
        happen(gate, "a", "b")
        got = receiver.wait_for(4)
    assert [note_of(request.said["text"]) for request in got] == ["a", "a", "a", "b"]
    assert len({request.said["delivery"] for request in got}) == 2


def test_what_a_receiver_refuses_is_given_up(
    box: Box, desk: Desk, receiver: Receiver, failures: Failures
) -> None:
    """A 400 is not tried again: that is an event, and the next one is told."""
    box.config(desk.target(name="web", url=receiver.url))
    receiver.answers = [(400, {})]
    gate = box.gate()
    with desk.delivering(gate, "web"):
        happen(gate, "a", "b")
        desk.caught_up(gate, "web")
    assert len(receiver.got) == 2
    assert failures(gate) == ["web: gave up on paused: 127.0.0.1 answered 400"]


def test_after_its_tries_an_event_is_given_up(
    box: Box, desk: Desk, receiver: Receiver, failures: Failures
) -> None:
    """It is tried as often as configured, and then said once what came of it."""
    box.config(desk.target(name="web", url=receiver.url, tries=3))
    receiver.answers = [(500, {})] * 3
    gate = box.gate()
    with desk.delivering(gate, "web"):
        happen(gate, "a", "b")
        desk.caught_up(gate, "web")
    assert len(receiver.got) == 4
    assert failures(gate) == ["web: gave up on paused: 127.0.0.1 answered 500 after 3 tries"]


def test_what_a_hook_says_gets_into_no_event(box: Box, desk: Desk, failures: Failures) -> None:
    """Its stderr may hold a secret that looks like none; only the exit code is told."""
    command = "echo 'curl: https://hooks.example.com/services/correct-horse' >&2; exit 22"
    box.config(desk.target(name="hook", command=command, tries=1))
    gate = box.gate()
    with desk.delivering(gate, "hook"):
        happen(gate, "a")
        until(lambda: failures(gate))
    text = "hook: gave up on paused: exit 22; headgate notify test shows what it says"
    assert failures(gate) == [text]
    assert b"correct-horse" not in b"".join(
        one.read_bytes() for one in box.folder.glob("s.db*") if one.is_file()
    )


def test_two_that_fail_come_to_an_end(box: Box, desk: Desk, failures: Failures) -> None:
    """Failures are told to others, never to the one that failed, and not failures of that."""
    box.config(
        desk.target(name="one", command="exit 1", events="all", tries=1)
        + desk.target(name="two", command="exit 2", events="all", tries=1)
        + desk.target(name="book", events=["notify_failed"])
    )
    gate = box.gate()
    with desk.delivering(gate, "one", "two", "book"):
        happen(gate, "a")
        until(lambda: len(failures(gate)) == 2)
        desk.caught_up(gate, "one", "two", "book")
    found = ["one: gave up on paused: exit 1", "two: gave up on paused: exit 2"]
    assert sorted(failures(gate)) == found
    assert sorted(texts(desk.told())) == found


def test_a_slow_target_delays_no_other(box: Box, desk: Desk) -> None:
    """While one hook hangs, another target is told all there is."""
    box.config(
        desk.target(name="slow", command="sleep 1000", timeout="5m", events="all")
        + desk.target(name="book", events="all")
    )
    gate = box.gate()
    with desk.delivering(gate, "slow", "book"):
        happen(gate, *"abc")
        desk.wait_for(3)
        assert gate.notification_feed().standings(["slow"])[0].behind == 3


def test_stopping_breaks_off_what_hangs_and_loses_nothing(box: Box, desk: Desk) -> None:
    """A hook that is under way when it is time to stop is told again by the next."""
    os.mkfifo(box.folder / "up")
    box.config(
        desk.target(name="t", command=f"echo $$ > {box.folder}/up; sleep 1000", timeout="5m")
    )
    gate = box.gate()
    with desk.delivering(gate, "t"):
        happen(gate, "a")
        (box.folder / "up").read_text()
    box.config(desk.target(name="t"))
    other = box.gate()
    with desk.delivering(other, "t"):
        told = desk.wait_for(1)
    assert [note_of(text) for text in texts(told)] == ["a"]


def test_a_killed_notifier_leaves_nothing_out(box: Box, desk: Desk) -> None:
    """After kill -9 in the middle of a delivery, another tells that event again, then the rest."""
    os.mkfifo(box.folder / "up")
    hook = desk.script(
        f"cat >> {desk.book}\n"
        f"[ -e {box.folder}/calm ] || {{ echo $$ > {box.folder}/up; sleep 1000; }}"
    )
    box.config(desk.target(name="t", command=[hook], timeout="5m"))
    gate = box.gate()
    first = notifying(box)
    desk.seen(gate, "t")
    happen(gate, "a", "b")
    pid = int((box.folder / "up").read_text())
    second = notifying(box)
    first.kill()
    end(pid)
    (box.folder / "calm").touch()
    told = desk.wait_for(3)
    desk.caught_up(gate, "t")
    second.send(signal.SIGTERM)
    assert second.wait() == 0
    assert [note_of(text) for text in texts(told)] == ["a", "a", "b"]
    assert len({said["delivery"] for said in told}) == 2


def test_two_notifiers_tell_once(box: Box, desk: Desk) -> None:
    """However many are at work, each target is served by one of them."""
    box.config(desk.target(name="book", events="all") + desk.target(name="idle", events="lost"))
    gate = box.gate()
    programs = [notifying(box) for _ in range(2)]
    desk.seen(gate, "book")
    with desk.delivering(gate, "book"), desk.delivering(gate, "book"):
        happen(gate, *map(str, range(20)))
        desk.wait_for(20)
        desk.caught_up(gate, "book")
    for program in programs:
        program.send(signal.SIGINT)
        assert program.wait() == 130
    happen(gate, "20")
    with desk.delivering(gate, "book"):
        desk.caught_up(gate, "book")
    assert [note_of(text) for text in texts(desk.told())] == [str(n) for n in range(21)]


def test_what_was_forgotten_is_counted(box: Box, desk: Desk) -> None:
    """If the events that are kept begin after the last one told, one message says how many."""
    box.config(desk.target(name="book", events=["lost"]))
    gate = box.gate()
    with desk.delivering(gate, "book"):
        happen(gate, "a")
        desk.caught_up(gate, "book")

    def flood(ledger: Any) -> None:  # noqa: ANN401 - a ledger
        for number in range(10_400):
            ledger.tell("lost" if number == 10_399 else "noise", str(number))

    gate._runtime.transactor.run(flood)
    oldest = gate.events(after=0, most=1)[0].seq
    with desk.delivering(gate, "book"):
        desk.caught_up(gate, "book")
    assert [(said["event"], said["text"][:20]) for said in desk.told()] == [
        ("missed", f"{oldest - 2} events were forgotten"[:20]),
        ("lost", "10399"),
    ]


def test_a_lacking_secret_is_said_once_and_nothing_is_lost(
    box: Box, desk: Desk, receiver: Receiver, failures: Failures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who lacks what a target needs leaves it to others; when it is there, all is told."""
    box.config(desk.target(name="web", url=receiver.url))
    gate = box.gate()
    with desk.delivering(gate, "web"):
        pass
    box.config(desk.target(name="web", url=receiver.url, secret_env="HOOK_SECRET"))
    other = box.gate()
    happen(other, "a")
    with desk.delivering(other, "web"):
        until(lambda: failures(other))
        happen(other, "b")
        monkeypatch.setenv("HOOK_SECRET", "x")
        got = receiver.wait_for(2)
    assert [note_of(request.said["text"]) for request in got] == ["a", "b"]
    assert failures(other) == ["web: HOOK_SECRET is not set"]


def test_a_changed_file_counts_at_once(box: Box, desk: Desk, receiver: Receiver) -> None:
    """A target that is corrected while it fails is told by its new way; a new one is served."""
    box.config(desk.target(name="t", command="exit 1", tries=20))
    gate = box.gate()
    with desk.delivering(gate, "t"):
        happen(gate, "a")
        box.config(desk.target(name="t", url=receiver.url) + desk.target(name="book"))
        [got] = receiver.wait_for(1)
        desk.seen(gate, "book")
        happen(gate, "b")
        desk.wait_for(1)
    assert note_of(got.said["text"]) == "a"
    assert [note_of(text) for text in texts(desk.told())] == ["b"]


def test_a_target_that_is_taken_out_is_left(box: Box, desk: Desk) -> None:
    """Nothing is sent to a target that is configured no more, and its claim is given back."""
    box.config(desk.target(name="t") + desk.target(name="book"))
    gate = box.gate()
    with desk.delivering(gate, "t", "book"):
        notices = gate.notification_feed()
        until(lambda: notices.standings(["t"])[0].claimed)
        box.config(desk.target(name="book"))
        until(lambda: not notices.standings(["t"])[0].claimed)
        happen(gate, "a")
        desk.wait_for(1)
    assert [said["target"] for said in desk.told()] == ["book"]


def test_failing_notifications_harm_no_work(box: Box, desk: Desk) -> None:
    """Work goes on, is counted and ends as ever while every target fails or hangs."""
    box.config(
        "[pools.host]\nlimit = 1\n"
        + desk.target(name="hangs", command="sleep 1000", events="all", timeout="5m")
        + desk.target(name="fails", command="exit 1", events="all", tries=1)
        + desk.target(name="none", command=["/nowhere/hook"], events="all", tries=1)
        + desk.target(name="web", url="http://127.0.0.1:1/", events="all", tries=2)
    )
    gate = box.gate()
    with desk.delivering(gate, "hangs", "fails", "none", "web"):
        for _ in range(10):
            program = box.run("--", "sh", "-c", "exit 5")
            assert program.wait() == 5
        desk.caught_up(gate, "fails", "none", "web")
    assert not gate.queue().running


def test_a_closed_gate_ends_it(box: Box, desk: Desk) -> None:
    """A notifier returns when its gate is closed, and raises nothing."""
    box.config(desk.target(name="book"))
    gate = box.gate()
    stop = threading.Event()
    thread = threading.Thread(target=Notifier(gate).run, args=(stop,))
    thread.start()
    desk.seen(gate, "book")
    gate.close()
    thread.join(LONG)
    assert not thread.is_alive()


def test_a_store_in_memory_has_notifications_too(box: Box, desk: Desk) -> None:
    """A program that needs no one else may still tell somebody."""
    box.config(desk.target(name="book"))
    box.url = f"memory://{box.folder.name}"
    gate = box.gate()
    with desk.delivering(gate, "book"):
        happen(gate, "a")
        desk.wait_for(1)
    with desk.delivering(box.gate(), "book"):
        happen(gate, "b")
        desk.wait_for(2)
    assert [note_of(text) for text in texts(desk.told())] == ["a", "b"]


def test_nothing_is_left_behind(box: Box, desk: Desk) -> None:
    """A notifier's process is a member only while it lives, and no hook has its pipes."""
    hook = desk.script(f"ls -l /proc/self/fd > {box.folder}/fds; cat > /dev/null")
    box.config(desk.target(name="t", command=[hook]))
    gate = box.gate()
    program = notifying(box)
    desk.seen(gate, "t")
    happen(gate, "a")
    desk.caught_up(gate, "t")
    program.send(signal.SIGTERM)
    assert program.wait() == 0
    gate.close()
    assert box.left_over() == {}
    assert ".life" not in (box.folder / "fds").read_text()
