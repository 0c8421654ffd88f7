"""A provider that can be overrun: to judge how limits are learned, and to try clients against."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from headgate.core.install_hint import install_extra
from headgate.core.named_tuple import NamedTuple
from headgate.errors import HeadgateError


class _Action(NamedTuple):
    """Where an action is found: its module, what it takes, what does it."""

    does: str
    module: str
    arguments: str
    run: str


_ACTIONS = {
    "run": _Action(
        "judge governors on scenarios, in virtual time", "commands", "run_arguments", "run"
    ),
    "worlds": _Action(
        "judge headgate in worlds drawn at random", "world_commands", "arguments", "run"
    ),
    "serve": _Action("be a provider over HTTP, until Ctrl-C", "server.serve", "arguments", "run"),
    "report": _Action(
        "judge all governors on all scenarios, and write it down",
        module="commands",
        arguments="report_arguments",
        run="report",
    ),
}


class _Later(ArgumentParser):
    """The parser of an action whose module is loaded only when it is asked for."""

    fill: Callable[[], None] | None = None

    def parse_known_args(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        namespace: Any = None,  # noqa: ANN401 - as argparse has it
    ) -> tuple[Any, list[str]]:
        """Find out what the action takes, then read that."""
        fill, self.fill = self.fill, None
        if fill is not None:
            fill()
        return super().parse_known_args(args, namespace)


def arguments(parser: ArgumentParser) -> None:
    """What `sim` takes."""
    actions = parser.add_subparsers(
        dest="action", metavar="ACTION", title="actions", required=True, parser_class=_Later
    )
    for name, action in _ACTIONS.items():
        later = actions.add_parser(
            name, help=action.does, description=action.does, allow_abbrev=False
        )
        later.fill = _filling(action, later)


def _filling(action: _Action, parser: ArgumentParser) -> Callable[[], None]:
    def fill() -> None:
        with _extra():
            getattr(_module(action), action.arguments)(parser)

    return fill


def run(args: Namespace) -> int:
    """Do what was asked for."""
    action = _ACTIONS[args.action]
    with _extra():
        module = _module(action)
        given = module.options_of(args) if args.action == "serve" else args
        return int(getattr(module, action.run)(given))


def _module(action: _Action) -> Any:  # noqa: ANN401 - a module
    return import_module(f"headgate.sim.{action.module}")


@contextmanager
def _extra() -> Iterator[None]:
    """Say what to install where something is missing that only `sim` needs."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "headgate").partition(".")[0] == "headgate":
            raise
        raise HeadgateError(f"headgate sim needs {error.name}: {install_extra('sim')}") from None
