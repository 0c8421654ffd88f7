"""Answer over HTTP: the API of docs/api.md, for programs, pages and other machines.

It is never needed for the gate to hold: kill it, and all that runs and waits goes on. Processes of
your own need no token; everybody else does (headgate token).
"""

import sys
from argparse import ArgumentParser, Namespace

from headgate.cli.shared.open_gate import open_gate, say
from headgate.core.install_hint import install_extra
from headgate.core.server_settings import LISTEN
from headgate.errors import HeadgateError, UsageError

_LACK = "the server needs more packages: {lack} is missing. Install them with: {command}"


def arguments(parser: ArgumentParser) -> None:
    """What `serve` takes."""
    parser.add_argument(
        "--listen", metavar="PLACE", help=f"HOST:PORT, or unix:PATH ({LISTEN}); port 0 for any"
    )
    parser.add_argument("--certificate", metavar="FILE", help="the certificate for TLS")
    parser.add_argument("--key", metavar="FILE", help="the key of that certificate")
    parser.add_argument(
        "--plaintext",
        action="store_true",
        help="listen beyond this machine without TLS, because something in front does it",
    )
    parser.add_argument(
        "--log", choices=("json", "text"), help="log each request to stderr, one line for each"
    )
    parser.add_argument(
        "--parent-fd", metavar="FD", help="end when the other end of this descriptor is closed"
    )


def run(args: Namespace) -> int:
    """Answer until Ctrl-C or SIGTERM."""
    from headgate.gate.liveness.shed_marks import shed_marks

    shed_marks()
    try:
        from headgate.api.serve import ServeOptions, serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "headgate":
            raise
        raise UsageError(_LACK.format(command=install_extra("server"), lack=error.name)) from None
    options = ServeOptions(
        listen=args.listen,
        certificate=args.certificate,
        key=args.key,
        plaintext=args.plaintext,
        log=args.log or "",
        parent_fd=_descriptor(args.parent_fd),
    )

    beside = options.parent_fd >= 0

    def ready(url: str) -> None:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        more = "" if beside else "; it stays in the foreground, Ctrl-C ends it, all else goes on"
        say(f"the server answers at {url}{more}")

    try:
        with open_gate(args) as gate:
            serve(gate, options, ready)
    except HeadgateError as error:
        if not beside:
            raise
        raise type(error)(f"{error}\n(headgate up goes on without a server)") from None
    return 0


def _descriptor(text: str | None) -> int:
    if text is None:
        return -1
    if not (text.isascii() and text.isdigit() and len(text) < 6):
        raise UsageError(f"bad --parent-fd {text[:20]!r}: expected the number of a descriptor")
    return int(text)
