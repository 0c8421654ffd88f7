"""Kinds of agents: which one a command starts, its model, its sessions, what a line of it tells."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.config import load
from headgate.config.check import parse
from headgate.config.profile_fields import BUILTIN
from headgate.config.profiles import all_profiles
from headgate.core.agents.find_profile import (
    GENERIC,
    OutputLine,
    Profile,
    find,
    key,
    read,
    resume,
    writes_events,
)
from headgate.core.key_patterns import parse_key
from headgate.errors import ConfigError

DOCS = Path(__file__).parents[2] / "docs"
ALL = all_profiles(load(None))
BY_NAME = {profile.name: profile for profile in ALL} | {"": GENERIC}
GO_ON = "Continue where you left off."
ID = "0c83b4b7-7ae2-4715-beab-91d6e644ea31"


def said(text: str) -> list[str]:
    """The lines of the error that this text causes."""
    with pytest.raises(ConfigError) as caught:
        parse(text, "c.toml")
    return str(caught.value).split("\n")


def profiles(text: str) -> dict[str, Profile]:
    """All profiles by name, with what this text says."""
    return {profile.name: profile for profile in all_profiles(parse(text, "c.toml"))}


def words(line: str) -> list[str]:
    return line.split(" ")


# Which agent it is.


@pytest.mark.parametrize(
    "line, name",
    [
        ("claude -p x", "claude"),
        ("/usr/local/bin/claude", "claude"),
        ("./node_modules/.bin/claude -p x", "claude"),
        (r"C:\tools\claude.exe -p x", "claude"),
        ("env claude", "claude"),
        ("env -u HOME A=1 B=2 claude", "claude"),
        ("timeout 5 claude -p x", "claude"),
        ("timeout -k 9 --signal=INT 5m nice -n 5 codex exec x", "codex"),
        ("nice -5 gemini", "gemini"),
        ("nohup setsid stdbuf -oL opencode run x", "opencode"),
        ("npx claude", "claude"),
        ("npx -y @anthropic-ai/claude-code@2.1.325 -p x", "claude"),
        ("npx --package @openai/codex codex exec x", "codex"),
        ("npm exec -- @google/gemini-cli -p x", "gemini"),
        ("pnpm dlx opencode-ai@latest run x", "opencode"),
        ("bunx @openai/codex", "codex"),
        ("bun x @openai/codex", "codex"),
        ("bun /opt/claude.js", "claude"),
        ("node path/claude", "claude"),
        ("node --import x.mjs /l/node_modules/@anthropic-ai/claude-code/cli.js -p x", "claude"),
        ("node /l/node_modules/@google/gemini-cli/bundle/index.js", "gemini"),
        ("python3.12 -m aider --model x", "aider"),
        ("python /usr/bin/aider", "aider"),
        ("uvx --from aider-chat aider", "aider"),
        ("uv tool run aider-chat", "aider"),
        ("uv run --with x aider", "aider"),
        ("sudo -u bob claude", "claude"),
        ("make test", ""),
        ("cat claude", ""),
        ("sh -c claude", ""),
        ("npm install @openai/codex", ""),
        ("node", ""),
        ("env", ""),
        ("timeout 5", ""),
        ("claude-monitor", ""),
        ("", ""),
    ],
)
def test_an_agent_is_known_by_its_program(line: str, name: str) -> None:
    """The program is found behind whatever only starts it; any other command is generic."""
    assert find(words(line), ALL).name == name


def test_an_empty_command_line_is_generic() -> None:
    """Nothing at all is no agent."""
    assert find([], ALL) is GENERIC
    assert find(["claude"], ()) is GENERIC


def test_the_users_profiles_come_first() -> None:
    """A program of a user's profile is the user's, also where a built-in one has it."""
    ours = all_profiles(parse('[profiles.mine]\nprograms = ["claude"]', "c.toml"))
    assert find(["claude"], ours).name == "mine"


# Its model.


@pytest.mark.parametrize(
    "line, environment, expected",
    [
        ("claude --model claude-opus-4-6 -p x", {}, "anthropic/claude-opus-4-6"),
        ("claude --model=sonnet", {}, "anthropic/claude-sonnet-5-5"),
        ("claude --model Opus", {}, "anthropic/claude-opus-5-5"),
        ("claude --model opus --model haiku", {}, "anthropic/claude-haiku-5-5"),
        ("claude", {}, "anthropic/claude-opus-5-5"),
        ("claude", {"ANTHROPIC_MODEL": "haiku"}, "anthropic/claude-haiku-5-5"),
        ("claude --model opus", {"ANTHROPIC_MODEL": "haiku"}, "anthropic/claude-opus-5-5"),
        ("claude", {"ANTHROPIC_MODEL": "  "}, "anthropic/claude-opus-5-5"),
        ("env ANTHROPIC_MODEL=x claude", {"ANTHROPIC_MODEL": "haiku"}, "anthropic/x"),
        ("claude --model opus", {"ANTHROPIC_DEFAULT_OPUS_MODEL": "o-1"}, "anthropic/o-1"),
        ("claude --model x[1m]", {}, "anthropic/x[1m]"),
        ("claude --model anthropic/x", {}, "anthropic/x"),
        ("claude --model x", {"CLAUDE_CODE_USE_BEDROCK": "1"}, "amazon-bedrock/x"),
        ("claude --model x", {"CLAUDE_CODE_USE_BEDROCK": "0"}, "anthropic/x"),
        ("claude --model x", {"ANTHROPIC_BASE_URL": "https://api.code.umans.ai"}, "umans/x"),
        ("claude --model x", {"ANTHROPIC_BASE_URL": "http://127.0.0.1:8"}, "anthropic/x"),
        ("claude -p x -- --model haiku", {}, "anthropic/claude-opus-5-5"),
        ("claude --model --print", {}, "anthropic/claude-opus-5-5"),
        ("claude -p x --model", {}, "anthropic/claude-opus-5-5"),
        ("claude --model=", {}, "anthropic/claude-opus-5-5"),
        ("claude --model a*", {}, None),
        ("claude --model a,b", {}, None),
        ("opencode run -m umans/k2 x", {}, "umans/k2"),
        ("opencode run -m openrouter/a/b x", {}, "openrouter/a/b"),
        ("opencode run -mumans/k2 x", {}, "umans/k2"),
        ("opencode run -m=umans/k2 x", {}, "umans/k2"),
        ("opencode run -m k2 x", {}, None),
        ("opencode run x", {}, None),
        ("codex exec -m o3 x", {}, "openai/o3"),
        ('codex exec -c model="o3" x', {}, "openai/o3"),
        ("codex exec --config model='o3' x", {}, "openai/o3"),
        ("codex exec -c model_provider=azure -m o3 x", {}, "azure/o3"),
        ("codex exec -c sandbox=x y", {}, "openai/gpt-6.1-sol"),
        ("gemini -m gemini-3-pro -p x", {}, "google/gemini-3-pro"),
        ("gemini -p x", {"GEMINI_MODEL": "g"}, "google/g"),
        ("gemini -p x", {}, "google/auto"),
        ("gemini -m g", {"GOOGLE_GENAI_USE_VERTEXAI": "true"}, "google-vertex/g"),
        ("aider --model gpt-5 -m x", {}, "openai/gpt-5"),
        ("aider --model gemini/g-1", {}, "google/g-1"),
        ("aider --model openrouter/a/b", {}, "openrouter/a/b"),
        ("aider --model sonnet", {}, "anthropic/claude-sonnet-4-20250514"),
        ("aider", {"AIDER_MODEL": "deepseek/r"}, "deepseek/r"),
        ("aider --model unknown", {}, None),
        ("aider", {}, None),
        ("make --model opus", {}, None),
    ],
)
def test_the_model_is_told_by_options_then_variables_then_the_default(
    line: str, environment: dict[str, str], expected: str | None
) -> None:
    """The last option counts, then the environment, then what the agent takes by itself."""
    argv = words(line)
    assert key(find(argv, ALL), argv, environment) == expected


# Going on with a session.


@pytest.mark.parametrize(
    "argv, expected",
    [
        (["claude", "-p", "fix"], ["claude", "-p", "--resume", ID, GO_ON]),
        (["claude", "fix", "-p"], ["claude", "-p", "--resume", ID, GO_ON]),
        (["claude", "-p", "--", "-x"], ["claude", "-p", "--resume", ID, GO_ON]),
        (["claude", "-p"], ["claude", "-p", "--resume", ID, GO_ON]),
        (
            ["env", "A=1", "claude", "--model", "opus", "-p", "fix", "--verbose"],
            ["env", "A=1", "claude", "--model", "opus", "-p", "--verbose", "--resume", ID, GO_ON],
        ),
        (
            ["claude", "-p", "--session-id", "u", "--resume=x", "-c", "fix"],
            ["claude", "-p", "--resume", ID, GO_ON],
        ),
        (
            ["claude", "--allowedTools", "Bash", "Edit", "-p", "fix"],
            ["claude", "--allowedTools", "Bash", "Edit", "-p", "--resume", ID, GO_ON],
        ),
        # After an option that is not known, a word may be its value.
        (
            ["claude", "--new", "v", "-p", "fix", "--session-id", "u"],
            ["claude", "--resume", ID, "--new", "v", "-p", "fix"],
        ),
        (["claude", "--new=v", "-p", "fix"], ["claude", "--new=v", "-p", "--resume", ID, GO_ON]),
        (["claude", "--no-session-persistence", "-p", "fix"], None),
        (["claude", "mcp", "list"], None),
        (
            ["codex", "-m", "o3", "exec", "--json", "fix"],
            ["codex", "-m", "o3", "exec", "--json", "resume", ID, GO_ON],
        ),
        (
            ["codex", "exec", "--json", "resume", "old", "fix"],
            ["codex", "exec", "--json", "resume", ID, GO_ON],
        ),
        (
            ["codex", "exec", "--new", "v", "fix"],
            ["codex", "exec", "resume", ID, "--new", "v", "fix"],
        ),
        (["codex", "exec", "--ephemeral", "fix"], None),
        (["codex", "exec", "review"], None),
        (["codex", "fix"], None),
        (
            ["opencode", "run", "-s", "old", "fix", "it", "--format", "json"],
            ["opencode", "run", "--format", "json", "--session", ID, GO_ON],
        ),
        (["opencode"], None),
        (
            ["gemini", "-p", "fix", "-m", "g"],
            ["gemini", "-p", GO_ON, "-m", "g", "--resume", ID],
        ),
        (["gemini", "--prompt=fix"], ["gemini", f"--prompt={GO_ON}", "--resume", ID]),
        (
            ["gemini", "--new", "v", "-p", "fix"],
            ["gemini", "--resume", ID, "--new", "v", "-p", GO_ON],
        ),
        (["gemini", "-m", "g"], ["gemini", "-m", "g", "--resume", ID, "-p", GO_ON]),
        (["aider", "-m", "fix"], None),
        (["make", "test"], None),
        ([], None),
    ],
)
def test_a_session_is_gone_on_with(argv: list[str], expected: list[str] | None) -> None:
    """The prompt is replaced where it can be told for sure, and kept where it cannot."""
    assert resume(find(argv, ALL), argv, ID) == expected


def test_a_command_line_without_a_program_is_not_gone_on_with() -> None:
    """Where no program is named, there is nothing to give the session to."""
    assert resume(find(["claude"], ALL), [], ID) is None


@pytest.mark.parametrize("session", ["", "-x", "--dangerously-skip-permissions", "a b", "a\n", "é"])
def test_what_is_no_session_id_becomes_no_argument(session: str) -> None:
    """An id that could be taken for an option, or is none, resumes nothing."""
    assert resume(BY_NAME["claude"], ["claude", "-p", "x"], session) is None


def test_the_command_line_given_stays_as_it_is() -> None:
    """Resuming makes a new list."""
    argv = ["claude", "-p", "fix"]
    resume(BY_NAME["claude"], argv, ID)
    assert argv == ["claude", "-p", "fix"]


# What a line tells.

CALL = '{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash","input":%s}]}}'


@pytest.mark.parametrize(
    "name, line, progress",
    [
        ("", "compiling", True),
        ("", "", False),
        ("", " \t", False),
        ("", '{"type":"anything"}', True),
        ("", "litellm.RateLimitError: no", False),
        ("claude", '{"type":"assistant","message":{"model":"claude-x"}}', True),
        ("claude", '{"message":{"model":"<synthetic>"},"type":"assistant"}', False),
        ("claude", '{"type":"user","message":{}}', True),
        ("claude", '{"type":"system","subtype":"init","session_id":"a"}', False),
        ("claude", '{"type":"system","subtype":"api_retry","error_status":500}', False),
        ("claude", '{"type":"result","subtype":"success","is_error":false}', True),
        ("claude", '{"type":"result","subtype":"success","is_error":true}', False),
        ("claude", '{"type":"unheard_of"}', False),
        ("claude", '{"no":"event"}', True),
        ("claude", "API Error: Request rejected (429)", False),
        ("claude", "I am done.", True),
        ("opencode", '{"type":"text","sessionID":"ses_1","part":{}}', True),
        ("opencode", '{"type":"error","error":{}}', False),
        ("opencode", "INFO  2026-11-16T01:33:34 +0ms service=default", False),
        ("opencode", "timestamp=2026-11-16T01:33:34Z level=INFO message=x", False),
        ("codex", '{"type":"item.completed","item":{"type":"agent_message"}}', True),
        ("codex", '{"type":"item.completed","item":{"type":"error","message":"x"}}', False),
        ("codex", '{"type":"error","message":"Reconnecting... 1/5"}', False),
        ("codex", '{"type":"turn.started"}', False),
        ("codex", "ERROR: Reconnecting... 1/5", False),
        ("codex", "2026-11-16T01:33:34.108620Z ERROR codex_api::endpoint: failed", False),
        ("codex", "exec ls", True),
        ("gemini", '{"type":"message","role":"assistant","content":"x","delta":true}', True),
        ("gemini", '{"type":"message","role":"user","content":"x"}', False),
        ("gemini", '{"type":"tool_result","tool_id":"1","status":"error"}', True),
        ("gemini", '{"type":"result","status":"error"}', False),
        ("gemini", "Attempt 1 failed with status 500. Retrying with backoff... x", False),
        ("gemini", "    at async retryWithBackoff (file:///x.js:1:2)", False),
        ("gemini", "  status: 429", False),
        ("gemini", "}", False),
        ("gemini", "Suggested retry after 20s.. Retrying after 21729ms...", False),
        ("aider", "Retrying in 0.2 seconds...", False),
        ("aider", "Applied edit to a.py", True),
    ],
)
def test_progress_is_what_shows_work(name: str, line: str, progress: object) -> None:
    """Events of certain kinds, and text that is neither a refusal nor about a retry."""
    assert read(BY_NAME[name], line).progress is progress


@pytest.mark.parametrize(
    "name, line, tool",
    [
        ("claude", CALL % '{"command":"ls"}', "Bash"),
        ("claude", CALL.replace("tool_use", "text") % "{}", ""),
        ("opencode", '{"type":"tool_use","part":{"tool":"bash","state":{"input":{}}}}', "bash"),
        (
            "codex",
            '{"type":"item.started","item":{"type":"command_execution","command":"ls"}}',
            "command_execution",
        ),
        ("codex", '{"type":"item.completed","item":{"type":"command_execution"}}', ""),
        ("gemini", '{"type":"tool_use","tool_name":"run","parameters":{}}', "run"),
        ("gemini", '{"type":"tool_use","tool_name":7}', "tool"),
        ("", CALL % "{}", ""),
    ],
)
def test_tool_calls_are_told_by_events(name: str, line: str, tool: str) -> None:
    """Each agent has its own event for a tool call."""
    assert read(BY_NAME[name], line).tool.partition("#")[0] == tool


def test_a_tool_call_is_identified_without_its_input() -> None:
    """Equal calls are equal whatever the order of their input, and the input is not in them."""
    claude = BY_NAME["claude"]
    first = read(claude, CALL % '{"a":"hunter2","b":[1,2]}').tool
    assert first == read(claude, CALL % '{"b":[1,2],"a":"hunter2"}').tool
    assert first != read(claude, CALL % '{"a":"hunter2","b":[2,1]}').tool
    assert "hunter2" not in first


def test_several_tool_calls_may_be_in_one_event() -> None:
    """They are told apart by spaces, also where a name has one itself."""
    two = '{"type":"tool_use","name":"My Tool","input":1},{"type":"tool_use","name":"B","input":2}'
    line = f'{{"type":"assistant","message":{{"content":[{two}]}}}}'
    assert [call.partition("#")[0] for call in read(BY_NAME["claude"], line).tool.split()] == [
        "My_Tool",
        "B",
    ]


@pytest.mark.parametrize(
    "name, line, session",
    [
        ("claude", f'{{"type":"system","subtype":"init","session_id":"{ID}"}}', ID),
        ("codex", f'{{"type":"thread.started","thread_id":"{ID}"}}', ID),
        ("codex", f"session id: {ID}", ID),
        ("gemini", f'{{"type":"init","session_id":"{ID}"}}', ID),
        ("opencode", '{"type":"text","sessionID":"ses_1"}', "ses_1"),
        ("opencode", "timestamp=x level=INFO session.id=ses_1 x=y", "ses_1"),
        ("claude", '{"type":"system","session_id":"--dangerously"}', ""),
        ("claude", '{"type":"system","session_id":["a"]}', ""),
        ("claude", f'{{"session_id":"{ID}"}}', ""),
        ("", f'{{"type":"system","session_id":"{ID}"}}', ""),
    ],
)
def test_sessions_are_told_by_events_or_lines(name: str, line: str, session: str) -> None:
    """What could be taken for an option is no session's id."""
    assert read(BY_NAME[name], line).session == session


