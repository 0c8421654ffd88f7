"""Work that waits for each other in a circle, as people want to see it."""

from headgate.core.named_tuple import NamedTuple


class Step(NamedTuple):
    """A lease of a circle, and what keeps it there."""

    lease: int
    work: int
    """What it waits for."""
    after: tuple[int, ...]
    """The jobs that have to be done before that, down to the one that is held up."""
    pool: str
    """Which pool is full; empty if the work runs, and waits itself."""
    holders: tuple[int, ...]
    """The leases of the circle that would have to end."""
    is_job: bool

    @property
    def words(self) -> str:
        """The step as a sentence."""
        said = f"{self.lease} waits for {'job ' if self.is_job else ''}{self.work}"
        said += "".join(f", which comes after job {job}" for job in self.after)
        if not self.pool:
            return said
        return f"{said}, which needs {self.pool}, held by {' and '.join(map(str, self.holders))}"


class Deadlock(NamedTuple):
    """Leases that wait for each other in a circle; a lease may wait for itself."""

    steps: tuple[Step, ...]

    @property
    def words(self) -> str:
        """The circle as a sentence."""
        return "; ".join(step.words for step in self.steps)

    @property
    def advice(self) -> str:
        """What to do about it."""
        pools = dict.fromkeys(step.pool for step in self.steps if step.pool)
        room = "".join(f", or make room: headgate limits set '{pool}' N" for pool in pools)
        return f"headgate cancel {self.steps[-1].work}{room}"

    @property
    def name(self) -> str:
        """The same for the same leases."""
        return " ".join(str(id) for id in sorted(step.lease for step in self.steps))
