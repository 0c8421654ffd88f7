"""What has changed since the line was last settled: who may be let in now, who was not before.

After every transaction the line is settled: nobody waits who need not. So whoever can be let in now
waits for seats that were freed since, or has come to the head of a lane.
"""

from collections.abc import Collection, Sequence

from headgate.core.quantities import MOST


class LineChanges:
    """Where to look for somebody who can be let in."""

    __slots__ = ("_freed", "everywhere", "lanes", "some")

    def __init__(self) -> None:
        self.some = False
        """Whether there is any change."""
        self.everywhere = False
        """Whether anybody may profit: time has passed, settings have changed."""
        self.lanes: set[int] = set()
        """Lanes that may have another first ticket."""
        self._freed: list[tuple[Sequence[str], str, int, Collection[str]]] = []

    def look_everywhere(self) -> None:
        """Note that anybody may profit."""
        self.some = self.everywhere = True

    def change_lane(self, lane: int) -> None:
        """Note that a lane may have another first ticket."""
        self.some = True
        self.lanes.add(lane)

    def free(
        self,
        pools: Sequence[str],
        machine: str,
        seats: int = MOST,
        resting: Collection[str] = (),
    ) -> None:
        """Note that seats were given back, or that pools may have more; some of them rest."""
        self.some = True
        self._freed.append((pools, machine, seats, resting))

    def freed(self) -> dict[tuple[str, str], int]:
        """Seats that were given back and do not rest, by pool and machine."""
        found: dict[tuple[str, str], int] = {}
        for pools, machine, seats, resting in self._freed:
            for pool in pools:
                if pool not in resting:
                    found[pool, machine] = found.get((pool, machine), 0) + seats
        return found
