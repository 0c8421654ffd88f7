"""One connection that nobody can hold past its deadline or fill without end.

Each step gets only the time that is left: the look-up of a name, the connection, the TLS handshake,
every read and write. So a server that sends a byte now and then gains nothing. Another thread may
break it off; whoever waits for it then stops.
"""

import time
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from headgate.core.times import Seconds
from headgate.http_client.errors import Trouble

if TYPE_CHECKING:
    import socket
    import ssl

HEAD = 64 * 1024
BODY = 256 * 1024
_PIECE = 16 * 1024


class Connection:
    """One connection at a time, with `timeout` seconds for everything unless allowed more.

    A new one is opened only when the old one is closed. An answer has `at_most` so many bytes.
    """

    def __init__(self, timeout: Seconds, *, at_most: int = BODY) -> None:
        import threading

        self._at_most = at_most
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self._resolved: threading.Event | None = None
        self._broken_off = False
        self.allow(timeout)

    def allow(self, seconds: Seconds) -> None:
        """Begin anew: so many seconds from now, and one answer's worth of bytes."""
        self.allowed = seconds
        self._deadline = Seconds(time.monotonic()) + seconds
        self._budget = HEAD + self._at_most

    def open(self, host: str, port: int) -> None:
        """Connect to the first address of a host that answers."""
        import socket

        self.close()
        addresses = self._addresses(host, port)
        for tried, (family, kind, protocol, _, address) in enumerate(addresses):
            sock = socket.socket(family, kind, protocol)
            with self._lock:
                if self._broken_off:
                    sock.close()
                    raise Trouble("is no longer wanted")
                self._sock = sock
            try:
                sock.settimeout(self._left() / (len(addresses) - tried))
                sock.connect(address)
                return
            except OSError:
                self.close()
                if tried == len(addresses) - 1:
                    raise

    def start_tls(self, host: str) -> None:
        """Encrypt what follows, if the peer proves to be that host."""
        with self._lock:
            if self._sock is None:
                raise Trouble("is not connected")
            self._sock = sock = _context().wrap_socket(
                self._sock, server_hostname=host, do_handshake_on_connect=False
            )
        sock.settimeout(self._left())
        sock.do_handshake()

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self._ready().sendall(data)

    def receive(self) -> bytes:
        """What has come, at least a byte; nothing at the end."""
        data = self._ready().recv(_PIECE)
        self._budget -= len(data)
        if self._budget < 0:
            raise Trouble(f"sent more than {self._at_most // 1024} KiB")
        return data

    def break_off(self) -> None:
        """Stop whoever uses it, from any thread; it connects no more."""
        with self._lock:
            self._broken_off = True
            if self._resolved is not None:
                self._resolved.set()
            self._hang_up()

    def close(self) -> None:
        """Hang up, and let go of the connection."""
        with self._lock:
            if self._sock is not None:
                self._hang_up()
                self._sock.close()
            self._sock = None

    def _hang_up(self) -> None:
        """End the connection, even if a forked process has it open too."""
        import socket

        if self._sock is not None:
            with suppress(OSError):  # SSLSocket's own method would pull TLS from its reader
                socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def _left(self) -> Seconds:
        left = self._deadline - Seconds(time.monotonic())
        if left <= 0:
            raise TimeoutError
        return left

    def _ready(self) -> "socket.socket":
        sock = self._sock
        if sock is None:
            raise Trouble("is not connected")
        sock.settimeout(self._left())
        return sock

    def _addresses(self, host: str, port: int) -> list[Any]:
        """Where a host is. The system's resolver knows no deadline, so it works in a thread."""
        import socket
        import threading

        with suppress(socket.gaierror):
            return socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )
        found: list[list[Any]] = []
        resolved = threading.Event()

        def look() -> None:
            try:
                found.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
            except (OSError, UnicodeError):
                found.append([])
            resolved.set()

        with self._lock:
            self._resolved = resolved
            if self._broken_off:
                raise Trouble("is no longer wanted")
        threading.Thread(target=look, name="headgate-resolver", daemon=True).start()
        resolved.wait(self._left())
        if self._broken_off:
            raise Trouble("is no longer wanted")
        if not found:
            raise TimeoutError
        if not found[0]:
            raise Trouble("cannot be found under that name")
        return found[0]


@lru_cache(maxsize=1)
def _context() -> "ssl.SSLContext":
    """TLS as the system trusts it."""
    import ssl

    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
