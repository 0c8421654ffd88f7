"""Who is at the other end of a connection, by the kernel's word."""

import ipaddress
import os
import socket
import struct
from enum import Enum
from typing import Any

from headgate.wire.connection_owner import socket_owner

_CREDENTIALS = struct.Struct("3i")


class Peer(Enum):
    """Whose connection it is, as far as a kernel can tell."""

    OWNER = "owner"
    """A process of the user that this one runs as."""
    LOCAL = "local"
    """Somebody else on this machine, or nobody can tell who."""
    REMOTE = "remote"


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's alone."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def peer_of(transport: Any) -> Peer:  # noqa: ANN401 - asyncio's or uvloop's
    """Ask the kernel; takes a system call or two."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family == socket.AF_UNIX:
        return Peer.OWNER if _uid_of(sock) == os.geteuid() else Peer.LOCAL
    client, server = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    if not client or not server or not is_loopback(client[0]) or not is_loopback(server[0]):
        return Peer.REMOTE
    uid = socket_owner((client[0], client[1]), (server[0], server[1]))
    return Peer.OWNER if uid == os.geteuid() else Peer.LOCAL


def _uid_of(sock: Any) -> int | None:  # noqa: ANN401 - as above
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    told = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(told)[1])
