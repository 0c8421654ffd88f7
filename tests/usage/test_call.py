"""A function of the user's as a source."""

import sys
import threading
from types import ModuleType

import pytest

from headgate.core.admission.pools import UsageSource
from headgate.core.answers.signals import Reading
from headgate.core.times import Seconds
from headgate.usage import Failed, read


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the user's, to put functions into."""
    module = ModuleType("my_usage")
    monkeypatch.setitem(sys.modules, "my_usage", module)
    return module


def ask(call: str = "my_usage:now", timeout: float = 10.0) -> Reading | Failed:
    return read(UsageSource("python", call=call), environ={}, timeout=Seconds(timeout))


@pytest.mark.parametrize(
    "value, reading",
    [
        (3, Reading(3.0)),
        ((1.5, 4), Reading(1.5, 4)),
        (Reading(2, 4, 8), Reading(2.0, 4, 8)),
        ({"in_use": 1, "limit": 4}, Reading(1.0, 4)),
        (None, Failed("my_usage:now returned nothing")),
        ("3", Failed("my_usage:now returned a str that is no reading")),
        (-1, Failed("my_usage:now returned a int that is no reading")),
    ],
)
def test_what_it_returns(mine: ModuleType, value: object, reading: Reading | Failed) -> None:
    """A number, a pair, a reading or a table."""
    mine.now = lambda: value  # type: ignore[attr-defined]
    assert ask() == reading


def test_a_method(mine: ModuleType) -> None:
    """Names may go on below the module."""
    mine.account = [1, 2]  # type: ignore[attr-defined]
    assert ask("my_usage:account.__len__") == Reading(2.0)


@pytest.mark.parametrize("error", [ValueError("sk-secret"), SystemExit(3), KeyboardInterrupt()])
def test_what_it_raises(mine: ModuleType, error: BaseException) -> None:
    """Any exception is a failed reading; its text, which may hold a key, is not shown."""

    def now() -> None:
        raise error

    mine.now = now  # type: ignore[attr-defined]
    assert ask() == Failed(f"my_usage:now raised {type(error).__name__}")


@pytest.mark.parametrize(
    "call, said",
    [
        ("", "'' is no function; expected package.module:function"),
        ("my_usage", "'my_usage' is no function; expected package.module:function"),
        ("my_usage:", "'my_usage:' is no function; expected package.module:function"),
        ("no_such_module_here:f", "no_such_module_here:f raised ModuleNotFoundError"),
        ("my_usage:f", "my_usage:f raised AttributeError"),
        ("my_usage:__name__", "my_usage:__name__ cannot be called"),
    ],
)
def test_what_is_no_function(mine: ModuleType, call: str, said: str) -> None:
    """It says what is wrong with it."""
    assert ask(call) == Failed(said)


def test_a_coroutine(mine: ModuleType) -> None:
    """It is not run, and not left behind."""

    async def now() -> int:
        return 3

    mine.now = now  # type: ignore[attr-defined]
    assert ask() == Failed("my_usage:now is async; only plain functions are called")


def test_one_that_hangs(mine: ModuleType) -> None:
    """It is not waited for, nor called again before it has returned."""
    go, done = threading.Event(), threading.Event()
    calls = []

    def now() -> int:
        calls.append(1)
        go.wait(20)
        done.set()
        return 3

    mine.now = now  # type: ignore[attr-defined]
    assert ask(timeout=0.1) == Failed("my_usage:now did not return within 0.1s")
    assert ask() == Failed("my_usage:now is still busy with an earlier reading")
    assert len(calls) == 1
    go.set()
    assert done.wait(20)
    for thread in threading.enumerate():
        if thread.name == "headgate-usage":
            thread.join(20)
    assert ask() == Reading(3.0)
