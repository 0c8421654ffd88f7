"""What `status`, `capacity`, `queue` and `why` show. Nothing here writes."""

from typing import Any

from headgate.core import rate_limits
from headgate.core.admission import next_in_line, seats
from headgate.core.admission.pool_set import PoolSet
from headgate.core.admission.pools import LEARN, Pool
from headgate.core.admission.seats import Need, Reason, Use
from headgate.core.display.snapshots import (
    JOB,
    SLOT,
    Capacity,
    Event,
    Past,
    PoolStatus,
    Queue,
    Running,
    Status,
    UpstreamStatus,
    Waiting,
    explain,
)
from headgate.core.key_patterns import HOST
from headgate.core.learning import control_law
from headgate.core.quantities import FOREVER, parse_priority, show_duration
from headgate.core.roles import role_names
from headgate.core.times import Ms, Seconds, seconds
from headgate.ledger.admission import admit
from headgate.ledger.admission.admit import Request
from headgate.ledger.queries.positions_and_etas import Spot, Survey, tightest
from headgate.ledger.queries.work_filter import ALL, WorkFilter
from headgate.ledger.transaction import outside_use, unreadable
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.outside_use import place
from headgate.ledger.transaction.remote_rows import is_remote
from headgate.ledger.transaction.rows import EventRow, Lane, LeaseRow, Ticket

_ALL_LEASES = 10**9
_NOBODY = "\0"
"""A task that there is not: work that might come is of none so far."""
_SOON, _USUAL, _LATE = Seconds(1.0), Seconds(5.0), Seconds(60.0)
"""When to ask again whether there is room: the soonest, as a rule, and the latest."""


def status(ledger: Ledger, wall: Seconds, view: str = "") -> Status:
    """All pools, and what runs outside of every limit."""
    from headgate.ledger.queries import room  # `run` waits without it

    use = ledger.use
    pool_set = ledger.under(view)
    lanes = ledger.lanes()
    queued = _queued(pool_set, lanes)
    held = ledger.tx.held()
    ledger.look_up(pool_set.pools.values())
    rooms = room.of_pools(pool_set, ledger.machine, _use_for_one_more(ledger, pool_set), ledger.now)
    pools = []
    for pool in pool_set.pools.values():
        where = place(pool.name, ledger.machine)
        paused = pool.paused(ledger.now)
        strained = seats.pressure_reason(Need(pool, where, 1), use)
        pools.append(
            PoolStatus(
                pool=pool.name,
                limit=seats.bound(pool, where, use) if pool.warned_limit else pool.limit,
                configured_limit=pool.configured_limit,
                source=pool.source,
                in_use=use.held.get(where, 0),
                cooling=use.resting.get(where, 0),
                queued=queued.get(where, 0),
                paused=paused,
                paused_until=wall_time(ledger, pool.paused_until, wall) if paused else None,
                cooldown_ms=pool.cooldown,
                max_hold=None if pool.max_hold is None else seconds(pool.max_hold),
                reserve=dict(pool.reserve),
                per_task=pool.per_task,
                order=pool.order,
                notice=_notice(ledger, pool, paused=paused),
                unreadable=unreadable.words(ledger, pool.name),
                **_learned(ledger, pool, wall),
                foreign=use.foreign.get(where, 0),
                upstream=_upstream(ledger, pool),
                rpm=pool.rates.rpm or None,
                tpm=pool.rates.tpm or None,
                spacing_ms=pool.rates.spacing,
                **_short(ledger, pool, where, wall),
                strain=explain(strained, ledger.now) if strained else None,
                room=rooms[pool.name].free,
                bounded_by=rooms[pool.name].bounded_by,
            )
        )
    unlimited: dict[str, int] = {}
    for row in held:
        own = [pool for pool in pool_set.of(row.uses) if pool.name != HOST or not row.key]
        if all(pool.limit is None for pool in own):
            name = row.key or "(no model)"
            unlimited[name] = unlimited.get(name, 0) + row.leases
    running = sum(row.leases for row in held) + len(ledger.tx.families())
    waiting = sum(lane.waiting for lane in lanes)
    return Status(
        pools=tuple(pools),
        total_running=running,
        total_waiting=waiting,
        unlimited=unlimited,
        at=wall,
    )


