"""The stand-in agents behave as what they stand for: other tests rely on that."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.core.answers.classify import classify_line
from headgate.core.answers.signals import OVERLOADED, REFUSALS
from headgate.core.times import Seconds
from tests.agents.stage import QUICK, Provider, sessions, shim, standin
from tests.support import Box, Program, gone, until

ALL = (
    "claude", "claude-text", "opencode", "opencode-text", "codex", "codex-text", "gemini", "plain",
)  # fmt: skip
JSON = ("claude", "opencode", "codex", "gemini")
PROFILES = {"plain": ""}
RESUME = {
    "claude": ("--resume", "ID", "-p", "go on"),
    "opencode": ("run", "--session", "ID", "go on"),
    "codex": ("exec", "resume", "ID", "go on"),
    "gemini": ("--resume", "ID", "-p", "go on"),
}

Start = Callable[..., Program]


@pytest.fixture
def provider(box: Box) -> Provider:
    found = Provider(box, *QUICK, "--cap", "20")
    box.env.update(found.env)
    return found


@pytest.fixture
def state(box: Box) -> Path:
    return box.folder / "state"


@pytest.fixture
def start(box: Box, provider: Provider, state: Path) -> Start:
    """Starts a stand-in with its output going to files."""

    def starter(like: str, *words: str, speed: float = 200) -> Program:
        argv = standin(like, "--state", str(state), *words, speed=speed)
        with (box.folder / "out").open("wb") as out, (box.folder / "err").open("wb") as err:
            return box.start(*argv, stdout=out, stderr=err)

    return starter


def said(box: Box) -> list[str]:
    return [line for name in ("out", "err") for line in (box.folder / name).read_text().split("\n")]


def events(box: Box) -> list[dict[str, object]]:
    found = (box.folder / "out").read_text().splitlines()
    return [json.loads(line) for line in found]


@pytest.mark.parametrize("like", ALL)
def test_work_is_done_in_steps(
    like: str, box: Box, provider: Provider, start: Start, state: Path
) -> None:
    """Each step is a request that is answered in full, and none of what is said is a refusal."""
    assert start(like, "--requests", "3", "-p", "do it").wait() == 0
    (done,) = sessions(state)
    assert done.steps == [1, 2, 3]
    assert provider.count("exit") == 3
    assert not [line for line in said(box) if classify_line(line)]
    if like in JSON:
        assert done.session in json.dumps(events(box)[0])


@pytest.mark.parametrize("like", ALL)
@pytest.mark.parametrize("status", [429, 529])
def test_refusals_are_told_so_that_they_are_understood(
    like: str, status: int, box: Box, provider: Provider, start: Start
) -> None:
    """A stand-in that is refused says so in lines that are classified, and fails."""
    text = f"[[sim status={status} retry_after=1]]" if status == 429 else f"[[sim status={status}]]"
    code = start(like, "-p", text, speed=2_000).wait()
    assert code == (status % 256 if like == "gemini" else 1)
    profile = PROFILES.get(like, like.partition("-")[0])
    found = [classify_line(line, profile, now=Seconds(0)) for line in said(box)]
    kinds = {signal.kind for signal in found if signal}
    if like == "plain" and status == 529:
        assert not kinds  # an SDK's exception for a 5xx is like that of any error
    else:
        assert kinds
        assert kinds <= (set(REFUSALS) if status == 429 else {OVERLOADED})
    tries = {"claude": 11 if status == 429 else 3, "gemini": 10, "plain": 3}
    tries["codex"] = 6 if status == 429 else 30
    assert provider.count("refused") == tries.get(like.partition("-")[0], 6)


def test_a_log_tells_what_the_events_do_not_yet(box: Box, provider: Provider, start: Start) -> None:
    """Where events begin with the first step, a log has the session and each refusal before."""
    text = "[[sim status=429 retry_after=1 times=2]]"
    assert start("opencode", "run", "--print-logs", text).wait() == 0
    log = (box.folder / "err").read_text().splitlines()
    assert f"session.id={events(box)[0]['sessionID']} " in log[0]
    assert [bool(classify_line(line, "opencode")) for line in log] == [
        False,
        *([False, True] * 2),
        False,
    ]


@pytest.mark.parametrize("like", JSON)
def test_a_killed_session_is_resumed_where_it_was(
    like: str, box: Box, provider: Provider, start: Start, state: Path
) -> None:
    """However it ended, a resumed session does the steps that are left, each once."""
    first = start(like, "--requests", "4", "--pause", "0.1", "-p", "do it", speed=1)
    until(lambda: sessions(state) and len(sessions(state)[0].steps) == 2)
    provider.plan(cap=0, retry_after=30_000)
    until(lambda: provider.count("refused"))
    first.send(signal.SIGKILL)
    first.wait()
    (done,) = sessions(state)
    provider.plan(cap=4)
    words = [word.replace("ID", done.session) for word in RESUME[like]]
    assert start(like, "--requests", "4", *words).wait() == 0
    (done,) = sessions(state)
    assert done.steps == [1, 2, 3, 4]
    assert done.starts == [False, True]
    assert provider.count("exit") == 4


@pytest.mark.parametrize("like", JSON)
def test_a_session_that_is_not_there(like: str, box: Box, start: Start, state: Path) -> None:
    """To resume what is not there is an error that names it."""
    words = [word.replace("ID", "no-such") for word in RESUME[like]]
    assert start(like, *words).wait() == (42 if like == "gemini" else 1)
    assert like == "opencode" or "no-such" in (box.folder / "err").read_text()
    assert sessions(state) == []


def test_a_session_is_made_once(box: Box, start: Start, state: Path) -> None:
    """A session can be given a name of one's own, once."""
    assert start("claude", "--session-id", "mine", "-p", "do it").wait() == 0
    assert start("claude", "--session-id", "mine", "-p", "do it").wait() == 1
    assert "already in use" in (box.folder / "err").read_text()
    (done,) = sessions(state)
    assert (done.session, done.steps) == ("mine", [1])


