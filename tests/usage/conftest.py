"""Servers that do not outlive their test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.usage.server import Script, Server


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Starts servers."""
    started: list[Server] = []

    def start(script: Script, **options: Any) -> Server:  # noqa: ANN401 - passed on
        started.append(Server(script, **options))
        return started[-1]

    yield start
    for one in started:
        one.close()
