"""How a pool finds out how many it can take, from nothing but acceptances and refusals.

A pool remembers its limit, the best level it ever held, and a *bar* for each level that failed: how
often, when, and from when on it may be tried again. A request remembers the *epoch* it was sent in
and its *level*: how many were in flight with it.

- Up to the limit, everybody enters. After a cut, levels not yet confirmed are entered one at
  a time, so that a wrong limit costs one refusal and not one per waiting agent.
- One level above the limit, a single *probe* enters if somebody waits and no bar forbids it. When
  it is accepted, the limit is there.
- A refused probe sets a bar and changes nothing else. Any other refusal is a cut: to below the
  level that failed, and by 2, 4, 8 if cuts follow each other without an acceptance in between.
- All refusals of requests sent before the last refusal that counted are one incident: they are
  counted and change nothing. No header has a say in that.

How soon a bar is tried again is a matter of price. Below the best level, much can be won by finding
out that the trouble is over, and little is lost while little is running: the further below, the
sooner. At the best level there is nothing known to be won: hours. Where requests that follow a
refusal are seen to be no slower than others, refusals cost nothing but good manners, and
hundreds of served requests buy a try at the next level.
"""

from math import exp, log, sqrt

from headgate.core.named_tuple import NamedTuple

OPEN, PROBE, CONFIRM, SHUT = "open", "probe", "confirm", "shut"
FREE, DEAR, UNKNOWN = "free", "dear", "unknown"

_MINUTE = 60_000
_HOUR = 60 * _MINUTE
_ALL = 1_000_000


class Tuning(NamedTuple):
    """The figures of the law. Times are milliseconds."""

    start: int = 2
    """Where a limit begins of which nothing is known."""
    accepts: int = 3
    """Accepted probes that raise the limit while seats are resting; one does if none is."""
    soonest: int = _MINUTE
    """The shortest time until a failed level below the best is tried again."""
    latest: int = 24 * _HOUR
    growth: float = 1.25
    """How much longer each further failure makes that time while half or more is missing."""
    caution: float = 2.5
    """The same while less than half is missing."""
    dear: float = 8.0
    """How much longer that time is where refusals are known to be punished."""
    unknown: int = 2 * _HOUR
    """Until a level that never worked is tried again; doubles with each failure."""
    promised: int = 10 * _MINUTE
    """The same for a level that somebody has configured: he may know better."""
    memory: int = 12 * _HOUR
    """Half a strike is forgotten in this time."""
    forgiven: float = 0.5
    """The share of a level's strikes that one success forgives."""
    old: float = 2.5
    """Levels with fewer strikes than this are free again once a lower bar has fallen."""
    echo: int = 30 * _MINUTE
    """How long after a refusal requests are compared with others to see what it cost."""
    manners: int = 700
    """Served requests that buy a try at an unknown level where refusals cost nothing."""
    rest: int = 5 * _MINUTE
    """But never sooner than this."""


USUAL = Tuning()


class Bar(NamedTuple):
    """A level that failed."""

    level: int
    strikes: float
    at: int
    until: int


class Learned(NamedTuple):
    """What a pool has learned."""

    limit: int
    base: int
    """The limit it began with; 0 if it began with no knowledge."""
    best: int = 0
    sure: int = _ALL
    """Up to here requests enter together; above it one at a time."""
    epoch: int = 0
    streak: int = 0
    tally: int = 0
    bars: tuple[Bar, ...] = ()
    refused_at: int = 0
    refusals: int = 0
    """All of them, stale ones too."""
    served_then: int = 0
    probe: int = 0
    """The lease that is out as a probe."""
    heard: bool = False
    """Whether anybody reports on this pool at all; only then does silence mean acceptance."""
    reduced_from: int = 0
    answered: bool = False
    """Whether acceptances are reported too; only then can one wait for them."""


class Sent(NamedTuple):
    """What a lease remembers of the moment it was sent."""

    epoch: int
    level: int
    probe: bool = False
    cooling: bool = False
    after: bool = False
    """Whether it followed a refusal closely."""


class Pace(NamedTuple):
    """How long requests took, in logarithms: those that followed a refusal, and the others."""

    served: int = 0
    clean: int = 0
    clean_mean: float = 0.0
    clean_spread: float = 0.0
    after: int = 0
    after_mean: float = 0.0
    after_spread: float = 0.0


