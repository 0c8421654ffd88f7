"""The fields of a pool, as `[pools.NAME]` and `[pools.host]` have them, and of `[defaults]`."""

from headgate.config.error_text import shown
from headgate.config.problems import OF_HOST, SHARED, UPSTREAM
from headgate.core.admission.pools import ADAPT, AUTO, LEARN, OFF, ORDERS, UNLIMITED
from headgate.core.agents.meters import METERS
from headgate.core.quantities import CLASSES, MOST, parse_duration, parse_limit, parse_size
from headgate.core.table_fields import (
    TIME,
    Field,
    FieldRefused,
    Fields,
    choice,
    duration,
    listed,
    number,
    pattern,
    whole,
)
from headgate.core.times import NO_TIME, Ms
from headgate.core.user_patterns import user_pattern
from headgate.errors import UsageError

AGENTS_WORD = "agents"
OBSERVED = '{ process = "(^|/)claude( |$)" }'
_ANY_LETTER = ("a", "/", "0")


def _process(value: object) -> str:
    """A regular expression that picks some command lines, and not all of them."""
    found = pattern(value)
    if not found.strip() or all(finds(found)):
        raise FieldRefused(f"found {shown(found)}, which is in every command line")
    return found


def finds(pattern: str) -> list[bool]:
    """In which texts of one letter a pattern is found."""
    return [bool(user_pattern(pattern, "s").search(letter)) for letter in _ANY_LETTER]


def _limit(value: object) -> int | str:
    word = value.strip().lower() if isinstance(value, str) else ""
    if word == AUTO:
        raise FieldRefused(
            f"found {shown(value)}, which only host can have: it is from RAM and cores"
        )
    return word if word in {UNLIMITED, LEARN} else parse_limit(number(value))


def _host_limit(value: object) -> int | str:
    if isinstance(value, str) and value.strip().lower() == AUTO:
        return AUTO
    limit = _limit(value)
    if limit == LEARN:
        raise FieldRefused(f"found {shown(value)}, but host has nothing upstream to learn from")
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


_LIMIT = 'a whole number from 1 to 1000000, "{}" or "{}"; to let nothing in, pause it'
_SIZE = 'a size such as "512MiB" or "1.5GiB", from "1MiB"'
_RATE = "a whole number from 1 to 1000000000"
_rate = whole(1, 1_000_000_000)
_ALL: Fields = {
    "limit": Field(
        _limit,
        _LIMIT.format(UNLIMITED, LEARN),
        '"unlimited"; 4 for "*/claude-opus-*"',
        'How many may run at once; "learn" finds it out.',
    ),
    "cooldown": Field(
        parse_duration,
        TIME,
        '"2s"; with adapt = "off" it is "0s"',
        "How long a freed seat rests, so that the provider's own count catches up.",
    ),
    "max_hold": Field(
        _max_hold,
        'a time such as "90m" or "12h", more than none and at most "366d", or "off"',
        '"off"',
        'Work that holds its seats longer than this is ended; "12h" ends what hangs.',
    ),
    "reserve": Field(
        None,
        "a table of numbers, as in { interactive = 1 }",
        "{}",
        "How many seats are set aside for which class of work.",
    ),
    "adapt": Field(
        choice(*ADAPT),
        listed(ADAPT),
        '"learn"',
        'What follows when upstream says that there are too many at once: "learn" the limit anew, '
        '"step-down" by one until `headgate limits restore`, or "off" to pause and keep the limit.',
    ),
    "usage": Field(None, "a table", text="Where upstream's own count is read."),
    "observe": Field(
        None,
        f'"{AGENTS_WORD}", or a list of tables, as in [{OBSERVED}]',
        "[]",
        f'Agents that headgate did not start but that take seats: "{AGENTS_WORD}" are those of '
        "known agents that use this pool, others are known by their command lines.",
    ),
    "rpm": Field(_rate, _RATE, text="How many requests may start in a minute."),
    "tpm": Field(_rate, _RATE, text="How many tokens may be used in a minute."),
    "spacing": Field(
        duration(NO_TIME, Ms(3_600_000)),
        'a time such as "500ms" or "2s", at most "1h"',
        '"0s"',
        "The time between two starts is at least this long.",
    ),
    "meter": Field(
        choice(*METERS),
        listed(METERS),
        '"wire" where that changes nothing of what an agent sends, else "agent"',
        "How agents are counted and watched: by their output, by their requests on the wire, or "
        "with a seat for each of their requests.",
    ),
    "queue_timeout": Field(
        duration(Ms(1_000), Ms(86_400_000)),
        'a time from "1s" to "24h", such as "5m"',
        text="With a seat for each request: after it has waited so long, its client is told so as "
        "its provider would say it. Without this it waits for as long as it takes.",
    ),
    "warned_limit": Field(
        whole(1, MOST),
        "a whole number from 1 to 1000000",
        text="The limit while the provider says, in answers that pass on the wire, that a quota is "
        "nearly gone. Without this nothing changes until it is gone.",
    ),
    "per_task": Field(
        lambda value: parse_limit(number(value)),
        "a whole number from 1 to 1000000",
        text="The most seats that one task may hold at once. Without this, as many as it gets.",
    ),
    "order": Field(
        choice(*ORDERS),
        listed(ORDERS),
        '"oldest"',
        'Who is next among equal priorities: the "oldest", or with "fair" the tasks in turn, each '
        "with its own oldest.",
    ),
    "memory_floor": Field(
        _floor,
        f'{_SIZE}, or "off"',
        '"off"; with limit = "auto" it is a twentieth of RAM, at most "1GiB"',
        "Nothing starts while less memory is free.",
    ),
    "load_ceiling": Field(
        _load,
        'a number from 0.1 to 1000, as in 2.0, or "off"',
        '"off"',
        "Nothing starts while the load of the last minute, per core, is higher.",
    ),
    "agent_memory": Field(_size, _SIZE, '"512MiB"', "How much memory one agent takes."),
}
FIELDS: Fields = {name: field for name, field in _ALL.items() if name not in OF_HOST}
HOST_FIELDS: Fields = {
    **{name: field for name, field in _ALL.items() if name not in UPSTREAM},
    "limit": Field(
        _host_limit,
        _LIMIT.format(UNLIMITED, AUTO),
        "3",
        'How many agents may run at once on one machine; "auto" is as many as fit at agent_memory '
        "each, at most 2 per core.",
    ),
    "cooldown": _ALL["cooldown"]._replace(default='"0s"', text="How long a freed seat rests."),
    "adapt": Field(
        choice(OFF),
        f'"{OFF}": host has nothing upstream to learn from',
        '"off"',
        "Host never learns.",
    ),
}
SHARED_FIELDS: Fields = {name: FIELDS[name] for name in SHARED}
RESERVE: Fields = {
    name: Field(
        _seats,
        "a whole number from 0 to 1000000",
        "0",
        f"Seats set aside for {name} work.",
    )
    for name in CLASSES
}
OBSERVE: Fields = {
    "process": Field(
        _process,
        'a regular expression of 1 to 1000 characters, as in "(^|/)claude( |$)"',
        text="What is found in the command lines of such agents.",
        required=True,
    )
}
