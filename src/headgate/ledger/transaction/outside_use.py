"""What there is to know about a pool beside our own seats, brought into the count.

Who waits for an answer, who is out as a probe, what upstream says, what others have running, what
the rates were charged. Looked up only for pools that need it.
"""

from headgate.core import rate_limits
from headgate.core.admission.lease_events import PENDING
from headgate.core.admission.pools import NO_RATES, Pool, UsageSource
from headgate.core.admission.seats import Use
from headgate.core.answers.signals import LONGEST_QUOTA
from headgate.core.key_patterns import HOST, matches
from headgate.core.learning import control_law, usage_readings
from headgate.core.learning.usage_readings import Own, Sight
from headgate.core.quantities import MOST
from headgate.core.stored_text import stored_values
from headgate.core.stored_text.formats import Unreadable
from headgate.core.stored_text.stored_values import ForeignCount, Gated
from headgate.core.times import NO_TIME, Ms
from headgate.ledger.transaction import unreadable
from headgate.ledger.transaction.interface import TransactionContext
from headgate.ledger.transaction.rows import LeaseRow, Rest

_FORGOTTEN = Ms(10_000)
"""A count of foreign programs that nobody has confirmed for so many milliseconds is none."""
_FEW = Ms(6_001)
"""For fewer milliseconds a reading of some other program's counts, as a rule."""
WARNED_FOR = Ms(3_600_000)
"""For how long a quota counts as nearly gone, if nobody says when it is back."""
SILENCE = Ms(30_000)
"""Who was not refused within so many milliseconds was accepted: refusals come at once."""


def place(pool: str, machine: str) -> str:
    """Where a pool's seats are counted: the pool `host` exists once per machine."""
    return f"{HOST}@{machine}" if pool == HOST else pool


def pool_at(where: str) -> str:
    """The pool whose seats are counted in a place."""
    return HOST if where.startswith(f"{HOST}@") else where


def fill(ledger: TransactionContext, use: Use, pool: Pool) -> None:
    """Look up what else is known of a pool."""
    if pool.learned is not None:
        _learning(ledger, use, pool)
    if pool.observe:
        _foreign(ledger, use, pool)
    if pool.usage is not None or pool.name in gated(ledger):
        _upstream(ledger, use, pool)
    if pool.rates != NO_RATES:
        where = place(pool.name, ledger.machine)
        use.meters[where] = meter(ledger, where)
    if pool.warned_limit is not None and warned_until(ledger, pool.name) > ledger.now:
        use.caps[pool.name] = min(use.caps.get(pool.name, MOST), pool.warned_limit)


def _learning(ledger: TransactionContext, use: Use, pool: Pool) -> None:
    it = pool.learned
    if it is None:
        return
    if it.probe:
        use.probing.add(pool.name)
    if it.answered and it.sure < it.limit + 1:
        use.pending[pool.name] = sum(
            [
                lease.answer == PENDING and matches(pool.name, lease.uses)
                for lease in ledger.recent_leases()
            ]
        )
    if it.bars:
        use.paces[pool.name] = pace(ledger, pool.name)


def _upstream(ledger: TransactionContext, use: Use, pool: Pool) -> None:
    seen = sight(ledger, pool.name)
    source = pool.usage or UsageSource("python")  # some other program's own function
    stance = usage_readings.stance(seen, source.every, ledger.now)
    under_way = bool(seen.polling) and ledger.now < seen.polling_until
    if pool.usage is None and stance == usage_readings.WANTED and not under_way:
        return  # nobody reads it any more
    if stance == usage_readings.WANTED:
        use.unread.add(pool.name)
    elif stance == usage_readings.FRESH and seen.reading is not None:
        ours = use.held.get(pool.name, 0)
        mine = _own(pool.name, ours, ledger.recent_leases(), ledger.tx.rests())
        taken = usage_readings.estimate(seen, mine, pool.cooldown, ledger.now)
        top = usage_readings.cap(seen.reading, pool.most or MOST, source.margin)
        if usage_readings.spent(seen.reading):
            top = taken
        use.upstream[pool.name] = taken
        since = sum(item.seats for item in mine if item.ended is None and item.sent >= seen.tried)
        most = usage_readings.share(seen, taken - since, ours - since, ledger.now)
        use.caps[pool.name] = min(top, most)
    elif seen.reading is not None:
        limit = MOST if pool.limit is None else pool.limit
        use.caps[pool.name] = usage_readings.allowance(seen, limit, source.margin)


def counted(ledger: TransactionContext, pool: Pool) -> Sight | None:
    """The last usage reading of a pool, if it can be built on now."""
    if pool.usage is None:
        return None
    seen = sight(ledger, pool.name)
    stance = usage_readings.stance(seen, pool.usage.every, ledger.now)
    return seen if stance == usage_readings.FRESH else None


