"""When the current prompt of each task began: its requests stand in the line by that.

A turn begins with a request, goes on while the answers have the agent call tools, and ends with an
answer that does not. So an agent in the middle of a turn is not put behind those who have only just
come. Requests for another model, such as those for a title, are turns of their own.
"""

from collections import OrderedDict

from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds

_MOST = 1_000
_FORGOTTEN = Seconds(3_600)
"""A turn in which nothing was asked for so long was given up."""
Turn = tuple[str, str]
"""The conversation, and the key of its requests."""


class _Running(NamedTuple):
    began: Seconds
    last: Seconds


class Turns:
    """The turns of one agent's conversations."""

    def __init__(self) -> None:
        self._running: OrderedDict[Turn, _Running] = OrderedDict()

    def since(self, turn: Turn, now: Seconds) -> Seconds:
        """When the turn began that a request of this moment belongs to."""
        known = self._running.pop(turn, None)
        began = known.began if known and now - known.last < _FORGOTTEN else now
        self._running[turn] = _Running(began, now)
        if len(self._running) > _MOST:
            self._running.popitem(last=False)
        return began

    def answered(self, turn: Turn, *, calls_tool: bool) -> None:
        """An answer is complete: the turn has ended if it calls no tool."""
        if not calls_tool:
            self._running.pop(turn, None)