@pytest.mark.parametrize(
    "like, code", [("claude", 143), ("opencode", -15), ("codex", -15), ("gemini", 0)]
)
def test_the_end_by_a_signal(like: str, code: int, start: Start, state: Path) -> None:
    """SIGTERM ends each as it ends what it stands for."""
    agent = start(like, "-p", "[[sim duration=30]]")
    until(lambda: sessions(state))
    until(lambda: sessions(state)[0].pids("ask"))
    agent.send(signal.SIGTERM)
    assert agent.wait() == code


def test_what_is_hard_to_end(box: Box, start: Start, state: Path) -> None:
    """One that ignores SIGTERM must be killed, and what it left behind lives on."""
    agent = start("opencode", "--ignore-term", "--stray", "-p", "[[sim duration=30]]")
    until(lambda: sessions(state) and sessions(state)[0].pids("ask"))
    (child,) = sessions(state)[0].pids("stray", "child")
    box.pids.append(child)
    agent.send(signal.SIGTERM)
    assert agent.alive()
    agent.kill()
    assert not gone(child)


def test_a_tool_loop(box: Box, start: Start, state: Path) -> None:
    """The same tool call again and again, until somebody ends it."""
    agent = start("claude", "--tool-loop", "-p", "do it")
    until(lambda: sessions(state) and len(sessions(state)[0].steps) > 4)
    assert agent.alive()
    agent.kill()
    calls = [line for line in said(box) if '"tool_use","id":' in line]
    assert len({json.dumps(json.loads(call)["message"]["content"]) for call in calls}) == 1


def test_silence(box: Box, provider: Provider, start: Start, state: Path) -> None:
    """A stand-in can fall silent, at once or after some steps."""
    silent = start("codex", "--silent", "-p", "do it")
    later = start("codex", "--requests", "3", "--silent-after", "1", "-p", "do it")
    until(lambda: provider.count("exit") == 1)
    until(lambda: sessions(state)[0].steps == [1])
    assert silent.alive()
    assert later.alive()


def test_a_stand_in_takes_the_place_of_the_program(
    box: Box, provider: Provider, state: Path
) -> None:
    """As a program of the real one's name it takes the real one's command line."""
    shim(box.folder / "bin", "claude", "--state", str(state))
    box.env["PATH"] = f"{box.folder / 'bin'}:{box.env['PATH']}"
    words = ("--output-format", "stream-json", "--verbose", "--model", "claude-opus-4-6")
    agent = box.start("claude", "-p", "do it", *words)
    assert json.loads(agent.line())["model"] == "claude-opus-4-6"
    assert agent.wait() == 0
    assert {line.model for line in provider.lines()} == {"claude-opus-4-6"}
