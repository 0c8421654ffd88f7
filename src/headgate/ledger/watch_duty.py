"""Who keeps watch.

No process is special and none must be up, yet somebody has to notice that a holder died or that a
cooldown is over. One of those who wait does it for its whole machine: it is *on watch*. Whoever has
to wait and finds nobody alive on watch takes over, in the transaction in which it began to wait;
who is on watch and stops waiting names a successor in the transaction in which it stops. If
it is killed instead, a few of the others see its end and the first of them takes over.

All others rely on it: while somebody is on watch, they do not look for the dead themselves. So
what a transaction costs does not grow with those who wait.
"""

from collections.abc import Mapping
from types import MappingProxyType

from headgate.core import rate_limits
from headgate.core.admission.pools import NO_RATES, Pool
from headgate.core.key_patterns import matches
from headgate.core.learning import control_law, usage_readings
from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import FOREVER
from headgate.core.times import NO_TIME, Ms
from headgate.ledger.transaction import host_pressure, outside_use
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.outside_use import SILENCE
from headgate.ledger.transaction.remote_rows import is_remote


class WatchList(NamedTuple):
    """Whose end to look out for, and the next moment at which time alone changes something."""

    on_watch: bool = False
    vacant: bool = False
    members: frozenset[str] = frozenset()
    """Whose end to look out for: everybody's, or that of the member on watch."""
    holders: frozenset[str] = frozenset()
    """Those of them that hold seats, if there are `MANY`: others may wait for their end."""
    crowd: int = 0
    """How many members there are."""
    due_in: Ms | None = None
    polls: Mapping[str, Ms] = MappingProxyType({})
    """Pools whose usage is to be read, and in how many milliseconds."""
    keyless: frozenset[str] = frozenset()
    """Those of them about which the last to ask could not, for want of the key."""
    unseen: bool = False
    """Whether the member on watch cannot be seen from here: it may be stopped."""


NOTHING = WatchList()
MANY = 64
"""From how many members on it matters whom to watch: descriptors may not do for all."""
_CANDIDATES = 8
"""How many are looked at for a successor: some may have been killed."""
_MOST = 10_000


def member_on_watch(ledger: Ledger) -> str:
    """The member that keeps watch on this machine; empty if nobody does."""
    return ledger.tx.note(_name(ledger))


def is_kept(ledger: Ledger) -> bool:
    """Whether a living member of this machine is on watch, and frees what the dead held.

    It may be stopped: its deputies find that out. To ask that in every transaction costs too much.
    """
    current = member_on_watch(ledger)
    return bool(current) and not is_remote(current) and ledger.listening(current)


def holders(ledger: Ledger) -> frozenset[str]:
    """The members that hold seats."""
    return frozenset(lease.member for lease in ledger.tx.leases(0, _MOST))


def keep_watch(ledger: Ledger, me: str, *, waiting: bool) -> WatchList:
    """Keep watch if nobody does, or hand it on when leaving."""
    if waiting:
        host_pressure.tell(ledger)
    found = what_to_watch(ledger, me, waiting=waiting)
    if found.vacant:
        ledger.tx.set_note(_name(ledger), me)
        return what_to_watch(ledger, me, waiting=waiting)
    if not waiting and member_on_watch(ledger) == me:
        successor = _successor(ledger, me)
        ledger.tx.set_note(_name(ledger), successor)
        if successor:
            ledger.woken.add(successor)
    return found


def _successor(ledger: Ledger, me: str) -> str:
    """Who is on watch next: the last of a line stays longest. A worker if nobody waits."""
    waiting = ledger.tx.waiting_members(ledger.machine, me, _CANDIDATES)
    alive = (member for member in waiting if not is_remote(member) and ledger.listening(member))
    workers = (worker for worker in ledger.workers() if worker != me)
    return next(alive, "") or next(workers, "")


def what_to_watch(ledger: Ledger, me: str, *, waiting: bool) -> WatchList:
    """What someone who waits has to look out for; nothing for those who do not."""
    if not waiting:
        return NOTHING
    current = member_on_watch(ledger)
    if current == me:
        members = frozenset(row.id for row in ledger.tx.members()) - {me}
        return WatchList(
            on_watch=True,
            members=members,
            holders=holders(ledger) & members if len(members) > MANY else frozenset(),
            crowd=len(members) + 1,
            due_in=_due_in(ledger),
            polls=polls(ledger),
        )
    stopped = ledger.stopped(current) if current else None
    vacant = not is_kept(ledger) or bool(stopped)
    wanted = polls(ledger)
    return WatchList(
        vacant=vacant,
        members=frozenset() if vacant else frozenset({current}),
        crowd=ledger.tx.count_members(),
        polls=wanted,
        keyless=frozenset(name for name in wanted if _lacked_key(ledger, name)),
        unseen=bool(current) and stopped is None,
    )


def _lacked_key(ledger: Ledger, name: str) -> bool:
    usage = ledger.pool_set.pools[name].usage
    return usage is not None and outside_use.sight(ledger, name).problem == usage.no_key


def _due_in(ledger: Ledger) -> Ms | None:
    """In how many milliseconds time alone lets somebody in: a rest, a pause, a bar is over."""
    rests = ledger.tx.rests()
    times = [host_pressure.renews(ledger), *(rest.until for rest in rests)]
    for pool in ledger.pool_set.notable():
        if pool.usage is not None and (lag := outside_use.sight(ledger, pool.name).lag) is not None:
            times += [rest.released + Ms(lag) for rest in rests if rest.place == pool.name]
        times.append(pool.paused_until or NO_TIME)
        times += _answers(ledger, pool)
        if pool.rates != NO_RATES:
            meter = outside_use.meter(ledger, outside_use.place(pool.name, ledger.machine))
            times.append(rate_limits.opens(meter, pool.rates, 1, ledger.now)[0])
    future = [time - ledger.now for time in times if ledger.now < time < FOREVER]
    return min(future, default=None)


def _answers(ledger: Ledger, pool: Pool) -> list[Ms]:
    """When a bar falls, and when silence will count as an acceptance."""
    it = pool.learned
    if it is None:
        return []
    times = [Ms(control_law.reopens(it, ledger.now) or 0)] if it.bars else []
    if it.heard and (it.probe or it.sure <= it.limit):
        recent = ledger.tx.recent(ledger.now - SILENCE)
        times += [row.granted + SILENCE for row in recent if matches(pool.name, row.uses)]
    return times


def polls(ledger: Ledger) -> dict[str, Ms]:
    """Which pools' usage has to be read, and in how many milliseconds: those with a line."""
    found: dict[str, Ms] = {}
    for pool in ledger.pool_set.notable():
        if pool.usage is None or not any(
            matches(pool.name, row.uses) for row in ledger.active_lanes()
        ):
            continue
        sight = outside_use.sight(ledger, pool.name)
        ends: list[int] = [rest.released for rest in ledger.tx.rests() if rest.place == pool.name]
        at = Ms(usage_readings.due(sight, pool.usage.every, ends, ledger.now))
        if sight.polling and ledger.now < sight.polling_until:
            at = max(at, Ms(sight.polling_until))
        found[pool.name] = max(NO_TIME, at - ledger.now)
    return found


def _name(ledger: Ledger) -> str:
    return f"watchman:{ledger.machine}"  # as version 0.1.0 calls it
