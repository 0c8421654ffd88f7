"""Whose connection it is, by the kernel's word: only the agent's own processes may use its wire.

The kernel knows the socket at the other end of a loopback connection, and each process's open
sockets can be seen by its owner. A process is the agent's if it carries the mark of its lease. Once
seen, its processes are asked first: most connections come from one of them.
"""

import os
import socket
import struct
from collections.abc import Iterator

from headgate.core.named_tuple import NamedTuple
from headgate.gate.liveness.process_marks import MARK, carriers

_SOCK_DIAG, _BY_FAMILY, _REQUEST = 4, 20, 1
_NO_COOKIE = 0xFFFFFFFF
_HEAD, _DIAG = struct.Struct("=LHHLL"), struct.Struct("=BBBBI")
_IDS = struct.Struct("!HH16s16s")
_UID_AT = 16 + 4 + 48 + 12
"""Where in the answer the owner of the socket stands, and after it the inode."""


class ConnectionOwner:
    """Tells whether a connection comes from one of the programs of a lease."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._entry = f"{MARK}={mark}".encode()
        self._known: dict[int, None] = {}

    def owns(self, client: tuple[str, int], server: tuple[str, int]) -> bool:
        """Whether the process at a connection's other end is the lease's."""
        return self.owner(client, server) is not None

    def owner(self, client: tuple[str, int], server: tuple[str, int]) -> int | None:
        """The process of the lease at a connection's other end; None if it is somebody else's."""
        inode = socket_inode(client, server)
        if inode is None:
            return None
        link = f"socket:[{inode}]"
        for pid in list(self._known):
            if _has(pid, link) and self._is_marked(pid):
                return pid
        known = dict.fromkeys(carriers([self._mark]).get(self._mark, ()))
        self._known = known
        for pid in known:
            if _has(pid, link):
                self._known = {pid: None, **known}
                return pid
        return None

    def _is_marked(self, pid: int) -> bool:
        """Whether a process that was the lease's still is: its number may be another's by now."""
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - hot
                return self._entry in file.read().split(b"\0")
        except OSError:
            return False

    def is_relative(self, client: tuple[str, int], server: tuple[str, int]) -> bool:
        """Whether it was started from within the lease, for another one, as by `headgate run`."""
        inode = socket_inode(client, server)
        if inode is None:
            return False
        link, ours = f"socket:[{inode}]", set(carriers([self._mark]).get(self._mark, ()))
        for name in os.listdir("/proc"):  # noqa: PTH208 - numbers
            if name.isdigit() and _has(int(name), link) and ours.intersection(_line(int(name))):
                return True
        return False


def _line(pid: int) -> Iterator[int]:
    """A process's parent, that one's parent, and so on."""
    while pid := parent_of(pid):
        yield pid


def parent_of(pid: int) -> int:
    """The parent of a process; 0 if it has none, or is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - hot
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _has(pid: int, link: str) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        for name in os.listdir(folder):  # noqa: PTH208 - hot, and numbers
            try:
                if os.readlink(f"{folder}/{name}") == link:  # noqa: PTH115 - as above
                    return True
            except OSError:
                continue
    except OSError:
        return False
    return False


def socket_inode(local: tuple[str, int], remote: tuple[str, int]) -> int | None:
    """The inode of this user's socket of a loopback connection, as its own end sees it."""
    found = _look_up(local, remote)
    return found.inode if found is not None and found.uid == os.getuid() and found.inode else None


def socket_owner(local: tuple[str, int], remote: tuple[str, int]) -> int | None:
    """The user whose socket one end of a loopback connection is; None if nobody can tell."""
    found = _look_up(local, remote)
    return None if found is None else found.uid


class _Found(NamedTuple):
    uid: int
    inode: int


def _look_up(local: tuple[str, int], remote: tuple[str, int]) -> _Found | None:
    family, ends = _family(local[0], remote[0])
    ids = _IDS.pack(local[1], remote[1], *ends)
    payload = _DIAG.pack(family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + ids
    payload += struct.pack("=III", 0, _NO_COOKIE, _NO_COOKIE)
    message = _HEAD.pack(_HEAD.size + len(payload), _BY_FAMILY, _REQUEST, 1, 0) + payload
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as asks:
            asks.settimeout(1.0)
            asks.sendto(message, (0, 0))
            answer = asks.recv(8192)
    except (OSError, AttributeError):  # not everywhere may one ask so
        return _in_table(family, (ends[0], local[1]), (ends[1], remote[1]))
    if len(answer) < _UID_AT + 8 or _HEAD.unpack_from(answer)[1] != _BY_FAMILY:
        return None
    return _Found._make(struct.unpack_from("=II", answer, _UID_AT))


def _family(local: str, remote: str) -> tuple[int, tuple[bytes, bytes]]:
    """The kind of two addresses, and their bytes."""
    family = socket.AF_INET6 if ":" in local else socket.AF_INET
    first, second = (socket.inet_pton(family, one.partition("%")[0]) for one in (local, remote))
    return family, (first, second)


def _in_table(family: int, local: tuple[bytes, int], remote: tuple[bytes, int]) -> _Found | None:
    """The same, by looking through the table of all connections."""
    wanted = [_as_in_table(local), _as_in_table(remote)]
    name = "/proc/net/tcp6" if family == socket.AF_INET6 else "/proc/net/tcp"
    try:
        with open(name, encoding="ascii") as table:  # noqa: PTH123 - no path to handle
            for line in table:
                fields = line.split()
                if fields[1:3] == wanted:
                    return _Found(int(fields[7]), int(fields[9]))
    except OSError:
        return None
    return None


def _as_in_table(address: tuple[bytes, int]) -> str:
    words = struct.unpack(f"={len(address[0]) // 4}I", address[0])
    return f"{''.join(f'{word:08X}' for word in words)}:{address[1]:04X}"
