"""A real HTTP server that is told of events, and answers what a test says."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.support import LONG, until


class Got(NamedTuple):
    """One request: its path, its headers in lower case, and its body."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def said(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


class Receiver:
    """Notes what it gets. `answers` are given in turn, then 204 for the rest."""

    def __init__(self) -> None:
        self.got: list[Got] = []
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.hold = threading.Event()
        """Until this is set no answer is given; it is, at first."""
        self.hold.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = False
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hook?room=1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def wait_for(self, count: int) -> list[Got]:
        until(lambda: len(self.got) >= count)
        return self.got

    def close(self) -> None:
        self.hold.set()
        self._server.shutdown()
        self._thread.join(LONG)
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            timeout = LONG

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.got.append(Got(self.path, headers, body))
                receiver.hold.wait(LONG)
                status, more = receiver.answers.pop(0) if receiver.answers else (204, {})
                self.send_response(status)
                for name, value in {"Content-Length": "0", **more}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        return Handler