def test_a_huge_event_is_progress_and_is_not_parsed() -> None:
    """Nobody reports a refusal in a megabyte."""
    line = CALL % f'"{"x" * 2**21}"'
    assert read(BY_NAME["claude"], line) == OutputLine(progress=True)


@pytest.mark.parametrize(
    "words, events",
    [
        ("claude -p x", False),
        ("claude -p x --output-format stream-json", True),
        ("npx claude --output-format=stream-json -p x", True),
        ("claude -p x --output-format json", True),
        ("claude -p x --output-format stream-json --output-format text", False),
        ("claude -p x -- --output-format stream-json", False),
        ("codex exec x", False),
        ("codex exec --json x", True),
        ("codex exec -- --json", False),
        ("gemini -o stream-json -p x", True),
        ("gemini -o json -p x", False),
        ("opencode run --format=json x", True),
        ("opencode run --format default x", False),
        ("aider --message x", False),
        ("sh -c claude", False),
    ],
)
def test_events_are_told_by_the_command_line(words: str, events: object) -> None:
    """Only who is asked for events writes any; else what looks like one is content."""
    argv = words.split()
    assert writes_events(find(argv, ALL), argv) is events


def test_who_lists_no_options_always_writes_events() -> None:
    """A wrapper that adds the option itself says so with an empty list."""
    robo = profiles('[profiles.robo]\nkind = ["event"]')["robo"]
    assert writes_events(robo, ["robo"])
    mine = profiles('[profiles.mine]\nlike = "claude"\nevent_options = []')["mine"]
    assert writes_events(mine, ["mine", "-p", "x"])


