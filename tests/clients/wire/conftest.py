"""Real agents whose requests are seen: a store, and a provider with a front that keeps them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.jobs.stage import Stage
from tests.work.conftest import JobBox


@pytest.fixture
def box(tmp_path: Path) -> Iterator[JobBox]:
    box = JobBox(tmp_path)
    yield box
    box.close()


@pytest.fixture
def provider(box: JobBox) -> Iterator[Stage]:
    words = ("--duration", "1s", "--cap", "9", "--lag", "200ms", "--retry-after", "1s")
    stage = Stage(box, *words)
    with stage.front:
        yield stage
