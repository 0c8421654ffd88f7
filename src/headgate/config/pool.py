"""Checks the table of one pool."""

from collections.abc import Mapping

from headgate.config.error_text import Place, shown
from headgate.config.pool_fields import (
    AGENTS_WORD,
    FIELDS,
    HOST_FIELDS,
    OBSERVE,
    OBSERVED,
    RESERVE,
    SHARED_FIELDS,
    finds,
)
from headgate.config.problems import OF_HOST, UPSTREAM, Notes, each_table, read_table
from headgate.core.admission.pools import AGENTS, AUTO, LEARN, UNLIMITED, Declared, UsageSource
from headgate.core.quantities import show_duration
from headgate.core.times import NO_TIME

_MOST_OBSERVED = 50
_ONLY_ON_HOST = "only on host: it is about the machine; put it under [pools.host]"
_NOT_ON_HOST = (
    "not on host, which has nothing upstream; "
    "put it under a provider's pool, as in [pools.anthropic]"
)


def read_pool(
    notes: Notes, place: Place, table: Mapping[str, object], *, host: bool = False
) -> Declared:
    """What the table of a pool says; what is wrong with it goes into the notes."""
    fields, others, text = (
        (HOST_FIELDS, UPSTREAM, _NOT_ON_HOST) if host else (FIELDS, OF_HOST, _ONLY_ON_HOST)
    )
    for name in others:
        if name in table:
            notes.wrong((*place, name), text)
    table = {name: value for name, value in table.items() if name not in others}
    said = read_table(notes, place, table, fields)
    if "reserve" in table:
        seats = notes.table(place, table, "reserve")
        taken = read_table(notes, (*place, "reserve"), seats, RESERVE)
        said["reserve"] = tuple((cls, number) for cls, number in taken.items() if number)
    if "usage" in table:
        said["usage"] = _read_usage(notes, place, table)
    if "observe" in table:
        said["observe"] = _read_observe(notes, (*place, "observe"), table["observe"])
    return _checked(notes, place, Declared(**said))


def read_defaults(notes: Notes, place: Place, table: Mapping[str, object]) -> Declared:
    """What the file says for all pools; what is wrong with it goes into the notes."""
    return _checked(notes, place, Declared(**read_table(notes, place, table, SHARED_FIELDS)))


def _checked(notes: Notes, place: Place, pool: Declared) -> Declared:
    rest = pool.cooldown
    if rest and rest > 300_000:
        text = f"each freed seat stays empty for {show_duration(rest)}; 2s is usual"
        notes.warn((*place, "cooldown"), text)
    return pool


def judge_pool(
    notes: Notes, place: Place, pool: Declared, default: Declared, shared: Declared
) -> None:
    """Note what does not go together, or looks harmful.

    `default` is what counts without a file, `shared` what the file says for all pools.
    """
    said = default.limit if pool.limit is None else pool.limit
    limit = said if isinstance(said, int) else None
    adapt = pool.adapt or shared.adapt or LEARN
    if said == LEARN and adapt != LEARN:
        at, who = ("adapt", "it") if pool.adapt else ("limit", "[defaults]")
        text = f'{who} says adapt = "{adapt}", with which no limit is found'
        notes.wrong((*place, at), f'{text}; give limit a number, or adapt "{LEARN}"')
    _judge_seats(notes, place, pool, limit, learns=said in {LEARN, AUTO})
    hold, spacing = pool.max_hold, pool.spacing or NO_TIME
    if hold and hold <= 1_800_000:
        text = f"agents run for hours, and are ended after {show_duration(hold)}; 12h is safer"
        notes.warn((*place, "max_hold"), text)
    if spacing > 300_000:
        text = f"only one start in {show_duration(spacing)}, however many seats are free"
        notes.warn((*place, "spacing"), text)
    if pool.tpm and pool.tpm < 1_000:
        notes.warn((*place, "tpm"), f"{pool.tpm} tokens a minute are fewer than one request takes")
    _judge_host(notes, place, pool)


def _judge_host(notes: Notes, place: Place, pool: Declared) -> None:
    if pool.load_ceiling and pool.load_ceiling < 0.5:
        text = (
            f"at {pool.load_ceiling:g} nothing starts on a machine that is half idle; 2.0 is usual"
        )
        notes.warn((*place, "load_ceiling"), text)


def _judge_seats(
    notes: Notes, place: Place, pool: Declared, limit: int | None, *, learns: bool
) -> None:
    reserved = sum(seats for _, seats in pool.reserve or ())
    margin = pool.usage.margin if pool.usage else 0
    if limit and limit > 1_000:
        notes.warn((*place, "limit"), f'{limit} seats limit little; "{UNLIMITED}" says so plainly')
    if reserved and limit is None and not learns:
        notes.warn((*place, "reserve"), "has no effect while this pool has no limit")
    elif limit and reserved >= limit:
        text = f"sets aside {reserved} of {limit} seats, but one always stays open to everyone"
        notes.warn((*place, "reserve"), text)
    if limit and margin >= limit:
        text = f"leaves {margin} seats free in a pool of {limit}; 0 or 1 is usual"
        notes.warn((*place, "usage", "margin"), text)


def _read_usage(notes: Notes, place: Place, table: Mapping[str, object]) -> UsageSource | None:
    from headgate.config.usage import read_usage

    return read_usage(notes, (*place, "usage"), table)


def _read_observe(notes: Notes, place: Place, found: object) -> tuple[str, ...]:
    entries = found if isinstance(found, list) else [found]
    patterns = [AGENTS for entry in entries if entry == AGENTS_WORD][:1]
    others: object = found
    if patterns:
        others = [entry for entry in entries if entry != AGENTS_WORD]
    for here, entry in each_table(notes, place, others, _MOST_OBSERVED, OBSERVED):
        for pattern in read_table(notes, here, entry, OBSERVE).values():
            patterns.append(pattern)
            if any(finds(pattern)):
                text = f"{shown(pattern)} is found in nearly every command line; say more"
                notes.warn((*here, "process"), text)
    return tuple(patterns)