def _use_for_one_more(ledger: Ledger, pool_set: PoolSet) -> Use:
    """The seats in use when all are let in who can be, and what is kept for others is kept."""
    if not ledger.lanes():
        return ledger.use
    use = Survey(ledger).dry.use
    for name in pool_set.pools:
        use.take_over(ledger.use, place(name, ledger.machine))
    return use


def _queued(pool_set: PoolSet, lanes: list[Lane]) -> dict[str, int]:
    """How many tickets need a seat in each place."""
    found: dict[str, int] = {}
    for lane in lanes:
        for name in pool_set.names_of(lane.uses):
            where = place(name, lane.host)
            found[where] = found.get(where, 0) + lane.waiting
    return found


def _notice(ledger: Ledger, pool: Pool, *, paused: bool) -> str | None:
    """What people should know about a pool."""
    notes = [pool.pause_note] if paused and pool.pause_note else []
    notes += unreadable.words(ledger, pool.name)
    if pool.warned_limit is not None:
        left = outside_use.warned_until(ledger, pool.name) - ledger.now
        if left > 0:
            text = f"a quota is nearly gone: the limit is {pool.warned_limit}"
            notes.append(f"{text} for {show_duration(left)}")
    it = pool.learned
    if it is not None and it.reduced_from and pool.limit is not None:
        way = (
            "it is tried again by itself"
            if pool.adapt == LEARN
            else f"restore it when ready: headgate limits restore '{pool.name}'"
        )
        notes.append(f"limit reduced from {it.reduced_from} to {pool.limit} after a 429; {way}")
    return "; ".join(notes) or None


def _learned(ledger: Ledger, pool: Pool, wall: Seconds) -> dict[str, Any]:
    it = pool.learned
    if it is None:
        return {"adapt": pool.adapt}
    again = control_law.reopens(it, ledger.now) if pool.adapt == LEARN else None
    return {
        "adapt": pool.adapt,
        "auto_reduced": bool(it.reduced_from),
        "auto_reduced_from": it.reduced_from or None,
        "probing": bool(it.probe),
        "next_probe": wall_time(ledger, None if again is None else Ms(again), wall),
    }


def _short(ledger: Ledger, pool: Pool, where: str, wall: Seconds) -> dict[str, Any]:
    """What the rates of a pool lack for a start now, however small."""
    if where not in ledger.use.meters:
        return {}
    at, what = rate_limits.opens(ledger.use.meters[where], pool.rates, 1, ledger.now)
    if at <= ledger.now:
        return {}
    return {"next_start": wall_time(ledger, at, wall), "short_of": what}


def _upstream(ledger: Ledger, pool: Pool) -> UpstreamStatus | None:
    if pool.usage is None:
        return None
    seen, use = outside_use.sight(ledger, pool.name), ledger.use
    reading = seen.reading
    return UpstreamStatus(
        fresh=pool.name in use.upstream,
        in_use=reading.in_use if reading else None,
        limit=reading.limit if reading else None,
        hard_cap=reading.hard_cap if reading else None,
        estimate=use.upstream.get(pool.name, use.taken(pool.name)),
        cap=use.caps.get(pool.name),
        age=seconds(ledger.now - Ms(seen.at)) if reading else None,
        lag_ms=None if seen.lag is None else Ms(seen.lag),
        low_priority=bool(reading and reading.low_priority),
        note=reading.note if reading else "",
        problem=seen.problem,
    )


def wall_time(ledger: Ledger, at: Ms | None, wall: Seconds) -> Seconds | None:
    """A moment of the store's clock on the wall clock; None if it never comes."""
    return None if at is None or at >= FOREVER else wall + seconds(at - ledger.now)


