"""What is changed in one process counts at once for those who wait in another."""

import json
import threading
import time

import pytest

from headgate import Gate, NoRoomError
from tests.support import LONG, Box, gone, pool_of, until

pytestmark = pytest.mark.usefixtures("steady")
SOON = 3.0
"""Seconds: what is told takes milliseconds, what must be looked up takes one second."""


@pytest.fixture
def full(box: Box) -> Box:
    """A box in which a/b has one seat, which is taken until the test ends."""
    gate = box.gate()
    gate.set_limit("a/b", 1)
    gate.slot("a/b").acquire()
    return box


def started(box: Box, what: str, *words: str) -> float:
    """How long a waiter takes to start after a verb in yet another process."""
    waiter = box.waiter("a/b")
    box.headgate(what, *words)
    begun = time.monotonic()
    assert waiter.line() == "up"
    waited = time.monotonic() - begun
    assert waiter.end() == 0
    return waited


def test_a_raised_limit_lets_waiters_in(full: Box) -> None:
    """`limits set` in one process starts the waiter of another."""
    assert started(full, "limits", "set", "a/b", "2") < SOON


def test_a_raised_limit_lets_in_as_many_as_it_says(full: Box) -> None:
    """From one to three: two of three waiters start, in order, and the last goes on waiting."""
    waiters = [full.waiter() for _ in range(3)]
    full.headgate("limits", "set", "a/b", "3")
    assert [waiter.line() for waiter in waiters[:2]] == ["up", "up"]
    assert pool_of(full.gate(), "a/b").in_use == 3
    assert waiters[2].silent()
    assert waiters[0].end() == 0
    assert waiters[2].line() == "up"


def test_a_lifted_limit_lets_everyone_in(full: Box) -> None:
    """`limits unset` lets in all who wait for the pool."""
    full.gate().set_limit("host", 20)
    waiters = [full.waiter() for _ in range(4)]
    full.headgate("limits", "unset", "a/b")
    assert [waiter.line() for waiter in waiters] == ["up"] * 4


def test_a_limit_set_where_none_was_counts_what_runs(box: Box) -> None:
    """A pool made later counts what is already running in it."""
    holder = box.holder("a/b")
    box.headgate("limits", "set", "a", "1")
    gate = box.gate()
    assert pool_of(gate, "a").in_use == 1
    with pytest.raises(NoRoomError):
        gate.slot("a/c", timeout=0).acquire()
    assert holder.end() == 0
    gate.slot("a/c", timeout=0).acquire().release()


def test_a_lowered_limit_drains(box: Box) -> None:
    """Nothing is ended by a lower limit; nobody starts until enough have ended by themselves."""
    box.headgate("limits", "set", "a/b", "3")
    holders = [box.holder() for _ in range(3)]
    box.headgate("limits", "set", "a/b", "1")
    waiter = box.waiter()
    assert all(holder.alive() for holder in holders)
    for holder in holders[:2]:
        assert holder.end() == 0
        assert waiter.silent()
    assert holders[2].end() == 0
    assert waiter.line() == "up"
    assert waiter.end() == 0


def test_a_limit_survives_everyone(box: Box) -> None:
    """What was set by hand is still there when all processes have gone."""
    box.headgate("limits", "set", "a/b", "7")
    gate = box.gate()
    assert (pool_of(gate, "a/b").limit, pool_of(gate, "a/b").source) == (7, "hand")


def test_resume_lets_waiters_in(full: Box) -> None:
    """A paused pool lets nothing start; `resume` starts the waiter of another process."""
    full.headgate("limits", "set", "a/b", "9")
    full.headgate("pause", "a/b")
    waiter = full.run("-m", "a/b", "--", "echo", "up")
    assert "paused" in waiter.line(stream="stderr")
    full.headgate("resume", "a/b")
    assert waiter.line(within=SOON) == "up"
    assert waiter.wait() == 0


