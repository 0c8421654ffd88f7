"""The second measure of staleness: time without a message or a tool call."""

import json

import pytest

from headgate.config import load
from headgate.config.profiles import profile_of
from headgate.core.agents.agent_watch import AgentWatch, RequestEnd
from headgate.core.agents.run_limits import JobPolicy, RunLimits, warnings
from headgate.core.times import Ms, Seconds

HOUR = Ms(3_600_000)
LIMITS = RunLimits(message_stale_after=HOUR, park=False)
COMMANDS = {
    "claude": "claude -p x --output-format stream-json",
    "codex": "codex exec --json x",
    "opencode": "opencode run --format json x",
    "gemini": "gemini -o stream-json -p x",
    "plain": "make",
}
CALL = {"type": "tool_use", "name": "Bash", "input": {"command": "make"}}
MESSAGES: dict[str, list[object]] = {
    "claude": [
        {"type": "assistant", "message": {"content": [{"type": "text", "text": "hi"}]}},
        {"type": "assistant", "message": {"content": [CALL]}},
        {"type": "stream_event", "event": {}},
    ],
    "codex": [
        {"type": "item.completed", "item": {"type": "agent_message", "text": "hi"}},
        {"type": "item.started", "item": {"type": "command_execution", "command": "ls"}},
    ],
    "opencode": [
        {"type": "text", "part": {"text": "hi"}},
        {"type": "tool_use", "part": {"tool": "read", "state": {"input": {}}}},
    ],
    "gemini": [
        {"type": "message", "role": "assistant", "content": "hi"},
        {"type": "tool_use", "tool_name": "grep", "parameters": {}},
    ],
}
"""What counts, by agent."""
NOISE: dict[str, list[object]] = {
    "claude": [
        {"type": "tool_progress", "elapsed_time_seconds": 30},
        {"type": "user", "message": {"content": [{"type": "tool_result", "content": "x"}]}},
        {"type": "system", "subtype": "task_progress"},
    ],
    "codex": [{"type": "item.updated", "item": {"type": "command_execution", "command": "ls"}}],
    "opencode": [{"type": "step_start", "part": {"type": "step-start"}}],
    "gemini": [{"type": "tool_result", "status": "success", "output": "x"}],
}
"""What is written beside that, however often."""


def watch(name: str) -> AgentWatch:
    profile = profile_of(load(None), COMMANDS[name].split())
    return AgentWatch(
        profile=profile, limits=LIMITS, rules=(), provider="p", started_ms=Ms(0), writes_events=True
    )


def feed(it: AgentWatch, event: object, now: Ms) -> None:
    it.feed(json.dumps(event), now, Seconds(0))


@pytest.mark.parametrize("name", NOISE)
def test_noise_is_no_message(name: str) -> None:
    """However much an agent writes beside messages and tool calls, it is ended."""
    it = watch(name)
    for minute in range(60):
        for event in NOISE[name]:
            feed(it, event, Ms(minute * 60_000))
        assert it.verdict(Ms(minute * 60_000)) is None
    assert it.due(Ms(1)) == HOUR
    found = it.verdict(HOUR)
    assert found is not None
    assert (found.code, found.resumes) == ("message_stale", True)
    assert "message_stale_after is 1h" in found.text


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_and_tool_calls_count(name: str) -> None:
    """Each begins the time anew."""
    for event in MESSAGES[name]:
        it = watch(name)
        feed(it, event, Ms(3_000_000))
        assert it.verdict(HOUR) is None
        assert it.verdict(Ms(3_000_000 + HOUR)) is not None


def test_answers_on_the_wire_count() -> None:
    """A request that was served is a message; one that was not is none."""
    it = watch("plain")
    it.request_ended(Ms(1_000_000), RequestEnd("a/b", 500, served=False), in_tool=False)
    assert it.verdict(HOUR) is not None
    it.request_ended(Ms(2_000_000), RequestEnd("a/b", 200, served=True), in_tool=False)
    assert it.verdict(HOUR) is None


def test_thirty_minutes_are_warned_of_as_twenty_nine() -> None:
    """What others take for a bound that ends healthy agents is one here too."""
    for minutes, warned in ((29, True), (30, True), (31, False)):
        limit = Ms(minutes * 60_000)
        found = warnings(JobPolicy(RunLimits(max_runtime=limit)))
        assert bool(found) == warned
    assert warnings(RunLimits(message_stale_after=Ms(599_000)))
    assert not warnings(RunLimits(message_stale_after=HOUR))
