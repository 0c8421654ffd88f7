"""An event as it is told: one JSON object with the same names every time.

It has the names of every event (headgate.core.display.json_shapes), and besides:

summary    all of it in a line, for people
position   the place in line, for `queued`; else null
until      when a paused pool opens again; null if nobody knows, and for everything else
target     the name of the target that is told
host       the machine that tells it
delivery   the same for each try to tell one event: whoever has seen it can drop it

What happened is `test` in a test, and `missed` if events were forgotten before they could be told.
"""

import re
import socket
import time
from typing import Any

from headgate.core.display import json_shapes, old_json_names
from headgate.core.display.snapshots import Event
from headgate.core.notification_targets import TEST
from headgate.core.printable_text import printable
from headgate.core.quantities import parse_duration
from headgate.core.times import Seconds, seconds
from headgate.errors import UsageError

_LONGEST = 2_000


def message(event: Event, target: str, delivery: str, *, only_new: bool = True) -> dict[str, Any]:
    """What a target is told of an event. Whatever is in it, it comes out as plain text."""
    clean = event._replace(
        task=_plain(event.task),
        key=_plain(event.key),
        pool=_plain(event.pool),
        text=_plain(event.text),
        name=_plain(event.name),
    )
    said = {
        **json_shapes.document(json_shapes.event(clean)),
        "summary": summary(event),
        "position": _position(event),
        "until": _until(event),
        "target": target,
        "host": socket.gethostname(),
        "delivery": delivery,
    }
    return said if only_new else old_json_names.MESSAGE.restore(said)


def encode(said: dict[str, Any]) -> bytes:
    """A message as a line of JSON, in ASCII."""
    return json_shapes.encode(said).encode("ascii")


def trial(target: str) -> Event:
    """An event that says no more than that it came through."""
    text = f"headgate can reach {target}"
    return Event(
        seq=0, at=Seconds(time.time()), event=TEST, work=None, key="", task="", pool="", text=text
    )


def title(event: Event) -> str:
    """What happened, in a few words."""
    return f"headgate: {event.event.replace('_', ' ')}"


def summary(event: Event) -> str:
    """An event in a line, for people."""
    about = [str(event.work or ""), event.task, event.key, event.pool]
    parts = [event.event.replace("_", " "), " ".join(filter(None, about)), event.text]
    return _plain(": ".join(filter(None, parts)))


def _position(event: Event) -> int | None:
    found = re.match(r"position ([0-9]{1,9})\b", event.text) if event.event == "queued" else None
    return int(found[1]) if found else None


def _until(event: Event) -> str | None:
    """When a pause ends: its event says how long it lasts."""
    found = re.match(r"for ([0-9][0-9a-z.]*)", event.text) if event.event == "paused" else None
    try:
        return json_shapes.iso(event.at + seconds(parse_duration(found[1]))) if found else None
    except UsageError:
        return None


def _plain(text: str) -> str:
    """A text of unknown origin: not too long, and without anything that steers a terminal."""
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return printable(short)
