"""TLS as a server, on a connection that has been read from already."""

import asyncio
import ssl

from headgate.core.times import Seconds


async def open_tls(
    transport: asyncio.Transport,
    protocol: asyncio.BufferedProtocol,
    context: ssl.SSLContext,
    already_read: bytes,
    *,
    timeout: Seconds,  # noqa: ASYNC109 - the handshake is given it
) -> None:
    """Answer CONNECT, shake hands, and give `protocol` the transport inside TLS.

    A client may send its first TLS message without waiting for our answer. `start_tls` knows only
    what comes from the socket, so it is given the rest as a socket would: after it has put its
    protocol in place, and before the socket is read again.
    """
    loop = asyncio.get_running_loop()
    transport.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    outer = transport.get_protocol()
    starting = loop.start_tls(
        transport, protocol, context, server_side=True, ssl_handshake_timeout=timeout
    )
    shaking = asyncio.ensure_future(starting)
    try:
        if already_read:
            while transport.get_protocol() is outer and not shaking.done():  # noqa: ASYNC110
                await asyncio.sleep(0)  # one step of the loop, in which it puts its protocol there
            loop.call_soon(_feed, transport.get_protocol(), already_read)
        inner = await shaking
    except BaseException:
        shaking.cancel()
        transport.abort()
        raise
    if inner is not None:
        protocol.connection_made(inner)


def _feed(tls: asyncio.BaseProtocol, data: bytes) -> None:
    assert isinstance(tls, asyncio.BufferedProtocol)  # noqa: S101 - for the type checker
    while data:
        room = memoryview(tls.get_buffer(len(data)))
        taken = data[: len(room)]
        room[: len(taken)] = taken
        tls.buffer_updated(len(taken))
        data = data[len(taken) :]
