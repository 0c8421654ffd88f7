"""The process of a server: its socket, its signals, its end."""

import asyncio
import gc
import resource
import signal
import socket
import ssl
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

import uvicorn
import uvloop

from headgate.api import logs, places
from headgate.api.app import make_app
from headgate.api.protocol import BoundedProtocol
from headgate.api.service import Service
from headgate.core.named_tuple import NamedTuple
from headgate.errors import UsageError
from headgate.gate import Gate

_DRAIN = 10
"""How many seconds requests that are under way get when it is time to stop."""
_IDLE = 75
"""For how many seconds a connection is kept that asks nothing."""
_SPARE = 200
"""How many descriptors are for other things than connections."""


class ServeOptions(NamedTuple):
    """What was said on the command line; what was not comes from the configuration."""

    listen: str | None = None
    certificate: str | None = None
    key: str | None = None
    plaintext: bool = False
    log: str = ""
    parent_fd: int = -1
    """Where the end of a parent is heard of, which this server does not outlive."""


def serve(gate: Gate, options: ServeOptions, ready: Callable[[str], None]) -> None:
    """Answer until told to stop; `ready` is told where."""
    settings = gate.server
    place = places.parse_place(options.listen or settings.listen)
    chain = (options.certificate or settings.certificate, options.key or settings.key)
    tls = _Tls(chain[0], chain[1]) if any(chain) else None
    places.check_safe(
        place,
        tls=tls is not None,
        plaintext=options.plaintext or settings.plaintext,
        tokens=len(gate.tokens.list()),
    )
    logs.set_up(options.log)
    BoundedProtocol.most_connections = _raise_limits(settings.connections)
    sock = places.listen(place)
    try:
        told = place.url(sock, tls=tls is not None)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            parts = _Parts(
                gate=gate, sock=sock, tls=tls, parent=options.parent_fd, ready=lambda: ready(told)
            )
            runner.run(_serve(parts))
    finally:
        sock.close()
        places.leave(place)


class _Tls:
    """A certificate, which can be read anew while it is in use."""

    def __init__(self, certificate: str, key: str) -> None:
        if not certificate or not key:
            raise UsageError("--certificate and --key go together; give both, or neither")
        self._files = (certificate, key)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.read()

    def read(self) -> None:
        """Read it; connections that come from now on get it."""
        certificate, key = self._files
        try:
            self.context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            why = error.strerror or str(error)
            raise UsageError(f"cannot use {certificate} with {key}: {why}") from None


class _Server(uvicorn.Server):
    """uvicorn's, which tells everybody when it is about to stop."""

    def __init__(self, config: uvicorn.Config, service: Service, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._service = service
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets)
        self._ready()

    def stop(self) -> None:
        """Answer what waits, and begin nothing new; then out."""
        self._service.draining.set()
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """What ends the server ends it in order; a second one at once."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._asked_to_stop)
        yield
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    def _asked_to_stop(self) -> None:
        self.force_exit = self.should_exit
        self.stop()


class _Parts(NamedTuple):
    """What a server is made of."""

    gate: Gate
    sock: socket.socket
    tls: _Tls | None
    parent: int
    ready: Callable[[], None]


async def _serve(parts: _Parts) -> None:
    service, tls = Service(parts.gate), parts.tls
    config = uvicorn.Config(
        make_app(service),
        http=BoundedProtocol,
        ws="none",
        interface="asgi3",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=_DRAIN,
    )
    config.load()
    config.ssl = tls.context if tls else None
    server = _Server(config, service, parts.ready)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, _reload, tls)
    if parts.parent >= 0:
        loop.add_reader(parts.parent, server.stop)
    gc.collect()
    gc.freeze()  # the modules are no garbage, and need not be looked through
    try:
        await server.serve(sockets=[parts.sock])
    finally:
        service.close()


def _reload(tls: _Tls | None) -> None:
    """Read the certificate anew; the configuration is followed in any case."""
    if tls is not None:
        with suppress(UsageError):
            tls.read()


def _raise_limits(connections: int) -> int:
    """Have as many descriptors as may be; how many connections they are enough for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _SPARE
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
    room = connections if soft == resource.RLIM_INFINITY else soft - _SPARE
    return max(10, min(connections, room))
