"""How outcomes reach whoever asked: in their event loop's thread, or in whichever thread knows."""

import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio

Call = Callable[[], None]


class Listener(Protocol):
    """Somebody who is to hear of an outcome."""

    loop: "asyncio.AbstractEventLoop | None"

    def finish(self) -> None:
        """Tell the outcome."""

    def unheard(self) -> None:
        """Nobody is left who could hear of it: leave nothing behind."""


def deliver(outcomes: Iterable[Listener]) -> None:
    """Tell outcomes: those of one event loop together, the others from this thread."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Listener]] = {}
    here = running_loop()
    for one in outcomes:
        if one.loop is None or one.loop is here:
            call_safely(one.finish)
        else:
            by_loop.setdefault(one.loop, []).append(one)
    for loop, some in by_loop.items():
        if not call_in(loop, partial(_call_all, [one.finish for one in some])):
            _call_all([one.unheard for one in some])


def _call_all(calls: list[Call]) -> None:
    for call in calls:
        call_safely(call)


def call_safely(call: Call) -> None:
    """Call back a program; its mistake is shown, and keeps no one else from being told."""
    try:
        call()
    except Exception:  # noqa: BLE001 - whatever the program's own function raises
        sys.excepthook(*sys.exc_info())


def call_in(loop: "asyncio.AbstractEventLoop", function: Callable[[], Any]) -> bool:
    """Call something in an event loop's thread, at once if this is it; False if it is gone."""
    if running_loop() is loop:
        function()
        return True
    try:
        loop.call_soon_threadsafe(function)
    except RuntimeError:  # it was closed, and with it whoever wanted to know
        return False
    return True


def running_loop() -> "asyncio.AbstractEventLoop | None":
    """The event loop that runs in this thread, if any; loads nothing to find out."""
    module = sys.modules.get("asyncio")
    return None if module is None else module._get_running_loop()  # noqa: SLF001 - documented