def capacity(
    ledger: Ledger,
    key: str,
    cls: str = "normal",
    view: str = "",
    lender: int = 0,
    *,
    roles: str = "",
) -> Capacity:
    """Whether work with this key would be let in now, how much of it, and if not, when."""
    from headgate.ledger.queries import room  # `run` waits without it

    request = Request(
        key=key,
        member="-",
        machine=ledger.machine,
        urgency=-parse_priority(cls),
        lender=lender,
        view=view,
        roles=roles,
        task=_NOBODY,
    )
    head = admit.head_of(ledger, admit.lane_of(ledger, request), 1)
    needs = head.needs
    queued = sum(lane.waiting for lane in admit.rivals_for(ledger, head))
    survey = Survey(ledger, [request] if queued else ())
    use = survey.dry.use
    reasons = next_in_line.obstacles(head, use, ledger.now)
    if queued:
        (fate,) = survey.fates()
        reasons = reasons if fate else ()
        if fate and not reasons:
            reasons = (Reason("behind", tightest(needs)),)
    reasons = tuple(sorted(reasons, key=lambda reason: -(reason.until or 0)))
    free = 0 if reasons else room.of_needs(needs, cls, use, ledger.now)
    if queued and not reasons and free is not None:
        free += 1  # the one that was let in for a try
    eta: Seconds | None = None
    if reasons:
        later = survey.eta(reasons[0], queued + 1)
        eta = None if later is None else seconds(later)
    paused = any(reason.code == "pool_paused" for reason in reasons)
    return Capacity(
        key=key,
        state="paused"
        if paused
        else "full"
        if reasons
        else "near"
        if _near(needs, free)
        else "open",
        free=free,
        queued=queued,
        retry_after=_retry_after(reasons[0], eta, ledger) if reasons else None,
        eta=eta,
        reason=explain(reasons[0], ledger.now) if reasons else None,
        code=reasons[0].code if reasons else None,
    )


def _retry_after(reason: Reason, eta: Seconds | None, ledger: Ledger) -> Seconds:
    """When to ask again: when it is known to open, else soon enough to notice a change."""
    if reason.until is not None and reason.until < FOREVER:
        return max(_SOON, seconds(reason.until - ledger.now))
    return min(_LATE, max(_SOON, eta or _USUAL))


