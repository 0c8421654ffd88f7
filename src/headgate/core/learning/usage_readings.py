"""What upstream says is in use, brought up to now.

A reading is old when it arrives: it lacks what was sent just before and since, and it still has
what ended since. So it is carried on: what was sent is added, what ended is taken off once
upstream must have noticed. How long upstream takes for that (its *lag*) is learned by comparing
readings with our own books under every lag that might be: under the right one, the difference is
what others use, and that is the steadiest.
"""

from math import ceil

from headgate.core.answers.signals import Reading
from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import MOST

FRESH, WANTED, FAILED = "fresh", "wanted", "failed"

LAGS = (
    *(0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000, 1_150, 1_300, 1_500, 1_750),
    *(2_000, 2_300, 2_600, 3_000, 3_500, 4_000, 5_000),
)
"""Lags that might be, in milliseconds."""
SETTLES = (100, 200, 300, 400, 600, 1_000, 2_000)
"""How long before a reading a request must have been sent to be in it: what might be."""
SETTLED = 400
"""The same while it is not known."""
KEEP = 15_000
"""For how long an ended request may still matter for a reading."""
_SAMPLES = 20
_SHARE = 0.02
_SHORT = 10_000
_MOMENT = 100
_WHILE = 600
_REPEATS = 4
"""By how much our own count must have moved under a reading that stays the same to doubt it."""
_DOUBT = 600_000
"""A second refusal against the readings within so many milliseconds is no accident."""


class Own(NamedTuple):
    """A request of ours: seats, when it was sent, and when it ended, if it did."""

    seats: int
    sent: int
    ended: int | None = None
    completed: bool = True
    """Whether it ran to its end: what was cancelled may be counted for long."""


class Guess(NamedTuple):
    """For each value that might be: what others would have used, and how that jumps about."""

    others: tuple[float, ...] = ()
    jumps: tuple[float, ...] = ()

    @property
    def best(self) -> int:
        """The place of the value under which others are steadiest; the larger if in doubt."""
        most = min(self.jumps) * 1.15 + 0.02
        return next(i for i in reversed(range(len(self.jumps))) if self.jumps[i] <= most)

    def learn(self, others: tuple[float, ...], share: float) -> "Guess":
        """Take in another reading."""
        if not self.others:
            return Guess(others, (0.0,) * len(others))
        moved = (abs(new - old) for new, old in zip(others, self.others, strict=True))
        pairs = zip(self.jumps, moved, strict=True)
        return Guess(others, tuple(old + (new - old) * share for old, new in pairs))


class Sight(NamedTuple):
    """The last reading of a pool, and what was learned from all of them."""

    at: int = 0
    """When the last good reading was asked for."""
    tried: int = 0
    """When the last attempt ended, good or not."""
    reading: Reading | None = None
    problem: str = ""
    others: int = 0
    """What others used at the last good reading."""
    samples: int = 0
    lags: Guess = Guess()
    settles: Guess = Guess()
    same: int = 0
    """How much our own count has moved since the readings last changed."""
    counted: int = 0
    held: int = 0
    doubted: int = 0
    """When upstream last refused although there seemed to be room."""
    careful: int = 0
    """How many such refusals there were lately."""
    company: int = 0
    """When upstream last counted somebody else's, in two readings that follow each other."""
    alone: bool = True
    """Whether the last reading had nothing but ours."""
    share: int = 0
    """How many of ours were in flight when a reading was last full."""
    roomy: int = 0
    """Since when all readings have had room; 0 if the last one had none."""
    polling: str = ""
    """Who is asking upstream now, so that nobody else does."""
    polling_until: int = 0

    @property
    def lag(self) -> int | None:
        """How long upstream counts what has ended, with a margin; None if not known."""
        if self.samples < _SAMPLES or self.careful:
            return None
        return LAGS[min(self.lags.best + 1, len(LAGS) - 1)]

    @property
    def settled(self) -> int:
        """How long before a reading a request must have been sent to be surely in it."""
        if self.samples < _SAMPLES or self.careful:
            return SETTLED << self.careful
        return SETTLES[min(self.settles.best + 1, len(SETTLES) - 1)]


def stance(sight: Sight, every: int, now: int) -> str:
    """Whether the last reading is fresh, must be renewed first, or is unusable."""
    few = max(3 * every, 5_000)
    if now - sight.tried > few or sight.doubted > max(sight.at, sight.tried):
        return WANTED
    if now - sight.at > few and not sight.problem:
        return WANTED  # it is old, but nobody has tried in vain to get another
    fresh = sight.reading is not None and now - sight.at <= few and sight.same < _REPEATS
    return FRESH if fresh else FAILED


def estimate(sight: Sight, own: list[Own], cooldown: int, now: int) -> int:
    """How much upstream has in flight now, at the most; never less than what must be ours."""
    lag = sight.lag
    noticed = cooldown if lag is None else lag
    since = sight.at - sight.settled
    total = ceil(sight.reading.in_use - 1e-9) if sight.reading is not None else 0
    ours = unseen = 0
    for seats, sent, ended, completed in own:
        gone = ended is not None and ended + noticed <= now
        if not gone:
            ours += seats
        if sent > since:
            total += 0 if gone and completed else seats
        elif gone and completed and ended is not None and ended > sight.at:
            unseen += seats
    if unseen and lag is not None and _short(own):
        total -= unseen
    return max(total, ours)


