"""Start submitted work when there is room for it, and answer over HTTP, until Ctrl-C.

What it has started goes on without it. To have it with every login: headgate init --service. The
server is a process of its own (headgate serve); if it cannot be started, the rest goes on.
"""

import subprocess
import sys
from argparse import ArgumentParser, Namespace
from contextlib import suppress

from headgate.cli import worker
from headgate.cli.shared.open_gate import say
from headgate.core.install_hint import install_extra
from headgate.core.server_settings import LISTEN

_PATIENCE = 15
"""For how many seconds the server may finish what it is at."""


def arguments(parser: ArgumentParser) -> None:
    """What `up` takes."""
    worker.arguments(parser)
    parser.add_argument(
        "--listen",
        metavar="PLACE",
        help=f"where the server listens: HOST:PORT or unix:PATH ({LISTEN})",
    )
    parser.add_argument("--no-server", action="store_true", help="answer nobody over HTTP")


def run(args: Namespace) -> int:
    """Be up."""
    from headgate.gate.liveness.shed_marks import shed_marks

    shed_marks()
    server = None if args.no_server else _start_server(args)
    try:
        return worker.run(args, before_anew=lambda: _end(server))
    finally:
        _end(server)


def _start_server(args: Namespace) -> "subprocess.Popen[bytes] | None":
    """A server that ends when this process does, however that comes about."""
    from importlib.util import find_spec

    for name in ("fastapi", "uvicorn", "uvloop"):
        if find_spec(name) is None:
            say(f"there is no server, for that needs {name}: {install_extra('server')}")
            return None
    options = [("--store", args.store), ("--config", args.config_file)]
    words = [word for option, value in options if value is not None for word in (option, value)]
    place = [] if args.listen is None else ["--listen", args.listen]
    return subprocess.Popen(
        [sys.executable, "-m", "headgate", *words, "serve", *place, "--parent-fd", "0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )


def _end(server: "subprocess.Popen[bytes] | None") -> None:
    if server is None or server.stdin is None:
        return
    with suppress(OSError):
        server.stdin.close()
    try:
        server.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
