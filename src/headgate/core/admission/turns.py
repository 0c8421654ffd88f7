"""Who comes before whom where tasks take turns."""

from collections.abc import Iterable

from headgate.core.admission.next_in_line import Turn
from headgate.core.named_tuple import NamedTuple


class TaskLine(NamedTuple):
    """The tickets of one task that wait for a pool, of one priority."""

    first: Turn
    """When the first of them comes up."""
    waiting: int


def ahead_in_turn(own: Turn, place: int, others: Iterable[TaskLine]) -> int:
    """How many come before the ticket of a task that has so many of its own before it.

    In each round each task has one turn, in the order of their first ones. So a task that comes up
    before `own` has one turn more than this one before that ticket; every other has as many.
    """
    return place + sum(
        min(other.waiting, place + 1 if other.first < own else place) for other in others
    )
