"""A function of the user's as a source: plain functions only, each called once at a time."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headgate.core.answers.signals import Reading
from headgate.core.printable_text import printable
from headgate.core.times import Seconds
from headgate.usage.failed import Failed
from headgate.usage.shapes import returned

if TYPE_CHECKING:
    from threading import Thread

_BUSY: "dict[str, Thread]" = {}


def ask(call: str, timeout: Seconds) -> Reading | Failed:
    """Call `package.module:function`."""
    name = printable(call, "?")[:120]
    return bounded(call, name, lambda: _ask(call, name), timeout)


def ask_function(function: Callable[[], object], name: str, timeout: Seconds) -> Reading | Failed:
    """Call a function of this program; another gate may have another one of the same name."""
    key = f"for {name} {id(function)}"
    return bounded(key, name, lambda: _read(function, f"the function for {name}"), timeout)


def bounded(
    key: str, name: str, work: Callable[[], Reading | Failed], timeout: Seconds
) -> Reading | Failed:
    """Do it in a thread: one that hangs is not waited for, and not started a second time."""
    import threading

    answers: list[Reading | Failed] = []

    def run() -> None:
        try:
            answers.append(work())
        finally:
            del _BUSY[key]

    thread = threading.Thread(target=run, name="headgate-usage", daemon=True)
    if _BUSY.setdefault(key, thread) is not thread:
        return Failed(f"{name} is still busy with an earlier reading")
    thread.start()
    thread.join(timeout)
    return answers[0] if answers else Failed(f"{name} did not return within {timeout:g}s")


def _ask(call: str, name: str) -> Reading | Failed:
    from importlib import import_module

    module, colon, path = call.partition(":")
    if not (colon and module and path):
        return Failed(f"{name!r} is no function; expected package.module:function")
    try:
        found: object = import_module(module)
        for step in path.split("."):
            found = getattr(found, step)
        if not callable(found):
            return Failed(f"{name} cannot be called")
    except BaseException as error:  # noqa: BLE001 - even sys.exit() ends only the reading
        return Failed(f"{name} raised {type(error).__name__}")
    return _read(found, name)


def _read(function: Callable[[], object], name: str) -> Reading | Failed:
    import inspect

    try:
        value = function()
        if inspect.iscoroutine(value):
            value.close()
            return Failed(f"{name} is async; only plain functions are called")
        reading = returned(value)
    except BaseException as error:  # noqa: BLE001 - as above
        return Failed(f"{name} raised {type(error).__name__}")
    if reading is None:
        what = "nothing" if value is None else f"a {type(value).__name__} that is no reading"
        return Failed(f"{name} returned {what}")
    return reading
