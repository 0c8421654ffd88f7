"""Checks the table `[jobs]`: when agents are ended, and what becomes of their jobs."""

from collections.abc import Callable, Mapping

from headgate.config.problems import Notes, read_table
from headgate.core.agents.run_limits import JobPolicy, RunLimits, harmful_settings
from headgate.core.quantities import LONGEST, parse_duration, parse_size, show_duration
from headgate.core.table_fields import FLAG, Field, Fields, duration, flag, whole
from headgate.core.times import NO_TIME, Ms
from headgate.errors import UsageError

_PLACE = ("jobs",)
_LONGEST_MS = parse_duration(LONGEST)
_MOST = 1_000_000
_SMALLEST_LOG = 64 * 2**10
_LARGEST_LOG = 2**40


def read_jobs(notes: Notes, document: Mapping[str, object]) -> JobPolicy:
    """What the table says; what is wrong or odd in it goes into the notes."""
    table = notes.table((), document, "jobs")
    errors = len(notes.errors)
    said = read_table(notes, _PLACE, table, FIELDS)
    mine = {name: said.pop(name) for name in RunLimits._fields if name in said}
    policy = JobPolicy(RunLimits(**mine), **said)
    if policy.backoff > policy.longest_backoff and len(notes.errors) == errors:
        at = "backoff" if "backoff" in said else "longest_backoff"
        first, longest = show_duration(policy.backoff), show_duration(policy.longest_backoff)
        text = f"backoff is {first}, and longest_backoff less, {longest}; raise the latter"
        notes.wrong((*_PLACE, at), text)
    for name, text in harmful_settings(policy):
        if name in mine:
            notes.warn((*_PLACE, name), text)
    return policy


def _or(word: str, read: Callable[[object], int]) -> Callable[[object], int | None]:
    """A reader that takes a word for never too."""

    def either(value: object) -> int | None:
        if isinstance(value, str) and value.strip().lower() == word:
            return None
        return read(value)

    return either


def _log_size(value: object) -> int:
    size = parse_size(value)
    if not _SMALLEST_LOG <= size <= _LARGEST_LOG:
        raise UsageError("out of bounds")
    return size


_time = duration(Ms(1), _LONGEST_MS)
_TIME = f'a time such as "90s" or "1h", more than none and at most "{LONGEST}"'
FIELDS: Fields = {
    "patience": Field(
        _time,
        f"{_TIME}; park = false ends no agent for a refusal",
        '"90s"',
        "How long an agent may go on without progress after a refusal before it is ended.",
    ),
    "stale_after": Field(
        _or("off", _time),
        f'{_TIME}, or "off"',
        '"off"',
        "An agent that writes nothing for so long is ended.",
    ),
    "message_stale_after": Field(
        _or("off", _time),
        f'{_TIME}, or "off"',
        '"off"',
        "An agent that sends no message and calls no tool for so long is ended, however much else "
        "it writes.",
    ),
    "max_runtime": Field(
        _or("off", _time), f'{_TIME}, or "off"', '"off"', "An agent that runs for so long is ended."
    ),
    "max_tool_calls": Field(
        _or("off", whole(1, _MOST)),
        f'a whole number from 1 to {_MOST}, or "off"',
        '"off"',
        "An agent that makes so many tool calls is ended.",
    ),
    "same_tool_calls": Field(
        _or("off", whole(2, _MOST)),
        f'a whole number from 2 to {_MOST}, or "off"',
        "100",
        "An agent that makes so many equal tool calls in a row is ended.",
    ),
    "park": Field(
        flag,
        FLAG,
        "true",
        "Whether an agent that is refused and makes no progress is ended, to go on later.",
    ),
    "attempts": Field(
        whole(1, 1_000),
        "a whole number from 1 to 1000",
        "10",
        "How often a job is started in all.",
    ),
    "backoff": Field(
        _time,
        _TIME,
        '"5s"',
        "How long a job stays out of the line after an attempt in vain; it doubles each time.",
    ),
    "longest_backoff": Field(_time, _TIME, '"10m"', "The longest that such a wait becomes."),
    "expires": Field(
        _or("never", _time),
        f'{_TIME}, or "never"',
        '"24h"',
        "How long a job may wait to be started.",
    ),
    "keep": Field(
        _or("forever", _time),
        f'{_TIME}, or "forever"',
        '"7d"',
        "How long a finished job and its output are kept.",
    ),
    "log_size": Field(
        _log_size,
        'a size from "64KiB" to "1TiB", such as "64MiB"',
        '"64MiB"',
        "How much of a job's output is kept.",
    ),
    "relieve": Field(
        flag,
        FLAG,
        "false",
        "Whether the youngest job of the lowest priority is parked when memory is nearly gone.",
    ),
    "fallback_after": Field(
        duration(NO_TIME, _LONGEST_MS),
        f'a time such as "5m", at most "{LONGEST}"',
        '"5m"',
        "How long a job waits for its model before it takes the next of its models.",
    ),
}