def test_a_pause_that_is_over_lets_waiters_in(full: Box) -> None:
    """`pause --for` ends by itself: the waiter starts after it, and not before."""
    full.headgate("limits", "set", "a/b", "9")
    begun = time.monotonic()
    full.headgate("pause", "a/b", "--for", "2s")
    waiter = full.run("-m", "a/b", "--", "echo", "up")
    assert "paused" in waiter.line(stream="stderr")
    assert waiter.line() == "up"
    assert 2 <= time.monotonic() - begun < 2 + SOON
    assert waiter.wait() == 0


def test_a_pause_that_becomes_longer_or_shorter(full: Box) -> None:
    """The last pause counts, also for who waits already."""
    gate = full.gate()
    gate.set_limit("a/b", 9)
    gate.pause("a/b", 600)
    waiter = full.waiter()
    gate.pause("a/b", "300ms")
    assert waiter.line(within=SOON) == "up"
    assert waiter.end() == 0


def test_a_freed_seat_rests(box: Box) -> None:
    """A seat freed under a cooldown counts as used until it is over, then lets the waiter in."""
    gate = box.gate()
    gate.set_limit("a/b", 1)
    gate.set_cooldown("a/b", "300ms")
    lease = gate.slot("a/b").acquire()
    waiter = box.waiter()
    begun = time.monotonic()
    lease.release()
    status = pool_of(gate, "a/b")
    assert (status.in_use, status.cooling, status.free) == (0, 1, 0)
    assert waiter.line() == "up"
    assert time.monotonic() - begun >= 0.3
    assert waiter.end() == 0


def test_a_seat_rests_also_when_its_process_was_killed(box: Box) -> None:
    """Upstream does not know how a program ended: a killed one's seat rests as well."""
    gate = box.gate()
    gate.set_limit("a/b", 1)
    gate.set_cooldown("a/b", "300ms")
    program = box.python("lease = gate.slot('a/b').acquire(); print('up'); time.sleep(1000)")
    assert program.line() == "up"
    waiter = box.waiter()
    begun = time.monotonic()
    program.kill()
    assert waiter.line() == "up"
    assert time.monotonic() - begun >= 0.3
    assert waiter.end() == 0


def test_a_changed_cooldown_counts_for_later_releases_only(box: Box) -> None:
    """A seat that rests already rests as long as it was told to."""
    gate = box.gate()
    gate.set_limit("a/b", 1)
    gate.set_cooldown("a/b", "400ms")
    begun = time.monotonic()
    gate.slot("a/b").acquire().release()
    gate.set_cooldown("a/b", 0)
    with gate.slot("a/b", timeout=LONG):
        assert time.monotonic() - begun >= 0.4
    gate.slot("a/b", timeout=0).acquire().release()
    gate.set_cooldown("a/b", 600)
    gate.slot("a/b", timeout=0).acquire().release()
    gate.set_cooldown("a/b", 0)
    with pytest.raises(NoRoomError, match="rest"):
        gate.slot("a/b", timeout=0).acquire()


def test_a_cooldown_without_a_limit_imposes_none(box: Box) -> None:
    """It is remembered, and applies to what is freed once there is a limit."""
    gate = box.gate(limits={"host": 100})
    gate.set_cooldown("a/b", 600)
    for _ in range(5):
        gate.slot("a/b", timeout=0).acquire().release()
    assert pool_of(gate, "a/b").limit is None
    gate.set_limit("a/b", 20)
    before = pool_of(gate, "a/b").cooling
    gate.slot("a/b", timeout=0).acquire().release()
    assert pool_of(gate, "a/b").cooling == before + 1


def test_limits_of_the_environment_beat_hand_file_and_default(box: Box) -> None:
    """HEADGATE_LIMITS, then what was set by hand, then the file, then the default."""

    def seen(env: dict[str, str]) -> tuple[object, object]:
        program = box.python(
            "pool = gate.status().pool('*/claude-opus-*'); print(pool.limit, pool.source)", env=env
        )
        limit, source = program.line().split()
        return int(limit), source

    beaten = {"HEADGATE_LIMITS": "*/claude-opus-*=9"}
    assert seen({}) == (4, "default")
    assert seen(beaten) == (9, "environment")
    box.config('[pools."*/claude-opus-*"]\nlimit = 6\n')
    assert seen({}) == (6, "file")
    box.headgate("limits", "set", "*/claude-opus-*", "7")
    assert seen({}) == (7, "hand")
    assert seen(beaten) == (9, "environment")
    box.headgate("limits", "restore", "*/claude-opus-*")
    assert seen({}) == (6, "file")


