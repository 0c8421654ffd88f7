"""What upstream answers, applied to pools and leases: signals, acceptances, refusals, ends."""

from collections.abc import Iterable, Iterator

from headgate.core.admission.lease_events import ACCEPTED, PENDING, refused
from headgate.core.admission.pools import LEARN, NO_RATES, STEP_DOWN, Pool
from headgate.core.admission.seats import Need
from headgate.core.answers.signals import ACCEPTED as YES
from headgate.core.answers.signals import CONCURRENCY, USAGE, Signal, pause_length
from headgate.core.key_patterns import HOST, matches, specificity
from headgate.core.learning import control_law, usage_readings
from headgate.core.learning.control_law import Learned, Sent
from headgate.core.named_tuple import NamedTuple
from headgate.core.stored_text import stored_values
from headgate.core.stored_text.formats import Unreadable
from headgate.core.times import NO_TIME, Ms
from headgate.errors import UsageError
from headgate.ledger.learning import rate_charges, upstream_state
from headgate.ledger.transaction import outside_use, unreadable
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import LeaseRow

_NEVER = stored_values.Reset(-1, -1)
_MOMENT = Ms(1_000)
"""What is sent within so many milliseconds may arrive in any order."""
_ECHO = Ms(5_000)
"""A refusal that nobody ties to a request is of one sent before the last cut, if it follows so
soon."""


def start(ledger: Ledger, id: int, key: str, needs: tuple[Need, ...]) -> str:
    """Note what a lease that is being granted must remember, and charge the rates."""
    tell_unreadable(ledger)
    sent = []
    for need in needs:
        pool, where = need.pool, need.place
        if pool.rates != NO_RATES:
            rate_charges.keep(ledger, where, ledger.use.meters[where])
        if pool.learned is None or pool.fixed or need.seats <= 0:
            continue
        it = ledger.pool_set.pools[pool.name].learned or pool.learned
        level = ledger.use.taken(where)
        cooling = where in ledger.use.resting and where not in ledger.use.upstream
        mark = control_law.send(it, level, cooling=cooling, now=ledger.now)
        if mark.probe:
            ledger.learn(pool.name, it._replace(probe=id))
            text = f"tries {level} at once"
            ledger.tell("probed", text, work=id, key=key, pool=pool.name)
        sent.append((pool.name, mark))
    return stored_values.write_sent(sent)


def tell_unreadable(ledger: Ledger) -> None:
    """Let people know of what was kept and cannot be read."""
    if ledger.unreadable or ledger.pool_set.unread:
        unreadable.tell(ledger)


def end(ledger: Ledger, lease: LeaseRow, *, served: bool, unused: bool) -> None:
    """A lease has ended: what it took is compared, what it did not use is given back."""
    if served and lease.answer == PENDING and ledger.now - lease.granted >= outside_use.SILENCE:
        heard = [pool for pool, _ in _sent(ledger, lease) if pool.learned and pool.learned.heard]
        if heard:
            _accept(ledger, lease)
    _recall_probes(ledger, lease)
    for pool, sent in _sent(ledger, lease) if lease.sent else ():
        if served and not lease.refused and pool.adapt == LEARN:
            pace = outside_use.pace(ledger, pool.name)
            if (
                pace is not stored_values.DEAR_PACE
            ):  # it cannot be read, and stays until somebody can
                took = max(0, ledger.now - lease.granted)
                pace = control_law.keep_pace(pace, took, after=sent.after)
                ledger.tx.set_note(f"pace:{pool.name}", stored_values.PACE.write(pace))
    if unused:
        rate_charges.refund(ledger, lease)


def tidy(ledger: Ledger, *keys: str) -> None:
    """Take a probe for accepted that was not refused for long, and forget one that is gone.

    In the pools of these keys, and in all that this process has met before: the others are not
    even made (see `PoolSet`), so nothing is known of their probes.
    """
    for key in keys:
        ledger.pool_set.of(key)
    tell_unreadable(ledger)
    for pool, it, lease in _ripe(ledger) if ledger.pool_set.pools.probing else ():
        if lease is None:
            ledger.learn(pool.name, it._replace(probe=0))
        else:
            _accept(ledger, lease)
        ledger.recount()


def untidy(ledger: Ledger, keys: Iterable[str]) -> bool:
    """Whether a probe must be resolved before seats of these keys can be asked for."""
    for key in keys:
        ledger.pool_set.of(key)
    return any(True for _ in _ripe(ledger))


def _ripe(ledger: Ledger) -> Iterator[tuple[Pool, Learned, LeaseRow | None]]:
    """Pools whose probe has been out for long enough, or is gone."""
    for pool in list(ledger.pool_set.pools.probing.values()):
        it = pool.learned
        if it is None or not it.probe:
            continue
        lease = ledger.tx.lease(it.probe)
        if lease is None or (it.heard and ledger.now - lease.granted >= outside_use.SILENCE):
            yield pool, it, lease