def sight(ledger: TransactionContext, pool: str) -> Sight:
    """The last usage reading of a pool."""
    name = f"usage:{pool}"
    found = stored_values.SIGHT.read(ledger.tx.note(name))
    if not isinstance(found, Unreadable):
        return Sight() if found is None else found
    said = (pool, "the last usage reading", "nothing starts until there is another")
    known = ledger.pool_set.pools.get(pool)
    # Where some other program reads it, it may have ended: then its readings soon count no more.
    until = ledger.now + _FEW if known is None or known.usage is None else 0
    return unreadable.found(
        ledger, name, stored_values.SIGHT, said, stored_values.careful_sight(ledger.now, until)
    )


def gated(ledger: TransactionContext) -> tuple[str, ...]:
    """The pools of which some program has read the usage."""
    text = ledger.tx.note("gated")
    if not text:
        return ()
    found = stored_values.GATED.read(text)
    if isinstance(found, Unreadable):
        said = ("", "the list of pools with usage readings", "every pool is taken to be in it")
        careful = tuple(map(Gated, ledger.pool_set.pools))
        found = unreadable.found(ledger, "gated", stored_values.GATED, said, careful)
    return tuple(one.pool for one in found or ())


def pace(ledger: TransactionContext, pool: str) -> control_law.Pace:
    """How long a pool's requests took."""
    name = f"pace:{pool}"
    found = stored_values.PACE.read(ledger.tx.note(name))
    if not isinstance(found, Unreadable):
        return control_law.Pace() if found is None else found
    said = (pool, "how long requests took", "refusals are taken to be punished")
    return unreadable.found(
        ledger, name, stored_values.PACE, said, stored_values.DEAR_PACE, stays=True
    )


def meter(ledger: TransactionContext, where: str) -> rate_limits.RateMeter:
    """What the rates of a place were charged."""
    name = f"meter:{where}"
    found = stored_values.METER.read(ledger.tx.note(name))
    if not isinstance(found, Unreadable):
        return rate_limits.RateMeter() if found is None else found
    said = (pool_at(where), "what its rates were charged", "this minute counts as used up")
    return unreadable.found(
        ledger, name, stored_values.METER, said, stored_values.full_meter(ledger.now)
    )


def warned_until(ledger: TransactionContext, name: str) -> Ms:
    """Until when a quota of a pool, a key or an account counts as nearly gone."""
    text = ledger.tx.note(f"warned:{name}")
    if not text:
        return NO_TIME
    found = stored_values.WARNED.read(text)
    if isinstance(found, Unreadable) or (found and stored_values.cut_off(found.until, ledger.now)):
        said = (name, "until when its quota is nearly gone", "it is for eight days")
        careful = stored_values.Warned(ledger.now + LONGEST_QUOTA)
        found = unreadable.found(ledger, f"warned:{name}", stored_values.WARNED, said, careful)
    return Ms(found.until) if found else NO_TIME


def foreign_counts(ledger: TransactionContext, pool: str) -> dict[tuple[str, str], tuple[int, int]]:
    """Programs that never asked, lately: by machine and set of processes, how many and when."""
    name = f"foreign:{pool}"
    found = stored_values.SIGHTINGS.read(ledger.tx.note(name))
    if isinstance(found, Unreadable) or (found and stored_values.cut_off(found[-1].at, ledger.now)):
        said = (pool, "the count of programs that never asked", "it is full for 10s")
        careful = stored_values.everywhere(ledger.now)
        found = unreadable.found(ledger, name, stored_values.SIGHTINGS, said, careful)
    return {
        (one.machine, one.space): (one.programs, one.at)
        for one in found or ()
        if ledger.now - one.at < _FORGOTTEN
    }


def write_foreign_counts(seen: dict[tuple[str, str], tuple[int, int]]) -> str:
    """As text, to be kept."""
    return stored_values.SIGHTINGS.write(
        tuple(
            ForeignCount(machine, space, programs=count, at=at)
            for (machine, space), (count, at) in seen.items()
        )
    )


def _foreign(ledger: TransactionContext, use: Use, pool: Pool) -> None:
    """Count the seats taken by programs that never asked: on each machine, by who sees most."""
    most: dict[str, int] = {}
    for (machine, _), (count, _) in foreign_counts(ledger, pool.name).items():
        most[machine] = max(count, most.get(machine, 0))
    for machine, count in most.items():
        where = place(pool.name, machine)
        use.foreign[where] = use.foreign.get(where, 0) + count


def own(ledger: TransactionContext, pool: str) -> list[Own]:
    """Our own requests in a pool: those in flight, and those that ended lately."""
    held = ledger.use.held.get(pool, 0)
    return _own(pool, held, ledger.tx.recent(ledger.now - SILENCE), ledger.tx.rests())


def _own(pool: str, held: int, recent: list[LeaseRow], rests: list[Rest]) -> list[Own]:
    """Those in flight for long are one entry: when each of them began makes no difference."""
    late = [Own(lease.weight, lease.granted) for lease in recent if matches(pool, lease.uses)]
    older = max(0, held - sum(item.seats for item in late))
    ended = [
        Own(rest.seats, rest.granted, rest.released, bool(rest.completed))
        for rest in rests
        if rest.place == pool
    ]
    return [Own(older, 0), *late, *ended]
