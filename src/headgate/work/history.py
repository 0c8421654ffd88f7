"""All that is known of one piece of work, wherever it is shown."""

from headgate.core.display import json_shapes
from headgate.core.display.deadlock import Deadlock
from headgate.core.display.json_shapes import Json
from headgate.core.display.snapshots import (
    AttemptStatus,
    JobStatus,
    Metered,
    Past,
    Running,
    Waiting,
)
from headgate.core.key_patterns import matches
from headgate.core.named_tuple import NamedTuple
from headgate.gate import Gate
from headgate.work.queue_page import with_output


class History(NamedTuple):
    """What is known of a piece of work."""

    id: int
    found: Waiting | Running | Past
    job: JobStatus | None
    pools: list[str]
    """The pools that it takes seats in, while it does."""
    attempts: tuple[AttemptStatus, ...]
    deadlock: Deadlock | None
    metered: Metered | None

    def json(self) -> Json:
        """As it is shown to programs."""
        found, past = self.found, None
        if not isinstance(found, Past):
            it = json_shapes.work(found, self.job)
        else:
            past = found.events
            it = (
                json_shapes.past_work(self.id, past)
                if self.job is None
                else json_shapes.work(self.job)
            )
        return json_shapes.history(
            it,
            self.pools,
            past,
            self.attempts,
            deadlock=self.deadlock and self.deadlock.words,
            meter=self.metered,
        )


def history(gate: Gate, id: int) -> History | None:
    """Look it up; None if nothing is known of it."""
    found, job = gate.why(id), gate.job(id)
    pools = []
    if isinstance(found, Past):
        if job is None and not found.events:
            return None
    else:
        pools = [one.pool for one in gate.status().pools if matches(one.pool, found.key)]
    if isinstance(found, Running):
        found = with_output(found, gate)
    return History(
        id=id,
        found=found,
        job=job,
        pools=pools,
        attempts=gate.jobs.attempts(id) if job else (),
        deadlock=gate.deadlock_of(id),
        metered=gate.metered(id),
    )
