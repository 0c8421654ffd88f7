"""Options that several verbs take, and how they are explained."""

from argparse import ArgumentParser
from typing import Any, NoReturn

from headgate.core.printable_text import plain


class VerbParser(ArgumentParser):
    """Reads the words after a verb. What it repeats of them is safe for a terminal."""

    def __init__(self, *, verb: str = "", **options: Any) -> None:  # noqa: ANN401 - argparse's own
        super().__init__(**options)
        self._verb = verb

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with them, and exit with 2."""
        super().error(plain(message) + self._near(message))

    def _near(self, message: str) -> str:
        """The option that was probably meant by one that there is not."""
        said = message.partition("unrecognized arguments: ")[2].split(" ")[0].partition("=")[0]
        if not said.startswith("--"):
            return ""
        from difflib import get_close_matches

        known = [name for action in self._actions for name in action.option_strings]
        near = get_close_matches(said, known, 1, 0.75)
        return f" (did you mean {near[0]}?)" if near else ""

    def format_help(self) -> str:
        """What it takes, with an example or two."""
        from headgate.cli.shared.examples import EXAMPLES

        shown = EXAMPLES.get(self._verb, ())
        if not shown:
            return super().format_help()
        lines = [f"  {one.command}\n      {one.does}" for one in shown]
        return "\n".join([super().format_help(), "examples:", *lines, ""])


def add_about(parser: ArgumentParser) -> None:
    """What there is to say about a piece of work that asks for seats."""
    parser.add_argument(
        "--task", metavar="ID", help="whom it is for: a name that lists and events show"
    )
    add_role(parser)
    add_priority(parser)
    parser.add_argument(
        "--weight", default="1", metavar="N", help="how many seats it takes in each pool (1)"
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="when its prompt began; of equal priority, the older goes first. 5m is five minutes "
        "ago, a bare number is seconds since the epoch (now)",
    )


def add_role(parser: ArgumentParser) -> None:
    """What it is done as."""
    parser.add_argument(
        "--role",
        action="append",
        metavar="NAME",
        help="a role that it has, as in reviewer: it is counted in the pool role:reviewer; may be "
        "given again",
    )


def add_priority(parser: ArgumentParser) -> None:
    """Who goes first."""
    parser.add_argument(
        "-p", "--priority", help="interactive, normal, background, or a number (higher goes first)"
    )


def add_meter(parser: ArgumentParser) -> None:
    """How it is counted and watched."""
    parser.add_argument(
        "--meter",
        metavar="METER",
        help="how it is counted and watched: agent (by its output), wire (by its requests), or "
        "requests (a seat for each of them); wire where that changes nothing for it",
    )


def add_queue_timeout(parser: ArgumentParser) -> None:
    """How long a request may wait."""
    parser.add_argument(
        "--queue-timeout",
        metavar="DUR",
        help="with --meter requests: tell it so after one of its requests has waited so long for "
        "a seat, as in 5m (it waits as long as it takes)",
    )


def add_grace(parser: ArgumentParser) -> None:
    """How gently it is ended."""
    parser.add_argument(
        "--grace",
        metavar="DUR",
        help="how long it has to end by itself when it is cancelled, before it is killed (10s)",
    )


def add_run_limits(parser: ArgumentParser, *, same: str) -> None:
    """When it is ended, whatever it does."""
    parser.add_argument(
        "--stale-after", metavar="DUR", help="end it after so long without output (off)"
    )
    parser.add_argument(
        "--message-stale-after",
        metavar="DUR",
        help="end it after so long without a message or a tool call, however much else it writes "
        "(off)",
    )
    parser.add_argument("--max-runtime", metavar="DUR", help="end it after so long (off)")
    parser.add_argument(
        "--max-tool-calls", metavar="N", help="end it after so many tool calls (off)"
    )
    parser.add_argument(
        "--same-tool-calls",
        metavar="N",
        help=f"end it after so many equal tool calls in a row ({same})",
    )
