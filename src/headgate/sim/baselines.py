"""Other ways to govern, to compare headgate with: an oracle, fixed limits, and what others do."""

import random
from collections import deque

from headgate.sim.governors import SimulatedJob
from headgate.sim.upstream import ProviderAnswer, Upstream, Usage


class SimpleLine:
    """What the others have in common: a line in memory, seats counted, a cooldown."""

    def __init__(self, limit: int, cooldown: int = 0) -> None:
        self.limit = limit
        self._cooldown = cooldown
        self._line: deque[SimulatedJob] = deque()
        self._flying: dict[int, SimulatedJob] = {}
        self._sent: dict[int, int] = {}
        self._resting: deque[tuple[int, int]] = deque()
        self._paused = 0

    def ask(self, job: SimulatedJob, now: int) -> None:
        """Join the line."""
        self._line.append(job)

    def granted(self, now: int) -> list[int]:
        """Let in whoever fits."""
        found = []
        while self._line and now >= self._paused and self._fits(self._line[0], now):
            job = self._line.popleft()
            self._flying[job.id] = job
            self._sent[job.id] = now
            found.append(job.id)
        return found

    def _fits(self, job: SimulatedJob, now: int) -> bool:
        while self._resting and self._resting[0][0] <= now:
            self._resting.popleft()
        used = sum(other.weight for other in self._flying.values())
        return used + sum(weight for _, weight in self._resting) + job.weight <= self.limit

    def accepted(self, id: int, now: int) -> None:
        """Nothing is learned from it."""

    def refused(self, id: int, answer: ProviderAnswer, now: int) -> int | None:
        """Give the seat back; its agent backs off by itself."""
        self._flying.pop(id)
        self._sent.pop(id)
        return answer.retry_after or 1_000

    def ended(self, id: int, now: int, *, completed: bool) -> None:
        """Give the seat back."""
        job = self._flying.pop(id)
        self.took(now - self._sent.pop(id), now)
        if self._cooldown:
            self._resting.append((now + self._cooldown, job.weight))

    def took(self, took: int, now: int) -> None:
        """A request took so long."""

    def read(self, usage: Usage | None, asked: int, now: int) -> None:
        """Nobody here reads it."""

    def next_poll(self, now: int) -> int | None:
        """Nobody here asks for it."""
        return None

    def wakes(self, now: int) -> int | None:
        """When a rest or a pause is over."""
        times = [at for at, _ in self._resting if at > now]
        if self._paused > now:
            times.append(self._paused)
        return min(times, default=None)

    def restart(self, now: int) -> None:
        """Everything is forgotten but the limit."""
        self._line.clear()
        self._flying.clear()
        self._sent.clear()
        self._resting.clear()


class Backoff(SimpleLine):
    """No governor at all: clients that back off, each for itself, twice as long each time."""

    def __init__(self, seed: int) -> None:
        super().__init__(1_000_000)
        self._tries: dict[int, int] = {}
        self._dice = random.Random(seed)  # noqa: S311 - a simulation wants it repeatable

    def refused(self, id: int, answer: ProviderAnswer, now: int) -> int | None:
        """Back off."""
        agent = self._flying[id].agent
        super().refused(id, answer, now)
        tries = self._tries[agent] = self._tries.get(agent, 0) + 1
        wait = answer.retry_after or min(60_000, 500 * 2 ** min(tries, 7))
        return round(wait * (0.5 + self._dice.random()))

    def accepted(self, id: int, now: int) -> None:
        """Begin anew."""
        self._tries.pop(self._flying[id].agent, None)


class Aimd(SimpleLine):
    """Netflix's AIMD: a tenth less at each refusal, one more after each end at the limit."""

    def __init__(self, limit: int, cooldown: int) -> None:
        super().__init__(limit, cooldown)
        self._exact = float(limit)

    def refused(self, id: int, answer: ProviderAnswer, now: int) -> int | None:
        """Cut."""
        self._exact = max(1.0, self._exact * 0.9)
        self.limit = int(self._exact)
        return super().refused(id, answer, now)

    def took(self, took: int, now: int) -> None:
        """Grow, if the limit is in use."""
        if len(self._flying) * 2 >= self.limit:
            self._exact = min(200.0, self._exact + 1)
            self.limit = int(self._exact)


