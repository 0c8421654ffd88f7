"""Gates over both stores."""

from collections.abc import Callable
from uuid import uuid4

import pytest

from headgate import Gate
from tests.support import Box

Opener = Callable[..., Gate]


@pytest.fixture(params=["memory", "sqlite"])
def open_gate(request: pytest.FixtureRequest, box: Box) -> Opener:
    """Opens gates over one store: each call is another gate, as another program would have it."""
    if request.param == "memory":
        box.url = f"memory://{uuid4().hex}"

    return box.gate
