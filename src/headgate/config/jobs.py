"""Checks the table `[jobs]`: when agents are ended, and what becomes of their jobs."""

from collections.abc import Callable, Mapping
from typing import Any

from headgate.config.problems import Notes
from headgate.config.value_readers import duration, whole
from headgate.core.agents.run_limits import JobPolicy, RunLimits, harmful_settings
from headgate.core.quantities import LONGEST, parse_duration, parse_size, show_duration
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
    notes.check_names(_PLACE, table, tuple(_READERS))
    said: dict[str, Any] = {}
    errors = len(notes.errors)
    for name, (read, allowed) in _READERS.items():
        value = notes.value((*_PLACE, name), table, read, allowed)
        if value is not None:
            said[name] = None if value == _NEVER else value
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


_NEVER = -1
"""Stands for None, which means to Notes that a value was refused."""


def _or(word: str, read: Callable[[object], int]) -> Callable[[object], int]:
    """A reader that takes a word for never too."""

    def either(value: object) -> int:
        if isinstance(value, str) and value.strip().lower() == word:
            return _NEVER
        return read(value)

    return either


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError("neither true nor false")
    return value


def _log_size(value: object) -> int:
    size = parse_size(value)
    if not _SMALLEST_LOG <= size <= _LARGEST_LOG:
        raise UsageError("out of bounds")
    return size


_time = duration(Ms(1), _LONGEST_MS)
_TIME = f'a time such as "90s" or "1h", more than none and at most "{LONGEST}"'
_READERS: Mapping[str, tuple[Callable[[object], int], str]] = {
    "patience": (_time, f"{_TIME}; park = false ends no agent for a refusal"),
    "stale_after": (_or("off", _time), f'{_TIME}, or "off"'),
    "max_runtime": (_or("off", _time), f'{_TIME}, or "off"'),
    "max_tool_calls": (
        _or("off", whole(1, _MOST)),
        f'a whole number from 1 to {_MOST}, or "off"',
    ),
    "same_tool_calls": (
        _or("off", whole(2, _MOST)),
        f'a whole number from 2 to {_MOST}, or "off"',
    ),
    "park": (_flag, "true or false"),
    "attempts": (whole(1, 1_000), "a whole number from 1 to 1000"),
    "backoff": (_time, _TIME),
    "longest_backoff": (_time, _TIME),
    "expires": (_or("never", _time), f'{_TIME}, or "never"'),
    "keep": (_or("forever", _time), f'{_TIME}, or "forever"'),
    "log_size": (_log_size, 'a size from "64KiB" to "1TiB", such as "64MiB"'),
    "relieve": (_flag, "true or false"),
    "fallback_after": (duration(NO_TIME, _LONGEST_MS), f'a time such as "5m", at most "{LONGEST}"'),
}