def test_limits_of_the_environment_count_for_their_process_only(box: Box) -> None:
    """Whoever has a wider view is let in where others wait; and settles the others by their own."""
    box.headgate("limits", "set", "a/b", "1")
    holder = box.holder()
    waiter = box.waiter()
    wide = box.holder("a/b", env={"HEADGATE_LIMITS": "a/b=2"})
    assert waiter.silent()
    assert wide.end() == 0
    assert waiter.silent()
    assert holder.end() == 0
    assert waiter.line() == "up"
    assert waiter.end() == 0


def test_an_edited_file_counts_for_those_who_wait(box: Box) -> None:
    """The configuration file is followed while a process waits, within about two seconds."""
    box.config('[pools."a/b"]\nlimit = 1\n')
    holder = box.holder()
    waiter = box.waiter()
    box.config('[pools."a/b"]\nlimit = 2\n')
    begun = time.monotonic()
    assert waiter.line() == "up"
    assert time.monotonic() - begun < 5
    assert waiter.end() == 0
    assert holder.end() == 0


def test_a_file_with_a_mistake_changes_nothing(box: Box) -> None:
    """While the file cannot be used the last good one counts; repaired, it counts again."""
    box.config('[pools."a/b"]\nlimit = 1\n')
    gate = box.gate()
    holder = gate.slot("a/b").acquire()
    waiter = box.waiter()
    box.config('[pools."a/b"]\nlimit = "many"\n')
    time.sleep(1.2)  # longer than anyone takes to look
    assert pool_of(gate, "a/b").limit == 1
    assert waiter.silent()
    box.config('[pools."a/b"]\nlimit = 2\n')
    assert waiter.line() == "up"
    assert waiter.end() == 0
    holder.release()


def test_positions_move_up_across_processes(full: Box) -> None:
    """A waiter hears that the one before it has left, and `queue` says the same."""
    first = full.waiter()
    second = full.run("-m", "a/b", "--", "true")
    assert "2nd in line" in second.line(stream="stderr")
    first.send(15)
    assert first.wait() == 143
    assert "1st in line" in second.line(stream="stderr")
    queue = json.loads(full.headgate("queue", "--json"))
    assert [spot["position"] for spot in queue["waiting"]] == [1]


def test_max_hold_ends_an_async_body(box: Box) -> None:
    """The body is cancelled and the block raises HoldExpiredError."""
    box.config('[pools."a/b"]\nlimit = 1\nmax_hold = "100ms"\n')
    script = """
import asyncio
async def program():
    try:
        async with gate.slot("a/b"):
            await asyncio.sleep(1000)
    except HoldExpiredError as error:
        print("expired", "max_hold" in str(error), asyncio.current_task().cancelling())
asyncio.run(program())
print(len(gate.queue().running))
"""
    program = box.python(script)
    assert program.line() == "expired True 0"
    assert program.line() == "0"
    assert program.wait() == 0
    assert len(box.events("overdue")) == 1


def test_max_hold_gives_the_seat_on_after_the_body_has_ended(box: Box) -> None:
    """A body that takes its time to tidy up keeps the seat until it is done."""
    box.config('[pools."a/b"]\nlimit = 1\nmax_hold = "100ms"\n')
    script = """
import asyncio
async def program():
    async with gate.slot("a/b"):
        try:
            print("up", flush=True)
            await asyncio.sleep(1000)
        finally:
            sys.stdin.read()
            print("tidied", time.monotonic(), flush=True)
try:
    asyncio.run(program())
except HoldExpiredError:
    pass
"""
    program = box.python(script)
    assert program.line() == "up"
    waiter = box.waiter()
    until(lambda: box.events("overdue"))
    assert waiter.silent(for_seconds=0.5)
    program.go()
    assert waiter.line() == "up"
    started = time.monotonic()
    word, at = program.line().split()
    assert word == "tidied"
    assert float(at) <= started
    assert waiter.end() == 0


