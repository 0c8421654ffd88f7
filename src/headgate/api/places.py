"""Where to listen, and whether that is safe."""

import os
import socket
import stat
from pathlib import Path

from headgate.api.peers import is_loopback
from headgate.core.named_tuple import NamedTuple
from headgate.errors import UsageError

_BACKLOG = 1_024


class Place(NamedTuple):
    """Where a server listens: at an address, or at a path."""

    host: str = ""
    port: int = 0
    path: str = ""

    @property
    def private(self) -> bool:
        """Whether only this machine reaches it."""
        return bool(self.path) or is_loopback(self.host)

    def url(self, sock: socket.socket, *, tls: bool) -> str:
        """How it is asked."""
        if self.path:
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if tls else ''}://{host}:{sock.getsockname()[1]}"


def parse_place(text: str) -> Place:
    """HOST:PORT or unix:PATH."""
    from headgate.config.server import is_listen

    if not is_listen(text):
        raise UsageError(
            f"bad --listen {text[:100]!r}: expected HOST:PORT, as in 127.0.0.1:7433, or unix:PATH"
        )
    if text.startswith("unix:"):
        return Place(path=os.path.abspath(text.removeprefix("unix:")))  # noqa: PTH100 - any text
    host, _, port = text.rpartition(":")
    return Place(host=host.strip("[]"), port=int(port))


def check_safe(place: Place, *, tls: bool, plaintext: bool, tokens: int) -> None:
    """Raise unless it is safe to listen there."""
    if place.private:
        return
    if not tls and not plaintext:
        raise UsageError(
            f"refused to listen on {place.host} without TLS: tokens, commands and output could be "
            "read on the way. Give --certificate and --key (or set them under [server]); or say "
            "--plaintext if something in front of it does TLS"
        )
    if not tokens:
        raise UsageError(
            f"refused to listen on {place.host} without a token, since nobody could use it. Make "
            "one: headgate token create --scope submit"
        )


def listen(place: Place) -> socket.socket:
    """A socket that listens there."""
    try:
        return _at_path(place.path) if place.path else _at_address(place)
    except OSError as error:
        where = place.path or f"{place.host}:{place.port}"
        raise UsageError(
            f"cannot listen on {where}: {error.strerror or error}; name another place with "
            "--listen, or end what listens there"
        ) from None


def _at_address(place: Place) -> socket.socket:
    found = socket.getaddrinfo(
        place.host, place.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, kind, protocol, _, address = found[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _at_path(path: str) -> socket.socket:
    """A socket that only its owner can connect to. A dead one of ours is replaced."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_dead(path)
        before = os.umask(0o177)
        try:
            sock.bind(path)
        finally:
            os.umask(before)
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _remove_dead(path: str) -> None:
    try:
        seen = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(seen.st_mode) or seen.st_uid != os.geteuid():
        raise OSError(0, "something else is there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asks:
        try:
            asks.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink()
            return
    raise OSError(0, "another server listens there")


def leave(place: Place) -> None:
    """Remove what listening has left behind."""
    if place.path:
        Path(place.path).unlink(missing_ok=True)
