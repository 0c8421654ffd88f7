"""The provider: hidden caps, a count that lags, punishments, rates, moods. Time is passed in.

Nothing here knows of headgate. `ask` lets a request in or refuses it, `leave` says that it ended,
`usage` is what the provider's usage endpoint would say. Times are milliseconds from the start.
"""

import random
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from math import inf

from headgate.core.named_tuple import NamedTuple

Steps = tuple[tuple[int, float], ...]
"""A value that changes at times: `((0, 8), (2_400_000, 3))`."""
NEVER = 2**62


class ProviderPlan(NamedTuple):
    """How a provider behaves."""

    cap: Steps = ((0, 4),)
    """How much may be in flight, everybody's together."""
    foreign: Steps = ((0, 0),)
    """How much of that others take: people on the same account."""
    lag: Steps = ((0, 1_000),)
    """How long the provider goes on counting a request that has ended."""
    cancelled_lag: int | None = None
    """The same for one that was cancelled; None: until it would have ended."""
    penalty: int = 0
    """For how long each 429 makes everything slow."""
    slowdown: float = 1.5
    """How slow."""
    soft_limit: int | None = None
    """What the usage endpoint calls the limit, where it refuses only from the cap on."""
    rpm: int = 0
    tpm: int = 0
    overload: Steps = ((0, 0.0),)
    """The share of requests that meet an overload of the provider's own."""
    quota: tuple[tuple[int, int], ...] = ()
    """Spans of time in which the quota is gone."""
    retry_after: int | None = None
    """What a concurrency refusal says; None: nothing."""
    usage_lag: int = 200
    """How old the count is that the usage endpoint tells."""
    usage_error: Steps = ((0, 0.0),)
    """The share of usage requests that fail."""
    usage_stale: tuple[tuple[int, int], ...] = ()
    """Spans of time in which the usage endpoint repeats its last answer."""
    usage_bias: Steps = ((0, 0),)
    """How much too high the usage endpoint counts (too low if negative)."""
    weights: tuple[tuple[str, int], ...] = ()
    """What one request of a model counts, where it is not 1."""
    model_caps: tuple[tuple[str, int], ...] = ()
    """Caps of single models, beside the one of the account."""


class ProviderAnswer(NamedTuple):
    """What the provider says to a request."""

    kind: str
    """accepted, concurrency, rate, tokens, quota, overloaded."""
    slowdown: float = 1.0
    retry_after: int | None = None


class Usage(NamedTuple):
    """What the usage endpoint says."""

    in_use: int
    limit: int
    hard_cap: int
    boxed_until: int | None
    requests: int