def test_max_hold_leaves_a_thread_alone_and_keeps_its_seat(box: Box) -> None:
    """A thread cannot be ended from outside: it is told through on_end, and keeps its seat."""
    box.config('[pools."a/b"]\nlimit = 1\nmax_hold = "100ms"\n')
    gate = box.gate()
    told = threading.Event()
    lease = gate.slot("a/b", on_end=lambda _: told.set()).acquire()
    assert told.wait(LONG)
    with pytest.raises(NoRoomError):
        gate.slot("a/b", timeout=0).acquire()
    assert lease.release()


def test_max_hold_ends_a_program_before_its_seat_goes_on(box: Box) -> None:
    """`run` ends a program that holds too long, says so, and only then does the next one start."""
    box.config('[pools."a/b"]\nlimit = 1\nmax_hold = "300ms"\n')
    mark = box.folder / "ended"
    slow = f"trap 'sleep 0.5; touch {mark}; exit 9' TERM; echo up; while :; do sleep 0.05; done"
    program = box.run("-m", "a/b", "--", "sh", "-c", slow)
    assert program.line() == "up"
    look = f"test -e {mark} && echo after || echo before"
    waiter = box.run("-m", "a/b", "--", "sh", "-c", look)
    assert waiter.line() == "after"
    assert program.wait() == 9
    assert "max_hold" in program.line(stream="stderr")
    assert waiter.wait() == 0


def test_max_hold_ends_an_orphan_too(box: Box) -> None:
    """A program whose wrapper was killed is ended by whoever waits for its seat."""
    box.config('[pools."a/b"]\nlimit = 1\nmax_hold = "500ms"\n')
    program = box.run("-m", "a/b", "--", "sh", "-c", "echo $$; exec sleep 1000")
    pid = int(program.line())
    program.kill()
    waiter = box.waiter()
    assert waiter.line() == "up"
    assert gone(pid)
    assert waiter.end() == 0


def test_cancel_ends_an_async_body(box: Box) -> None:
    """`headgate cancel` reaches a Python program's block as CancelledWorkError."""
    script = """
import asyncio
async def program():
    try:
        async with gate.slot("a/b") as lease:
            print(lease.id, flush=True)
            await asyncio.sleep(1000)
    except CancelledWorkError:
        print("cancelled", flush=True)
asyncio.run(program())
"""
    program = box.python(script)
    box.headgate("cancel", program.line())
    assert program.line() == "cancelled"
    assert program.wait() == 0
    assert box.left_over() == {}


def test_cancel_takes_a_waiter_of_another_process_out_of_the_line(full: Box) -> None:
    """The waiter ends at once with headgate's own code, and says that it was not started."""
    waiter = full.run("-m", "a/b", "--", "echo", "up")
    assert "waits" in waiter.line(stream="stderr")
    gate: Gate = full.gate()
    assert gate.cancel(gate.queue().waiting[0].id) == "withdrawn"
    assert waiter.wait() == 125
    assert "not started: cancelled by hand" in waiter.line(stream="stderr")
    assert waiter.line() == ""


def test_how_much_is_kept_counts_at_once(box: Box) -> None:
    """A store's events are trimmed to what the file says, by a process that read it before."""
    box.config("[store]\nevents = 1_000\n")
    gate = box.gate()

    def turn_over() -> int:
        for _ in range(60):
            with gate.slot("a/b"):
                pass
        return len(box.rows("event"))

    until(lambda: turn_over() > 400)
    box.config("[store]\nevents = 100\n")
    until(lambda: turn_over() <= 220)
    assert turn_over() >= 100
