"""The provider: hidden caps, a count that lags, punishments, rates, moods. Time is passed in.

Nothing here knows of headgate. `ask` lets a request in or refuses it, `leave` says that it ended,
`usage` is what the provider's usage endpoint would say. Times are milliseconds from the start.
"""

import heapq
import math
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from math import inf

from headgate.core.named_tuple import NamedTuple

Steps = tuple[tuple[int, float], ...]
"""A value that changes at times: `((0, 8), (2_400_000, 3))`."""
NEVER = 2**62


class Delay(NamedTuple):
    """How long something takes, request by request. Times are milliseconds."""

    kind: str = "none"
    """none; uniform from `low` to `high`; lognormal around `low`, at most `high`; humps: mostly
    `low`, and `high` for a share of `spread`."""
    low: int = 0
    high: int = 0
    spread: float = 0.0

    def draw(self, dice: random.Random) -> int:
        """How long it takes this time."""
        if self.kind == "none":
            return 0
        if self.kind == "uniform":
            return dice.randint(self.low, self.high)
        if self.kind == "lognormal":
            return min(self.high, round(self.low * math.exp(dice.gauss(0, self.spread))))
        return self.high if dice.random() < self.spread else self.low


class ProviderPlan(NamedTuple):
    """How a provider behaves."""

    cap: Steps = ((0, 4),)
    """How much may be in flight, everybody's together."""
    foreign: Steps = ((0, 0),)
    """How much of that others take: people on the same account."""
    lag: Steps = ((0, 1_000),)
    """How long the provider goes on counting a request that has ended."""
    end_lag: Delay | None = None
    """The same where it differs from request to request; None: as `lag` says."""
    begin_lag: Delay = Delay()
    """How long the usage endpoint takes to show what has begun; refusals know at once."""
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
    retry_after: int | tuple[int | None, ...] | None = None
    """What a concurrency refusal says; None: nothing. One of several at random."""
    usage_lag: int = 200
    """How old the count is that the usage endpoint tells."""
    usage_error: Steps = ((0, 0.0),)
    """The share of usage requests that fail."""
    usage_stale: tuple[tuple[int, int], ...] = ()
    """Spans of time in which the usage endpoint repeats its last answer."""
    usage_bias: Steps = ((0, 0),)
    """How much too high the usage endpoint counts (too low if negative)."""
    usage_rounding: int = 1
    """The usage endpoint counts in steps of so many."""
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
        self._lags = random.Random(seed * 13 + 1)  # noqa: S311 - the same whoever governs
        self._active: dict[int, tuple[str, int, int]] = {}
        self._model_load: dict[str, int] = {}
        self._load = 0
        self._leaving: list[tuple[int, str, int]] = []
        self._showing: list[tuple[int, int]] = []
        self._shown = 0
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
            said = plan.retry_after
            wait = self._random.choice(said) if isinstance(said, tuple) else said
            return self._refuse("concurrency", now, wait)
        shown = now + plan.begin_lag.draw(self._lags)
        self._active[session] = (model, weight, shown)
        self._count(model, weight)
        self._show(now, shown, weight)
        self._requests.append(now)
        if tokens:
            self._tokens.append((now, tokens))
        return ProviderAnswer("accepted", plan.slowdown if self.punished(now) else 1.0)

    def leave(self, now: int, session: int, *, cancelled_for: int = 0) -> None:
        """A request has ended; or was cancelled so long before it would have."""
        found = self._active.pop(session, None)
        if found is None:
            return
        model, weight, shown = found
        steady, drawn = self.plan.lag, self.plan.end_lag
        lag = int(at(steady, now)) if drawn is None else drawn.draw(self._lags)
        if cancelled_for:
            own = self.plan.cancelled_lag
            lag = cancelled_for + lag if own is None else own
        heapq.heappush(self._leaving, (now + lag, model, weight))
        self._show(now, max(shown, now + lag), -weight)
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
        seen = round(seen / plan.usage_rounding) * plan.usage_rounding
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
        return self._leaving[0][0] if self._leaving else NEVER

    def next_change(self, now: int) -> int:
        """When the count falls, the cap moves or others come or go."""
        steps = (self.plan.cap, self.plan.foreign)
        times = [row[bisect_right(row, (now, inf))][0] for row in steps if now < row[-1][0]]
        return min(self.next_release(), *times, NEVER)

    @property
    def metered(self) -> bool:
        """Whether anything but the count decides who is let in."""
        return bool(self.plan.rpm or self.plan.tpm or self.plan.quota)

    def _refuse(self, kind: str, now: int, retry_after: int | None) -> ProviderAnswer:
        self.refused += 1
        if self.plan.penalty:
            self.punished_until = max(self.punished_until, now + self.plan.penalty)
        return ProviderAnswer(kind, retry_after=retry_after)

    def _count(self, model: str, change: int) -> None:
        self._load += change
        self._model_load[model] = self._model_load.get(model, 0) + change

    def _show(self, now: int, when: int, change: int) -> None:
        """Have the usage endpoint show a change from then on."""
        heapq.heappush(self._showing, (when, change))
        self._forget(now)

    def _forget(self, now: int) -> None:
        while self._leaving and self._leaving[0][0] <= now:
            _, model, weight = heapq.heappop(self._leaving)
            self._count(model, -weight)
        while self._showing and self._showing[0][0] <= now:
            when, change = heapq.heappop(self._showing)
            self._shown += change
            self._history.append((when, self._shown))
            while len(self._history) > 1 and self._history[1][0] <= now - 60_000:
                self._history.popleft()
        while self._requests and self._requests[0] <= now - 60_000:
            self._requests.popleft()
        while self._tokens and self._tokens[0][0] <= now - 60_000:
            self._tokens.popleft()


def at(steps: Sequence[tuple[int, float]], now: int) -> float:
    """The value of something that changes at times."""
    return steps[max(0, bisect_right(steps, (now, inf)) - 1)][1]
