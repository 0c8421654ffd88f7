"""The real aider, where somebody has put it beside the others: `make clients` does not install it.

python3 -m venv .clients/aider && .clients/aider/bin/pip install aider-chat==0.86.2
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.stage import Provider
from tests.clients.front import Front
from tests.clients.real import KEPT, KEY, folder
from tests.support import HEADGATE, Box
from tests.wire.outside import Asked, Outside

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

MODELS = {
    "anthropic": "anthropic/claude-sonnet-4-5",
    "openai": "openai/gpt-4.1",
}
PROMPT = "say hi [[sim tokens=40 duration=0.3]]"
WORDS = " ".join(map(str, range(40)))
OPTIONS = (
    "--no-git --yes-always --no-check-update --no-show-model-warnings --analytics-disable "
    "--no-detect-urls --no-pretty --no-show-release-notes --no-gitignore --map-tokens 0"
)
OWN = {"connection", "host"}
"""Headers that belong to one connection."""


@pytest.fixture
def program() -> str:
    where = folder()
    found = (where or Path()).parents[1] / "aider" / "bin" / "aider"
    if not found.exists():
        pytest.skip(f"{found} is not there")
    return str(found)


@pytest.fixture
def outside(box: Box, provider: Provider) -> Iterator[Outside]:
    with Outside(box.folder, provider.url) as it:
        yield it


@pytest.fixture
def pointed_outside(box: Box, steady: None, outside: Outside) -> None:
    """An environment with keys, in which the makers' hosts are on loopback."""
    home = box.folder / "home"
    home.mkdir()
    ours = {n: v for n, v in box.env.items() if n.startswith(("HEADGATE_", "XDG_", "PYTHON"))}
    kept = {name: box.env[name] for name in KEPT if name in box.env}
    proxies = dict.fromkeys(("HTTPS_PROXY", "https_proxy"), outside.proxy)
    keys = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    box.env = {**kept, **ours, **proxies, **keys, "HOME": str(home)}
    box.env["SSL_CERT_FILE"] = str(outside.authority)


def _run(box: Box, program: str, maker: str, meter: str) -> str:
    """What it prints."""
    path, work = box.folder / f"{meter}.out", box.folder / f"work{meter}"
    work.mkdir()
    with path.open("wb") as out:
        start = ["sh", "-c", 'cd "$0" && exec "$@" </dev/null', str(work)]
        asked = ["--meter", meter] if meter else []
        words = [HEADGATE, "run", "-q", *asked, "-m", MODELS[maker], "--", program]
        options = [*OPTIONS.split(), "--model", MODELS[maker], "--message", PROMPT]
        ended = box.start(*start, *words, *options, stdout=out, stderr=out).wait(60)
    assert ended == 0, path.read_text()
    return path.read_text()


@pytest.mark.parametrize("maker", MODELS)
def test_it_sends_the_same_by_a_tap(
    box: Box, program: str, outside: Outside, pointed_outside: None, maker: str
) -> None:
    """With and without a tap the same requests reach upstream, and it prints the same."""
    seen, printed = [], []
    for meter in ("agent", "wire"):
        outside.asked.clear()
        printed.append(_run(box, program, maker, meter))
        seen.append([_without_own(one) for one in outside.asked])
    assert len(seen[0]) == 1
    assert seen[0] == seen[1]
    assert WORDS in printed[0]
    assert printed[0] == printed[1]
    assert _metered(box) == 1


@pytest.mark.parametrize("maker", MODELS)
def test_it_sends_the_same_to_a_gateway(
    box: Box, program: str, provider: Provider, pointed_outside: None, maker: str
) -> None:
    """By default its requests pass by headgate, to the base URL that it has, and are the same."""
    seen, printed = [], []
    with Front(provider.url) as gateway:
        box.env |= {"ANTHROPIC_BASE_URL": gateway.url, "OPENAI_API_BASE": f"{gateway.url}/v1"}
        for meter in ("agent", ""):
            gateway.heard.clear()
            printed.append(_run(box, program, maker, meter))
            asked = [(h.path, h.headers.items(), h.body.encode()) for h in gateway.heard]
            seen.append(
                [_without_own(Asked("POST", path, [*heads], b)) for path, heads, b in asked]
            )
    assert len(seen[0]) == 1
    assert seen[0] == seen[1]
    assert WORDS in printed[0]
    assert printed[0] == printed[1]
    assert _metered(box) == 1


def _metered(box: Box) -> int:
    """How many requests were seen."""
    return len(box.rows("request"))


def _without_own(asked: Asked) -> Asked:
    kept = [(name, value) for name, value in asked.headers if name.lower() not in OWN]
    return asked._replace(headers=kept)
