"""How outcomes reach whoever asked: in their event loop's thread, or in whichever thread knows."""

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

Call = Callable[[], None]


def deliver(calls: "Iterable[tuple[asyncio.AbstractEventLoop | None, Call]]") -> None:
    """Call back programs: those of one event loop together, the others from this thread."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Call]] = {}
    for loop, call in calls:
        if loop is None:
            _call_safely(call)
        else:
            by_loop.setdefault(loop, []).append(call)
    for loop, some in by_loop.items():
        call_in(loop, partial(_call_all, some))


def _call_all(calls: list[Call]) -> None:
    for call in calls:
        _call_safely(call)


def _call_safely(call: Call) -> None:
    """Call back a program; its mistake is shown, and keeps no one else from being told."""
    try:
        call()
    except Exception:  # noqa: BLE001 - whatever the program's own function raises
        sys.excepthook(*sys.exc_info())


def call_in(loop: "asyncio.AbstractEventLoop", function: Callable[[], Any]) -> None:
    """Call something in an event loop's thread; at once if this is it."""
    if running_loop() is loop:
        function()
        return
    with suppress(RuntimeError):  # the loop may be gone, and with it whoever wanted to know
        loop.call_soon_threadsafe(function)


def running_loop() -> "asyncio.AbstractEventLoop | None":
    """The event loop that runs in this thread, if any; loads nothing to find out."""
    module = sys.modules.get("asyncio")
    return None if module is None else module._get_running_loop()  # noqa: SLF001 - documented