ANYTHING = st.one_of(
    st.text(max_size=200),
    st.sampled_from(["{" * 5_000, '{"a":' * 3_000, '{"type":' + "1" * 5_000 + "}", "\x1b]" * 500]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.dictionaries(
                st.sampled_from(
                    ["type", "message", "content", "item", "part", "input", "name", "x"]
                ),
                inner,
            )
            | st.lists(inner, max_size=3)
        ),
    ).map(json.dumps),
)


@given(line=ANYTHING, name=st.sampled_from(["", *BUILTIN]))
@example(line='{"type":"\\ud800","session_id":"\\ud800"}', name="claude")
def test_no_line_makes_it_raise(line: str, name: str) -> None:
    """Whatever an agent writes, reading it gives an answer."""
    seen = read(BY_NAME[name], line)
    assert isinstance(seen.progress, bool)


@given(
    argv=st.lists(
        st.sampled_from(
            ["env", "claude", "codex", "exec", "gemini", "opencode", "run", "aider", "npx", "-m"]
        )
        | st.sampled_from(["--model", "--", "-p", "-c", "model=", "A=b", "timeout", "resume", "-"])
        | st.text(max_size=20),
        max_size=8,
    ),
    environment=st.dictionaries(
        st.sampled_from(["ANTHROPIC_MODEL", "GEMINI_MODEL", "ANTHROPIC_BASE_URL"]), st.text()
    ),
    session=st.text(max_size=20) | st.just(ID),
)
def test_no_command_line_makes_it_raise(
    argv: list[str], environment: dict[str, str], session: str
) -> None:
    """Odd commands have a profile, perhaps no key, and are never changed into something shorter."""
    for profile in (find(argv, ALL), *ALL):
        found = key(profile, argv, environment)
        assert found is None or parse_key(found) == found
        again = resume(profile, argv, session)
        assert again is None or session in again