def _near(needs: tuple[Need, ...], free: int | None) -> bool:
    limits = [need.pool.limit for need in needs if need.pool.limit is not None]
    return free is not None and free <= max(1, min(limits) // 5)


def waiting(ledger: Ledger, ids: list[int], wall: Seconds) -> dict[int, Waiting]:
    """Where these tickets stand; those no longer in line are left out."""
    tickets = [row for id in ids if (row := ledger.tx.ticket(id)) is not None]
    if not tickets:
        return {}
    survey = Survey(ledger)
    return {
        row.id: _waiting(ledger, survey.lanes[row.lane], row, survey.spot(row), wall)
        for row in tickets
    }


def _waiting(ledger: Ledger, lane: Lane, ticket: Ticket, spot: Spot, wall: Seconds) -> Waiting:
    reason = spot.reasons[0]
    return Waiting(
        id=ticket.id,
        key=lane.key,
        task=ticket.task,
        priority=-ticket.urgency,
        weight=ticket.weight,
        label=ticket.label,
        position=spot.position,
        code=reason.code,
        pool=reason.pool,
        reason="; ".join(explain(reason, ledger.now) for reason in spot.reasons),
        eta=None if spot.eta is None else seconds(spot.eta),
        since=wall - seconds(ledger.now - ticket.since),
        waited=seconds(ledger.now - ticket.arrived),
        type=JOB if lane.jobs else SLOT,
        roles=role_names(lane.roles),
    )


def running(ledger: Ledger, lease: LeaseRow, wall: Seconds) -> Running:
    """A lease, as people want to see it."""
    listening = ledger.listening(lease.member)
    suspect = is_remote(lease.member) and ledger.stopped(lease.member)
    state = "suspect" if suspect else "running" if listening else "orphaned"
    if lease.cancel:
        state = "cancelling"
    held = seconds(ledger.now - lease.granted)
    return Running(
        id=lease.id,
        key=lease.key,
        task=lease.task,
        priority=-lease.urgency,
        weight=lease.weight,
        label=lease.label,
        state=state,
        started=wall - held,
        held=held,
        pid=lease.pid,
        borrows=lease.lender if lease.lender > 0 else None,
        type=JOB if lease.job else SLOT,
        roles=role_names(lease.roles),
        attempts=_attempt(ledger, lease),
    )


def _attempt(ledger: Ledger, lease: LeaseRow) -> int:
    job = ledger.tx.job(lease.id) if lease.job else None
    return job.attempts if job else 0


def queue(
    ledger: Ledger, wall: Seconds, most: int = 100, skip: int = 0, wanted: WorkFilter = ALL
) -> Queue:
    """What runs and what waits. Positions are counted on the way, not looked up one by one.

    With a filter all are gone through; pages and the number of those who wait are of what fits.
    """
    survey = Survey(ledger)
    leases = [
        row
        for row in ledger.tx.leases(0, max(1, most) if wanted.takes_all else _ALL_LEASES)
        if _fits(ledger, wanted, row.key, row)
    ]
    start, passed = survey.near(skip if wanted.takes_all else 0)
    index = sum(passed.values())
    page: list[Waiting] = []
    for lane, ticket in survey.in_order(start):
        if wanted.takes_all and index >= skip + most:
            break
        if _fits(ledger, wanted, lane.key, ticket):
            if skip <= index < skip + most:
                reasons = survey.reasons(ticket)
                position = 1 + max(_before(survey, passed, ticket, one) for one in reasons)
                spot = Spot(position, reasons, survey.eta(reasons[0], position, ticket.task))
                page.append(_waiting(ledger, lane, ticket, spot, wall))
            index += 1
        passed[lane.id] += 1
    total = sum(lane.waiting for lane in survey.lanes.values()) if wanted.takes_all else index
    shown = tuple(running(ledger, row, wall) for row in leases[: max(1, most)])
    return Queue(shown, tuple(page), total, total_running=len(leases))


def _fits(ledger: Ledger, wanted: WorkFilter, key: str, row: LeaseRow | Ticket) -> bool:
    """Whether a piece of work is wanted; its name is looked up if that matters."""
    if wanted.takes_all:
        return True
    job = ledger.tx.job(row.id) if wanted.name is not None else None
    return wanted.takes(key, row.task, job.name if job is not None else "")


def _before(survey: Survey, passed: dict[int, int], ticket: Ticket, reason: Reason) -> int:
    found = survey.ahead_in_turn(ticket, reason)
    if found is not None:
        return found
    return _passed(survey, passed, survey.lanes[ticket.lane], reason.pool)


def _passed(survey: Survey, passed: dict[int, int], own: Lane, pool: str) -> int:
    return sum(count for id, count in passed.items() if survey.shares(survey.lanes[id], pool, own))


def event(row: EventRow, ledger: Ledger, wall: Seconds) -> Event:
    """An event, with its time on the wall clock."""
    at = wall - seconds(ledger.now - row.at)
    job = ledger.tx.job(row.work) if row.work else None
    return Event(
        seq=row.id,
        at=at,
        event=row.kind,
        work=row.work or None,
        key=row.key,
        task=row.task,
        pool=row.pool,
        text=row.text,
        name=job.name if job is not None else "",
    )


def why(ledger: Ledger, id: int, wall: Seconds) -> Waiting | Running | Past:
    """What is known about a piece of work: where it waits, that it runs, or how it ended."""
    if (lease := ledger.tx.lease(id)) is not None:
        return running(ledger, lease, wall)
    if (spots := waiting(ledger, [id], wall)).get(id):
        return spots[id]
    return Past(tuple(event(row, ledger, wall) for row in ledger.tx.events(-1, 20, id)))
