"""The provider as a real HTTP server, to point agents, SDKs and tests at.

    async with running(Plan(cap=((0, 4),))) as server:
        ... server.url ...
        assert excess(server.journal.lines()) == 0

The account is the API key that a request carries, the model is the one it names; each account has
caps of its own, which nobody is told. Time is real. aiohttp is loaded only when a server starts.
"""

import asyncio
import json
import logging
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.core.display.json_shapes import document
from headgate.core.install_hint import install_extra
from headgate.core.named_tuple import NamedTuple
from headgate.errors import HeadgateError, UsageError
from headgate.sim.journal import Journal
from headgate.sim.server.behaviour import Behaviour
from headgate.sim.server.options import plan_arguments, plan_of
from headgate.sim.server.provider import Account, Provider, account_of
from headgate.sim.upstream import ProviderPlan

if TYPE_CHECKING:
    from headgate.sim.server.http import RequestHandler

__all__ = ["Options", "Server", "account_of", "arguments", "options_of", "run", "running"]

_BACKLOG = 1_024
_PATIENCE = 0.5
"""Seconds that a closing server gives to requests which it has already broken off."""


class Options(NamedTuple):
    """What a server is started with."""

    plan: ProviderPlan = ProviderPlan()
    behaviour: Behaviour = Behaviour()
    host: str = "127.0.0.1"
    port: int = 0
    """0: any that is free."""
    log: Path | str | None = None
    seed: int = 0
    anonymous: bool = False
    """Whether requests without a key are let in; they share one account."""
    json: bool = False
    """Whether the line that says where it listens is JSON."""


class Server:
    """A server that runs."""

    def __init__(self, url: str, provider: Provider, service: "RequestHandler") -> None:
        self.url = url
        self.provider = provider
        self.journal: Journal = provider.journal
        self._service = service

    @property
    def upstream(self) -> Account:
        """The account of whoever comes, or came, first."""
        return self.provider.first

    def account(self, key: str) -> Account:
        """The account of a key."""
        return self.provider.account(account_of(key))

    def change(self, **changes: object) -> None:
        """Behave otherwise from now on; the names are those of `/sim/plan`."""
        self._service.control.change(changes)

    def reset(self) -> None:
        """Break everything off, and begin anew."""
        self._service.control.reset()


@asynccontextmanager
async def running(
    plan: ProviderPlan = ProviderPlan(),  # noqa: B008 - a frozen value
    behaviour: Behaviour = Behaviour(),  # noqa: B008 - the same
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    log: Path | str | None = None,
    seed: int = 0,
    anonymous: bool = False,
) -> AsyncIterator[Server]:
    """A server for as long as the block lasts. What is still open at its end is broken off."""
    try:
        from aiohttp import web

        from headgate.sim.server.http import RequestHandler
    except ImportError as error:
        raise HeadgateError(
            f"the stand-in provider needs {error.name}: {install_extra('sim')}"
        ) from None
    if not 0 <= port <= 65_535:
        raise UsageError(f"bad --port {port}: expected 0 to 65535")
    try:
        journal = Journal(log)
    except OSError as error:
        raise HeadgateError(f"cannot write the log {log}: {error.strerror or error}") from None
    provider = Provider(plan, behaviour, journal, seed)
    service = RequestHandler(provider, anonymous=anonymous)
    runner = web.ServerRunner(
        web.Server(
            service.handle, handler_cancellation=True, access_log=None, logger=_quiet_logger()
        ),
        handle_signals=False,
        shutdown_timeout=_PATIENCE,
    )
    try:
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port, backlog=_BACKLOG).start()
        except OSError as error:
            raise HeadgateError(
                f"cannot listen on {host}:{port}: {error.strerror or error}; "
                "--port 0 takes a free one"
            ) from None
        found = runner.addresses[0]
        name = f"[{found[0]}]" if ":" in found[0] else found[0]
        yield Server(f"http://{name}:{found[1]}", provider, service)
    finally:
        service.break_off("shutdown")
        await runner.cleanup()
        journal.close()


def arguments(parser: ArgumentParser) -> None:
    """What `sim serve` takes."""
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="where to listen (127.0.0.1)")
    add("--port", type=int, default=0, metavar="N", help="0, the default, takes a free one")
    add("--log", metavar="FILE", help="append every event to this file, as JSON lines")
    add("--json", action="store_true", help="say where it listens as JSON")
    add("--seed", type=int, default=0, metavar="N", help="for what is left to chance")
    add("--anonymous", action="store_true", help="let requests without a key in")
    plan_arguments(parser)


def options_of(args: Namespace) -> Options:
    """The options that a command line gives."""
    plan, behaviour = plan_of(args)
    return Options(
        plan=plan,
        behaviour=behaviour,
        host=args.host,
        port=args.port,
        log=args.log,
        seed=args.seed,
        anonymous=args.anonymous,
        json=args.json,
    )


def run(options: Options) -> int:
    """Serve until somebody ends it, by Ctrl-C or SIGTERM."""
    asyncio.run(_serve(options))
    return 0


async def _serve(options: Options) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    serving = running(
        options.plan,
        options.behaviour,
        host=options.host,
        port=options.port,
        log=options.log,
        seed=options.seed,
        anonymous=options.anonymous,
    )
    async with serving as server:

        def fault(_: asyncio.AbstractEventLoop, found: dict[str, Any]) -> None:
            server.provider.record("fault", note=str(found.get("message"))[:200])

        loop.set_exception_handler(fault)
        where = json.dumps(document({"url": server.url}))
        sys.stdout.write(f"{where}\n" if options.json else f"listening on {server.url}\n")
        sys.stdout.flush()
        await ended.wait()


def _quiet_logger() -> logging.Logger:
    """What clients do wrong is in the journal; nothing of it belongs on anyone's terminal."""
    logger = logging.getLogger("headgate.sim.server.serve")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger
