"""What transports do not say: keepalive, a reset instead of an end, a peer gone while unread."""

import asyncio
import select
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

READ_SIZE = 65_536
READ_BUFFER = memoryview(bytearray(READ_SIZE))
"""All connections read into this. An event loop fills it and has it emptied in one step."""
WRITE_HIGH = 65_536
"""More than this unsent, and whoever produces it is paused."""
_RESET = struct.pack("ii", 1, 0)
_KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""A peer that has vanished is noticed after two minutes."""


def prepare(transport: asyncio.BaseTransport) -> None:
    """Set what every connection has."""
    sock = transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def reset(transport: asyncio.WriteTransport) -> None:
    """Close a connection so that its peer sees a reset (RST) and no clean end."""
    sock = transport.get_extra_info("socket")
    with suppress(OSError):  # it is closed already
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    transport.abort()


class HangupWatch:
    """Tells at once when the peer of a connection that is not being read has gone.

    A transport that is paused does not look at its socket, so a client that gives up while its
    upload waits would not be noticed. An epoll of our own looks for nothing but the hang-up. Where
    there is no epoll (macOS), it is noticed when reading goes on.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._watched: dict[int, Callable[[], None]] = {}
        self._epoll: Any = None

    def watch(self, fd: int, gone: Callable[[], None]) -> None:
        """Call `gone` once the peer has closed or reset."""
        if not hasattr(select, "epoll") or fd < 0:
            return
        if self._epoll is None:
            self._epoll = select.epoll()
            self._loop.add_reader(self._epoll.fileno(), self._look)
        try:
            self._epoll.register(fd, select.EPOLLRDHUP)
        except FileExistsError:
            self._epoll.modify(fd, select.EPOLLRDHUP)
        self._watched[fd] = gone

    def forget(self, fd: int, gone: Callable[[], None]) -> None:
        """Stop watching; nothing happens if it was not watched."""
        if self._watched.get(fd) == gone:
            del self._watched[fd]
            with suppress(OSError):  # it is closed already
                self._epoll.unregister(fd)

    def close(self) -> None:
        """Give the descriptor back."""
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None
            self._watched.clear()

    def _look(self) -> None:
        for fd, _ in self._epoll.poll(0):
            gone = self._watched.get(fd)
            if gone is None:
                self._epoll.unregister(fd)
            else:
                self.forget(fd, gone)
                gone()