def begin(base: int | None, tuning: Tuning = USUAL) -> Learned:
    """What is known before anything was learned: the limit somebody gave, or nothing."""
    if base is None:
        return Learned(tuning.start, 0)
    return Learned(base, base)


class Step(NamedTuple):
    """A request that might be sent, and what it would meet."""

    level: int
    """How many would be in flight with it."""
    seats: int = 1
    """How many of these are its own."""
    pending: int = 0
    """How many of the others have been neither accepted nor refused so far."""


def opening(it: Learned, step: Step, pace: Pace, now: int) -> str:
    """Whether a request may be sent: open, as a probe, after an answer (confirm), or not (shut)."""
    level, seats, _ = step
    if level <= it.limit:
        return CONFIRM if unconfirmed(it, step) else OPEN
    alone = level == seats  # heavier than the limit: it may at least try by itself
    if it.probe or not (alone or level == it.limit + 1) or (it.base and level > it.base):
        return SHUT
    if not barred(it, level, now):
        return CONFIRM if unconfirmed(it, step) else PROBE
    return PROBE if _may_be_bought(it, level, pace, now) else SHUT


def unconfirmed(it: Learned, step: Step) -> bool:
    """Whether somebody else's answer has to be awaited first, where answers are told at all."""
    return it.answered and step.level > it.sure and step.pending > 0


def barred(it: Learned, level: int, now: int) -> bool:
    """Whether this level failed and is not to be tried yet."""
    return any(bar.level <= level and now < bar.until for bar in it.bars)


def _may_be_bought(it: Learned, level: int, pace: Pace, now: int) -> bool:
    return (
        level > it.best
        and pace.served - it.served_then >= USUAL.manners
        and now - it.refused_at >= USUAL.rest
        and price(pace) == FREE
    )


def reopens(it: Learned, now: int) -> int | None:
    """When the next level may be tried again, if a bar forbids it now."""
    level = it.limit + 1
    times = [bar.until for bar in it.bars if bar.level <= level and bar.until > now]
    return max(times, default=None)


def send(it: Learned, level: int, *, cooling: bool, now: int, tuning: Tuning = USUAL) -> Sent:
    """What a lease has to remember that is granted now."""
    after = it.refusals > 0 and now - it.refused_at < tuning.echo
    return Sent(it.epoch, level, level > it.limit, cooling, after)


def accept(it: Learned, sent: Sent, now: int, tuning: Tuning = USUAL) -> Learned:
    """A request was let in by upstream. The caller has cleared `probe` if this was it."""
    if sent.epoch != it.epoch:
        return it if it.heard else it._replace(heard=True)
    level = sent.level
    it = it._replace(
        streak=0,
        heard=True,
        sure=max(it.sure, level),
        best=max(it.best, min(level, it.limit)),
    )
    if not sent.probe or level <= it.limit or (it.base and level > it.base):
        return it
    if sent.cooling and it.tally + 1 < tuning.accepts:
        return it._replace(tally=it.tally + 1)
    bars = it.bars
    if any(bar.level <= level for bar in bars):
        bars = tuple(_forgive(bar, level, max(it.best, level), now, tuning) for bar in bars)
    return it._replace(
        limit=level,
        best=max(it.best, level),
        tally=0,
        bars=tuple(bar for bar in bars if bar.until > now or _strikes(bar, now, tuning) >= 0.1),
        reduced_from=0 if it.base and level >= it.base else it.reduced_from,
    )


def _forgive(bar: Bar, level: int, best: int, now: int, tuning: Tuning) -> Bar:
    """A bar fell: the regime has changed, and what little stands above it stands no longer."""
    strikes = _strikes(bar, now, tuning)
    if bar.level <= level:
        return Bar(bar.level, strikes * (1 - tuning.forgiven), now, 0)
    if bar.level <= best and strikes < tuning.old:
        return bar._replace(until=0)
    return bar


