"""What an agent says is no refusal, unless it says it through its own error channel."""

import json
import time
from datetime import datetime
from pathlib import Path

import pytest

from tests.support import until
from tests.work.conftest import JobBox

BRISK = """
[jobs]
patience = "500ms"
backoff = "100ms"
longest_backoff = "200ms"
[run]
grace = "1s"
"""
ERROR = '{"type":"error","error":{"type":"rate_limit_error","message":"x"}}'
LIMIT = "ERROR: exceeded retry limit, last status: 429 Too Many Requests, request id: 1"
SDK = "anthropic.RateLimitError: Error code: 429 - {'type': 'error'}"
ATTEMPT = "Attempt 1 failed with status 429. Retrying with backoff..."
LITELLM = "litellm.RateLimitError: AnthropicException - too many"
USAGE = f"Claude AI usage limit reached|{int(time.time()) // 3600 * 3600 + 75_600}"
RETRY = (
    '{"type":"system","subtype":"api_retry","error_status":429,"error":"rate_limit",'
    '"retry_delay_ms":9000,"session_id":"s-1"}'
)
STREAM = ("--output-format", "stream-json", "--verbose")


def program(box: JobBox, name: str, script: str) -> str:
    """A program of an agent's name, by its path."""
    path = box.folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def say(box: JobBox, *lines: str) -> str:
    """A line of shell that prints these lines at once."""
    path = Path(box.folder, f"said-{len(list(box.folder.glob('said-*')))}")
    path.write_text("".join(f"{line}\n" for line in lines))
    return f"cat {path}"


def untouched(box: JobBox, id: int) -> None:
    """See that no pool was closed, nothing was ended, and one attempt was made."""
    assert not box.events("paused")
    assert not box.events("parked")
    assert len(box.job(id)["attempt_list"]) == 1


def in_event(text: str) -> str:
    """A line as what a tool printed, in each agent's own stream of events."""
    return json.dumps({"type": "user", "tool_use_result": text, "message": {"content": text}})


TALK = [
    ("claude", ("-p", "x"), (ERROR,)),
    ("claude", ("-p", "x"), (USAGE,)),
    ("claude", ("-p", "x"), ("It printed:", USAGE, "and so I stopped.")),
    ("claude", ("-p", "x"), ("API Error: Request rejected (429)",)),
    ("claude", ("-p", "x"), (RETRY,)),
    ("claude", ("-p", "x", *STREAM), (in_event(RETRY), in_event(USAGE))),
    ("codex", ("exec", "x"), (LIMIT,)),
    ("codex", ("exec", "x"), ('{"type":"error","message":"Quota exceeded."}',)),
    (
        "codex",
        ("exec", "--json", "x"),
        (
            '{"type":"thread.started","thread_id":"t"}',
            json.dumps(
                {
                    "type": "item.completed",
                    "item": {"type": "command_execution", "aggregated_output": LIMIT},
                }
            ),
            '{"type":"turn.completed"}',
        ),
    ),
    ("gemini", ("-p", "x"), (ATTEMPT,)),
    ("gemini", ("-p", "x"), ("[API Error: You have exhausted your daily quota on this model.]",)),
    ("opencode", ("run", "x"), ("Error: Too Many Requests",)),
    (
        "opencode",
        ("run", "x"),
        (json.dumps({"type": "error", "error": {"data": {"statusCode": 429}}}),),
    ),
    (
        "opencode",
        ("run", "--format", "json", "x"),
        (json.dumps({"type": "tool_use", "part": {"state": {"output": LIMIT}}}),),
    ),
    ("aider", ("--message", "x"), (LITELLM, "Tokens: 2.3k sent, 24 received.")),
    ("script", (), (SDK,)),
    ("script", (), (USAGE, ERROR, LIMIT, ATTEMPT, LITELLM)),
]


@pytest.mark.parametrize("name,words,lines", TALK, ids=range(len(TALK)))
def test_talk_is_success(
    name: str, words: tuple[str, ...], lines: tuple[str, ...], box: JobBox
) -> None:
    """What an agent says as content closes nothing; with exit 0 its job is done."""
    box.config(BRISK)
    box.worker()
    path = program(box, name, say(box, *lines))
    id = box.submit("-m", "anthropic/claude-x", "--", path, *words)
    assert box.until_state(id, "done", "failed", "parked") == "done"
    untouched(box, id)


