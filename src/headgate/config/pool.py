"""Checks the table of one pool."""

import re
from collections.abc import Mapping

from headgate.config.error_text import Place, shown
from headgate.config.problems import OF_HOST, UPSTREAM, Notes
from headgate.config.value_readers import TIME, Refused, choice, duration, listed, number, whole
from headgate.core.admission.pools import ADAPT, AUTO, LEARN, OFF, UNLIMITED, Declared, UsageSource
from headgate.core.quantities import CLASSES, parse_duration, parse_limit, parse_size, show_duration
from headgate.core.times import NO_TIME, Ms
from headgate.errors import UsageError

_LIMIT = (
    f'a whole number from 1 to 1000000, "{UNLIMITED}" or "{LEARN}"; to let nothing in, pause it'
)
_HOST_LIMIT = (
    f'a whole number from 1 to 1000000, "{UNLIMITED}" or "{AUTO}"; to let nothing in, pause it'
)
_SIZE = 'a size such as "512MiB" or "1.5GiB", from "1MiB"'
_FLOOR = f'{_SIZE}, or "off"'
_LOAD = 'a number from 0.1 to 1000, as in 2.0, or "off"'
_SEATS = "a whole number from 0 to 1000000"
_HOLD = 'a time such as "90m" or "12h", more than none and at most "366d", or "off"'
_RATE = "a whole number from 1 to 1000000000"
_SPACING = 'a time such as "500ms" or "2s", at most "1h"'
_PROCESS = 'a regular expression of 1 to 1000 characters, as in "(^|/)claude( |$)"'
_OBSERVED = '{ process = "(^|/)claude( |$)" }'
_MOST_OBSERVED = 50
_ANY_LETTER = ("a", "/", "0")


def read_pool(
    notes: Notes, place: Place, table: Mapping[str, object], *, host: bool = False
) -> Declared:
    """What the table of a pool says; what is wrong with it goes into the notes."""
    if host:
        for name in UPSTREAM:
            if name in table:
                notes.wrong(
                    (*place, name),
                    "not on host, which has nothing upstream; "
                    "put it under a provider's pool, as in [pools.anthropic]",
                )
        table = {name: value for name, value in table.items() if name not in UPSTREAM}
    else:
        for name in OF_HOST:
            if name in table:
                text = "only on host: it is about the machine; put it under [pools.host]"
                notes.wrong((*place, name), text)
        table = {name: value for name, value in table.items() if name not in OF_HOST}
    strange = UPSTREAM if host else OF_HOST
    names = tuple(name for name in Declared._fields if name not in strange)
    notes.check_names(place, table, names)
    seats = notes.table(place, table, "reserve")
    notes.check_names((*place, "reserve"), seats, CLASSES)
    taken = ((cls, notes.value((*place, "reserve", cls), seats, _seats, _SEATS)) for cls in CLASSES)
    reserve = tuple((cls, number) for cls, number in taken if number)
    rate = whole(1, 1_000_000_000)
    return Declared(
        limit=(
            notes.value((*place, "limit"), table, _host_limit, _HOST_LIMIT)
            if host
            else notes.value((*place, "limit"), table, _limit, _LIMIT)
        ),
        cooldown=read_cooldown(notes, place, table),
        max_hold=notes.value((*place, "max_hold"), table, _max_hold, _HOLD),
        reserve=reserve if "reserve" in table else None,
        adapt=read_adapt(notes, place, table, host=host),
        usage=_read_usage(notes, place, table),
        observe=_read_observe(notes, (*place, "observe"), table),
        rpm=notes.value((*place, "rpm"), table, rate, _RATE),
        tpm=notes.value((*place, "tpm"), table, rate, _RATE),
        spacing=notes.value((*place, "spacing"), table, duration(NO_TIME, Ms(3_600_000)), _SPACING),
        memory_floor=notes.value((*place, "memory_floor"), table, _floor, _FLOOR),
        load_ceiling=notes.value((*place, "load_ceiling"), table, _load, _LOAD),
        agent_memory=notes.value((*place, "agent_memory"), table, _size, _SIZE),
    )


