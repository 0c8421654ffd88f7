"""The seats a program holds, and how they are given back."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headgate.errors import HeadgateError
from headgate.gate.strays import MARK

if TYPE_CHECKING:
    from headgate.gate.clerk import Clerk


class Lease:
    """All the seats one admitted piece of work holds. Give them back with `release`, once or often.

    id        a number never used again, as in `headgate why 12`
    key       what the work uses; empty for work that uses no model
    task      whom it is for
    weight    how many seats it takes in each of its pools
    waited    how many seconds it stood in line
    """

    def __init__(
        self, clerk: "Clerk", id: int, *, key: str, task: str, weight: int, mark: str, waited: float
    ) -> None:
        self.id = id
        self.key = key
        self.task = task
        self.weight = weight
        self.waited = waited
        self.ended_by: HeadgateError | None = None
        self._mark = mark
        self._clerk = clerk
        self.on_end: Callable[[HeadgateError], None] | None = None
        self._released = False

    @property
    def released(self) -> bool:
        """Whether the seats were given back by this program."""
        return self._released

    @property
    def environment(self) -> dict[str, str]:
        """What a program started under this lease should find in its environment."""
        return {MARK: self._mark, "HEADGATE_TASK": self.task}

    def release(self) -> bool:
        """Give the seats back now; True the first time, and False ever after. Any thread may."""
        with self._clerk.tiny_lock:
            first, self._released = not self._released, True
        if first:
            self._clerk.release(self.id)
        return first

    def end(self, error: HeadgateError) -> None:
        """Somebody wants this work to end: tell whoever does the work, once."""
        with self._clerk.tiny_lock:
            first = self.ended_by is None and not self._released
            if first:
                self.ended_by = error
        if first and self.on_end is not None:
            self.on_end(error)

    def __repr__(self) -> str:
        """Show what it is."""
        state = "released" if self._released else "held"
        return f"<Lease {self.id} {self.key or 'host'} {state}>"