class Upstream:
    """One account at one provider."""

    def __init__(self, plan: ProviderPlan, seed: int = 0) -> None:
        self.plan = plan
        self.punished_until = 0
        self.refused = 0
        self._random = random.Random(seed)  # noqa: S311 - a simulation wants it repeatable
        self._active: dict[int, tuple[str, int]] = {}
        self._model_load: dict[str, int] = {}
        self._load = 0
        self._leaving: list[tuple[int, str, int]] = []
        self._history: deque[tuple[int, int]] = deque([(0, 0)])
        self._requests: deque[int] = deque()
        self._tokens: deque[tuple[int, int]] = deque()
        self._told: Usage | None = None
        self._weights = dict(plan.weights)
        self._model_caps = dict(plan.model_caps)

    def cap(self, now: int) -> int:
        """How much may be in flight at this moment."""
        return int(at(self.plan.cap, now))

    def room(self, now: int) -> int:
        """How much of the cap others leave."""
        return max(0, self.cap(now) - int(at(self.plan.foreign, now)))

    def counted(self, now: int) -> int:
        """What the provider believes to be in flight, others included."""
        self._forget(now)
        return self._load + int(at(self.plan.foreign, now))

    def punished(self, now: int) -> bool:
        """Whether everything is slow at this moment."""
        return now < self.punished_until

    def would_fit(
        self, now: int, model: str, tokens: int, coming: Sequence[tuple[str, int]]
    ) -> bool:
        """Whether a request would be let in after these others: for those who may know."""
        self._forget(now)
        plan = self.plan
        if any(start <= now < end for start, end in plan.quota):
            return False
        if plan.rpm and len(self._requests) + len(coming) >= plan.rpm:
            return False
        spent = sum(n for _, n in self._tokens) + sum(n for _, n in coming)
        if plan.tpm and spent and spent + tokens > plan.tpm:
            return False
        load = sum(self._weights.get(other, 1) for other, _ in coming)
        weight = self._weights.get(model, 1)
        most = self._model_caps.get(model)
        own = sum(self._weights.get(other, 1) for other, _ in coming if other == model)
        if most is not None and self._model_load.get(model, 0) + own + weight > most:
            return False
        return self.counted(now) + load + weight <= self.cap(now)

    def ask(self, now: int, session: int, model: str = "", tokens: int = 0) -> ProviderAnswer:
        """Let a request in, or refuse it."""
        self._forget(now)
        plan = self.plan
        for start, end in plan.quota:
            if start <= now < end:
                return ProviderAnswer("quota", retry_after=end - now)
        if self._random.random() < at(plan.overload, now):
            return ProviderAnswer("overloaded")
        if plan.rpm and len(self._requests) >= plan.rpm:
            return self._refuse("rate", now, self._requests[0] + 60_000 - now)
        if plan.tpm and sum(n for _, n in self._tokens) + tokens > plan.tpm and self._tokens:
            return self._refuse("tokens", now, self._tokens[0][0] + 60_000 - now)
        weight = self._weights.get(model, 1)
        full = self.counted(now) + weight > self.cap(now)
        most = self._model_caps.get(model)
        if full or (most is not None and self._model_load.get(model, 0) + weight > most):
            return self._refuse("concurrency", now, plan.retry_after)
        self._active[session] = (model, weight)
        self._count(now, model, weight)
        self._requests.append(now)
        if tokens:
            self._tokens.append((now, tokens))
        return ProviderAnswer("accepted", plan.slowdown if self.punished(now) else 1.0)

    def leave(self, now: int, session: int, *, cancelled_for: int = 0) -> None:
        """A request has ended; or was cancelled so long before it would have."""
        found = self._active.pop(session, None)
        if found is None:
            return
        lag = int(at(self.plan.lag, now))
        if cancelled_for:
            own = self.plan.cancelled_lag
            lag = cancelled_for + lag if own is None else own
        self._leaving.append((now + lag, *found))
        self._forget(now)

    def usage(self, now: int) -> Usage | None:
        """What the usage endpoint says; None if it fails."""
        self._forget(now)
        plan = self.plan
        if self._random.random() < at(plan.usage_error, now):
            return None
        stale = any(start <= now < end for start, end in plan.usage_stale)
        if stale and self._told is not None:
            return self._told
        then = now - plan.usage_lag
        own = next((load for when, load in reversed(self._history) if when <= then), 0)
        seen = own + int(at(plan.foreign, then)) + int(at(plan.usage_bias, now))
        cap = self.cap(now)
        soft = cap if plan.soft_limit is None else min(plan.soft_limit, cap)
        boxed = self.punished_until if self.punished(now) else None
        self._told = Usage(
            in_use=max(0, seen),
            limit=soft,
            hard_cap=cap,
            boxed_until=boxed,
            requests=len(self._requests),
        )
        return self._told

    def next_release(self) -> int:
        """When the next ended request is no longer counted."""
        return min((when for when, _, _ in self._leaving), default=NEVER)

    def _refuse(self, kind: str, now: int, retry_after: int | None) -> ProviderAnswer:
        self.refused += 1
        if self.plan.penalty:
            self.punished_until = max(self.punished_until, now + self.plan.penalty)
        return ProviderAnswer(kind, retry_after=retry_after)

    def _count(self, now: int, model: str, change: int) -> None:
        self._load += change
        self._model_load[model] = self._model_load.get(model, 0) + change
        self._history.append((now, self._load))
        while len(self._history) > 1 and self._history[1][0] <= now - 60_000:
            self._history.popleft()

    def _forget(self, now: int) -> None:
        if self._leaving:
            gone = sorted(row for row in self._leaving if row[0] <= now)
            if gone:
                self._leaving = [row for row in self._leaving if row[0] > now]
                for when, model, weight in gone:
                    self._count(when, model, -weight)
        while self._requests and self._requests[0] <= now - 60_000:
            self._requests.popleft()
        while self._tokens and self._tokens[0][0] <= now - 60_000:
            self._tokens.popleft()


def at(steps: Sequence[tuple[int, float]], now: int) -> float:
    """The value of something that changes at times."""
    return steps[max(0, bisect_right(steps, (now, inf)) - 1)][1]
