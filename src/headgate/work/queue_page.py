"""One page of the queue, filtered, with the last line that each job has printed."""

from headgate.core.display.snapshots import JobStatus, Queue, Running
from headgate.core.jobs.states import ENDED, Word
from headgate.gate import Gate
from headgate.ledger.queries.work_filter import WorkFilter
from headgate.work.log_file import last_line, last_words, log_path

_MOST = 1_000_000


class QueuePage:
    """What of the queue is wanted, and how it is found."""

    def __init__(
        self, wanted: WorkFilter, *, state: str | None, size: int, page: int, ended: bool
    ) -> None:
        self.wanted = wanted
        self.state = state
        self._size = size
        self._page = page
        self._all = ended or state in set(ENDED)

    @property
    def skip(self) -> int:
        """How many of those who wait come before this page."""
        return (self._page - 1) * self._size

    def find(
        self, gate: Gate, *, readable: bool = False
    ) -> tuple[Queue, int, list[JobStatus] | None]:
        """One page, how much runs in all, and what has ended if that is wanted."""
        queue = gate.queue(most=self._size, skip=self.skip, wanted=self.wanted)
        running = queue.total_running
        if self.wanted.takes_all and running >= self._size:
            running = max(gate.status().total_running, self._size)
        ended = self._ended(gate) if self._all else None
        shown = tuple(with_output(work, gate, readable=readable) for work in queue.running)
        return self._of_state(queue._replace(running=shown), running, ended)

    def _ended(self, gate: Gate) -> list[JobStatus]:
        wanted = self.wanted
        found = gate.jobs.finished(self._size if wanted.takes_all and not self.state else _MOST)
        fits = [job for job in found if wanted.takes(job.key, job.task, job.name)]
        return [job for job in fits if self.state in {None, job.state}][: self._size]

    def _of_state(
        self, queue: Queue, running: int, ended: list[JobStatus] | None
    ) -> tuple[Queue, int, list[JobStatus] | None]:
        if self.state is None:
            return queue, running, ended
        if self.state != Word.RUNNING:
            queue, running = queue._replace(running=()), 0
        if self.state != Word.QUEUED:
            queue = queue._replace(waiting=(), total_waiting=0)
        aside = tuple(job for job in queue.aside if job.state == self.state)
        total = len(aside) if len(queue.aside) == queue.total_aside else queue.total_aside
        return queue._replace(aside=aside, total_aside=total if aside else 0), running, ended


def with_output(work: Running, gate: Gate, *, readable: bool = False) -> Running:
    """A running job with the last line of its output; for people, what an event there says."""
    if not work.attempts:
        return work
    path = log_path(gate.jobs.folder, work.id, work.attempts)
    return work._replace(last_line=last_words(path) if readable else last_line(path))
