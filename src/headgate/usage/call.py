"""A function of the user's as a source: plain functions only, each called once at a time."""

from typing import TYPE_CHECKING

from headgate.core.signals import Reading
from headgate.usage.failed import Failed
from headgate.usage.shapes import returned

if TYPE_CHECKING:
    from threading import Thread

_BUSY: "dict[str, Thread]" = {}


def ask(call: str, timeout: float) -> Reading | Failed:
    """Call `package.module:function`. It runs in a thread: one that hangs is not waited for."""
    import threading

    name = "".join(letter if letter.isprintable() else "?" for letter in call)[:120]
    answers: list[Reading | Failed] = []

    def work() -> None:
        try:
            answers.append(_ask(call, name))
        finally:
            del _BUSY[call]

    thread = threading.Thread(target=work, name="headgate-usage", daemon=True)
    if _BUSY.setdefault(call, thread) is not thread:
        return Failed(f"{name} is still busy with an earlier reading")
    thread.start()
    thread.join(timeout)
    return answers[0] if answers else Failed(f"{name} did not return within {timeout:g}s")


def _ask(call: str, name: str) -> Reading | Failed:
    import inspect
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
        value = found()
        if inspect.iscoroutine(value):
            value.close()
            return Failed(f"{name} is async; only plain functions are called")
        reading = returned(value)
    except BaseException as error:  # noqa: BLE001 - even sys.exit() ends only the reading
        return Failed(f"{name} raised {type(error).__name__}")
    if reading is None:
        what = "nothing" if value is None else f"a {type(value).__name__} that is no reading"
        return Failed(f"{name} returned {what}")
    return reading
