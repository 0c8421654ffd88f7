"""Somebody to tell, and something to tell."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headgate import Gate
from headgate.core.times import Seconds
from headgate.notify import Notifier
from tests.notify.receiver import Receiver
from tests.support import LONG, Box, until


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    it = Receiver()
    yield it
    it.close()


def _whole_lines(book: Path) -> list[str]:
    """Its lines, but for one that somebody is just writing."""
    *lines, _ = book.read_text().split("\n")
    return lines


class Desk:
    """A box with targets, and notifiers that deliver to them."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.book = box.folder / "told"

    def script(self, text: str) -> str:
        """A hook as a program of its own; returns its path."""
        path = self.box.folder / "hook.sh"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    def target(self, **said: object) -> str:
        """A [[notify]] table; by default one that writes all it is told into the book."""
        if not {"command", "url", "url_env", "apprise", "apprise_env"} & said.keys():
            said["command"] = f"cat >> {self.book}"
        return "[[notify]]\n" + "".join(
            f"{name} = {json.dumps(value)}\n" for name, value in said.items()
        )

    def told(self, path: Path | None = None) -> list[dict[str, Any]]:
        """What the book says."""
        book = path or self.book
        return [json.loads(line) for line in _whole_lines(book)] if book.exists() else []

    def wait_for(self, count: int) -> list[dict[str, Any]]:
        until(lambda: len(self.told()) >= count)
        return self.told()

    @contextmanager
    def delivering(self, gate: Gate, *names: str) -> Iterator[Notifier]:
        """A notifier at work, which has seen these targets."""
        stop = threading.Event()
        notifier = Notifier(gate, first_wait=Seconds(0.01), patience=Seconds(0.0))
        thread = threading.Thread(target=notifier.run, args=(stop,))
        thread.start()
        try:
            self.seen(gate, *names)
            yield notifier
        finally:
            stop.set()
            thread.join(LONG)
            assert not thread.is_alive()

    def seen(self, gate: Gate, *names: str) -> None:
        """Wait until somebody has seen these targets: what happens from now on is told."""
        notices = gate.notification_feed()
        until(lambda: all(row.behind is not None for row in notices.standings(names)))

    def caught_up(self, gate: Gate, *names: str) -> None:
        """Wait until nothing is left to be told."""
        notices = gate.notification_feed()
        until(lambda: all(row.behind == 0 for row in notices.standings(names)))


@pytest.fixture
def desk(box: Box) -> Desk:
    return Desk(box)


@pytest.fixture
def failures() -> Callable[[Gate], list[str]]:
    """What could not be told, by the events of a gate."""
    return lambda gate: [event.text for event in gate.events() if event.event == "notify_failed"]
