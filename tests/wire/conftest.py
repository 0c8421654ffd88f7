"""A box in which agents ask a provider."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.work.conftest import JobBox


@pytest.fixture
def box(tmp_path: Path) -> Iterator[JobBox]:
    box = JobBox(tmp_path)
    yield box
    box.close()
