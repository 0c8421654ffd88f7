"""What every test gets: an environment without traces of its owner's, and on request a box."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import PRIVATE, STEADY, UNSET, Box

# How long an example takes says more about the machine than about the code. CI judges a change by
# the same examples each time; everybody else finds new ones.
settings.register_profile(
    "headgate",
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("headgate")


def pytest_configure() -> None:
    """Have Ctrl-C work in programs that tests start, even where a shell's `&` had it ignored."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)
    for name in PRIVATE:
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / f"xdg-{name.lower()}"))
    monkeypatch.setenv("HEADGATE_STORE", f"sqlite://{tmp_path}/s.db")
    monkeypatch.setenv("HEADGATE_SCHEMA", "1")  # the old names have tests of their own


@pytest.fixture
def box(tmp_path: Path, clean_environment: None) -> Iterator[Box]:
    """A private store, and whatever is started around it: none of it outlives the test."""
    it = Box(tmp_path)
    yield it
    it.close()


@pytest.fixture
def steady(box: Box) -> None:
    """Pools whose limits nothing is learned about, and whose freed seats are free at once."""
    box.defaults = STEADY
    box.config("")