# The user's own.


def test_single_fields_of_a_builtin_profile_can_be_changed() -> None:
    """A table of its name changes what it names; of a table in it, single entries."""
    changed = profiles('[profiles.claude]\ndefault = "sonnet"\naliases = { opus = "o" }')["claude"]
    before = BY_NAME["claude"]
    assert changed == before._replace(default="sonnet", aliases={**before.aliases, "opus": "o"})


def test_a_profile_may_be_like_a_builtin_one() -> None:
    """It has its fields and its rules for lines, but a program of its own."""
    mine = profiles('[profiles.my-claude]\nlike = "claude"')["my-claude"]
    assert mine.programs == ("my-claude",)
    assert mine.speaks == "claude"
    assert mine.resume == BY_NAME["claude"].resume
    assert not read(mine, "API Error: Request rejected (429)").progress


def test_a_new_profile_is_made_from_its_table() -> None:
    """All fields have defaults, and names of programs are found in any case."""
    ours = profiles(
        """
        [profiles.Robo]
        programs = ["Robo", "@corp/Robo"]
        provider = "corp"
        model_options = ["--llm"]
        kind = ["event"]
        progress = ["step.*"]
        tools = [{ on = "step.tool", name = "tool", input = "args", where = { ok = "yes" } }]
        silent = true
        """
    )
    robo = ours["Robo"]
    assert find(["npx", "@corp/Robo@1.0"], tuple(ours.values())) == robo
    assert key(robo, ["robo", "--llm", "x"], {}) == "corp/x"
    assert read(robo, '{"event":"step.tool","tool":"t","ok":"yes"}').tool.startswith("t#")
    assert read(robo, '{"event":"step.tool","tool":"t","ok":"no"}').tool == ""
    assert read(robo, '{"event":"step.tool"}').progress


