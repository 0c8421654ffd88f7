"""Agents under the meter `requests`, a provider of their own, and what really passed in between."""

import http.client
import io
import json
import re
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

from headgate.sim import journal
from headgate.sim.journal import JournalLine
from tests.support import HEADGATE, LONG, Box, Program

AGENT = Path(__file__).with_name("agent.py")
DIALECTS = ("messages", "chat", "responses", "gemini")
_NUMBER = re.compile(rb"\r\nx-number: ([^\r]+)\r\n", re.IGNORECASE)


class Recorder:
    """Passes bytes to a provider, and keeps what it answered: the truth to compare with."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listening.getsockname()[1]
        self._passed: list[tuple[bytearray, bytearray]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def answers(self) -> dict[str, tuple[int, bytes]]:
        """The status and body that were sent for each request, by the number it carried.

        Of several answers to one request, the one that was no refusal.
        """
        found: dict[str, tuple[int, bytes]] = {}
        for asked, answered in list(self._passed):
            reader = _Kept(bytes(answered))
            for number in _NUMBER.findall(bytes(asked)):
                answer = http.client.HTTPResponse(cast("socket.socket", reader))
                with suppress(http.client.HTTPException):  # it has not ended, or was broken off
                    answer.begin()
                    data = answer.read()
                    if answer.status < 300 or number.decode() not in found:
                        found[number.decode()] = (answer.status, data)
        return found

    def close(self) -> None:
        """Take no more."""
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._to))
            except OSError:  # the provider has ended
                client.close()
                return
            asked, answered = bytearray(), bytearray()
            self._passed.append((asked, answered))
            threading.Thread(
                target=_relay, args=(client, server, asked, answered), daemon=True
            ).start()


def _relay(
    client: socket.socket, server: socket.socket, asked: bytearray, answered: bytearray
) -> None:
    with client, server:
        back = threading.Thread(target=_pump, args=(server, client, answered), daemon=True)
        back.start()
        _pump(client, server, asked)
        back.join()


def _pump(one: socket.socket, other: socket.socket, kept: bytearray) -> None:
    with suppress(OSError):
        while data := one.recv(65_536):
            kept += data
            other.sendall(data)
    for end in (one, other):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class _Kept(io.BytesIO):
    """Bytes that several answers are read from, one after the other."""

    def makefile(self, _: str) -> IO[bytes]:
        return self

    def close(self) -> None:
        pass


class Provider:
    """`headgate sim serve`, with a recorder in front of it."""

    def __init__(self, box: Box, *options: str) -> None:
        self._log = box.folder / "provider.log"
        words = ("sim", "serve", "--json", "--log", str(self._log), *options)
        self._program: Program = box.start(HEADGATE, *words)
        said = json.loads(self._program.line())
        self.recorder = Recorder(int(said["url"].rsplit(":", 1)[1].strip("/")))

    @property
    def url(self) -> str:
        """Where to ask."""
        return f"http://127.0.0.1:{self.recorder.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What agents are told of it: each API's base URL."""
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "GOOGLE_GEMINI_BASE_URL": self.url,
        }

    def lines(self) -> list[JournalLine]:
        """What it has written down."""
        return journal.read(self._log) if self._log.exists() else []

    def events(self, kind: str) -> list[JournalLine]:
        """What it has written down of one kind."""
        return [line for line in self.lines() if line.event == kind]

    def close(self) -> None:
        """End it."""
        self.recorder.close()
        self._program.close()


@contextmanager
def provider(box: Box, *options: str) -> Iterator[Provider]:
    """A provider for the length of a test."""
    it = Provider(box, *options)
    try:
        yield it
    finally:
        it.close()


def agent(box: Box, to: Provider, *words: str, run: tuple[str, ...] = ()) -> Program:
    """A `headgate run --meter requests` of the agent of these tests."""
    command = (sys.executable, str(AGENT), *words)
    return box.run("--meter", "requests", "-q", *run, "--", *command, env=to.environment)


def said(program: Program) -> list[dict[str, Any]]:
    """What an agent has got, request by request; it must have ended well."""
    out, errors = program.process.communicate(timeout=3 * LONG)
    assert program.process.returncode == 0, errors.decode()
    return [json.loads(line) for line in out.splitlines()]
