"""What has changed since the line was last settled: who may be let in now, who was not before.

After every transaction the line is settled: nobody waits who need not. So whoever can be let in now
waits for seats that were freed since, or has come to the head of a lane.
"""

from headgate.core.quantities import MOST


class LineChanges:
    """Where to look for somebody who can be let in."""

    def __init__(self) -> None:
        self.everywhere = False
        """Whether anybody may profit: time has passed, settings have changed."""
        self.freed: dict[tuple[str, str], int] = {}
        """Seats that were given back, by pool and machine."""
        self.lanes: set[int] = set()
        """Lanes that may have another first ticket."""

    def __bool__(self) -> bool:
        return self.everywhere or bool(self.freed) or bool(self.lanes)

    def free(self, pool: str, machine: str, seats: int = MOST) -> None:
        """Note that seats of a pool were given back, or that it may have more of them now."""
        self.freed[pool, machine] = self.freed.get((pool, machine), 0) + seats