WORDS = "expected a list of at most 500 texts, each a line of at most 200 characters"


@pytest.mark.parametrize(
    "setting, problem",
    [
        ("programs = 1", f"programs: found 1, {WORDS}"),
        ('programs = ["a", 2]', f"programs: found 2 in it; {WORDS}"),
        (
            'provider = "No Good"',
            'provider: found "No Good", expected a provider, as in "anthropic"',
        ),
        (
            'model_options = ["model"]',
            (
                'model_options: found "model" in it; '
                'expected a list of options, as in ["--model", "-m"]'
            ),
        ),
        (
            'like = "cursor"',
            (
                'like: found "cursor", '
                'expected "aider", "claude", "codex", "gemini", "opencode" or "sdk"'
            ),
        ),
        ("silent = 1", "silent: found 1, expected true or false"),
        (
            'session_line = "id: x"',
            (
                'session_line: found "id: x", which has no group; '
                "expected a regular expression whose first group is the id"
            ),
        ),
        (
            'base_url = { A = "http://x" }',
            (
                'base_url: found "A" = "http://x" in it; '
                "expected a table of environment variables, "
                'as in { ANTHROPIC_BASE_URL = "{url}" }'
            ),
        ),
        (
            "tools = [1]",
            'tools: entry 1: found 1, expected a table, as in { on = "tool_use" }',
        ),
        (
            'tools = [{ at = "x" }]',
            "tools: entry 1: on: missing, expected the kind of event that is a tool call",
        ),
    ],
)
def test_a_wrong_field_is_refused(setting: str, problem: str) -> None:
    """The error names the file, the field, what was found and what is allowed."""
    assert said(f"[profiles.x]\n{setting}") == [f"c.toml:2: profiles.x.{problem}"]


@pytest.mark.parametrize(
    "text, problem",
    [
        ("profiles = 1", "c.toml:1: profiles: found 1, expected a table; write [profiles]"),
        (
            "[profiles]\nx = 1",
            "c.toml:2: profiles.x: found 1, expected a table; write [profiles.x]",
        ),
        (
            '[profiles."a b"]',
            (
                'c.toml:1: profiles."a b": found a name that is none, '
                "expected letters, digits and . _ -"
            ),
        ),
        (
            '[profiles.claude]\nlike = "codex"',
            "c.toml:2: profiles.claude.like: not here: claude is a built-in profile itself",
        ),
    ],
)
def test_a_wrong_table_is_refused(text: str, problem: str) -> None:
    """What is no profile is said to be none."""
    assert said(text) == [problem]


def test_a_misspelt_field_is_refused_with_advice() -> None:
    """The nearest name is suggested."""
    [line] = said('[profiles.x]\nmodel_option = ["-m"]')
    assert line.startswith("c.toml:2: profiles.x.model_option: unknown; allowed here: like, ")
    assert line.endswith("did you mean model_options?")


def test_a_pattern_that_is_none_is_refused() -> None:
    """What is wrong with it is told."""
    [line] = said("[profiles.x]\nretries = ['(']")
    assert line.startswith('c.toml:2: profiles.x.retries: found "(" (missing )')


