"""An event as it is told: one JSON object with the same names every time.

event      what happened: `failed`, `parked`, `paused` … ; `test` for a test, `missed` if events
           were forgotten before they could be told
at         when, as ISO 8601 in UTC
id         the job or the lease it is about; null for what is about a pool
task       whom the work was for; empty if nobody said, or if it is not about work
key        what the work uses; empty for none
pool       the pool it is about; empty for none
text       what there is to say: "exit 1", "position 3: host is full (3/3)"
summary    all of that in a line, for people
position   the place in line, for `queued`; else null
until      when a paused pool opens again; null if nobody knows, and for everything else
target     the name of the target that is told
host       the machine that tells it
delivery   the same for each try to tell one event: whoever has seen it can drop it
"""

import json
import re
import socket
import time
from typing import Any

from headgate.core.amounts import parse_duration
from headgate.core.notices import TEST
from headgate.core.views import Event
from headgate.errors import UsageError

_LONGEST = 2_000
_LAST_SECOND = 253_402_300_799.0  # of the year 9999


def message(event: Event, target: str, delivery: str) -> dict[str, Any]:
    """What a target is told of an event. Whatever is in it, it comes out as plain text."""
    return {
        "event": event.kind,
        "at": _iso(event.at),
        "id": event.work,
        "task": _plain(event.task),
        "key": _plain(event.key),
        "pool": _plain(event.pool),
        "text": _plain(event.text),
        "summary": summary(event),
        "position": _position(event),
        "until": _until(event),
        "target": target,
        "host": socket.gethostname(),
        "delivery": delivery,
    }


def encode(said: dict[str, Any]) -> bytes:
    """A message as a line of JSON, in ASCII."""
    return json.dumps(said, allow_nan=False).encode("ascii")


def trial(target: str) -> Event:
    """An event that says no more than that it came through."""
    text = f"headgate can reach {target}"
    return Event(0, time.time(), TEST, None, "", "", "", text)


def title(event: Event) -> str:
    """What happened, in a few words."""
    return f"headgate: {event.kind.replace('_', ' ')}"


def summary(event: Event) -> str:
    """An event in a line, for people."""
    about = [str(event.work or ""), event.task, event.key, event.pool]
    parts = [event.kind.replace("_", " "), " ".join(filter(None, about)), event.text]
    return _plain(": ".join(filter(None, parts)))


def _position(event: Event) -> int | None:
    found = re.match(r"position ([0-9]{1,9})\b", event.text) if event.kind == "queued" else None
    return int(found[1]) if found else None


def _until(event: Event) -> str | None:
    """When a pause ends: its event says how long it lasts."""
    found = re.match(r"for ([0-9][0-9a-z.]*)", event.text) if event.kind == "paused" else None
    try:
        return _iso(event.at + parse_duration(found[1]) / 1000) if found else None
    except UsageError:
        return None


def _iso(at: float) -> str:
    ms = round(min(max(at, 0.0), _LAST_SECOND) * 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(ms // 1000))}.{ms % 1000:03d}Z"


def _plain(text: str) -> str:
    """A text of unknown origin: not too long, and without anything that steers a terminal."""
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return "".join(letter if letter.isprintable() else " " for letter in short)