@pytest.mark.parametrize(
    "name,words,line",
    [
        ("claude", ("-p", "x"), USAGE),
        ("codex", ("exec", "x"), LIMIT),
        ("gemini", ("-p", "x"), ATTEMPT),
        ("opencode", ("run", "--print-logs", "x"), "Error: Too Many Requests"),
        ("aider", ("--message", "x"), LITELLM),
        ("script", (), SDK),
    ],
)
def test_talk_ends_nothing(name: str, words: tuple[str, ...], line: str, box: JobBox) -> None:
    """A healthy agent that is silent for long after it has shown a tool's output goes on."""
    box.config(BRISK.replace('"500ms"', '"100ms"'))
    box.worker()
    script = f"{say(box, line)}; sleep 1; {say(box, line)}; sleep 1; echo fine"
    id = box.submit("-m", "anthropic/claude-x", "--", program(box, name, script), *words)
    assert box.until_state(id, "done", "failed", "parked") == "done"
    untouched(box, id)


@pytest.mark.parametrize("line", [SDK, USAGE, ERROR, LIMIT, ATTEMPT, LITELLM])
def test_a_failing_script_has_failed(line: str, box: JobBox) -> None:
    """A program that no profile knows may print what it likes: it is judged by its exit code."""
    box.config(BRISK)
    box.worker()
    path = program(box, "script", f"{say(box, line)} >&2; exit 1")
    id = box.submit("-m", "anthropic/claude-x", "--", path)
    assert box.until_state(id, "done", "failed", "parked") == "failed"
    untouched(box, id)


def test_a_script_is_parked_if_its_profile_says_so(box: JobBox) -> None:
    """A profile like `sdk` says that the errors of an SDK are its own."""
    box.config(f'{BRISK}\n[profiles.script]\nlike = "sdk"\n')
    box.worker()
    path = program(box, "script", f"{say(box, SDK)} >&2; exit 1")
    id = box.submit("-m", "anthropic/claude-x", "--", path)
    assert box.until_state(id, "done", "failed", "parked") == "parked"


def test_a_rule_of_the_users_counts_in_any_output(box: JobBox) -> None:
    """Who wrote a rule for a line has said that this line is a refusal."""
    rule = '[[classify]]\nname = "busy"\nline = "BUSY"\nsignal = "rate-limited"\n'
    box.config(f"{BRISK}\n{rule}")
    box.worker()
    id = box.submit("-m", "a/b", "--", program(box, "script", "echo BUSY; sleep 60"))
    box.until_state(id, "parked")
    assert box.events("paused")


@pytest.mark.parametrize(
    "name,words,lines,wait",
    [
        ("claude", ("-p", "x"), (USAGE,), 70_000),
        ("codex", ("exec", "x"), (LIMIT,), 0),
        ("opencode", ("run", "x"), ("\x1b[91mError: \x1b[0mToo Many Requests",), 0),
        ("aider", ("--message", "x"), (LITELLM, "Retrying in 0.2 seconds..."), 0),
    ],
)
def test_an_agent_that_gives_up_with_it_is_refused(
    name: str, words: tuple[str, ...], lines: tuple[str, ...], wait: int, box: JobBox
) -> None:
    """As its last words, with a failure, the same text is a refusal, and closes its pool."""
    box.config(BRISK)
    box.worker()
    path = program(box, name, f"{say(box, *lines)}; exit 1")
    id = box.submit("-m", "anthropic/claude-x", "--", path, *words)
    assert box.until_state(id, "done", "failed", "parked") == "parked"
    (paused, *_) = box.events("paused")
    assert not wait or "for 19h" in paused[7] or "for 20h" in paused[7]


def test_what_gemini_says_on_stderr_is_its_own(box: JobBox) -> None:
    """Its text goes to stdout and its refusals to stderr: there it is refused at once."""
    box.config(BRISK)
    box.worker()
    script = f"echo working; sleep 0.6; while :; do {say(box, ATTEMPT)} >&2; sleep 0.6; done"
    id = box.submit("-m", "google/g", "--", program(box, "gemini", script), "-p", "x")
    until(lambda: box.events("paused"))
    box.until_state(id, "parked")


@pytest.mark.parametrize(
    "name,words,line,cause",
    [
        (
            "claude",
            ("-p", "x", *STREAM),
            json.dumps(
                {
                    "type": "result",
                    "is_error": True,
                    "api_error_status": 401,
                    "result": "Failed to authenticate. API Error: 401 sk-ant-secret",
                }
            ),
            "upstream did not accept its key or its login (401)",
        ),
        (
            "opencode",
            ("run", "x"),
            "\x1b[91m\x1b[1mError: \x1b[0mModel not found: anthropic/opis.",
            "upstream knows no such model",
        ),
        (
            "codex",
            ("exec", "x"),
            "ERROR: unexpected status 404 Not Found: no such model, url: http://x",
            "upstream knows no such model or address (404)",
        ),
    ],
)
def test_why_tells_what_was_wrong(
    name: str, words: tuple[str, ...], line: str, cause: str, box: JobBox
) -> None:
    """A wrong key or model is told beside the exit code, in words of ours."""
    box.config(BRISK)
    box.worker()
    path = program(box, name, f"{say(box, line)}; exit 1")
    id = box.submit("-m", "anthropic/claude-x", "--", path, *words)
    box.until_state(id, "failed")
    job = box.job(id)
    assert (job["code"], job["reason"]) == ("exit", f"exit 1: {cause}")
    assert cause in box.headgate("why", str(id))
    untouched(box, id)


