"""What the store does on the word of the wall clock, and what it takes back when that was wrong.

The rules are in `core/wall_clock.py`. The store's own clock is not changed by any of this.
"""

from collections.abc import Callable
from typing import Any

from headgate.core import wall_clock
from headgate.core.quantities import FOREVER, show_duration
from headgate.core.times import Ms
from headgate.core.wall_clock import HeldPause, HeldPauses, Reading, WallClock
from headgate.ledger.transaction.rows import EventRow
from headgate.store.machine_and_clock import machine_id, synchronised, uptime_ms, wall_ms
from headgate.store.sql_rows import SqlRows
from headgate.store.sqlite_tables import SQL

_SOON = Ms(5_000)
"""In which whoever waits for the end of a pause notices that it is near."""
_AFTERWARDS = Ms(60_000)
_OF_NOTHING: dict[str, Any] = {"id": 0, "work": 0, "key": "", "task": "", "pool": ""}


def reading() -> Reading:
    """What the clocks say now."""
    return Reading(machine_id(), uptime_ms(), wall_ms(), synchronised())


def open_clock(rows: SqlRows, run: Callable[..., Any], offset: Ms | None, last: Ms) -> Ms:
    """Set the store's clock in a new boot, unless that was done; how far it is ahead of the uptime.

    `offset` is what another process has set, and `last` the latest that was written.
    """
    at = reading()
    text = rows.note(wall_clock.NOTE)
    before = wall_clock.read(text)
    if offset is None:
        begun = wall_clock.begin(before, at, last)
        offset = begun.opened - at.uptime
        rows.set_note(f"clock:{at.boot}", str(offset))
    elif before is not None and before.boot == at.boot:
        return offset
    else:
        lost = bool(text) and before is None
        begun = wall_clock.join(before, at, at.uptime + offset, lost=lost)
    now = at.uptime + offset
    after = wall_clock.look(begun, at, offset)
    if after.doubted:
        _hold_pauses(rows, after, now)
        if before is None or not before.doubted:
            text = wall_clock.doubt(after.unseen)
            rows.add_event(EventRow(at=now, kind="clock_doubted", text=text, **_OF_NOTHING))
    _keep(rows, run, begun, after, now)
    return offset


def look(rows: SqlRows, run: Callable[..., Any], offset: Ms) -> WallClock:
    """Look at the wall clock again, at the beginning of a transaction."""
    at = reading()
    before = wall_clock.read(rows.note(wall_clock.NOTE))
    if before is None or before.boot != at.boot:
        before = wall_clock.join(None, at, at.uptime + offset, lost=True)
    after = wall_clock.look(before, at, offset)
    _keep(rows, run, before, after, at.uptime + offset)
    return after


def _keep(
    rows: SqlRows, run: Callable[..., Any], before: WallClock, after: WallClock, now: Ms
) -> None:
    """Keep what was found out, and do what follows from it."""
    taken = after.taken - before.taken
    if taken > 0:
        run(SQL["make_jobs_younger"], {"by": taken, "start": before.start})
        for name in ("make_events_younger", "make_requests_younger"):
            run(SQL[name], {"by": taken, "last": before.last + before.taken})
        rows.set_note(wall_clock.TAKEN_BACK, str(before.start))
        text = f"the clock was put back: {show_duration(taken)} have not passed, and count no more"
        rows.add_event(EventRow(at=now, kind="clock_corrected", text=text, **_OF_NOTHING))
    if before.doubted and not after.doubted:
        _let_pauses_end(rows, taken, now)
    text = wall_clock.TEXT.write(after)
    if text != rows.note(wall_clock.NOTE):
        rows.set_note(wall_clock.NOTE, text)


def _hold_pauses(rows: SqlRows, clock: WallClock, now: Ms) -> None:
    """Have pauses of before hold until it is known how much time has passed, and no longer."""
    before = {(one.pool, one.held): one.until for one in _held_pauses(rows)}
    latest = now + wall_clock.SEEN + _AFTERWARDS
    held = []
    for row in list(rows.pool_table().rows.values()):
        if row.paused_until is not None and clock.last < row.paused_until < FOREVER:
            until = before.get((row.name, row.paused_until), row.paused_until)
            to = max(row.paused_until, min(until + clock.unseen, latest))
            held.append(HeldPause(row.name, until, to))
            rows.set_pool_row(row._replace(paused_until=to))
    if held:
        rows.set_note(wall_clock.HELD_PAUSES, wall_clock.PAUSES.write(HeldPauses(tuple(held))))


def _let_pauses_end(rows: SqlRows, taken: Ms, now: Ms) -> None:
    """Have pauses end when they should, unless somebody has changed them meanwhile."""
    held = {one.pool: one for one in _held_pauses(rows)}
    for row in list(rows.pool_table().rows.values()) if held else ():
        one = held.get(row.name)
        if one is not None and row.paused_until == one.held:
            until = max(one.until + taken, now + _SOON)
            rows.set_pool_row(row._replace(paused_until=until))
    if held:
        rows.set_note(wall_clock.HELD_PAUSES, "")


def _held_pauses(rows: SqlRows) -> tuple[HeldPause, ...]:
    """The pauses that hold; none if that cannot be read: they end by themselves in an hour."""
    found = wall_clock.PAUSES.read(rows.note(wall_clock.HELD_PAUSES))
    return found.pauses if isinstance(found, HeldPauses) else ()
