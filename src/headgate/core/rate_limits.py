"""So many requests and tokens a minute, and so long between two starts.

What was charged is kept by the second for a minute, so that no minute, wherever it begins, sees
more than the limit. That holds for providers that count in windows and for those that fill buckets.
"""

from headgate.core.named_tuple import NamedTuple
from headgate.core.times import NO_TIME, Ms

MINUTE = Ms(60_000)
_SECOND = Ms(1_000)


class Rates(NamedTuple):
    """A pool's rates; 0 where there is none."""

    rpm: int = 0
    tpm: int = 0
    spacing: Ms = NO_TIME


class RateSlot(NamedTuple):
    """What was charged within one second."""

    second: int
    requests: int
    tokens: int


class RateMeter(NamedTuple):
    """What a pool was charged within the last minute, and when something last started in it."""

    started: Ms = -MINUTE
    slots: tuple[RateSlot, ...] = ()
    rpm: int = 0
    """The limit that upstream names, if it is lower than ours; 0 if it names none."""
    tpm: int = 0


def opens(meter: RateMeter, rates: Rates, tokens: int, now: Ms) -> tuple[Ms, str]:
    """When a request of so many tokens may start, and what it waits for until then."""
    times = [(now, "")]
    if rates.spacing:
        times.append((meter.started + rates.spacing, "spacing"))
    if rpm := _lower(rates.rpm, meter.rpm):
        at = _room([(slot.second, slot.requests) for slot in meter.slots], rpm, 1, now)
        times.append((at, "rpm"))
    if tokens and (tpm := _lower(rates.tpm, meter.tpm)):
        spent = [(slot.second, slot.tokens) for slot in meter.slots]
        times.append((_room(spent, tpm, min(tokens, tpm), now), "tpm"))
    return max(times)


def charge(meter: RateMeter, tokens: int, now: Ms) -> RateMeter:
    """A request starts."""
    return _add(meter, now, 1, tokens, now)._replace(started=now)


def set_used(meter: RateMeter, then: Ms, estimated: int, used: int, now: Ms) -> RateMeter:
    """A request that started then has used so many tokens, not the estimate."""
    return _add(meter, then, 0, used - estimated, now)


def refund(meter: RateMeter, then: Ms, tokens: int, now: Ms) -> RateMeter:
    """A request that was let in then was never sent."""
    return _add(meter, then, -1, -tokens, now)


def correct(
    meter: RateMeter,
    rates: Rates,
    requests: tuple[int | None, int | None],
    tokens: tuple[int | None, int | None],
    now: Ms,
    *,
    reset: Ms | None = None,
) -> RateMeter:
    """Upstream names its limits, and what is left of them: believe it where it has less.

    What it has counted and we have not is gone after `reset` milliseconds, or after a minute.
    """
    (rpm, requests_left), (tpm, tokens_left) = requests, tokens
    meter = meter._replace(rpm=rpm or meter.rpm, tpm=tpm or meter.tpm)
    recent = _recent(meter, now)
    more_requests = more_tokens = 0
    limit = _lower(rates.rpm, meter.rpm)
    if limit and requests_left is not None:
        more_requests = max(0, limit - requests_left - sum(slot.requests for slot in recent))
    limit = _lower(rates.tpm, meter.tpm)
    if limit and tokens_left is not None:
        more_tokens = max(0, limit - tokens_left - sum(slot.tokens for slot in recent))
    left = MINUTE if reset is None else max(NO_TIME, min(reset, MINUTE))
    return _add(meter, now - (MINUTE - left), more_requests, more_tokens, now)


def _lower(ours: int, theirs: int) -> int:
    """The lower limit; none unless we have one, so that nobody's rates are held unasked."""
    return min(ours, theirs) if ours and theirs else ours


def _room(spent: list[tuple[int, int]], limit: int, need: int, now: Ms) -> Ms:
    """When the last minute will have room for this."""
    used = sum(n for second, n in spent if (second + 1) * _SECOND + MINUTE > now)
    at = now
    for second, n in spent:
        if used + need <= limit:
            break
        gone = (second + 1) * _SECOND + MINUTE
        if gone > now:
            used -= n
            at = gone
    return at


def _add(meter: RateMeter, then: Ms, requests: int, tokens: int, now: Ms) -> RateMeter:
    second = then // _SECOND
    slots = {slot.second: slot for slot in _recent(meter, now)}
    found = slots.get(second, RateSlot(second, 0, 0))
    changed = RateSlot(second, max(0, found.requests + requests), max(0, found.tokens + tokens))
    if (second + 1) * _SECOND + MINUTE > now:
        slots[second] = changed
    return meter._replace(
        slots=tuple(slot for _, slot in sorted(slots.items()) if slot.requests or slot.tokens)
    )


def _recent(meter: RateMeter, now: Ms) -> list[RateSlot]:
    return [slot for slot in meter.slots if (slot.second + 1) * _SECOND + MINUTE > now]
