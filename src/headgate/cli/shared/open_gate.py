"""What the verbs share: opening the gate, and JSON."""

import os
import sys
from argparse import Namespace
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.config import Defaults, Watched, find
from headgate.core.printable_text import plain
from headgate.errors import ConfigError, UsageError
from headgate.gate import Gate
from headgate.gate.live_settings import Source
from headgate.store import open_store

if TYPE_CHECKING:
    from headgate.core.display.old_json_names import Old

_LONGEST_NOTE = 200


def open_gate(args: Namespace) -> Gate:
    """The gate that the global options and the environment point at."""
    gate = Gate.open(args.store, config=args.config_file)
    if gate.project is not None and gate.project.advice:
        say(f"note: {gate.project.advice}")
    return gate


def open_anyway(args: Namespace) -> Gate:
    """The same; but a broken configuration does not keep anyone from looking and cancelling.

    Who waits is let in by others then, if it is the file: this process does not know the limits.
    """
    try:
        return open_gate(args)
    except ConfigError as error:
        say(f"{error}\n(going on without it)")
    config: Source = Defaults()
    with suppress(ConfigError):  # it was HEADGATE_LIMITS, or a project's file
        config = Watched(Path(args.config_file) if args.config_file else find())
    return Gate(open_store(args.store), config=config)


def warn_of_slips(gate: Gate, keys: Iterable[str]) -> None:
    """Say so of keys that were never used and are so like others that they may be slips."""
    wanted = [key for key in dict.fromkeys(keys) if key]
    known = gate.known_keys() if wanted else []
    for key in wanted:
        if key not in known:
            from headgate.core.likely_slips import meant_key

            if meant := meant_key(key, known, gate.pool_names()):
                say(f"warning: {key} was never used here; did you mean {meant}?")


def print_json(found: object, old: "Old | None" = None) -> None:
    """Print one JSON document: for people if a person reads it, on one line otherwise.

    The names that it had before are printed with it, and a warning, unless only the new ones are
    wanted.
    """
    from headgate.core.display.json_shapes import encode

    shown = with_old_names(found, old)
    print(encode(shown, indent=2 if sys.stdout.isatty() else None))
    if old is not None and old.warns and shown != found:
        warn_of_old_names(old)


def with_old_names(found: object, old: "Old | None") -> object:
    """A document as scripts of before expect it, unless only the new names are wanted."""
    if old is None or wants_only_new():
        return found
    from headgate.core.display.old_json_names import restore

    return restore(found, old)


def wants_only_new() -> bool:
    """Whether only the new names are wanted; refuses what HEADGATE_SCHEMA must not be."""
    from headgate.core.display.json_shapes import VARIABLE, only_new

    return only_new(os.environ.get(VARIABLE, ""))


def warn_of_old_messages() -> None:
    """Say of notifications what is said of other JSON; who delivers has a HEADGATE_SCHEMA too."""
    if not wants_only_new():
        from headgate.core.display.old_json_names import MESSAGE

        warn_of_old_names(MESSAGE, "what [[notify]] tells: ")


def warn_of_old_names(old: "Old", where: str = "") -> None:
    """Tell people what changes, but never in between the data: `2>&1 | jq` has to go on working."""
    with suppress(OSError, ValueError):  # no files, as in a test: nothing to mix up
        out, err = sys.stdout.fileno(), sys.stderr.fileno()
        if os.path.sameopenfile(out, err) and not os.isatty(out):
            return
    say(f"{where}{old.warning()}")


def find_id(gate: Gate, text: str) -> int:
    """The id of a ticket, a lease or a job; of a job by its name, too."""
    if text.isascii() and text.isdigit() and len(text) < 19 and int(text):
        return int(text)
    if not text.strip() or text.isdigit() or not text.isprintable():
        raise UsageError(
            f"bad id {text[:40]!r}: expected a number or the name of a job, as shown by headgate "
            "queue"
        )
    return gate.find_job(text)


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
        print(f"headgate: {plain(text)}", file=sys.stderr, flush=True)
