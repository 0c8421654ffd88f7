"""What the rounds of a probe say: which number to try next, and which one to recommend.

The numbers double until one is bad, then the gap between the last good and the first bad is halved.
A number is bad if copies failed or were refused, or if each took half as long again as alone while
hardly more got done per second. One that memory would not suffice for counts as bad without being
tried.
"""

from collections.abc import Iterable, Sequence

from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import show_seconds, show_size
from headgate.core.times import Seconds

_SLOWER = 1.5
_GAIN = 0.25
"""The least part of what added copies could get done that they must."""


class Copy(NamedTuple):
    """How one copy ended."""

    seconds: Seconds
    memory: int
    """The most that it and all it started took at once, in bytes."""
    cpu: Seconds
    """Seconds of processor time."""
    code: int | None
    """Its exit code, minus the signal that ended it; None if we ended it."""
    refused: str = ""
    """What upstream said to it, if that was a refusal."""

    @property
    def failed(self) -> bool:
        """Whether it did not do its work."""
        return self.code != 0 or bool(self.refused)


class Round(NamedTuple):
    """Some copies at once."""

    copies: tuple[Copy, ...]
    wall: Seconds
    """Seconds until the last had ended."""
    peak: int
    """The most that all of them took at once, in bytes."""
    stopped: str = ""
    """Why it was broken off, if it was."""

    @property
    def size(self) -> int:
        """How many there were."""
        return len(self.copies)

    @property
    def seconds(self) -> Seconds:
        """How long a copy took on average."""
        return _total(copy.seconds for copy in self.copies) / max(1, self.size)

    @property
    def memory(self) -> int:
        """What the largest copy took."""
        return max((copy.memory for copy in self.copies), default=0)

    @property
    def cpu(self) -> Seconds:
        """Seconds of processor time that a copy took on average."""
        return _total(copy.cpu for copy in self.copies) / max(1, self.size)

    @property
    def failed(self) -> int:
        """How many did not do their work."""
        return sum(copy.failed for copy in self.copies)

    @property
    def rate(self) -> float:
        """Copies per second."""
        return self.size / max(self.wall, 0.001)


def fault(it: Round) -> str:
    """What went wrong in a round, in words; empty if nothing did."""
    if it.stopped:
        return it.stopped
    if not it.failed:
        return ""
    late = sum(copy.code is None for copy in it.copies)
    refused = sorted({copy.refused for copy in it.copies if copy.refused})
    codes = sorted({copy.code for copy in it.copies if copy.code}, key=abs)
    how = [f"{late} took too long"] if late else []
    how += [f"upstream said {', '.join(refused)}"] if refused else []
    how += [_ending(code) for code in codes[:3]]
    whole = "it failed" if it.size == 1 else f"{it.failed} of {it.size} failed"
    return f"{whole} ({'; '.join(how)})"


def _ending(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"ended by signal {-code}"


def worse(it: Round, alone: Round, best: Round) -> str:
    """Why so many are too many; empty if they are not."""
    if it.stopped or it.failed:
        return fault(it)
    slower = it.seconds / max(alone.seconds, 0.001)
    gain = 1 + _GAIN * (it.size / max(1, best.size) - 1)
    if slower > _SLOWER and it.rate < best.rate * gain:
        took = f"{show_seconds(it.seconds)} each, alone {show_seconds(alone.seconds)}"
        return f"each took {slower:.1f} times as long ({took}), and hardly more got done"
    return ""


class Search:
    """Which number to try next."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.good = 0
        self.bad: int | None = None

    def next(self) -> int | None:
        """The next number of copies; None when it is known how many are good."""
        if self.bad is None:
            return None if self.good >= self.most else min(max(1, self.good * 2), self.most)
        return None if self.bad - self.good <= 1 else (self.good + self.bad) // 2

    def record(self, count: int, *, bad: bool) -> None:
        """Keep whether a number of copies was too many."""
        if bad:
            self.bad = count
        else:
            self.good = count


def needs(count: int, rounds: Sequence[Round], free: int, floor: int) -> str:
    """Why memory will not suffice for so many, by what they took so far; empty if it will."""
    each = max((it.memory for it in rounds), default=0)
    if free - count * each >= floor:
        return ""
    kept = f"{show_size(free)} are free, and {show_size(floor)} have to stay so"
    if not rounds:
        return f"there is no memory to try it in: {kept}"
    return f"{count} would take {show_size(count * each)}, at {show_size(each)} each: {kept}"


def _total(times: Iterable[Seconds]) -> Seconds:
    return sum(times, Seconds(0))
