"""A connected socket, whichever of a host's addresses answers.

asyncio can race the addresses of a host (`happy_eyeballs_delay`), but in Python 3.11 it leaves a
socket open when the race is cancelled. Here they are tried in turn, each but the last for a short
time only, so that a broken IPv6 costs two seconds and not the whole connect timeout.
"""

import asyncio
import socket
from typing import Any

_EACH = 2.0
"""Seconds for an address that is not the last."""


async def connect_socket(host: str, port: int) -> socket.socket:
    """Connect; raises the error of the last address."""
    addresses = await _addresses(host, port)
    for info in addresses[:-1]:
        try:
            async with asyncio.timeout(_EACH):
                return await _connect(info)
        except OSError:  # TimeoutError is one
            continue
    return await _connect(addresses[-1])


async def _addresses(host: str, port: int) -> list[Any]:
    try:  # what is an address already needs no look-up, which would take a thread
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        loop = asyncio.get_running_loop()
        return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def _connect(info: Any) -> socket.socket:  # noqa: ANN401 - as getaddrinfo gives it
    family, kind, protocol, _, address = info
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock
