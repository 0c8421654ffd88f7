"""Which commands get a session of ours, and what becomes of their words."""

import json
from pathlib import Path

import pytest

from headgate.config import load
from headgate.config.profiles import profile_of
from headgate.core.agents.given_session import (
    is_given,
    is_since,
    session_id,
    takes_one,
    with_session,
)
from headgate.core.agents.output_lines import tells_no_session
from headgate.core.agents.profile import Profile
from headgate.core.agents.resume_command import SESSION, resume
from headgate.work.agent_version import agent_version

NAMED = "0ddba110-0000-4000-8000-000000000001"


def of(line: str) -> tuple[Profile, list[str]]:
    argv = line.split()
    return profile_of(load(None), argv), argv


@pytest.mark.parametrize(
    "line, takes",
    [
        ("claude -p hi", True),
        ("claude --model opus -p hi", True),
        ("timeout 5 claude -p hi", True),
        ("gemini -m x -p hi", True),
        ("claude -p hi --output-format text", True),
        ("claude -p hi --output-format stream-json --verbose", False),
        ("gemini -o stream-json -p hi", False),
        (f"claude --session-id {NAMED} -p hi", False),
        (f"claude --session-id={NAMED} -p hi", False),
        ("claude -p hi --continue", False),
        ("claude --resume abc -p hi", False),
        ("claude -p hi --no-session-persistence", False),
        ("claude mcp list", False),
        ("gemini extensions list", False),
        ("opencode run hi", False),
        ("codex exec hi", False),
        ("aider -m hi", False),
        ("make test", False),
    ],
)
def test_only_text_that_begins_a_session_without_a_name_gets_one(line: str, takes: bool) -> None:  # noqa: FBT001
    """Whoever names one, goes on with one, keeps none or writes events is left alone."""
    assert takes_one(*of(line)) == takes


@pytest.mark.parametrize("line", ["claude -p hi", "timeout 5 gemini -p hi"])
def test_a_given_session_is_resumed(line: str) -> None:
    """The id stands right behind the program, and goes when the session is resumed."""
    profile, argv = of(line)
    given = session_id("store", 7, 1)
    begun = with_session(profile, argv, given)
    assert begun[begun.index(given) - 2].endswith(("claude", "gemini"))
    assert begun[begun.index(given) - 1] == "--session-id"
    assert takes_one(profile, begun) is False
    resumed = resume(profile, argv, given)
    assert resumed
    assert "--session-id" not in resumed
    assert given in resumed


def test_an_id_tells_whose_it_is() -> None:
    """It is a UUID, another for each attempt, and is told from any other without being kept."""
    given = {session_id("s", 7, n, tries) for n in range(1, 9) for tries in (0, 1)}
    assert len(given) == 16
    for one in given:
        assert SESSION.match(one)
        assert (len(one), one[14], one[19] in "89ab") == (36, "4", True)
        assert is_given(one, "s", 7, 8)
        assert not is_given(one, "s", 8, 8)
    assert not is_given("", "s", 7, 8)
    assert not is_given(NAMED, "s", 7, 8)


@pytest.mark.parametrize(
    "version, since, knows",
    [
        ("2.1.325", "2.0.0", True),
        ("2.0.0", "2.0.0", True),
        ("1.9.99", "2.0.0", False),
        ("10.0.0", "9.9", True),
        ("0.61.0-nightly.1", "0.61.0", True),
        ("", "2.0.0", False),
        ("x", "2.0.0", False),
        ("2.0.0", "", False),
    ],
)
def test_versions_are_compared_as_numbers(version: str, since: str, knows: bool) -> None:  # noqa: FBT001
    """What cannot be read is taken for too old."""
    assert is_since(version, since) == knows


def test_the_version_is_told_from_where_it_is_installed(tmp_path: Path) -> None:
    """By the agent's own package, or by the folder of its version; nothing is started."""
    profile, _ = of("claude -p hi")
    package = tmp_path / "lib" / "claude-code"
    (package / "bin").mkdir(parents=True)
    (package / "bin" / "claude.exe").touch(0o755)
    (tmp_path / "claude").symlink_to(package / "bin" / "claude.exe")
    path = str(tmp_path)

    def version(*argv: str) -> str:
        return agent_version(profile, argv, path, path)

    assert version("claude", "-p") == ""
    text = {"name": "@anthropic-ai/claude-code", "version": "2.1.5"}
    (package / "package.json").write_text(json.dumps(text))
    assert version("claude", "-p") == "2.1.5"
    assert version("timeout", "9", "./claude") == "2.1.5"
    (package / "package.json").write_text(json.dumps({**text, "name": "other"}))
    assert version("claude") == ""
    for odd in ("{", "[]", "\ufeff", '{"name": 1}'):
        (package / "package.json").write_text(odd)
        assert version("claude") == ""
    native = tmp_path / "share" / "claude" / "versions" / "2.1.7"
    native.parent.mkdir(parents=True)
    native.touch(0o755)
    (tmp_path / "claude").unlink()
    (tmp_path / "claude").symlink_to(native)
    assert version("claude") == "2.1.7"
    assert version("no-such-program") == ""


def test_a_session_that_is_not_there_is_told() -> None:
    """By the words of each agent that can be given one."""
    claude, gemini = of("claude")[0], of("gemini")[0]
    assert tells_no_session(claude, [f"No conversation found with session ID: {NAMED}"])
    assert tells_no_session(gemini, ["x", "Error resuming session: No previous sessions found"])
    assert not tells_no_session(claude, ["I see: No conversation found with session ID x"])
    assert not tells_no_session(of("make")[0], ["No conversation found with session ID"])