def _short(own: list[Own]) -> bool:
    """Whether requests are so short that waiting for a reading after each would cost too much."""
    lengths = sorted(item.ended - item.sent for item in own if item.ended is not None)
    return bool(lengths) and lengths[len(lengths) // 2] < _SHORT


class Question(NamedTuple):
    """When a reading was asked for, and how much our own settings allow."""

    at: int
    most: int


def take(sight: Sight, reading: Reading, own: list[Own], question: Question, now: int) -> Sight:
    """A reading has arrived."""
    asked, most = question
    if asked < sight.at:
        return sight  # a slower, older answer
    if reading.limit is None and sight.reading is not None:
        reading = reading._replace(limit=sight.reading.limit)  # it will not have gone away
    held = sum(item.seats for item in own if item.ended is None and item.sent <= asked)
    full = reading.in_use >= cap(reading, most, 0)
    careful = sight.careful if now - sight.doubted < _DOUBT else 0
    found = sight._replace(
        at=asked,
        tried=now,
        reading=reading,
        problem="",
        others=max(0, ceil(reading.in_use - 1e-9) - held),
        careful=careful,
        share=held if full else sight.share,
        roomy=0 if full else sight.roomy or asked,
    )
    usual = LAGS[found.lags.best] if found.lags.jumps else 1_000
    settled = SETTLES[found.settles.best] if found.settles.jumps else SETTLED // 2
    counted = _counted(own, usual, settled, asked)
    changed = sight.reading is None or sight.reading.in_use != reading.in_use
    moved = min(abs(counted - sight.counted), abs(held - sight.held))
    alone = reading.in_use - counted < 1
    found = found._replace(
        counted=counted,
        held=held,
        same=0 if changed or sight.samples < _SAMPLES else sight.same + moved,
        alone=alone,
        company=sight.company if alone or sight.alone else now,
    )
    lags = tuple(reading.in_use - _counted(own, lag, settled, asked) for lag in LAGS)
    settles = tuple(reading.in_use - _counted(own, usual, it, asked) for it in SETTLES)
    if found.same >= _REPEATS or (len(set(lags)) == 1 and len(set(settles)) == 1):
        return found  # nothing to be learned from it
    share = max(_SHARE, 1 / (sight.samples + 1))
    return found._replace(
        samples=min(sight.samples + 1, 1_000),
        lags=found.lags.learn(lags, share),
        settles=found.settles.learn(settles, share),
    )


def _counted(own: list[Own], lag: int, settled: int, asked: int) -> int:
    """What upstream would have counted of ours, if these were its ways."""
    return sum(
        item.seats
        for item in own
        if item.sent <= asked - settled and (item.ended is None or item.ended + lag > asked)
    )


def miss(sight: Sight, problem: str, now: int) -> Sight:
    """No reading could be had."""
    return sight._replace(tried=now, problem=problem)


def doubt(sight: Sight, now: int) -> Sight:
    """Upstream refused although there seemed to be room: ask anew, and build less on the answer."""
    again = now - sight.doubted < _DOUBT
    return sight._replace(doubted=now, careful=min(3, sight.careful + 1) if again else 1)


def suspicious(sight: Sight, now: int) -> bool:
    """Whether a refusal against the readings is an accident no more, but shows them to be wrong."""
    return sight.careful > 0 and now - sight.doubted < _DOUBT


def due(sight: Sight, every: int, ends: list[int], now: int) -> int:
    """When to ask upstream next, while somebody waits: soon after it must have noticed an end."""
    lag = sight.lag
    times = [sight.tried + every]
    unseen = [end for end in ends if end + (lag or 0) > sight.at]
    if unseen:
        times.append(min(unseen) + (250 if lag is None else lag))
    return max(min(times), sight.tried + 250, now)


def allowance(sight: Sight, limit: int, margin: int) -> int:
    """How many of ours upstream had room for at the last good reading, less one; at least one."""
    named = sight.reading.limit if sight.reading else None
    most = limit if named is None else min(limit, named)
    return max(1, most - margin - sight.others - 1)


def share(sight: Sight, taken: int, ours: int, now: int) -> int:
    """Up to how much may be in flight now, where others use the account too.

    `taken` and `ours` are as they were when the reading came in.

    Only a reading of this moment counts. On it we take back what was ours when all was last
    taken; and one more, if readings have shown room for a while: whoever has just left a seat
    may be about to take it again.
    """
    if not sight.company or now - sight.company > _DOUBT:
        return MOST
    if now - sight.tried > _MOMENT:
        return taken
    more = 1 if 0 < sight.roomy <= now - _WHILE else 0
    return taken + max(0, sight.share - ours) + more


def spent(reading: Reading) -> bool:
    """Whether upstream's window of requests is used up."""
    if reading.requests is None or reading.request_limit is None:
        return False
    return reading.requests >= reading.request_limit


def cap(reading: Reading, limit: int, margin: int) -> int:
    """How much may be in flight in all; a margin never closes a pool."""
    most = limit if reading.limit is None else min(limit, reading.limit)
    return max(1, most - margin)