def read_adapt(
    notes: Notes, place: Place, table: Mapping[str, object], *, host: bool = False
) -> str | None:
    """How a pool learns."""
    if host:
        allowed = f'"{OFF}": host has nothing upstream to learn from'
        return notes.value((*place, "adapt"), table, choice(OFF), allowed)
    return notes.value((*place, "adapt"), table, choice(*ADAPT), listed(ADAPT))


def read_cooldown(notes: Notes, place: Place, table: Mapping[str, object]) -> Ms | None:
    """How long a freed seat rests."""
    rest = notes.value((*place, "cooldown"), table, parse_duration, TIME)
    if rest and rest > 300_000:
        text = f"each freed seat stays empty for {show_duration(rest)}; 2s is usual"
        notes.warn((*place, "cooldown"), text)
    return rest


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
    if hold and hold < 1_800_000:
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
    if "usage" not in table:
        return None
    from headgate.config.usage import read_usage

    return read_usage(notes, (*place, "usage"), table)


def _read_observe(
    notes: Notes, place: Place, table: Mapping[str, object]
) -> tuple[str, ...] | None:
    if "observe" not in table:
        return None
    found = table["observe"]
    if not isinstance(found, list):
        notes.wrong(place, f"found {shown(found)}, expected a list of tables, as in [{_OBSERVED}]")
        return None
    if len(found) > _MOST_OBSERVED:
        notes.wrong(place, f"found {len(found)} entries, expected at most {_MOST_OBSERVED}")
        return None
    patterns = []
    for entry_number, entry in enumerate(found, 1):
        here = (*place, entry_number)
        if not isinstance(entry, dict):
            notes.wrong(here, f"found {shown(entry)}, expected a table, as in {_OBSERVED}")
            continue
        notes.check_names(here, entry, ("process",))
        if "process" not in entry:
            notes.wrong(here, f"process: missing, expected {_PROCESS}")
        pattern = notes.value((*here, "process"), entry, _process, _PROCESS)
        if pattern is not None:
            patterns.append(pattern)
            if any(_finds(pattern)):
                text = f"{shown(pattern)} is found in nearly every command line; say more"
                notes.warn((*here, "process"), text)
    return tuple(patterns)


def _process(value: object) -> str:
    """A regular expression that picks some command lines, and not all of them."""
    if not isinstance(value, str) or not 0 < len(value) <= 1_000:
        raise UsageError("not a pattern")
    try:
        re.compile(value, re.DOTALL)
    except RecursionError:
        raise Refused("is nested too deeply") from None
    except (re.error, OverflowError, Warning) as error:  # a warning where these are made errors
        raise Refused(f"found {shown(value)} ({error})") from None
    if not value.strip() or all(_finds(value)):
        raise Refused(f"found {shown(value)}, which is in every command line")
    return value


def _finds(pattern: str) -> list[bool]:
    """In which texts of one letter a pattern is found.

    Tried on patterns that are short and count nothing: others could search for ever.
    """
    if len(pattern) > 12 or "{" in pattern:
        return [False]
    return [bool(re.search(pattern, letter, re.DOTALL)) for letter in _ANY_LETTER]


def _limit(value: object) -> int | str:
    word = value.strip().lower() if isinstance(value, str) else ""
    if word == AUTO:
        raise Refused(f"found {shown(value)}, which only host can have: it is from RAM and cores")
    return word if word in {UNLIMITED, LEARN} else parse_limit(number(value))


def _host_limit(value: object) -> int | str:
    if isinstance(value, str) and value.strip().lower() == AUTO:
        return AUTO
    limit = _limit(value)
    if limit == LEARN:
        raise Refused(f"found {shown(value)}, but host has nothing upstream to learn from")
    return limit


def _size(value: object) -> int:
    size = parse_size(value)
    if size < 2**20:
        raise UsageError("less than any program takes")
    return size


def _floor(value: object) -> int:
    return 0 if _is_off(value) else _size(value)


def _load(value: object) -> float:
    if _is_off(value):
        return 0.0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.1 <= value <= 1_000:
        raise UsageError("not a load")
    return float(value)


def _is_off(value: object) -> bool:
    return isinstance(value, str) and value.strip().lower() == OFF


def _seats(value: object) -> int:
    return parse_limit(value) if number(value) else 0


def _max_hold(value: object) -> Ms | None:
    if _is_off(value):
        return None
    hold = parse_duration(value)
    if hold == 0:
        raise UsageError("no work ends the moment it starts")
    return hold
