"""Real servers: one for each test, or one that the tests of a file share."""

from collections.abc import Iterator

import pytest

from tests.api.support import Server
from tests.support import Box


@pytest.fixture
def server(box: Box) -> Iterator[Server]:
    """A server of one test's own store."""
    it = Server(box)
    yield it
    it.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that the tests of a file share: each has pools of its own."""
    box = Box(tmp_path_factory.mktemp("shared"))
    box.env["HEADGATE_SCHEMA"] = "1"
    box.config("[templates.review]\ncommand = ['echo', 'review', '{what}', '--model={model}']\n")
    it = Server(box)
    yield it
    it.close()
    box.close()
