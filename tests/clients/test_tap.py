"""Real agents under a tap: they send what they would have sent, and what they are told is seen."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.stage import Provider
from tests.clients.real import Client
from tests.clients.tapped import SIDECARS, TAPPED, point_outside, profile_with_a_tap
from tests.support import HEADGATE, Box, Program, until
from tests.wire.outside import Asked, Outside, plain

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

WORDS = " ".join(map(str, range(40)))
ANSWERED = "say hi [[sim tokens=40 duration=0.3]]"
_CHANGING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{16,64}\b|ses_\w+|\b1[0-9]{9}(?:[0-9]{3})?\b(?:\.[0-9]+)?"
)
"""Names of sessions and requests, and times: other ones in each run."""


@pytest.fixture
def outside(box: Box, provider: Provider) -> Iterator[Outside]:
    with Outside(box.folder, provider.url) as it:
        it.says = SIDECARS
        yield it


@pytest.fixture(params=TAPPED)
def tapped(request: pytest.FixtureRequest, box: Box, steady: None, outside: Outside) -> Client:
    """Each of the real agents, as it is on its user's machine."""
    made = TAPPED[request.param](box, "")
    if not Path(made.program).exists():
        pytest.skip(f"{made.program} is not there: run `make clients`")
    box.env |= point_outside(made, outside)
    box.config(f'[pools."{made.key}"]\nlimit = 5\n{profile_with_a_tap(made)}')
    return made


def _run(box: Box, client: Client, meter: str, prompt: str) -> tuple[Program, Path]:
    path = box.folder / f"{meter}.out"
    with path.open("wb") as out:
        words = [HEADGATE, "run", "-q", "--meter", meter, "-m", client.key, "--"]
        start = ["sh", "-c", 'cd "$0" && exec "$@" </dev/null', str(client.work)]
        return box.start(*start, *words, *client.start(prompt), stdout=out, stderr=out), path


def _for_a_model(asked: list[Asked]) -> list[Asked]:
    ends = ("/messages", "/responses", ":streamGenerateContent")
    posted = [one for one in asked if one.method == "POST"]
    return [one for one in posted if one.path.partition("?")[0].endswith(ends)]


def _names(asked: Asked) -> list[str]:
    """The headers in their order, but for the one that is not passed on."""
    return [name for name, _ in asked.headers if name.lower() != "connection"]


def _body(asked: Asked) -> Any:  # noqa: ANN401 - JSON
    return json.loads(_CHANGING.sub("0", plain(asked.body, dict(asked.headers)).decode()))


def _values(asked: Asked) -> dict[str, str]:
    own = {"connection", "content-length"}
    found = {name.lower(): _CHANGING.sub("0", value) for name, value in asked.headers}
    return {name: value for name, value in found.items() if name not in own}


def test_it_sends_the_same(box: Box, outside: Outside, tapped: Client) -> None:
    """With and without a tap the same requests for a model reach upstream, and it says the same."""
    seen = []
    for meter in ("agent", "wire"):
        outside.asked.clear()
        program, output = _run(box, tapped, meter, ANSWERED)
        assert program.wait(45) == 0, output.read_text()
        assert tapped.answer(output.read_text()) == WORDS
        seen.append(_for_a_model(outside.asked))
    direct, through = seen
    assert direct
    assert [one.path for one in through] == [one.path for one in direct]
    assert [_names(one) for one in through] == [_names(one) for one in direct]
    assert [_values(one) for one in through] == [_values(one) for one in direct]
    assert [_body(one) for one in through] == [_body(one) for one in direct]


def test_a_refusal_is_seen(box: Box, outside: Outside, tapped: Client) -> None:
    """What upstream says inside TLS reaches the pool, whatever the agent prints about it."""
    box.gate()
    program, _ = _run(box, tapped, "wire", "say hi [[sim status=429 retry_after=300]]")
    paused = until(lambda: box.events("paused"), within=40)
    assert tapped.key in paused[0]
    assert "(429)" in paused[0][-1]
    program.kill()
