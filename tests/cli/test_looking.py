"""Views as people look at them: narrow and wide, with colour, filtered, folded, and watched."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headgate.cli import (
    capacity,
    config,
    doctor,
    events,
    limits,
    notify,
    plan,
    queue,
    status,
    why,
)
from headgate.cli.shared import progress, terminal
from headgate.core.admission.candidates import Candidate, Plan, Verdict
from headgate.core.admission.pools import AGENTS, Pool
from headgate.core.agents.readable_events import readable
from headgate.core.display.snapshots import Capacity
from headgate.core.times import Ms, Seconds
from headgate.doctor import Finding, Report
from tests.cli.golden.compare import Ask, check
from tests.cli.test_job_verbs import JOB, QUEUE
from tests.cli.test_show import FULL_STATUS, HAPPENED, NOON, pool
from tests.support import HEADGATE, LONG, Box, until

OPUS = "anthropic/claude-opus-4-6"
FULL = Capacity(OPUS, "full", 0, 2, Seconds(5), Seconds(95), "*/claude-opus-* is full", "pool_full")
_LONG = f"{OPUS} is full (4/4), and its provider asks to be left alone for a while"
PLANNED = Plan(
    tuple(
        Verdict(
            verdict=verdict,
            name=f"issue-{n}",
            key=OPUS,
            task="",
            priority=0,
            weight=1,
            code=code,
            pool=pool_,
            reason=reason,
            position=place,
            eta=eta,
        )
        for n, (verdict, code, pool_, reason, place, eta) in enumerate(
            [
                ("start", None, None, None, None, None),
                ("defer", "pool_full", "*/claude-opus-*", _LONG, 1, Seconds(310)),
            ]
        )
    ),
    NOON,
)
CANDIDATES = [plan.Entry(n + 1, Candidate(OPUS), {}) for n in range(2)]
EXAMINED = Report(
    (
        ("Files", (Finding("note", "file", f"configuration: /{'long/' * 20}config.toml (found)"),)),
        (
            "Limits",
            (
                Finding("ok", "a", "all is well"),
                Finding("warning", "b", _LONG, f"wait, or {_LONG}"),
            ),
        ),
        ("Store", (Finding("problem", "c", "broken", "mend it"),)),
    )
)
SAID = [
    Pool("host", 3, "default"),
    Pool("anthropic/claude-opus-*", 2, "project", observe=(AGENTS, "(^|/)robo( |$)")),
    Pool("openai", 9, "file", reserve=(("interactive", 1),), max_hold=Ms(43_200_000)),
]
TARGET = {
    "target": "phone",
    "by": "webhook",
    "to": "https://hooks.example/services/team/headgate",
    "events": ["confirm", "parked", "failed", "limit_reduced"],
    "only": {"task": ["oracle-*"], "key": [], "pool": []},
    "behind": 3,
    "delivering": True,
    "problem": "HOOK_URL is not set here",
}
VIEWS: dict[str, Callable[[terminal.Pen], list[str]]] = {
    "status": lambda pen: status.lines(FULL_STATUS, pen),
    "queue": lambda pen: queue.lines(QUEUE, pen),
    "ended": lambda pen: queue._ended([JOB._replace(state="failed", ended=NOON)], pen),
    "limits": lambda pen: limits.lines(FULL_STATUS.pools, pen, NOON),
    "why": lambda pen: why._of_job(JOB, pen),
    "capacity": lambda _: [capacity.line(FULL)],
    "events": lambda pen: [events.event_line(HAPPENED._replace(name="night"), pen)],
    "plan": lambda pen: plan.lines(PLANNED, CANDIDATES, pen),
    "doctor": lambda pen: doctor.lines(EXAMINED, pen),
    "config": lambda pen: config._lines({one.name: one for one in SAID}, pen),
    "notify": lambda pen: terminal.table(notify._COLUMNS, [notify._cells(TARGET)], pen),
}
"""Each view, drawn with a pen."""


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_narrow_and_wide_with_and_without_colour(view: str) -> None:
    """At 60, 80 and 160 columns; nothing but the reasons of `capacity` is wider than that."""
    drawn = []
    for width in (60, 80, 160):
        for colour in (False, True):
            lines = VIEWS[view](terminal.Pen(colour=colour, width=width))
            drawn += [f"-- {width} columns{', colour' if colour else ''}", *lines]
            plain = [re.sub(r"\x1b\[\d+m", "", line) for line in lines]
            assert view == "capacity" or max(map(terminal.columns_of, plain)) <= width
    text = re.sub(r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d", "TIME", "\n".join(drawn))
    check(f"look-{view}", re.sub(r"\b\d+d(\d+h)?", "T", text.replace("\x1b", "ESC")) + "\n")


def test_the_end_of_a_name_is_kept() -> None:
    """Versions are at the end of names, so what is cut out is in the middle."""
    assert terminal.clip_middle("anthropic/claude-opus-4-6", 16) == "anthro…-opus-4-6"
    assert terminal.clip_middle("short", 16) == "short"
    assert terminal.columns_of(terminal.clip_middle("日本語" * 9, 10)) <= 10


def test_pools_are_in_natural_order_and_idle_ones_are_folded() -> None:
    """p10 comes after p9; what does nothing is one line, and --all shows it."""
    idle = [pool(f"p{n}", 4) for n in range(12, 0, -1)]
    view = FULL_STATUS._replace(pools=(*idle, pool("busy", 2, 1)))
    whole = status.lines(view, terminal.Pen(), whole=True)
    names = [line.split()[0] for line in whole[1:14]]
    assert names == ["busy", *(f"p{n}" for n in range(1, 13))]
    folded = status.lines(view, terminal.Pen(), whole=False)
    assert [line.split()[0] for line in folded[1:2]] == ["busy"]
    assert "12 idle (--all shows them): p1, p2" in folded[3]


def test_bars_have_a_legend_on_a_terminal() -> None:
    """What the blocks mean is said where people look, and not in a pipe."""
    view = FULL_STATUS._replace(pools=(pool("a", 2, 1),))
    assert any("█ in use" in line for line in status.lines(view, terminal.Pen(width=80)))
    assert not any("in use  " in line for line in status.lines(view, terminal.Pen()))


def test_the_queue_is_filtered(box: Box, ask: Ask) -> None:
    """By pool, task, model, name and state; what is counted is what fits."""
    for words in (("-m", OPUS, "--task", "t", "--name", "n"), ("-m", "openai/gpt-5"), ("--hold",)):
        assert ask("submit", "-q", *words, "--", "true").code == 0

    def ids(*words: str) -> list[int]:
        found = json.loads(ask("queue", "--json", *words).out)
        assert found["total_waiting"] == len(found["waiting"])
        return [work["id"] for part in ("waiting", "aside") for work in found[part]]

    assert ids() == [1, 2, 3]
    assert ids("--task", "t") == ids("--name", "n") == ids("-m", "anthropic") == [1]
    assert ids("--pool", "*/claude-opus-*") == [1]
    assert ids("--pool", "host", "--state", "queued") == [1, 2]
    assert ids("--state", "held") == [3]
    assert ask("cancel", "2").code == 0
    ended = json.loads(ask("queue", "--json", "--state", "cancelled").out)["ended"]
    assert [job["id"] for job in ended] == [2]
    assert ask("queue", "--task", "nobody").out == "Nothing is like that.\n"
    assert ask("queue", "--state", "odd").code == 2


def test_status_of_one_pool_shows_what_covers_it(box: Box, ask: Ask) -> None:
    """And an unknown pool is an error."""
    found = json.loads(ask("status", "--json", "--pool", "*/claude-opus-*").out)["pools"]
    assert [one["pool"] for one in found] == ["*/claude-opus-*", "host"]
    assert ask("status", "--pool", "nonsense").code == 2


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_the_waiting_line_keeps_its_eta_when_narrow(width: int) -> None:
    """The reason gives way first."""
    head, reason, eta = (
        "headgate: 12 waits, 2nd in line",
        "anthropic is full (4/4)",
        ", about 3m to go",
    )
    line = progress.fit_wait(head, reason, eta, width)
    assert len(line) < width
    assert line.endswith(eta) == (width >= 40)


EVENTS = [
    ({"type": "system", "subtype": "init", "session_id": "s", "model": "m"}, ["* session s, m"]),
    ({"type": "assistant", "message": {"content": [{"type": "text", "text": "a\nb"}]}}, ["a", "b"]),
    (
        {
            "type": "assistant",
            "message": {
                "content": [{"type": "tool_use", "name": "Bash", "input": {"command": "ls -l"}}]
            },
        },
        ["> Bash ls -l"],
    ),
    (
        {"type": "user", "message": {"content": [{"type": "tool_result", "content": "x\ny"}]}},
        ["< x y"],
    ),
    (
        {"type": "result", "subtype": "success", "duration_ms": 1500, "total_cost_usd": 0.25},
        ["= success in 1.5s, $0.25"],
    ),
    ({"type": "thread.started", "thread_id": "t"}, ["* session t"]),
    (
        {"type": "item.completed", "item": {"type": "agent_message", "text": "hello"}},
        ["hello"],
    ),
    (
        {
            "type": "item.completed",
            "item": {"type": "command_execution", "command": "make", "aggregated_output": "ok"},
        },
        ["> make", "< ok"],
    ),
    ({"type": "text", "part": {"text": "hi"}}, ["hi"]),
    (
        {"type": "tool_use", "part": {"tool": "read", "state": {"input": {"filePath": "a.py"}}}},
        ["> read a.py"],
    ),
    ({"type": "message", "role": "assistant", "content": "hey"}, ["hey"]),
    ({"type": "tool_use", "tool_name": "grep", "parameters": {"pattern": "x"}}, ["> grep x"]),
    ({"type": "error", "error": {"data": {"message": "too many"}}}, ["! too many"]),
    ({"type": "step_start"}, []),
    ({"type": "nobody knows"}, None),
    ({"kind": "mine"}, None),
]


@pytest.mark.parametrize("event, said", EVENTS)
def test_events_of_agents_are_readable(event: object, said: list[str] | None) -> None:
    """What claude, codex, opencode and gemini write as events is shown as lines of text."""
    assert readable(json.dumps(event)) == said


@pytest.mark.parametrize("line", ["", "{", "plain", '{"type": [1]}', "[1]", '{"type": "error"}'])
def test_no_line_breaks_the_reader(line: str) -> None:
    """What is no event is left alone, and an event with nothing in it says nothing much."""
    readable(line)
    for kind in ("assistant", "user", "result", "item.completed", "tool_use", "text", "error"):
        for value in (None, 1, [], {}, [1], {"content": [1]}, {"content": 1}):
            names = ("message", "item", "part", "error", "result", "output")
            readable(json.dumps({"type": kind, **dict.fromkeys(names, value)}))


def test_logs_on_a_terminal_show_events_as_text(box: Box, ask: Ask) -> None:
    """A pipe and --raw get the bytes; a terminal gets lines."""
    from tests.cli.test_hostile_text import on_terminal
    from tests.work.conftest import JobBox

    jobs = JobBox(box.folder)
    text = json.dumps(EVENTS[1][0]) + "\nplain\n" + json.dumps(EVENTS[4][0])
    (box.folder / "out").write_text(text)
    jobs.worker()
    id = jobs.submit("--", "cat", str(box.folder / "out"))
    try:
        jobs.headgate("wait", str(id))
        assert on_terminal(jobs, "logs", str(id)) == "a\nb\nplain\n= success in 1.5s, $0.25\n"
        assert on_terminal(jobs, "logs", "--raw", str(id)) == text
        assert jobs.headgate("logs", str(id)) == text
    finally:
        jobs.close()


def test_a_silent_agent_gets_a_hint(box: Box) -> None:
    """Who prints nothing until it has ended can be told to talk; who talks or draws need not."""
    with box.gate() as gate:
        assert "--output-format stream-json --verbose" in gate.silence_hint(["claude", "-p", "hi"])
        talks = ["claude", "-p", "hi", "--output-format", "stream-json", "--verbose"]
        for command in (["claude"], talks, ["opencode", "run", "x"], ["make"]):
            assert gate.silence_hint(command) == ""


@contextmanager
def tmux(box: Box, command: str) -> Iterator[Callable[..., str]]:
    """A terminal of 100 columns and 30 lines, in which a command runs."""
    socket = ["tmux", "-f", "/dev/null", "-S", str(box.folder / "tmux")]
    env = {**box.env, "TERM": "screen-256color", "HOME": str(box.folder)}

    def do(*words: str) -> str:
        done = subprocess.run(
            [*socket, *words], env=env, capture_output=True, text=True, check=True, timeout=LONG
        )
        return done.stdout

    do("new-session", "-d", "-x", "100", "-y", "30", f"{command}; echo left=$?; cat")
    try:
        yield do
    finally:
        do("kill-server")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="--watch NOT TRIED: there is no tmux")
@pytest.mark.parametrize("verb", ["queue", "status"])
def test_watching_in_a_real_terminal(box: Box, ask: Ask, verb: str) -> None:
    """It is redrawn in place with what is new, fits a terminal of another size, and q ends it."""
    with tmux(box, f"{Path(HEADGATE)} {verb} --watch") as do:
        until(lambda: "q quits" in do("capture-pane", "-p"))
        told = "night" if verb == "queue" else "1/3"
        with box.gate() as gate, gate.slot("a/b", task="night"):
            until(lambda: told in do("capture-pane", "-p"))
            assert do("capture-pane", "-p").count("q quits") == 1
            do("resize-window", "-x", "50", "-y", "10")
            until(lambda: max(map(len, do("capture-pane", "-p").splitlines())) <= 50)
            until(lambda: told in do("capture-pane", "-p"))
        do("send-keys", "q")
        until(lambda: "left=0" in do("capture-pane", "-p"))
        assert "q quits" not in do("capture-pane", "-p")


def test_watching_needs_a_terminal(ask: Ask) -> None:
    """A pipe is told what to use instead, and JSON is not watched."""
    assert "--watch needs a terminal" in ask("queue", "--watch").err
    assert ask("status", "--watch", "--json").code == 2
    assert ask("queue", "--watch", "--json").code == 2
