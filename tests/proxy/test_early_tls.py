"""Within TLS, an answer that comes before the request was read is not lost with the connection."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from headgate.proxy import Origin
from tests.proxy.certificates import client_context, server_context
from tests.proxy.harness import LONG, asynchronous, read_answer, world

BODY = b"too big " * 500
REFUSAL = b"HTTP/1.1 413 Too Large\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
LENGTH = 3_000_000
UPLOAD = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % LENGTH + b"x" * LENGTH


@contextmanager
def refusing(*, polite: bool) -> Iterator[int]:
    """An upstream that answers after the head, and is gone; its port.

    Much of the upload is unread then, so that the kernel says so with a reset.
    """

    def serve() -> None:
        while True:
            try:
                plain, _ = listening.accept()
            except OSError:
                return
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or it loses it itself
            with suppress(OSError), context.wrap_socket(plain, server_side=True) as inside:
                inside.recv(100)
                inside.sendall(REFUSAL)
                if polite:
                    inside.setblocking(False)
                    with suppress(ssl.SSLError):
                        inside.unwrap()

    context = server_context()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(LONG)


@pytest.mark.parametrize("polite", [False, True], ids=["cut off", "with a goodbye"])
@asynchronous
async def test_a_refusal_of_an_upload_that_nobody_reads(*, polite: bool) -> None:
    """Upstream's own answer reaches the client, and not that sending failed."""
    lost = 0
    with refusing(polite=polite) as port:
        async with world(trust=client_context()) as it:
            it.policy.origin = Origin("https", "localhost", port)
            for _ in range(30):
                async with it.client() as (reader, writer):
                    writer.write(UPLOAD)
                    got = await read_answer(reader)
                    if got.status == 502:
                        lost += 1
                    else:
                        assert (got.status, got.body) == (413, BODY)
    assert lost <= 1  # of thousands, a reset overtakes one
