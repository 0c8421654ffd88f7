"""What is known of upstream beside its answers: its count, when it is closed, who else is there.

A reading is asked for by one process at a time (`claim`), and kept with all that was learned from
readings (`record`). Programs that never asked for a seat are counted by each machine (`sighted`).
"""

from headgate.core.admission.pools import Pool, PoolRow
from headgate.core.admission.setting_precedence import sound
from headgate.core.answers.signals import LONGEST_QUOTA, QUOTA, Reading, pause_length
from headgate.core.key_patterns import NO_KEY
from headgate.core.learning import control_law, usage_readings
from headgate.core.quantities import MOST, show_duration
from headgate.core.stored_text.stored_values import GATED, SIGHT, WARNED, Gated, Warned
from headgate.core.times import NO_TIME, Ms
from headgate.ledger.transaction import outside_use, unreadable
from headgate.ledger.transaction.ledger import Ledger

_SIGHTED = Ms(3_000)
"""After so many milliseconds a count of foreign programs is written anew, changed or not."""


def record(
    ledger: Ledger,
    name: str,
    reading: Reading | None,
    *,
    asked: Ms,
    problem: str = "",
    polled: bool = True,
) -> None:
    """Keep a usage reading that was asked for at this time, or that none could be had.

    It ends the claim of who asked, unless it was not asked for but told by somebody.
    """
    before = outside_use.sight(ledger, name)
    if polled:
        before = before._replace(polling="", polling_until=0)
    if reading is None:
        if not before.problem:
            ledger.tell("usage_failed", problem, pool=name)
        after = usage_readings.miss(before, problem or "no reading", ledger.now)
    else:
        if before.problem:
            ledger.tell("usage_again", f"{reading.in_use:g} in use", pool=name)
        pool = ledger.pool_set.pools.get(name)
        question = usage_readings.Question(asked, (pool.most if pool is not None else None) or MOST)
        if pool is not None and pool.usage is not None and reading.limit is not None:
            _believe(ledger, pool, reading.limit)
        after = usage_readings.take(
            before, reading, outside_use.own(ledger, name), question, ledger.now
        )
        if reading.closed_for:
            note = f"{QUOTA}: {reading.note or 'upstream serves nothing'}"
            close(ledger, ledger.pool_row(name), pause_length(Ms(reading.closed_for)), note)
    keep_sight(ledger, name, after)


def _believe(ledger: Ledger, pool: Pool, limit: int) -> None:
    """Upstream names its limit: where nobody else did, that is where learning begins."""
    it = pool.learned
    if it is not None and pool.most is None and not it.bars and it.limit < limit:
        ledger.learn(
            pool.name, control_law.begin(limit)._replace(base=0, epoch=it.epoch, heard=it.heard)
        )
        text = f"{it.limit} to {limit}: upstream says so"
        ledger.tell("limit_raised", text, pool=pool.name)


def keep_sight(ledger: Ledger, name: str, sight: usage_readings.Sight) -> None:
    """Keep what is known from the readings of a pool; it counts at once."""
    unreadable.keep(ledger, f"usage:{name}", SIGHT.write(sight))
    ledger.recount()


def close(
    ledger: Ledger, row: PoolRow, length: Ms, note: str, *, work: int = 0, key: str = NO_KEY
) -> None:
    """Keep a pool, closed for so long; never shorter than it is already."""
    until = ledger.now + length
    if until > max(ledger.now, sound(row)[0].paused_until or NO_TIME):
        row = row._replace(paused_until=until, pause_note=note[:200])
        text = f"for {show_duration(until - ledger.now)}: {note}"
        ledger.tell("paused", text, work=work, key=key, pool=row.name)
    ledger.tx.set_pool_row(row)
    ledger.reload_pools()


def warn(ledger: Ledger, key: str, text: str, *, resets_in: Ms | None, account: bool) -> None:
    """Upstream says that a quota is nearly gone. It is told once, and counts until that is back.

    Pools of the key that have a limit for this have it from now on.
    """
    subject = key.partition("/")[0] if account else key
    until = ledger.now + min(resets_in or outside_use.WARNED_FOR, LONGEST_QUOTA)
    lowered = [pool for pool in ledger.pool_set.of(key) if pool.warned_limit is not None]
    if outside_use.warned_until(ledger, subject) <= ledger.now:
        limits = [f"the limit of {pool.name} is {pool.warned_limit} until then" for pool in lowered]
        ledger.tell("quota_warned", "; ".join((text, *limits)), key=key)
    for name in {subject, *(pool.name for pool in lowered)}:
        if until > outside_use.warned_until(ledger, name):
            unreadable.keep(ledger, f"warned:{name}", WARNED.write(Warned(until)))
    if lowered:
        ledger.recount()


def end_warning(ledger: Ledger, key: str) -> None:
    """Upstream says that there is enough again."""
    for name in (key, key.partition("/")[0], *(pool.name for pool in ledger.pool_set.of(key))):
        if ledger.tx.note(f"warned:{name}"):
            unreadable.keep(ledger, f"warned:{name}", "")
    ledger.recount()


def prolong(ledger: Ledger, row: PoolRow, length: Ms) -> None:
    """Have a pause that is not over last for so long from now; one that is over stays so.

    Somebody may have resumed the pool. Nothing new has happened, so nobody is told.
    """
    until = ledger.now + length
    if ledger.now < (sound(row)[0].paused_until or NO_TIME) < until:
        ledger.tx.set_pool_row(row._replace(paused_until=until))
        ledger.reload_pools()


def claim(ledger: Ledger, name: str, member: str, patience: Ms) -> bool:
    """Become the one who asks upstream now; False if somebody else is at it."""
    sight = outside_use.sight(ledger, name)
    if sight.polling not in {"", member} and ledger.now < sight.polling_until:
        return False
    gated = outside_use.gated(ledger)
    if name not in gated:
        unreadable.keep(ledger, "gated", GATED.write(tuple(map(Gated, (*gated, name)))))
    taken = sight._replace(polling=member, polling_until=ledger.now + patience)
    unreadable.keep(ledger, f"usage:{name}", SIGHT.write(taken))
    return True


def record_foreign(ledger: Ledger, space: str, counts: dict[str, int]) -> None:
    """Keep how many programs this machine runs in each pool that never asked for a seat.

    Each set of processes that can be seen at once (a container is one) counts by itself.
    """
    for name, count in counts.items():
        seen = outside_use.foreign_counts(ledger, name)
        mine = (ledger.machine, space)
        known = seen.get(mine)
        if known is not None and known[0] == count and ledger.now - known[1] < _SIGHTED:
            continue
        seen[mine] = (count, ledger.now)
        unreadable.keep(ledger, f"foreign:{name}", outside_use.write_foreign_counts(seen))
        if known is None or known[0] != count:
            ledger.recount()
