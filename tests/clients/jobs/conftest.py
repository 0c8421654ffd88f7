"""Real agents as jobs: a store with workers, and a provider with a front."""

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
    stage = Stage(box, "--duration", "300ms", "--cap", "9", "--lag", "0s")
    with stage.front:
        yield stage
