"""What the verbs share: opening the gate, and JSON."""

import sys
from argparse import Namespace
from contextlib import suppress

from headgate.config import Defaults
from headgate.errors import ConfigError, UsageError
from headgate.gate import Gate
from headgate.store import open_store

_LONGEST_NOTE = 200


def open_gate(args: Namespace) -> Gate:
    """The gate that the global options and the environment point at."""
    return Gate.open(args.store, config=args.config_file)


def open_anyway(args: Namespace) -> Gate:
    """The same; but a broken configuration does not keep anyone from looking and cancelling.

    Who waits is let in by others then: this process does not know the limits.
    """
    try:
        return open_gate(args)
    except ConfigError as error:
        say(f"{error}\n(going on without it)")
        return Gate(open_store(args.store), config=Defaults())


def print_json(value: object) -> None:
    """Print one JSON document: for people if a person reads it, on one line otherwise."""
    import json

    indent = 2 if sys.stdout.isatty() else None
    print(json.dumps(plain(value), indent=indent, allow_nan=False))


def plain(value: object) -> object:
    """Frozen values as dictionaries, all the way down."""
    if hasattr(value, "_asdict"):
        return {name: plain(field) for name, field in value._asdict().items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


def parse_id(text: str) -> int:
    """The id of a ticket, a lease or a job."""
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text)):
        raise UsageError(f"bad id {text!r}: expected a number, as shown by headgate queue")
    return int(text)


def parse_note(text: str) -> str:
    """A note for those who wait: it is shown on their terminals."""
    note = text.strip()
    if len(note) > _LONGEST_NOTE or not note.isprintable():
        raise UsageError(
            f"bad --note {note[:60]!r}: expected one printable line of at most "
            f"{_LONGEST_NOTE} characters"
        )
    return note


def say(text: str) -> None:
    """Tell a person something, beside the data."""
    with suppress(OSError):
        print(f"headgate: {text}", file=sys.stderr, flush=True)
