"""One connection that nobody can hold past its deadline or fill without end.

Each read and write gets only the time that is left, so a server that sends a byte now and then
gains nothing. Another thread may sever the connection; whoever reads from it then stops.
"""

import io
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from headgate.core.times import Seconds
from headgate.usage.failed import Trouble, Unusable

if TYPE_CHECKING:
    import socket
    import ssl

BODY = 256 * 1024
_HEAD = 64 * 1024
_PROXY = ("https_proxy", "HTTPS_PROXY")


class Wire:
    """A connection to one host, with `timeout` seconds for everything unless allowed more."""

    def __init__(self, timeout: Seconds) -> None:
        import threading

        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self._severed = False
        self.allow(timeout)

    def allow(self, seconds: Seconds) -> None:
        """Begin anew: so many seconds from now, and one answer's worth of bytes."""
        self.allowed = seconds
        self._deadline = Seconds(time.monotonic()) + seconds
        self._budget = _HEAD + BODY

    def connect(self, scheme: str, host: str, port: int, environ: Mapping[str, str]) -> None:
        """Connect to a host, through a tunnel if the environment asks for one."""
        proxy = _proxy(environ, host) if scheme == "https" else None
        if proxy is None:
            self._dial(host, port)
        else:
            self._dial(proxy[0], proxy[1])
            self._tunnel(host, port, proxy[2])
        if scheme == "https":
            self._encrypt(host)

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self._ready().sendall(data)

    def receive_into(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        """Take in what has come, at least a byte; 0 at the end."""
        taken = self._ready().recv_into(buffer)
        self._budget -= taken
        if self._budget < 0:
            raise Trouble(f"sent more than {BODY // 1024} KiB")
        return taken

    def makefile(self, *_: object) -> io.BufferedReader:
        """What comes in, as a file; so that an HTTPResponse takes this for a socket."""
        return io.BufferedReader(_Incoming(self))

    def sever(self) -> None:
        """Stop whoever reads from it, from any thread; it connects no more."""
        import socket

        with self._lock:
            self._severed = True
            if self._sock is not None:
                with suppress(OSError):  # SSLSocket's own method would pull TLS from its reader
                    socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            if self._sock is not None:
                self._sock.close()
            self._sock = None

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

    def _dial(self, host: str, port: int) -> None:
        import socket

        self.close()
        addresses = _addresses(host, port, self._left())
        for tried, (family, kind, protocol, _, address) in enumerate(addresses):
            sock = socket.socket(family, kind, protocol)
            with self._lock:
                if self._severed:
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

    def _tunnel(self, host: str, port: int, authorization: str) -> None:
        name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.send(f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n{authorization}\r\n".encode("ascii"))
        answer = b""
        byte = bytearray(1)
        while not answer.endswith(b"\r\n\r\n"):  # byte by byte: what follows belongs to TLS
            if len(answer) > 8192 or not self.receive_into(byte):
                raise Trouble("cannot be reached through the proxy")
            answer += byte
        words = answer.split(b"\r\n", 1)[0].split()
        if words[1:2] != [b"200"]:
            raise Trouble("cannot be reached: the proxy refused")

    def _encrypt(self, host: str) -> None:
        with self._lock:
            if self._sock is None:
                raise Trouble("is not connected")
            self._sock = sock = _context().wrap_socket(
                self._sock, server_hostname=host, do_handshake_on_connect=False
            )
        sock.settimeout(self._left())
        sock.do_handshake()


class _Incoming(io.RawIOBase):
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        return self._wire.receive_into(buffer)


@lru_cache(maxsize=1)
def _context() -> "ssl.SSLContext":
    import ssl

    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _addresses(host: str, port: int, seconds: Seconds) -> list[Any]:
    """Where a host is. The system's resolver knows no deadline, so it works in a thread."""
    import socket
    import threading

    with suppress(socket.gaierror):
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    found: list[list[Any]] = []

    def look() -> None:
        try:
            found.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError):
            found.append([])

    thread = threading.Thread(target=look, name="headgate-resolver", daemon=True)
    thread.start()
    thread.join(seconds)
    if not found:
        raise TimeoutError
    if not found[0]:
        raise Trouble("cannot be found under that name")
    return found[0]


def _proxy(environ: Mapping[str, str], host: str) -> tuple[str, int, str] | None:
    """The proxy for a host: its host, its port, and a header line; None to go without."""
    import base64
    from urllib.parse import unquote, urlsplit

    name = next((name for name in _PROXY if environ.get(name)), "")
    if not name or _loopback(host) or _exempt(environ, host):
        return None
    said = environ[name]
    try:
        parts = urlsplit(said if "://" in said else f"http://{said}")
        place = parts.hostname, parts.port or 80
    except ValueError:
        place = None, 0
    if place[0] is None or parts.scheme != "http":
        raise Unusable(f"{name} is not a proxy that can be used; expected http://HOST:PORT")
    if parts.username is None:
        return place[0], place[1], ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return (
        place[0],
        place[1],
        (f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}\r\n"),
    )


def _loopback(host: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _exempt(environ: Mapping[str, str], host: str) -> bool:
    said = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    names = [name.strip().lower().removeprefix("*").lstrip(".") for name in said.split(",")]
    if any(name.strip() == "*" for name in said.split(",")):
        return True
    return any(name and (host == name or host.endswith(f".{name}")) for name in names)
