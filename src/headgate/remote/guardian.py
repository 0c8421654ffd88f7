"""Ends what was started under leases of a server, in time, whatever becomes of its starter.

It is a process of its own, in a session of its own, that runs this file alone: it must work when
its parent is stopped, killed or busy. Its parent tells it on its input, a line each:

    until N     the parent was heard of: what it holds may go on until N (milliseconds of the clock
                that counts sleep too, CLOCK_BOOTTIME); 0 for ever
    hold MARK   a lease is held, and its programs carry this mark in their environment
    drop MARK   it is not held any more
    bye         all is over

At the end of the time it kills the programs of all marks, and the parent itself if that still holds
anything: it is stopped, or works on in threads that nobody can end. If the input ends without a
`bye`, the parent was killed. Then its programs go on until the end of the time.
"""

import os
import select
import signal
import sys
import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_TICK = 0.5
"""At most so long is slept: timers do not count the time for which the machine sleeps."""
_AGAIN = 0.02


def now() -> int:
    """Milliseconds of a clock that nobody sets and that counts sleep."""
    return time.clock_gettime_ns(_CLOCK) // 1_000_000


def carriers(marks: set[bytes]) -> list[int]:
    """The living processes that carry one of these marks."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - nothing is imported here that is not needed
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:  # noqa: PTH123 - as above
                if not marks.isdisjoint(file.read().split(b"\0")):
                    found.append(int(name))
        except OSError:
            continue
    return found


def kill(pid: int) -> None:
    """Kill a process, if it is still there."""
    try:  # noqa: SIM105 - nothing is imported here that is not needed
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


class Guardian:
    """What the parent has said so far."""

    def __init__(self, parent: int) -> None:
        self.parent = parent
        self.marks: set[bytes] = set()
        self.until = 0
        self.over = False
        self.alone = False
        """Whether the parent was killed."""

    def hear(self, line: bytes) -> None:
        """Take in what the parent says."""
        word, _, rest = line.partition(b" ")
        if word == b"until":
            self.until = int(rest)
        elif word == b"hold":
            self.marks.add(b"HEADGATE_LEASE=" + rest)
        elif word == b"drop":
            self.marks.discard(b"HEADGATE_LEASE=" + rest)
        elif word == b"bye":
            self.over = True

    def left(self) -> float:
        """In how many seconds the time is up."""
        return (self.until - now()) / 1_000 if self.until and self.marks else float("inf")

    def end_all(self) -> None:
        """End the parent if it still holds something, and all programs."""
        if not self.alone and os.getppid() == self.parent:
            kill(self.parent)
        self.alone = True
        empty = 0
        while empty < 2:  # one that is just starting another program carries nothing for a moment
            pids = carriers(self.marks)
            empty = 0 if pids else empty + 1
            for pid in pids:
                kill(pid)
            time.sleep(_AGAIN)
        self.over = True


def main() -> None:
    """Guard until it is over."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    guardian = Guardian(int(sys.argv[1]))
    guardian.until = int(sys.argv[2])  # so that there is no moment in which it knows nothing
    guardian.marks = {b"HEADGATE_LEASE=" + mark.encode() for mark in sys.argv[3:]}
    poll = select.poll()
    poll.register(0, select.POLLIN)
    rest = b""
    while not guardian.over:
        if guardian.left() <= 0:
            guardian.end_all()
        elif guardian.alone:
            if not carriers(guardian.marks):
                return
            time.sleep(max(0, min(_TICK, guardian.left())))
        elif poll.poll(max(0, min(_TICK, guardian.left())) * 1_000):
            data = os.read(0, 65_536)
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                guardian.hear(line)
            guardian.alone = not data


if __name__ == "__main__":
    main()
