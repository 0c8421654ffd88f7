"""Run a program under a lease: wait for seats, start it, mind it, give the seats back.

The seats are given back when the last process of the program has ended. If the program itself is
done but something it started still runs, we do not wait for that: the lease is left behind, held
by those processes through their pipe and their mark, and freed by whoever looks after the last
has gone. What has neither any more cannot hold it.
"""

import os
import signal
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from headgate.core.agents.meters import Meter
from headgate.core.agents.replaced_variables import put_back
from headgate.core.display.snapshots import Waiting
from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import parse_priority
from headgate.core.times import Seconds
from headgate.errors import HeadgateError
from headgate.gate import Gate, Lease
from headgate.gate.liveness.process_marks import MARK, carriers, end, family
from headgate.runner.child import Child, describe, find_program
from headgate.runner.leftover_keeper import stay_for_leftovers

if TYPE_CHECKING:
    from headgate.core.agents.run_limits import RunLimits
    from headgate.runner.limits_watch import LimitsWatch
    from headgate.wire.point_agent import WirePlan
    from headgate.wire.supervise import Wire

CANNOT_START = 126
NOT_FOUND = 127
_STOPPING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Program(NamedTuple):
    """What to run, and how."""

    argv: list[str]
    key: str | None = None
    task: str | None = None
    priority: str | int | None = None
    since: float | None = None
    weight: int = 1
    roles: Sequence[str] = ()
    timeout: float | str | None = None
    grace: Seconds = Seconds(10)
    plan: "WirePlan | None" = None
    """How it is metered; None if nothing beside its seats is."""
    queue_timeout: Seconds | None = None
    """For how long each of its requests may wait for a seat; None if the configuration says so."""
    limits: "RunLimits | None" = None
    """When it is ended, whatever it does; None if never."""

    @property
    def own_key(self) -> str | None:
        """What it holds seats of for its life: of no model if each request takes its own."""
        by_request = self.plan is not None and self.plan.meter is Meter.REQUESTS
        return None if by_request else self.key

    @property
    def own_task(self) -> str | None:
        """Whom it is for, if somebody said so."""
        return self.task or os.environ.get("HEADGATE_TASK") or None


class _Stopped(BaseException):
    """A signal ended the wait."""

    def __init__(self, number: int) -> None:
        self.number = number


def run_program(
    gate: Gate,
    program: Program,
    *,
    say: Callable[[str], None],
    on_wait: Callable[[Waiting], None] | None = None,
    on_start: Callable[[Lease], None] | None = None,
) -> int:
    """Run a program when there is room for it; returns the exit code to end with."""
    ending: list[HeadgateError] = []
    try:
        find_program(program.argv[0])
    except OSError as error:
        return _cannot_start(program, error, say)
    if program.plan is not None:  # before it waits: its files may be replaced meanwhile
        import headgate.wire.beside  # noqa: F401
    try:

        def on_end(why: HeadgateError) -> None:
            ending.append(why)
            os.kill(os.getpid(), signal.SIGCHLD)

        slot = gate.slot(
            program.own_key,
            task=program.own_task,
            priority=program.priority,
            since=program.since,
            weight=program.weight,
            roles=program.roles,
            timeout=program.timeout,
            on_wait=on_wait,
            on_end=on_end,
            label=describe(program.argv[0]),
            marked=True,
        )
        gate.get_ready()
        with _StopOnSignal(gate):
            lease = slot.acquire()
        if on_start is not None:
            on_start(lease)
        return _under(gate, lease, program, ending, say)
    except _Stopped as stopped:
        return 128 + stopped.number
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _cannot_start(program: Program, error: OSError, say: Callable[[str], None]) -> int:
    gone = isinstance(error, FileNotFoundError) and "/" not in program.argv[0]
    where = " on the PATH of this shell" if gone else ""
    say(f"cannot start {program.argv[0]}: {error.strerror}{where}")
    return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_START


class _Started(NamedTuple):
    """A program that runs, and the wire beside it."""

    child: Child
    wire: "Wire | None"

    def over(self, *, left: bool) -> None:
        """It has ended, and perhaps left something running, which goes on to use the wire."""
        if self.wire is not None:
            self.child.on_other_end = None
            (self.wire.leave if left else self.wire.end)()


