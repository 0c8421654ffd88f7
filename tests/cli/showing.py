"""A store with something of everything in it, and each verb that shows JSON, run over it."""

import contextlib
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headgate import HeadgateError
from headgate.core.agents.meters import Meter, MeterChoice
from tests.cli.golden.compare import Ask, Said
from tests.store.rows import request
from tests.support import LONG, Box

OPUS = "anthropic/claude-opus-4-6"
CONFIG = """
[pools.host]
limit = 1
[pools.anthropic]
limit = 4
rpm = 50
[[notify]]
name = "book"
command = "cat > /dev/null"
only = { task = "oracle-*" }
"""
CANDIDATES = '{"id": 4, "key": "a/b"}\n{"task": "t"}\n'
JOBS = '{"command": ["true"]}\n{"command": ["true"], "name": "second"}\n'
VERBS: dict[str, tuple[str, ...]] = {
    "events": ("events",),
    "queue": ("queue",),
    "queue-all": ("queue", "--all"),
    "submit": ("submit", "-m", "a/b", "--task", "t", "--name", "n", "--", "true"),
    "submit-batch": ("submit", "--batch", "JOBS"),
    "wait": ("wait", "4", "5", "6", "--timeout", "0"),
    "why-ended": ("why", "1"),
    "why-running": ("why", "2"),
    "why-waiting": ("why", "3"),
    "why-job": ("why", "4"),
    "why-held": ("why", "5"),
    "why-ended-job": ("why", "6"),
    "hold": ("hold", "4", "77", "x"),
    "release": ("release", "5"),
    "move": ("move", "4", "-p", "interactive"),
    "retry": ("retry", "6"),
    "cancel": ("cancel", "4", "77", "x"),
    "status": ("status",),
    "report": ("report", "anthropic", "rate-limited", "--retry-after", "90"),
    "limits": ("limits",),
    "config-check": ("config", "check"),
    "config-bad": ("config", "check", "BAD"),
    "capacity": ("capacity", OPUS),
    "capacity-none": ("capacity",),
    "plan": ("plan", "CANDIDATES"),
    "notify-list": ("notify", "list"),
    "notify-test": ("notify", "test"),
    "doctor": ("doctor",),
    "probe": ("probe", "--most", "1", "--", "true"),
}
LINES = {"events"}
"""Those that print a document on each line."""
MAPS = {"unlimited", "reserve"}
"""Names under which an object has keys and classes for names."""
_PASSING = {
    **dict.fromkeys(("eta", "waited", "held", "age", "seconds", "wall", "cpu"), "SECONDS"),
    **dict.fromkeys(("memory", "peak"), "BYTES"),
    **dict.fromkeys(("retry_after", "first_byte", "took"), "SECONDS"),
    "pid": "PID",
    "path": "PATH",
    "errors": "ERRORS",
    "recommended": "N",
    "reasons": "REASONS",
}


@contextlib.contextmanager
def scene(box: Box, ask: Ask) -> Iterator[None]:
    """One was (1), one runs (2), one waits (3); jobs are queued (4), held (5) and cancelled (6)."""
    box.config(CONFIG)
    gate = box.gate()
    gate.pause("umans")
    gate.slot("a/b", task="brief").acquire().release()
    runs = gate.slot(OPUS, task="oracle-1", label="claude").acquire()
    gate.keep_meter(runs.id, MeterChoice(Meter.WIRE, None, "claude sends the same", ""))
    ended = [request(OPUS, refused=1), request(OPUS, told=False)]
    at = gate.moment(time.time())
    gate.record_requests(runs.id, [row._replace(at=at) for row in ended], 2, at)
    waits = threading.Event()

    def stand_in_line() -> None:
        with contextlib.suppress(HeadgateError):  # the gate is closed at the end
            gate.slot("openai/gpt-5", on_wait=lambda _: waits.set()).acquire()

    thread = threading.Thread(target=stand_in_line)
    thread.start()
    assert waits.wait(LONG)
    for words in (("-m", OPUS, "--task", "t"), ("--hold",), ()):
        assert ask("submit", "-q", *words, "--", "true").code == 0
    assert ask("cancel", "6").code == 0
    for name, text in (("JOBS", JOBS), ("CANDIDATES", CANDIDATES), ("BAD", "[pools.host\n")):
        (box.folder / name).write_text(text)
    yield
    gate.close()
    thread.join(LONG)


def show(ask: Ask, folder: Path, verb: str) -> tuple[Any, Said]:
    """The document that a verb prints as JSON, or the list of those on its lines."""
    words = [str(folder / word) if word.isupper() else word for word in VERBS[verb]]
    words.insert(2 if words[0] in {"config", "notify"} else 1, "--json")
    said = ask(*words)
    lines = [json.loads(line) for line in said.out.splitlines()]
    if verb in LINES:
        return lines, said
    (document,) = lines
    return document, said


def timeless(value: Any, name: str = "") -> Any:  # noqa: ANN401 - any JSON
    """A document without what passes: times, durations, process ids."""
    if isinstance(value, dict):
        return {key: timeless(item, key) for key, item in value.items()}
    if name in _PASSING and value is not None and value != []:
        return _PASSING[name]
    if isinstance(value, list):
        return [timeless(item, name) for item in value]
    if isinstance(value, str) and value[4:5] == "-" and value.endswith("Z"):
        return "TIME"
    return re.sub(r"\d+\.\d+s\b", "SECONDS", value) if isinstance(value, str) else value
