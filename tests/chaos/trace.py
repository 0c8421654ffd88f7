"""What programs of jobs have written about themselves: an outside count of every run.

Each program appends a line to one file when it begins and one when it ends, and the storm appends
one before it kills a program. Appending is atomic, so the order of the lines is the order of what
happened; a run that has begun and neither ended nor been killed goes on.
"""

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

SCRIPT = """
read -r up _ </proc/uptime; echo "start ${0##*-} $$ $PPID $HEADGATE_JOB $HEADGATE_ATTEMPT $up" >>%s
sleep %s
read -r up _ </proc/uptime; echo "end ${0##*-} $$ $PPID $HEADGATE_JOB $HEADGATE_ATTEMPT $up" >>%s
"""


class Runs(NamedTuple):
    """All runs, by the numbers of their jobs."""

    started: Counter[int]
    ended: Counter[int]
    overlaps: list[str]
    most: int

    @property
    def starts(self) -> int:
        return self.started.total()


class Trace:
    """The file, and the programs that write it."""

    def __init__(self, path: Path, mark: str) -> None:
        self.path = path
        path.touch()
        self._mark = mark
        self._program = re.compile(rb"sh\0-c\0.*\0" + mark.encode() + rb"(\d+)\0", re.DOTALL)

    def command(self, number: int, nap: str) -> list[str]:
        return ["sh", "-c", SCRIPT % (self.path, nap, self.path), f"{self._mark}{number}"]

    def is_program(self, line: bytes) -> bool:
        return self._program.fullmatch(line) is not None

    def number(self, line: bytes) -> int:
        match = self._program.fullmatch(line)
        assert match
        return int(match[1])

    def note_kill(self, number: int, pid: int) -> None:
        with self.path.open("ab", buffering=0) as file:
            file.write(f"killed {number} {pid}\n".encode())

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.path.read_text().splitlines()]

    def ended(self) -> int:
        """How many runs are over."""
        return sum(line[0] != "start" for line in self.lines())

    def last_started_by(self, runner: int) -> list[int]:
        """The job whose program a runner has started last, if it has started one."""
        mine = [
            int(line[1]) for line in self.lines() if line[0] == "start" and line[3] == str(runner)
        ]
        return mine[-1:]

    def read(self) -> Runs:
        """Replay the file."""
        runs = Runs(Counter(), Counter(), [], 0)
        going: dict[tuple[str, str], str] = {}
        most = 0
        for word, number, pid, *rest in self.lines():
            if word == "start":
                others = [other for other in going if other[0] == number]
                if others:
                    runs.overlaps.append(f"job {number}: {pid} began while {others} ran, {rest}")
                going[number, pid] = word
                runs.started[int(number)] += 1
            else:
                going.pop((number, pid), None)
                if word == "end":
                    runs.ended[int(number)] += 1
            most = max(most, len(going))
        return runs._replace(most=most)