def refuse(
    it: Learned, sent: Sent, pace: Pace, now: int, tuning: Tuning = USUAL
) -> tuple[Learned, int | None]:
    """Upstream has too many. Returns for how long to pause too, None for the usual time.

    The caller has cleared `probe` if this was it.
    """
    it = it._replace(heard=True, refusals=it.refusals + 1)
    if sent.epoch != it.epoch:
        return it, 0
    level = max(sent.level, 1)
    first = it.limit
    limit, streak = first, it.streak
    if not sent.probe:
        step = 2**streak if streak else 1
        limit = max(1, min(level - 1, first - step))
        streak = min(streak + 1, 6)
    failed = max(level, 2)
    cut = it._replace(
        limit=limit,
        streak=streak,
        sure=it.sure if sent.probe else 0,
        epoch=it.epoch + 1,
        tally=0,
        refused_at=now,
        served_then=pace.served,
        reduced_from=it.reduced_from or first if limit < first else it.reduced_from,
    )
    cut = _set_bar(cut, failed, pace, now, tuning)
    if sent.probe:
        return cut, 0
    return cut, min(60_000, 5_000 * 2 ** (streak - 1)) if first == 1 else None


def leave_alone(it: Learned, level: int, until: int) -> Learned:
    """Upstream asks not to be tried at a level before some time: its bar stands until then."""
    bars = (
        bar._replace(until=max(bar.until, until)) if bar.level == level else bar for bar in it.bars
    )
    return it._replace(bars=tuple(bars))


def count_refusal(it: Learned, now: int) -> Learned:
    """A refusal that says nothing about the limit: counted, and a new epoch begins."""
    return it._replace(
        heard=True, refusals=it.refusals + 1, epoch=it.epoch + 1, refused_at=now, tally=0
    )


def _set_bar(it: Learned, level: int, pace: Pace, now: int, tuning: Tuning) -> Learned:
    found = next((bar for bar in it.bars if bar.level == level), None)
    strikes = 1.0 + (_strikes(found, now, tuning) if found else 0.0)
    bar = Bar(level, strikes, now, now + _wait(it, level, strikes, pace, tuning))
    others = (
        other if other.level < level or other.until > bar.until else other._replace(until=0)
        for other in it.bars
        if other.level != level
    )
    return it._replace(bars=tuple(sorted((*others, bar))[:32]))


def _wait(it: Learned, level: int, strikes: float, pace: Pace, tuning: Tuning) -> int:
    """For how long a level is left alone that has failed so often."""
    if level > it.best:
        untried = tuning.promised if level <= it.base else tuning.unknown
        return round(min(tuning.latest, untried * exp(log(2) * min(20.0, strikes - 1))))
    share = it.limit / max(0.5, it.best - it.limit)
    if price(pace) == FREE:
        first, growth = max(tuning.soonest / 2, tuning.soonest * share), tuning.growth
    else:
        first = max(tuning.soonest, tuning.soonest * share * share)
        growth = tuning.growth if share <= 1 else tuning.caution
        if share > 1 and price(pace) == DEAR:
            first *= tuning.dear
    return round(min(tuning.latest, first * exp(log(growth) * min(60.0, strikes - 1))))


def _strikes(bar: Bar, now: int, tuning: Tuning) -> float:
    return bar.strikes * exp(-log(2) * max(0, now - bar.at) / tuning.memory)


def step_down(it: Learned, sent: Sent, now: int) -> Learned:
    """One less per incident, never below one, until somebody sets it right."""
    it = it._replace(heard=True, refusals=it.refusals + 1)
    if sent.epoch != it.epoch:
        return it
    it = it._replace(epoch=it.epoch + 1, refused_at=now)
    if it.limit <= 1:
        return it
    return it._replace(limit=it.limit - 1, reduced_from=it.reduced_from or it.limit)


def keep_pace(pace: Pace, took: int, *, after: bool) -> Pace:
    """Take a request that was served into the comparison; it forgets beyond some hundreds."""
    x = log(max(1, took))
    served, clean, others = pace[0] + 1, pace[1:4], pace[4:]
    if after:
        return Pace(served, *clean, *_more(*others, x))
    return Pace(served, *_more(*clean, x), *others)


def _more(count: int, mean: float, spread: float, x: float) -> tuple[int, float, float]:
    count = min(count + 1, 400)
    change = x - mean
    mean += change / count
    return count, mean, spread + (change * (x - mean) - spread) / count


def price(pace: Pace) -> str:
    """What a refusal costs: whether requests that follow one are slower than others."""
    if pace.clean < 8 or pace.after < 8:
        return UNKNOWN
    slower = pace.after_mean - pace.clean_mean
    error = sqrt(pace.clean_spread / pace.clean + pace.after_spread / pace.after)
    if slower + 0.7 * error < log(1.25):
        return FREE
    return DEAR if slower - 0.7 * error > log(1.1) else UNKNOWN
