"""Real agents, where they are installed; `make clients` installs them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agents.stage import Provider
from tests.clients.real import REAL, Client, folder
from tests.support import HEADGATE, Box, Program

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave these tests out where there is nothing to test with."""
    if folder() is None:
        absent = [item for item in items if HERE in item.path.parents]
        items[:] = [item for item in items if item not in absent]
        config.hook.pytest_deselected(items=absent)


@pytest.fixture
def provider(box: Box) -> Provider:
    words = ("--duration", "300ms", "--cap", "1", "--lag", "0s", "--cancelled-lag", "0s")
    return Provider(box, *words)


@pytest.fixture(params=REAL)
def client(request: pytest.FixtureRequest, box: Box, steady: None, provider: Provider) -> Client:
    """Each of the real agents, pointed at the provider."""
    made = REAL[request.param](box, provider.url)
    if not Path(made.program).exists():
        pytest.skip(f"{made.program} is not there: run `make clients`")
    box.env["HEADGATE_METER"] = "agent"  # what it prints is what most of these are about
    return made


class Run:
    """A client under `headgate run`, with its output going to files."""

    def __init__(self, box: Box, client: Client, name: str, argv: list[str]) -> None:
        self._paths = [box.folder / f"{name}.{stream}" for stream in ("out", "err")]
        with self._paths[0].open("wb") as out, self._paths[1].open("wb") as err:
            words = [HEADGATE, "run", "-q", "-m", client.key, "--", *argv]
            start = ["sh", "-c", 'cd "$0" && exec "$@" </dev/null', str(client.work)]
            self.program: Program = box.start(*start, *words, stdout=out, stderr=err)

    @property
    def output(self) -> str:
        """All that it wrote so far: its events, then what went to stderr."""
        return "".join(path.read_text(errors="replace") for path in self._paths)

    def wait(self) -> int:
        return self.program.wait(45)


Runs = Callable[..., Run]


@pytest.fixture
def run(box: Box, client: Client) -> Runs:
    """Starts the client; each run has a name for its output."""

    def starter(name: str, argv: list[str]) -> Run:
        return Run(box, client, name, argv)

    return starter