def report(ledger: Ledger, signal: Signal, *, pool: str = "", lease: int = 0, key: str = "") -> str:
    """Apply a signal to a pool, or to the pools of a lease; returns the pool that it concerns.

    A lease that does not sit in the pool that is named has nothing to do with it. Of one that has
    ended, its key still tells which pool to pause; the limit learns nothing from it.
    """
    row = ledger.tx.lease(lease) if lease else None
    if pool and row is not None and not matches(pool, row.uses):
        row = None
    of = row.key if row is not None else key
    name = pool or (_account(of) if signal.account else _concerned(ledger, of))
    if not name:
        return ""
    if signal.kind == YES:
        if row is not None:
            _accept(ledger, row, told=True)
    elif signal.kind == USAGE:
        if signal.reading is None:
            raise UsageError("a usage signal needs a reading: how much is in use")
        upstream_state.record(ledger, name, signal.reading, asked=ledger.now, polled=False)
    else:
        _refuse(ledger, signal, name, row, cuts=bool(pool) or row is not None)
    ledger.recount()  # who waits for an answer, and who is out as a probe
    return name


def still_refused(ledger: Ledger, signal: Signal, length: Ms, key: str) -> None:
    """Work of a key still waits because of a refusal: the pause of then goes on for so long."""
    name = _account(key) if signal.account else _concerned(ledger, key)
    if name:
        upstream_state.prolong(ledger, ledger.pool_row(name), length)


def _accept(ledger: Ledger, lease: LeaseRow, *, told: bool = False) -> None:
    if lease.answer != ACCEPTED:
        ledger.tx.change_lease(lease._replace(answer=ACCEPTED))
    for pool, sent in _sent(ledger, lease):
        it = pool.learned
        if it is None:
            continue
        cleared = it._replace(probe=0) if it.probe == lease.id else it
        new = cleared
        if pool.adapt == LEARN and lease.answer == PENDING:
            new = control_law.accept(cleared, sent, ledger.now)
            if told and not new.answered:
                new = new._replace(answered=True)
        if new != it:
            ledger.learn(pool.name, new)
            if new.limit != it.limit:
                text = f"{it.limit} to {new.limit}: a request was accepted"
                ledger.tell("limit_raised", text, work=lease.id, key=lease.key, pool=pool.name)


class _Cut(NamedTuple):
    """What a pool has learned from a refusal, and for how long to pause (None: as usual)."""

    learned: Learned
    wait: Ms | None
    kind: str
    text: str
    probe: int = 0
    """The level of a probe that was refused: what it was told to wait for concerns that alone."""


def _refuse(
    ledger: Ledger, signal: Signal, name: str, lease: LeaseRow | None, *, cuts: bool
) -> None:
    pool = ledger.pool_set.pools.get(name)
    said = f"{signal.kind}: {signal.note}" if signal.note else signal.kind
    work, key = (lease.id, lease.key) if lease is not None else (0, "")
    row, wait, cut = ledger.pool_row(name), None, None
    it = None if pool is None or pool.fixed else pool.learned
    if cuts and signal.kind == CONCURRENCY and pool is not None and it is not None:
        cut = _cut(ledger, pool, it, lease)
        if signal.retry_after and cut.probe:
            until = ledger.now + signal.retry_after
            cut = cut._replace(learned=control_law.leave_alone(cut.learned, cut.probe, until))
        row, wait = row._replace(learned=stored_values.LEARNED.write(cut.learned)), cut.wait
        ledger.tell(cut.kind, f"{cut.text} ({said})", work=work, key=key, pool=name)
    if signal.retry_after is not None and (cut is None or not cut.probe):
        wait = max(wait or NO_TIME, signal.retry_after)
    length = pause_length(wait, signal.kind, waits=signal.waits)
    upstream_state.close(ledger, row, length, said, work=work, key=key)
    if lease is not None:
        if lease.answer != ACCEPTED:
            rate_charges.spend(ledger, lease.id, 0)
            ledger.tx.change_lease(lease._replace(answer=refused(ledger.now), tokens=0))
        _recall_probes(ledger, lease)


def _recall_probes(ledger: Ledger, lease: LeaseRow) -> None:
    """A lease is no probe any more, whatever it found out."""
    for pool in ledger.pool_set.of(lease.uses):
        if pool.learned is not None and pool.learned.probe == lease.id:
            ledger.learn(pool.name, pool.learned._replace(probe=0))
            ledger.recount()


