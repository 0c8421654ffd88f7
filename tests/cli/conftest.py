"""What the tests of the command line share."""

import pytest

from tests.cli.golden.compare import Ask, asking


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """Runs a command in this process, and returns its exit code and what it printed."""
    return asking(capsys)