class Vegas(SimpleLine):
    """Netflix's Vegas: the queue that the best latency would imply, kept between two bounds."""

    def __init__(self, limit: int, cooldown: int) -> None:
        super().__init__(limit, cooldown)
        self._best = 0

    def refused(self, id: int, answer: ProviderAnswer, now: int) -> int | None:
        """Cut."""
        self.limit = max(1, self.limit - max(1, len(str(self.limit))))
        return super().refused(id, answer, now)

    def took(self, took: int, now: int) -> None:
        """Compare with the best latency."""
        self._best = min(self._best or took, took)
        queue = self.limit * (1 - self._best / max(took, 1))
        if queue < 3:
            self.limit += 1
        elif queue > 6:
            self.limit = max(1, self.limit - 1)


class Gradient(SimpleLine):
    """Netflix's Gradient2: a long average of latency divided by the present one."""

    def __init__(self, limit: int, cooldown: int) -> None:
        super().__init__(limit, cooldown)
        self._long = 0.0
        self._exact = float(limit)

    def took(self, took: int, now: int) -> None:
        """Follow the gradient."""
        self._long = took if not self._long else self._long + (took - self._long) / 100
        gradient = max(0.5, min(1.0, 1.5 * self._long / max(took, 1)))
        target = self._exact * gradient + 4
        self._exact = max(1.0, min(200.0, self._exact * 0.8 + target * 0.2))
        self.limit = int(self._exact)


class Oracle(SimpleLine):
    """Knows all that the provider knows, at every moment."""

    def __init__(self, upstream: Upstream, delay: int) -> None:
        super().__init__(1_000_000)
        self._upstream = upstream
        self._delay = delay
        self._on_the_way: deque[tuple[int, SimulatedJob]] = deque()

    def granted(self, now: int) -> list[int]:
        """Let in whoever fits, and note that he is on the way."""
        found = super().granted(now)
        self.limit = 1_000_000
        return found

    def _fits(self, job: SimulatedJob, now: int) -> bool:
        while self._on_the_way and self._on_the_way[0][0] < now - self._delay:
            self._on_the_way.popleft()
        coming = [other for _, other in self._on_the_way]
        fits = self._upstream.would_fit(
            now + self._delay, job.model, job.tokens, [(j.model, j.tokens) for j in coming]
        )
        if fits:
            self._on_the_way.append((now, job))
        return fits

    def wakes(self, now: int) -> int | None:
        """When something changes at the provider."""
        if not self._line:
            return None
        soon = self._upstream.next_change(now + self._delay) - self._delay
        return max(now + 1, min(soon, now + 500) if self._upstream.metered else soon)


class OneWay(SimpleLine):
    """One less at each refusal, once a second at the most, and never more again."""

    def __init__(self, limit: int, cooldown: int) -> None:
        super().__init__(limit, cooldown)
        self._cut_at = -1_000

    def refused(self, id: int, answer: ProviderAnswer, now: int) -> int | None:
        """Cut, unless it was sent before the last cut."""
        if self._sent[id] >= self._cut_at:
            self.limit, self._cut_at = max(1, self.limit - 1), now
        return super().refused(id, answer, now)


class Reader(SimpleLine):
    """The plain use of readings: what one cannot have seen yet is counted on top of it."""

    def __init__(self, limit: int, seed: int) -> None:
        super().__init__(limit)
        self._dice = random.Random(seed)  # noqa: S311 - a simulation wants it repeatable
        self._count: float | None = None
        self._cap = limit
        self._asked = -10_000
        self._recent: deque[int] = deque()
        self._ended = 0

    def _fits(self, job: SimulatedJob, now: int) -> bool:
        while self._recent and self._recent[0] < self._asked - 1_500:
            self._recent.popleft()
        fits = not self._flying
        if self._count is not None and now - self._asked <= 5_000:
            fits = max(self._count + len(self._recent), len(self._flying)) + 1 <= self._cap
        if fits:
            self._recent.append(now)
        return fits

    def ended(self, id: int, now: int, *, completed: bool) -> None:
        """Note when, to ask soon after."""
        super().ended(id, now, completed=completed)
        self._ended = now

    def read(self, usage: Usage | None, asked: int, now: int) -> None:
        """Take it as it is."""
        if usage is not None:
            self._count, self._asked = usage.in_use, asked
            self._cap = min(self.limit, usage.limit)

    def next_poll(self, now: int) -> int | None:
        """Every second, and soon after an end."""
        if not self._line:
            return None
        every = 250 if now - self._ended < 5_000 else 1_000
        return max(now, self._asked + every + self._dice.randint(0, 50))