def _cut(ledger: Ledger, pool: Pool, it: Learned, lease: LeaseRow | None) -> _Cut:
    """Make one reduction of one incident."""
    sent = _when_sent(ledger, pool, it, lease)
    if lease is not None and it.probe == lease.id:
        it = it._replace(probe=0)
    if pool.adapt == STEP_DOWN:
        return _told(it, control_law.step_down(it, sent, ledger.now), None, sent)
    seen = outside_use.counted(ledger, pool)
    if seen is not None and sent.epoch == it.epoch:
        upstream_state.keep_sight(ledger, pool.name, usage_readings.doubt(seen, ledger.now))
        if not sent.probe and not usage_readings.suspicious(seen, ledger.now):
            # Somebody else was faster than the readings: ask anew, the limit is none the wiser.
            text = f"at {sent.level}, against upstream's own count"
            return _Cut(control_law.count_refusal(it, ledger.now), NO_TIME, "refused", text)
    new, wait = control_law.refuse(it, sent, outside_use.pace(ledger, pool.name), ledger.now)
    told = _told(it, new, None if wait is None else Ms(wait), sent)
    return told._replace(probe=max(sent.level, 2)) if sent.probe and new.epoch != it.epoch else told


def _told(it: Learned, new: Learned, wait: Ms | None, sent: Sent) -> _Cut:
    if new.limit < it.limit:
        text = f"{it.limit} to {new.limit}: refused at {sent.level}"
        return _Cut(new, wait, "limit_reduced", text)
    if new.epoch == it.epoch:
        return _Cut(new, wait, "refused", "an echo")
    return _Cut(new, wait, "refused", f"at {sent.level}; the limit stays {new.limit}")


def _when_sent(ledger: Ledger, pool: Pool, it: Learned, lease: LeaseRow | None) -> Sent:
    """What to assume about the refused request: the lease's own record, if it had no answer yet.

    Otherwise an agent that was let in long ago sent it just now, so today's epoch and level apply.
    Shortly after a cut, and while more run than the cut has left room for, it belongs to the same
    incident.
    """
    if lease is not None and lease.answer == PENDING:
        sent = _sent_for(ledger, pool, lease)
        if sent is not None:
            return _of_burst(ledger, pool, lease, sent)
    last = max(it.refused_at, lease.answer.at if lease is not None else 0)
    drains = ledger.use.held.get(pool.name, 0) > it.limit
    stale = drains or (last > 0 and ledger.now - last < _ECHO)
    return Sent(it.epoch - 1 if stale else it.epoch, it.limit)


def _of_burst(ledger: Ledger, pool: Pool, lease: LeaseRow, sent: Sent) -> Sent:
    """In a burst any request may be refused first, so take the level of the last one sent."""
    reset = stored_values.RESET.read(ledger.tx.note(f"reset:{pool.name}"))
    if isinstance(reset, Unreadable):
        said = (pool.name, "when its limit was last set", "what was sent before counts too")
        reset = unreadable.found(ledger, f"reset:{pool.name}", stored_values.RESET, said, _NEVER)
    if (lease.granted, lease.id) <= (reset or _NEVER):
        return sent._replace(epoch=-1)  # somebody has set the limit since
    for other in ledger.tx.recent(lease.granted - Ms(1)):
        if other.granted <= lease.granted + _MOMENT and not other.refused:
            mark = _sent_for(ledger, pool, other)
            if mark is not None and mark.epoch == sent.epoch and mark.level > sent.level:
                sent = sent._replace(level=mark.level)
    return sent


def _sent(ledger: Ledger, lease: LeaseRow) -> list[tuple[Pool, Sent]]:
    """The pools that learn from a lease, and what it remembers for each.

    What cannot be read teaches nothing, and its refusal is one of now.
    """
    found = []
    marks = stored_values.read_sent(lease.sent)
    if marks is None:
        instead = "it teaches nothing, but a refusal counts"
        unreadable.remember(ledger, "sent", lease.sent, f"what lease {lease.id} remembers", instead)
    for name, mark in marks or ():
        pool = ledger.pool_set.pools.get(name)
        if pool is not None and pool.learned is not None and not pool.fixed:
            found.append((pool, mark))
    return found


def _sent_for(ledger: Ledger, pool: Pool, lease: LeaseRow) -> Sent | None:
    return next((mark for found, mark in _sent(ledger, lease) if found.name == pool.name), None)


def _concerned(ledger: Ledger, key: str) -> str:
    """The pool that a refusal of such work is about: the one that says most about its key."""
    if not key:
        return ""
    pools = [pool for pool in ledger.pool_set.of(key) if pool.name != HOST]
    learning = [pool for pool in pools if pool.learned is not None] or pools
    if not learning:
        return key
    return max(learning, key=lambda pool: (specificity(pool.name), pool.name)).name


def _account(key: str) -> str:
    """The pool of the whole account: all models of a provider."""
    return key.partition("/")[0]
