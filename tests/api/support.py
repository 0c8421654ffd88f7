"""A real server process, asked over real sockets."""

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from tests.support import HEADGATE, LONG, Box

FOREIGN = {"Via": "1.1 somebody"}
"""What comes by way of a proxy is not the owner's, whoever has sent it."""


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever it is
        return json.loads(self.body)

    @property
    def code(self) -> str:
        assert self.headers["content-type"] == "application/problem+json", self
        return str(self.json["code"])


class Server:
    """A `headgate serve` in a box."""

    def __init__(self, box: Box, *words: str, listen: str = "127.0.0.1:0") -> None:
        self.box = box
        self.program = box.start(HEADGATE, "serve", "--listen", listen, *words)
        self.url = self.program.line()
        assert self.url, self.program.process.stderr and self.program.process.stderr.read()
        _, _, place = self.url.partition("://")
        self.host, _, port = place.rpartition(":")
        self.port = int(port) if port.isdigit() else 0
        self._connection: http.client.HTTPConnection | None = None

    def ask(
        self, method: str, path: str, body: object = None, *, token: str = "", **headers: str
    ) -> Answer:
        """Ask something; what is no bytes goes as JSON. `_` in a header's name stands for -."""
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            said |= {"Authorization": f"Bearer {token}", **FOREIGN}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if data is not None:
            said.setdefault("Content-Type", "application/json")
        with closing(http.client.HTTPConnection(self.host, self.port, timeout=LONG)) as connection:
            connection.request(method, path, data, said)
            answer = connection.getresponse()
            headers_ = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, headers_, answer.read())

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, body: object = None, **headers: str) -> Answer:
        return self.ask("POST", path, body, **headers)

    def put(self, path: str, body: object = None, **headers: str) -> Answer:
        return self.ask("PUT", path, body, **headers)

    def connect(self) -> socket.socket:
        """A plain connection."""
        return socket.create_connection((self.host, self.port), timeout=LONG)

    def raw(self, data: bytes) -> bytes:
        """What comes back until the other end closes."""
        with self.connect() as sock:
            sock.sendall(data)
            return b"".join(chunks(sock))

    def token(self, scope: str, *words: str) -> str:
        """A new token."""
        return self.box.headgate("token", "create", "--scope", scope, *words).strip()

    def stream(self, path: str, **headers: str) -> "Stream":
        return Stream(self, path, headers)

    def close(self) -> None:
        self.program.close()


def chunks(sock: socket.socket) -> Iterator[bytes]:
    try:
        while data := sock.recv(65536):
            yield data
    except ConnectionResetError:
        return


class Stream:
    """Server-sent events as they come."""

    def __init__(self, server: Server, path: str, headers: Mapping[str, str]) -> None:
        self._connection = http.client.HTTPConnection(server.host, server.port, timeout=LONG)
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request("GET", path, headers=said)
        self._answer = self._connection.getresponse()
        self.status = self._answer.status
        assert self.status == 200, self._answer.read()

    def next(self) -> dict[str, str]:
        """The fields of the next event; empty at the end. Comments are passed over."""
        found: dict[str, str] = {}
        while line := self._answer.readline().decode():
            name, colon, value = line.rstrip("\n").partition(": ")
            if not name and not colon:
                if "event" in found:
                    return found
                found = {}
            elif colon:
                found[name] = value
        return {}

    def close(self) -> None:
        self._connection.close()