def _start(gate: Gate, lease: Lease, program: Program) -> _Started:
    """Start a program; OSError if that cannot be."""
    argv, variables, wire = program.argv, dict[str, str](), None
    if program.plan is not None:
        from headgate.wire.beside import put_beside

        argv, variables, wire = put_beside(
            gate,
            lease,
            program.plan,
            program.argv,
            key=program.key,
            priority=parse_priority(program.priority),
            queue_timeout=program.queue_timeout,
            task_given=program.own_task is not None,
        )
    try:
        before = put_back(os.environ)  # a wire around this run is not for its program
        child = Child(argv, {**before, **variables, **lease.environment}, gate.life_fd)
    except OSError:
        if wire is not None:
            wire.end()
        raise
    if wire is not None:
        child.on_other_end = wire.ended
    return _Started(child, wire)


def _under(
    gate: Gate,
    lease: Lease,
    program: Program,
    ending: list[HeadgateError],
    say: Callable[[str], None],
) -> int:
    terminal = _Terminal()
    try:
        started = _start(gate, lease, program)
    except OSError as error:
        lease.release()
        return _cannot_start(program, error, say)
    child = started.child
    gate.started(lease, child.pid)
    mark = lease.environment[MARK]
    watch = _watch(gate, program, started)
    while child.reap() or child.status is None:
        if child.status is not None:
            break
        if ending:
            say(f"ending {describe(program.argv[0])}: {ending[0]}")
            _end(child, mark, program.grace)
            break
        if watch is not None and (why := watch.why_over()):
            say(f"ending {describe(program.argv[0])}: {why}")
            _end(child, mark, program.grace)
            break
        pause = None if watch is None else watch.pause()
        if child.next_signal(pause) == signal.SIGTSTP or child.stopped:
            gate.suspend()
            child.go_on()
    left = _left(child, mark)
    holding = gate.worker_jobs.programs(lease) if left else set()
    if left:
        what = f"{describe(program.argv[0])} has ended, but something it started still runs"
        say(
            f"{what} (pid {', '.join(map(str, sorted(holding or left)))}); {_seats(lease, holding)}"
        )
    started.over(left=bool(holding))
    if holding:
        stay_for_leftovers(gate, mark)
    else:
        lease.release()
    terminal.restore()
    return child.exit_code


def _watch(gate: Gate, program: Program, started: _Started) -> "LimitsWatch | None":
    """The watch over a program that has limits."""
    if program.limits is None:
        return None
    from headgate.runner.limits_watch import LimitsWatch

    profile = gate.profile_of(program.argv)
    return LimitsWatch(profile, program.limits, program.key or "", started.wire)


def _seats(lease: Lease, holding: set[int]) -> str:
    """What becomes of the seats when a program has left something running."""
    if holding:
        return f"its seats stay taken until that ends (headgate cancel {lease.id})"
    return (
        f"its seats are free all the same: it has dropped its environment ({MARK}) and its open "
        "files, by which headgate would know it"
    )


def _end(child: Child, mark: str, grace: Seconds) -> None:
    end(lambda: _rest(child) | _marked(mark), grace)
    child.reap()


def _left(child: Child, mark: str) -> set[int]:
    """What a program that has ended left running."""
    if child.adopts:
        return _rest(child) if child.reap() else set()
    return _marked(mark)


def _rest(child: Child) -> set[int]:
    """What still runs of a program, by parentage."""
    child.reap()
    return family(os.getpid()) - {os.getpid()} if child.adopts else family(child.pid)


def _marked(mark: str) -> set[int]:
    return {pid for pids in carriers([mark]).values() for pid in pids}


class _StopOnSignal:
    """While waiting, SIGTERM and its like end the wait cleanly, as Ctrl-C does.

    A signal that we were started to ignore (nohup) is ignored. Ctrl-Z stops us between two
    transactions: in the midst of one we would keep everyone out of the store.
    """

    def __init__(self, gate: Gate) -> None:
        self._handlers = dict.fromkeys(_STOPPING, _stop)
        self._handlers[signal.SIGTSTP] = lambda *_: gate.suspend()
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._handlers.items():
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, handler)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _stop(number: int, _: FrameType | None) -> None:
    raise _Stopped(number)


class _Terminal:
    """Remembers how the terminal was set: a program that is killed may leave it in a bad state."""

    def __init__(self) -> None:
        self._before = None
        if os.isatty(0):
            import termios

            self._before = termios.tcgetattr(0)

    def restore(self) -> None:
        """Set the terminal as it was, if it is still ours."""
        if self._before is not None:
            import termios

            try:
                if os.tcgetpgrp(0) == os.getpgrp():
                    termios.tcsetattr(0, termios.TCSADRAIN, self._before)
            except (OSError, termios.error):
                pass
