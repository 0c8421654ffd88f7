"""A real server on 127.0.0.1 that does to a connection what a test says."""

import json
import select
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress

from tests.support import LONG


class Peer:
    """One connection as the server has it."""

    def __init__(self, server: "Server", conn: socket.socket) -> None:
        self.server = server
        self.conn = conn
        self.head = ""

    def read_head(self) -> None:
        while "\r\n\r\n" not in self.head and (more := self.conn.recv(4096)):
            self.head += more.decode("latin-1")

    @property
    def path(self) -> str:
        return self.head.split(" ")[1]

    def send(self, data: bytes) -> None:
        self.conn.sendall(data)

    def reset(self) -> None:
        """Abort the connection."""
        self.conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    def hold(self) -> None:
        """Do nothing until the client hangs up."""
        while self.conn.recv(4096):
            pass

    def drip(self, data: bytes) -> None:
        """Send this again and again, a little at a time, until the client hangs up."""
        while not self.server.closing.wait(0.01):
            self.send(data)


Script = Callable[[Peer], None]


class Server:
    """Runs a script for each connection, and notes what was asked."""

    def __init__(self, script: Script, tls: ssl.SSLContext | None = None) -> None:
        self.script = script
        self.tls = tls
        self.heads: list[str] = []
        self.open = 0
        self.most_open = 0
        """How many the client had open at once, when the last of them was accepted."""
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._conns: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    @property
    def url(self) -> str:
        scheme = "https" if self.tls else "http"
        return f"{scheme}://127.0.0.1:{self.port}/v1/usage"

    def close(self) -> None:
        self.closing.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        with self._lock:
            for conn in self._conns:
                with suppress(OSError):
                    conn.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(LONG)
            assert not thread.is_alive()
        self._listener.close()

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self.closing.is_set():
            try:
                conn, _ = self._listener.accept()
            except OSError:
                return
            conn.settimeout(LONG)
            with self._lock:
                self._conns.append(conn)
                self.open += 1
                self.most_open = max(self.most_open, sum(map(_held, self._conns)))
            self._start(lambda conn=conn: self._serve(conn))  # type: ignore[misc]

    def _serve(self, conn: socket.socket) -> None:
        try:
            with suppress(OSError):
                if self.tls:
                    conn = self.tls.wrap_socket(conn, server_side=True)
                peer = Peer(self, conn)
                peer.read_head()
                self.heads.append(peer.head)
                self.script(peer)
        finally:
            with self._lock:
                self.open -= 1
            conn.close()


def _held(conn: socket.socket) -> bool:
    """Whether the client has a connection open; the kernel knows it before a busy thread does."""
    try:
        readable, _, _ = select.select([conn], [], [], 0)
        return not readable or conn.recv(1, socket.MSG_PEEK) != b""
    except (OSError, ValueError):  # reset, or closed at our end
        return False


def answer(
    body: object = b"", status: str = "200 OK", head: str = "", *, length: int | None = None
) -> bytes:
    """A whole HTTP answer; anything but bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    size = len(data) if length is None else length
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n"
        f"{head}\r\n".encode()
        + data
    )


def says(*args: object, **options: object) -> Script:
    """A script that gives one answer."""
    data = answer(*args, **options)  # type: ignore[arg-type]
    return lambda peer: peer.send(data)


def event(value: object) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n"
