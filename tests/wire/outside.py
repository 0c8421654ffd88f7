"""The world outside of a tap: a provider with TLS, and the user's own proxy that leads to it.

The proxy maps the names of hosts to the provider on loopback, so that an agent can ask for
api.anthropic.com and no name is ever looked up.
"""

import gzip
import json
import os
import select
import socket
import ssl
import threading
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar, NamedTuple, Self
from urllib.parse import urlsplit

from headgate.wire.tap_secret import TapSecret, make_certificates, server_context

HOSTS = (
    "api.anthropic.com",
    "api.openai.com",
    "chatgpt.com",
    "generativelanguage.googleapis.com",
    "example.test",
)
_HOPS = ("host", "connection", "transfer-encoding", "content-length", "accept-encoding")
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-5-5",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 5},
}


class Asked(NamedTuple):
    """One request, as the provider saw it."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes


class Outside:
    """A provider and a proxy, in threads, for as long as the block lasts."""

    def __init__(self, folder: Path, behind: str = "") -> None:
        made = make_certificates(HOSTS)
        self.authority = folder / "outside.pem"
        self.authority.write_bytes(made.authority)
        self.asked: list[Asked] = []
        self.connected: list[str] = []
        """What the proxy was asked to connect to, and with which login."""
        self.behind = urlsplit(behind).netloc
        """Another provider that answers, without TLS; empty if this one does."""
        self.status = 200
        self.headers: dict[str, str] = {}
        self.says: dict[str, bytes] = {}
        """What is answered at some paths, whoever is behind."""
        self.answer = json.dumps(MESSAGE).encode()
        handler = type("Handler", (_Handler,), {"outside": self})
        self._provider = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._provider.daemon_threads = True
        context = server_context(TapSecret(made.identity.decode()))
        self._provider.socket = context.wrap_socket(
            self._provider.socket, server_side=True, do_handshake_on_connect=False
        )
        self._proxy = socket.create_server(("127.0.0.1", 0))
        self._over, self._stop = os.pipe()
        self._threads = [
            threading.Thread(target=self._provider.serve_forever, args=(0.05,)),
            threading.Thread(target=self._accept),
        ]

    @property
    def proxy(self) -> str:
        return f"http://user:word@127.0.0.1:{self._proxy.getsockname()[1]}"

    @property
    def port(self) -> int:
        """The provider's own."""
        return self._provider.server_port

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.write(self._stop, b".")
        self._provider.shutdown()
        for thread in self._threads:
            thread.join()
        self._provider.server_close()
        self._proxy.close()
        os.close(self._over)
        os.close(self._stop)

    def _accept(self) -> None:
        pipes: list[threading.Thread] = []
        while self._over not in _ready(self._proxy.fileno(), self._over):
            client, _ = self._proxy.accept()
            pipes.append(threading.Thread(target=self._serve, args=(client,)))
            pipes[-1].start()
        for pipe in pipes:
            pipe.join()

    def _serve(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as reads:
            head = []
            while (line := reads.readline().strip()) != b"":
                head.append(line.decode())
            words = head[0].split()
            login = [line for line in head if line.lower().startswith("proxy-authorization")]
            self.connected.append(" ".join([*words[:2], *login]))
            if words[1].partition(":")[0] not in HOSTS:
                client.sendall(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
                return
            with socket.create_connection(("127.0.0.1", self.port)) as server:
                client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                self._pass_on(client, server)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        ways = {client.fileno(): (client, server), server.fileno(): (server, client)}
        while True:
            for fd in _ready(*ways, self._over):
                if fd == self._over:
                    return
                reads, writes = ways[fd]
                try:
                    data = reads.recv(65_536)
                    writes.sendall(data)
                except OSError:
                    return
                if not data:
                    return


def _ready(*fds: int) -> list[int]:
    return select.select(fds, [], [])[0]


def plain(body: bytes, headers: dict[str, str]) -> bytes:
    """A body without gzip, which its headers then no longer name."""
    coding = next((name for name in headers if name.lower() == "content-encoding"), "")
    packed = headers.pop(coding, "") == "gzip"
    return gzip.decompress(body) if packed else body


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 20
    outside: ClassVar[Outside]

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.do_POST()

    def do_HEAD(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        body = self._body()
        outside = self.outside
        outside.asked.append(Asked(self.command, self.path, self.headers.items(), body))
        if outside.behind and "upgrade" in self.headers:
            self.send_response(426)
            self.send_header("content-length", "0")
            self.end_headers()
        elif outside.behind and self.path not in outside.says:
            self._pass_on(body)
        else:
            self._answer()

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        found = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _pass_on(self, body: bytes) -> None:
        kept = {n: v for n, v in self.headers.items() if n.lower() not in _HOPS}
        path = self.path.replace("/backend-api/codex/", "/v1/")
        behind = HTTPConnection(self.outside.behind, timeout=60)
        try:
            behind.request(self.command, path, plain(body, kept), kept)
            answer = behind.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _HOPS:
                    self.send_header(name, value)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            while piece := answer.read1(65_536):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        except OSError:  # whoever asked is gone
            self.close_connection = True
        finally:
            behind.close()

    def _answer(self) -> None:
        outside = self.outside
        answer = outside.says.get(self.path, outside.answer)
        self.send_response(outside.status)
        for name, value in outside.headers.items():
            self.send_header(name, value)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def handle(self) -> None:
        try:
            super().handle()
        except (OSError, ssl.SSLError):  # who does not trust the certificate hangs up
            self.close_connection = True
