"""Checks the [[notify]] tables. What is secret belongs into the environment, never into a message.

`events` takes patterns over the kinds of events, or "all"; `only` patterns over an event's fields.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial

from headgate.config.error_text import Place, key_like, shown
from headgate.config.problems import Notes, each_table, read_table
from headgate.config.usage import in_the_clear, read_url, read_variable
from headgate.core.events import KINDS
from headgate.core.key_patterns import parse_pattern
from headgate.core.notification_targets import ALL, APPRISE, WEBHOOK, NotifyTarget, Only, fits
from headgate.core.table_fields import (
    Field,
    FieldRefused,
    Fields,
    duration,
    nearest,
    spelled,
    whole,
)
from headgate.core.times import Ms
from headgate.errors import UsageError

_WAYS = ("command", "url", "url_env", "apprise", "apprise_env")
_ONE_WAY = "one of command, url, url_env, apprise or apprise_env"
_MOST = 50
_MOST_WORDS = 100
_LONGEST_COMMAND = 10_000
_VARIABLE = "the name of an environment variable, as in"


def read_notify(notes: Notes, document: Mapping[str, object]) -> tuple[NotifyTarget, ...]:
    """The targets of notifications, in the order of the file."""
    targets: dict[str, NotifyTarget] = {}
    for place, entry in each_table(notes, ("notify",), document["notify"], _MOST):
        target = _read_target(notes, place, entry, f"hook-{place[-1]}")
        if target.name in targets:
            notes.wrong(place, f"name {shown(target.name)} is taken; give each target its own")
        targets[target.name] = target
    return tuple(targets.values())


def _read_target(
    notes: Notes, place: Place, table: Mapping[str, object], usual_name: str
) -> NotifyTarget:
    said = {"name": usual_name, **read_table(notes, place, table, FIELDS)}
    if "only" in table:
        said["only"] = _read_only(notes, (*place, "only"), table)
    target = NotifyTarget(**said)
    _judge(notes, place, table, target)
    return target


def _judge(notes: Notes, place: Place, table: Mapping[str, object], target: NotifyTarget) -> None:
    """Note what does not go together, or looks harmful."""
    ways = [name for name in _WAYS if name in table]
    if len(ways) != 1:
        found = f"found {' and '.join(ways)}" if ways else "does not say where to"
        notes.wrong(place, f"{found}; expected {_ONE_WAY}")
    elif "secret_env" in table and target.by != WEBHOOK:
        notes.wrong((*place, "secret_env"), "only with url or url_env, where it signs what is sent")
    if target.url:
        if key_like(target.url):
            text = "seems to have a secret in it; url_env keeps that out of this file"
            notes.warn((*place, "url"), text)
        if in_the_clear(target.url):
            notes.warn((*place, "url"), "what is sent there can be read on the way; https hides it")
    if target.apprise and (key_like(target.apprise) or "@" in target.apprise):
        text = "seems to have a secret in it; apprise_env keeps that out of this file"
        notes.warn((*place, APPRISE), text)
    for pattern in target.events:
        if not any(fits(pattern, kind) for kind in KINDS):
            near = nearest(pattern, KINDS)
            meant = f"did you mean {near}?" if near else f"they are {', '.join(KINDS)}"
            text = f"{shown(pattern)} fits no kind of event; {meant}"
            notes.warn((*place, "events"), text)


def _read_only(notes: Notes, place: Place, parent: Mapping[str, object]) -> Only:
    table = parent["only"]
    if not isinstance(table, dict):
        notes.wrong(place, f"found {shown(table)}, expected {FIELDS['only'].allowed}")
        return Only()
    return Only(**read_table(notes, place, table, ONLY))


def _some(read: Callable[[object], str], value: object) -> tuple[str, ...]:
    """One text or several."""
    found = value if isinstance(value, list) else [value]
    if not 0 < len(found) <= _MOST:
        raise UsageError("none, or too many")
    return tuple(map(read, found))


def _text(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 200 or not value.isprintable():
        raise UsageError("not a pattern")
    return value


def _pool_name(value: object) -> str:
    return parse_pattern(_text(value))


def _command(value: object) -> tuple[str, ...]:
    """A program and its arguments, or a line for the shell. Not repeated: it may hold a secret."""
    words = ["sh", "-c", value] if isinstance(value, str) else value
    if not isinstance(words, list) or not 0 < len(words) <= _MOST_WORDS:
        raise FieldRefused("found no command")
    if not all(isinstance(word, str) and "\0" not in word for word in words):
        raise FieldRefused("found what no command can have in it")
    if not words[0].strip() or (isinstance(value, str) and not value.strip()):
        raise FieldRefused("found an empty command")
    if sum(map(len, words)) > _LONGEST_COMMAND:
        raise FieldRefused("found a command that is too long; put it into a script")
    return tuple(words)


def _apprise(value: object) -> str:
    good = isinstance(value, str) and len(value) <= 2_000 and value.isprintable()
    if not good or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://\S+", str(value)):
        raise FieldRefused(
            "found what is no such URL; it is not repeated, for it may hold a secret"
        )
    return str(value)


def _events(value: object) -> tuple[str, ...]:
    """Patterns over the kinds of events."""
    patterns = _some(spelled(r"[A-Za-z_*?]{1,40}", 40), value)
    return tuple(pattern.lower() for pattern in patterns)


_PATTERNS = "a pattern with * and ?, or a list of them, as in"
ONLY: Fields = {
    "task": Field(
        partial(_some, _text), f'{_PATTERNS} "oracle-*"', text="The tasks whose events are told."
    ),
    "key": Field(
        partial(_some, _pool_name),
        f'{_PATTERNS} "anthropic/claude-opus-*"',
        text="The keys whose events are told, as pools are named.",
    ),
    "pool": Field(
        partial(_some, _text), f'{_PATTERNS} "anthropic*"', text="The pools whose events are told."
    ),
}
FIELDS: Fields = {
    "name": Field(
        spelled(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", 40),
        "letters, digits and . _ -, at most 40 of them",
        '"hook-1", "hook-2" … by its place',
        "The target's name, of which each has its own; how far it was told is kept under it.",
    ),
    "command": Field(
        _command,
        'a list such as ["notify-me", "--now"], or a line for the shell',
        text="A program that gets the event as JSON on its standard input.",
    ),
    "url": Field(
        partial(read_url, instead="url_env"),
        "a URL such as https://example.com/hook",
        text="A webhook that the event is posted to as JSON.",
    ),
    "url_env": Field(
        read_variable,
        f'{_VARIABLE} "HOOK_URL"',
        text="The environment variable with that URL, if it is secret.",
    ),
    "apprise": Field(
        _apprise,
        "a URL that apprise knows, as in ntfy://topic",
        text="A service that the program apprise sends the event to.",
    ),
    "apprise_env": Field(
        read_variable,
        f'{_VARIABLE} "TELEGRAM_URL"',
        text="The environment variable with that URL, if it is secret.",
    ),
    "secret_env": Field(
        read_variable,
        f'{_VARIABLE} "HOOK_SECRET"',
        text="The environment variable with the key that signs what is posted to a webhook.",
    ),
    "events": Field(
        _events,
        f'kinds of events such as ["failed", "limit_*"], or "{ALL}"',
        '["confirm", "parked", "failed", "expired", "lost", "limit_reduced", "paused"]',
        "The kinds of events that are told, with * and ?.",
    ),
    "only": Field(
        None,
        'a table, as in { task = "oracle-*" }',
        text="Patterns for fields of an event; one that lacks such a field is not told.",
    ),
    "timeout": Field(
        duration(Ms(100), Ms(300_000)),
        'a time from "100ms" to "5m"',
        '"10s"',
        "How long one try may take.",
    ),
    "tries": Field(
        whole(1, 20),
        "a whole number from 1 to 20",
        "5",
        "How often an event is tried before it is given up.",
    ),
}
