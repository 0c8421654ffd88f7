"""Checks where upstream's own count is read. No key belongs in the file, nor into a message."""

import re
from collections.abc import Mapping

from headgate.config.error_text import Place, key_like
from headgate.config.problems import Notes, read_table
from headgate.core.admission.pools import UsageSource
from headgate.core.table_fields import (
    Field,
    FieldRefused,
    Fields,
    choice,
    duration,
    listed,
    spelled,
    whole,
)
from headgate.core.times import Ms
from headgate.core.urls import is_loopback, split_url
from headgate.errors import UsageError

_ALWAYS = ("kind", "every", "margin")
_TAKES = {
    "umans": (*_ALWAYS, "url", "key_env"),
    "featherless": (*_ALWAYS, "url", "key_env"),
    "json": (*_ALWAYS, "url", "key_env", "used", "limit"),
    "python": (*_ALWAYS, "call"),
}
_NEEDS = {
    "umans": ("url",),
    "featherless": ("url",),
    "json": ("url", "used"),
    "python": ("call",),
}
_SEND_A_KEY = ("umans", "featherless")
"""The kinds that send the usual variable's key if none is named."""

_IDENTIFIERS = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_STEPS = r"(?:[^.\[\]]+|\[[0-9]+\])(?:\.[^.\[\]]+|\[[0-9]+\])*"
_KEY_IN_QUERY = re.compile(
    r"[?&;](?:[\w.-]*[_.-])?(?:api|access|auth|bearer)?"
    r"(?:key|token|secret|password|passwd|auth|authorization)=[^&;#]",
    re.IGNORECASE,
)
_ENVIRONMENT = "keys come from the environment: name the variable in {}"


def read_usage(notes: Notes, place: Place, parent: Mapping[str, object]) -> UsageSource | None:
    """The source of readings at this place; None if it is no table."""
    table = notes.table(place[:-1], parent, "usage")
    if table is not parent["usage"]:
        return None
    found = table.get("kind")
    kind = found.strip().lower() if isinstance(found, str) else ""
    taken = _TAKES.get(kind, FIELDS)
    odd = {name for name in table if name in FIELDS and name not in taken}
    said = read_table(notes, place, {n: v for n, v in table.items() if n not in odd}, FIELDS)
    if kind in _TAKES:
        _check_kind(notes, place, table, kind)
    source = UsageSource(**{"kind": "", **said})
    if (source.key_env or kind in _SEND_A_KEY) and in_the_clear(source.url):
        notes.warn((*place, "url"), "the key travels unencrypted; https keeps it from others")
    return source


def _check_kind(notes: Notes, place: Place, table: Mapping[str, object], kind: str) -> None:
    """Note what this kind of source lacks, and what it does not take."""
    for name, field in FIELDS.items():
        if name in _NEEDS[kind] and name not in table:
            notes.wrong(place, f'{name}: missing; kind = "{kind}" needs {field.allowed}')
        if name in table and name not in _TAKES[kind]:
            takers = tuple(other for other, names in _TAKES.items() if name in names)
            notes.wrong((*place, name), f'not with kind = "{kind}", only with {listed(takers)}')


def read_url(value: object, instead: str = "key_env") -> str:
    """A URL to ask; it is never repeated, for its path and query may hold a key.

    `instead` is the setting that names an environment variable for what is secret.
    """
    if not isinstance(value, str):
        raise UsageError("not a text")
    authority = re.split(r"[/?#]", value.partition("://")[2], maxsplit=1)[0]
    if "@" in authority:
        raise FieldRefused(f"has a user name or a password in it; {_ENVIRONMENT.format(instead)}")
    if _KEY_IN_QUERY.search(value) or key_like(value, by_prefix=True):
        raise FieldRefused(f"has a key in it; {_ENVIRONMENT.format(instead)}")
    if len(value) > 2_000 or split_url(value) is None:
        raise FieldRefused("found a text that is not such a URL")
    return value


def in_the_clear(text: str) -> bool:
    """Whether what is sent there can be read on the way."""
    url = split_url(text)
    return url is not None and url.scheme == "http" and not is_loopback(url.host)


def read_variable(value: object) -> str:
    """The name of a variable. What is no name may be the key itself, and is never repeated."""
    if not isinstance(value, str):
        raise UsageError("not a text")
    if key_like(value):
        raise FieldRefused(
            "found what looks like a key, which is not repeated here; "
            "put it into an environment variable, and write the name of that"
        )
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,127}", value):
        raise FieldRefused("found a text that is no name; it is not repeated, for it may be a key")
    return value


_PATH = 'the place of a number in the answer, as in "data.0.in_flight"'
FIELDS: Fields = {
    "kind": Field(
        choice(*_TAKES),
        listed(tuple(_TAKES)),
        text="How upstream tells it; json and python are for any provider.",
        required=True,
    ),
    "url": Field(
        read_url,
        "a URL such as https://api.example.com/usage",
        text="What is asked; every kind but python needs it.",
    ),
    "key_env": Field(
        read_variable,
        'the name of an environment variable, as in "UMANS_API_KEY"',
        text="The environment variable with the key that is sent; never the key itself.",
    ),
    "used": Field(
        spelled(_STEPS, 200),
        _PATH,
        text="Where in the answer of a json source the number in use stands.",
    ),
    "limit": Field(
        spelled(_STEPS, 200),
        _PATH,
        text="Where in the answer of a json source the limit stands, if it is told.",
    ),
    "call": Field(
        spelled(rf"{_IDENTIFIERS}:{_IDENTIFIERS}", 200),
        'a function, as in "package.module:function"',
        text="What a python source calls.",
    ),
    "every": Field(
        duration(Ms(250), Ms(600_000)),
        'a time from "250ms" to "10m"',
        '"2s"',
        "The time between two readings while somebody waits.",
    ),
    "margin": Field(
        whole(0, 1_000),
        "a whole number from 0 to 1000",
        "0",
        "How many seats to leave free of what upstream allows.",
    ),
}
