"""A store behind a server, and clients that ask it: one machine plays two."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from headgate import Gate
from tests.support import HEADGATE, STEADY, Box, Program

Opener = Callable[..., Gate]


class RemoteBox(Box):
    """A box whose programs ask a server; the store is used by nobody else."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.store = self.url
        self.port = 0
        self._servers: list[Program] = []

    def serve(self) -> Program:
        """Start a server; a second one where the first was."""
        server = self.start(
            HEADGATE, "--store", self.store, "serve", "--listen", f"127.0.0.1:{self.port}",
        )  # fmt: skip
        self._servers.append(server)
        line = server.line()
        assert line.startswith("http://127.0.0.1:"), line
        self.port = int(line.rpartition(":")[2])
        self.url = line
        self.env["HEADGATE_STORE"] = self.url
        return server

    def gate(
        self, *, limits: Mapping[str, int] | None = None, fence: float | str | None = None
    ) -> Gate:
        gate = Gate.open(self.url, limits=limits, fence=fence)
        self._gates.append(gate)
        return gate

    def local(self) -> Gate:
        """A gate beside the server."""
        gate = Gate.open(self.store)
        self._gates.append(gate)
        return gate

    def left_over(self) -> dict[str, list[Any]]:
        """What should not be there once nobody holds or waits, beside the server itself."""
        servers = {row[0] for row in self.rows("member") if row[2] == self.server.pid}
        found: dict[str, list[Any]] = {}
        for name, rows in super().left_over().items():
            left = [row for row in rows if row[0] not in servers and row[:12] not in servers]
            if left:
                found[name] = left
        return found

    @property
    def server(self) -> Program:
        """The server that was started last."""
        return self._servers[-1]


@pytest.fixture
def quiet_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteBox]:
    """The same, with nothing started yet."""
    box = RemoteBox(tmp_path)
    box.defaults = STEADY
    box.config('[pools.host]\nlimit = 40\n[run]\ngrace = "1s"\n')
    for name, value in box.env.items():
        if name.startswith("XDG_"):
            monkeypatch.setenv(name, value)
    yield box
    box.close()


@pytest.fixture
def box(quiet_box: RemoteBox, monkeypatch: pytest.MonkeyPatch) -> RemoteBox:
    quiet_box.serve()
    monkeypatch.setenv("HEADGATE_STORE", quiet_box.url)
    return quiet_box


@pytest.fixture
def open_gate(box: RemoteBox) -> Opener:
    """Opens gates of one server: each call is another client."""
    return box.gate


@pytest.fixture
def steady() -> None:
    """The boxes of these tests are."""
