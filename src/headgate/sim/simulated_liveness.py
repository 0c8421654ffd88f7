"""Who is alive where no process is real: in simulations, benchmarks and tests.

It answers as `gate/liveness/member_pipes.py` does, and is held to the same conformance suite
(`tests/gate/test_who_is_alive.py`). Nobody lives who has not joined.
"""

from collections.abc import Callable, Iterable

from headgate.ledger.transaction.rows import Member


class SimulatedLiveness:
    """The members of a made-up world. They join and end when they are told to.

    A member has the same two pipes as a real one: `life` is open in its process and in every
    program that inherited it, `wake` in its own process only.
    """

    def __init__(self, *members: str) -> None:
        self._life = set(members)
        self._wake = set(members)
        self.marks: set[str] = set()
        """What living programs carry in their environment, whoever started them."""
        self.stopped_members: set[str] = set()
        self.unbegun: set[int] = set()
        """Leases that nobody has begun to use."""

    def join(self, member: str) -> None:
        """A process becomes known as alive."""
        self._life.add(member)
        self._wake.add(member)

    def end(self, member: str) -> None:
        """A process has ended, and every program that inherited its pipe."""
        self._life.discard(member)
        self._wake.discard(member)

    def orphan(self, member: str) -> None:
        """A process has ended; a program that inherited its pipe lives on."""
        self._wake.discard(member)

    def freed_job_leases(self) -> set[str]:
        """Those of whom only such programs live."""
        return self._life - self._wake

    def dead(self, members: Iterable[tuple[Member, Callable[[], list[str]]]]) -> list[str]:
        """Those of whom nothing runs: no pipe is open, no program carries their mark."""
        return [
            member.id
            for member, marks in members
            if member.id not in self._life and self.marks.isdisjoint(marks())
        ]

    def listening(self, member: str, _: object = None) -> bool:
        """Whether the member's own process is there."""
        return member in self._wake

    def stopped(self, member: str, _: object = None) -> bool:
        """Whether the member's process is stopped."""
        return member in self.stopped_members

    def has_begun(self, member: str, lease: int) -> bool:
        """Whether the member has begun to use a lease."""
        return member in self._wake and lease not in self.unbegun

    def alive(self, member: str, _: object = None) -> bool:
        """Whether anything that inherited the member's life still runs."""
        return member in self._life