LOG = (
    'timestamp=2026-11-16T01:35:42.330Z level=ERROR run=1 message="stream error" x=1 '
    'error.error="AI_APICallError: Too Many Requests"'
)


@pytest.mark.parametrize("body,lines", [("x", ()), ("x" * 30_000, ()), ("x", (LOG,))])
def test_opencode_says_for_how_long(body: str, lines: tuple[str, ...], box: JobBox) -> None:
    """A Retry-After in its last event is read, however long that is, and whatever its log says."""
    box.config(BRISK)
    box.worker()
    data = {"statusCode": 429, "responseBody": body, "responseHeaders": {"retry-after": "7"}}
    event = json.dumps({"type": "error", "sessionID": "s", "error": {"data": data}})
    path = program(box, "opencode", f"{say(box, *lines, event)}; exit 1")
    words = ("run", "--format", "json", "--print-logs", "x")
    id = box.submit("-m", "anthropic/claude-x", "--", path, *words)
    assert box.until_state(id, "done", "failed", "parked") == "parked"
    (paused,) = box.events("paused")
    assert paused[7].startswith("for 7s: ")


ASKS = (
    "timestamp=2026-11-16T01:35:42.330Z level=INFO run=1 message=stream "
    "providerID=anthropic modelID=x session.id=ses_1 small=false agent=build mode=primary"
)
REFUSED = (
    'timestamp=2026-11-16T01:35:42.330Z level=ERROR run=1 message="stream error" '
    "providerID=anthropic modelID=x session.id=ses_1 small=false agent=build mode=primary "
    'error.error="AI_APICallError: Too Many Requests"'
)
JSON = ("run", "--format", "json", "--print-logs", "x")
KEY = "anthropic/claude-x"


def closed_until(box: JobBox) -> float:
    """Until when the one pool that may be is closed, in seconds since the epoch; 0 if not."""
    pools = json.loads(box.headgate("status", "--json"))["pools"]
    times = [pool["paused_until"] for pool in pools if pool.get("paused_until")]
    return datetime.fromisoformat(times[0]).timestamp() if times else 0.0


def test_a_pool_is_closed_while_opencode_waits(box: JobBox) -> None:
    """Longer than was told at first, no longer than until its next try, with one event."""
    box.config(BRISK.replace("500ms", "5m"))
    box.worker()
    steps = ("while [ ! -e go ]; do sleep 0.1; done", "while [ ! -e end ]; do sleep 0.1; done")
    script = f"{say(box, ASKS, REFUSED)}; {steps[0]}; {say(box, ASKS)}; {steps[1]}"
    path = program(box, "opencode", script)
    id = box.submit("-m", KEY, "--cwd", str(box.folder), "--", path, *JSON)
    until(lambda: box.events("paused"))
    began = time.time()
    until(lambda: closed_until(box) > began + 5)
    (box.folder / "go").touch()
    until(lambda: not closed_until(box))
    assert box.state(id) == "running"
    (paused,) = box.events("paused")
    assert paused[7].startswith("for 3s: ")
    (box.folder / "end").touch()


def test_somebody_resumes_while_opencode_waits(box: JobBox) -> None:
    """The pool stays open: only a pause that is not over is made longer."""
    box.config(BRISK.replace("500ms", "5m"))
    box.worker()
    path = program(box, "opencode", f"{say(box, ASKS, REFUSED)}; sleep 60")
    id = box.submit("-m", KEY, "--", path, *JSON)
    until(lambda: box.events("paused"))
    box.headgate("resume", box.events("paused")[0][6])
    until(lambda: time.time() > resumed_at(box) + 3)  # three times it would have been made longer
    assert not closed_until(box)
    assert box.state(id) == "running"


def resumed_at(box: JobBox) -> float:
    line = json.loads(box.headgate("events", "--json", "-n", "1"))
    assert line["event"] == "resumed"
    return datetime.fromisoformat(line["at"]).timestamp()


@pytest.mark.parametrize("end", ["exit 1", "sleep 60"])
def test_opencode_ends_while_it_waits(end: str, box: JobBox) -> None:
    """When nobody will see its next try, its refusal closes the pool as any other does."""
    box.config(BRISK)
    box.worker()
    path = program(box, "opencode", f"{say(box, ASKS, REFUSED)}; {end}")
    id = box.submit("-m", KEY, "--", path, *JSON)
    box.until_state(id, "parked")
    assert closed_until(box) - time.time() > 20