def test_the_builtin_profiles_are_loaded_only_when_asked_for() -> None:
    """Reading the configuration alone does not read them, nor what reads agents' output."""
    code = (
        "import sys; from headgate.config import load; load(None)\n"
        "print([m for m in sys.modules if m in "
        "('headgate.config.profiles', 'headgate.core.agents.output_lines', "
        "'headgate.core.answers.classify')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_builtin_profile_has_a_program_of_its_own() -> None:
    """No two of them answer to one name."""
    programs = [program for profile in ALL for program in profile.programs]
    assert len(programs) == len(set(programs))
    assert tuple(profile.name for profile in ALL) == BUILTIN


def test_the_reference_explains_every_field() -> None:
    """Each has its row in the table of profiles, and there is no other."""
    page = (DOCS / "reference.md").read_text(encoding="utf-8")
    table = page.partition("\n### `profiles.NAME`\n")[2].partition("\n#")[0]
    rows = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    fields = {*Profile._fields, "like", "base_url"}  # which is short for one in `wire`
    assert sorted(rows) == sorted(fields - {"builtin", "name", "speaks"})


def test_the_example_of_the_page_can_be_used() -> None:
    """And means what the page says."""
    page = (DOCS / "profiles.md").read_text(encoding="utf-8")
    example = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert example
    config = parse(example[1], "c.toml")
    assert config.warnings == ()
    robo = {profile.name: profile for profile in all_profiles(config)}["robo"]
    seen = read(robo, '{"event":"step.tool","tool":"bash","args":{},"run":{"id":"7"}}')
    assert (seen.progress, seen.session, seen.tool[:5]) == (True, "7", "bash#")
    assert resume(robo, ["robo", "--llm", "big", "fix"], "7") == [
        *("robo", "--llm", "big", "--session", "7", "Go on.")
    ]
