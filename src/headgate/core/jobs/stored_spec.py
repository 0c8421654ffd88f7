"""What a job was submitted with, as a store keeps it: a text that may have been damaged.

A job whose text cannot be read is never run, and keeps nobody from anything: see `UNREADABLE`.
"""

from collections.abc import Callable, Mapping
from typing import Any

_LARGEST = 2**53


def read_spec(text: str) -> dict[str, Any] | None:
    """The fields that a text names, of those that are known; None if the text is damaged."""
    import json

    if not text.isascii():  # as it was written; a sign more may be a letter of the command
        return None
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or not said.keys() >= {"argv", "cwd"} or not said["argv"]:
        return None
    found = {name: said[name] for name in _FIELDS if name in said}
    if not all(_FIELDS[name](value) for name, value in found.items()):
        return None
    for name in ("argv", "models"):
        if name in found:
            found[name] = tuple(found[name])
    return found


def _is_text(value: object) -> bool:
    """Whether a program can be given this: no system takes a NUL or half a character."""
    return isinstance(value, str) and "\0" not in value and _stands_for_bytes(value)


def _is_input(value: object) -> bool:
    return value is None or (isinstance(value, str) and _stands_for_bytes(value))


def _stands_for_bytes(value: str) -> bool:
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _is_list(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_environment(value: object) -> bool:
    return isinstance(value, dict) and all(
        name and "=" not in name and _is_text(name) and _is_text(text)
        for name, text in value.items()
    )


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST


def _is_time(value: object) -> bool:
    return value is None or _is_count(value)


def _are_terms(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(one, bool) or _is_time(one) for one in value.values()
    )


_FIELDS: Mapping[str, Callable[[object], bool]] = {
    "argv": _is_list,
    "cwd": _is_text,
    "env": _is_environment,
    "view": _is_text,
    "expires": _is_time,
    "models": _is_list,
    "fallback_after": _is_time,
    "escalate": lambda value: isinstance(value, bool),
    "retries": _is_count,
    "attempts": _is_count,
    "backoff": _is_count,
    "longest_backoff": _is_count,
    "grace": _is_time,
    "terms": _are_terms,
    "stdin": _is_input,
    "confirm": _is_time,
}
"""All fields of a Spec, and what each may be."""
