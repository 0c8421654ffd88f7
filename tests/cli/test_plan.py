"""`headgate plan`: verdicts for candidates, and nothing but verdicts."""

import io
import json
import subprocess
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest

from headgate import Gate
from headgate.cli import plan
from headgate.core.admission.candidates import Candidate
from headgate.errors import UsageError
from tests.cli.golden.compare import Ask, asking, check, timeless
from tests.support import HEADGATE, LONG, STEADY, Box
from tests.work.conftest import JobBox

OPUS, SONNET = "anthropic/claude-opus-4-6", "anthropic/claude-sonnet-4-6"
TABLES = ("pool", "lane", "ticket", "stretch", "lease", "rest", "history", "member", "event")


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], steady: None) -> Ask:
    return asking(capsys)


@pytest.fixture
def pulse(box: Box) -> str:
    """A dispatcher's cycle: six opus and ten sonnet candidates."""
    opus = [{"id": n, "key": OPUS, "priority": 0, "command": "opencode run x"} for n in range(6)]
    sonnet = [{"id": n, "model": SONNET, "command": ["claude", "-p", "x"]} for n in range(6, 16)]
    return write(box.folder, *opus, *sonnet)


def write(folder: Path, *records: object) -> str:
    path = folder / "candidates.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return str(path)


def verdicts(out: str) -> dict[object, str]:
    return {one["id"]: one["verdict"] for one in json.loads(out)["candidates"]}


def limits(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("HEADGATE_LIMITS", text)


def test_opus_over_its_cap_is_deferred_with_a_reason(
    ask: Ask, pulse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four opus ones start, two are deferred by the pool's name, and sonnet is not affected."""
    limits(monkeypatch, "host=24")
    said = ask("plan", pulse, "--json")
    assert said.code == 0
    found = json.loads(said.out)
    assert (found["start"], found["defer"]) == (14, 2)
    late = [one for one in found["candidates"] if one["verdict"] == "defer"]
    assert [(one["id"], one["line"], one["position"]) for one in late] == [(4, 5, 1), (5, 6, 2)]
    assert {(one["code"], one["pool"]) for one in late} == {("pool_full", "*/claude-opus-*")}
    assert late[0]["reason"] == "*/claude-opus-* is full (4/4)"


@pytest.mark.parametrize("cap", [1, 6])
def test_the_environment_beats_the_cap(
    ask: Ask, pulse: str, monkeypatch: pytest.MonkeyPatch, cap: int
) -> None:
    """HEADGATE_LIMITS decides how many opus ones start, fewer or more."""
    limits(monkeypatch, f"host=24,*/claude-opus-*={cap}")
    found = verdicts(ask("plan", pulse, "--json").out)
    assert [found[n] for n in range(6)] == ["start"] * cap + ["defer"] * (6 - cap)


def test_what_is_deferred_starts_in_a_later_cycle(
    ask: Ask, box: Box, pulse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs is counted, and once it has ended the same candidates start."""
    limits(monkeypatch, "host=24")
    gate = box.gate()
    slots = [gate.slot(OPUS) for _ in range(3)]
    leases = [slot.acquire() for slot in slots]
    assert json.loads(ask("plan", pulse, "--json").out)["start"] == 11
    for lease in leases:
        lease.release()
    assert json.loads(ask("plan", pulse, "--json").out)["start"] == 14


def test_it_changes_nothing(ask: Ask, box: Box, pulse: str) -> None:
    """No row of the store differs afterwards, with others running and waiting."""
    box.env["HEADGATE_LIMITS"] = "host=1"
    box.holder(OPUS)
    box.waiter(OPUS)
    before = {table: box.rows(table) for table in TABLES}
    assert ask("plan", pulse).code == 0
    assert {table: box.rows(table) for table in TABLES} == before


def test_a_seat_kept_for_a_job_is_not_planned_away(tmp_path: Path) -> None:
    """With one of two seats held and a starved job that needs both, `run --no-wait` gets none."""
    box = JobBox(tmp_path)
    box.defaults = STEADY
    box.config("[pools.host]\nlimit = 9\n[pools.a]\nlimit = 2\n")
    try:
        worker = box.worker()
        first, second = box.holder("a/b"), box.holder("a/b")
        job = box.submit("-m", "a/b", "--weight", "2", "--", "true")
        later = box.waiter("a/c")
        assert first.end() == 0
        assert later.line() == "up"  # it has passed the job, which from now on is waited for
        assert second.end() == 0
        planned = box.ask("plan", "-", "--json", text='{"key": "a/b"}\n{"key": "a/d"}\n')
        verdicts = [one["code"] for one in json.loads(planned.out)["candidates"]]
        runs = [box.ask("run", "-m", key, "--no-wait", "--", "true") for key in ("a/b", "a/d")]
        assert (verdicts, [one.code for one in runs]) == (["kept", "kept"], [75, 75])
        assert later.end() == 0
        assert box.until_state(job, "done") == "done"
        worker.send(SIGTERM)
        assert worker.wait() == 0
    finally:
        box.close()


def test_it_looks_like_this(ask: Ask, box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that would start, then those that would not: where they would stand, and why."""
    limits(monkeypatch, "host=24,openai=2")
    path = write(
        box.folder,
        {"name": "nightly docs", "key": "openai/gpt-5", "priority": "background"},
        {"task": "oracle-2", "key": OPUS, "weight": 3},
        {"id": 7, "key": OPUS, "weight": 2, "priority": "interactive"},
        {"command": "A=b /usr/bin/codex exec secret", "key": "openai/gpt-5"},
        {"key": "openai/gpt-5", "weight": 3},
        {},
    )
    said = ask("plan", path)
    assert "secret" not in said.out
    check("plan", timeless(said.out))
    assert ask("plan", write(box.folder)).out == "There are no candidates.\n"


def test_it_reads_stdin(box: Box) -> None:
    """`-` is what another program pipes in, empty lines and a byte order mark included."""
    done = subprocess.run(
        [HEADGATE, "plan", "-", "--json"],
        env=box.env,
        input='\ufeff{"id": "a"}\r\n\n  \n{"id": "b", "title": "not ours", "key": null}',
        capture_output=True,
        encoding="utf-8",
        timeout=LONG,
        check=True,
    )
    assert verdicts(done.stdout) == {"a": "start", "b": "start"}
    assert [one["line"] for one in json.loads(done.stdout)["candidates"]] == [1, 4]


@pytest.mark.parametrize(
    "line, said",
    [
        (b"{", "not valid JSON"),
        (b"nonsense", "not valid JSON: Expecting value (column 1); expected one JSON object"),
        (b"[]", "found an empty list; expected one JSON object per line"),
        (b'"text"', 'found text, expected an object such as {"key"'),
        (b"null", "found null"),
        (b"\xff", "found the byte 0xff, expected UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"weight": ' + b"9" * 5_000 + b"}", "a number is too long"),
        (b'{"key": "opus"}', "bad key 'opus': expected PROVIDER/MODEL"),
        (b'{"key": 7}', "bad key: expected text, found int"),
        (b'{"key": "a/b", "model": "a/b"}', "found both key and model"),
        (b'{"priority": 1.5}', "bad priority 1.5: expected interactive, normal, background"),
        (b'{"weight": 0}', "bad weight 0: expected a whole number from 1"),
        (b'{"since": "yesterday"}', "bad since 'yesterday': expected seconds since the epoch"),
        (b'{"since": 1e400}', "bad since inf"),
        (b'{"since": "2026-04-28T09:30:00"}', "a date with its time zone"),
        (b'{"command": []}', "bad command: found an empty list, expected text or a list"),
        (b'{"command": ["a", 1]}', "bad command: found a list"),
        (b'{"id": [1]}', "bad id or name [1]"),
        (b'{"id": "a\\u001b[2J"}', "bad id or name"),
        (b'{"Priority": 1}', "found the field 'Priority'; did you mean priority?"),
        (b'{"key": "sk-ant-api03-abcdefgh"}', "bad key '(hidden)'"),
        (b"x" * 1_100_000, "found more than 1024 KiB"),
    ],
)
def test_a_bad_line_is_named(line: bytes, said: str) -> None:
    """The line's number, what was found there and what is allowed; nothing is planned."""
    with pytest.raises(UsageError) as caught:
        plan.read(io.BytesIO(b"{}\n" + line + b"\n{}\n"), "file")
    first, *mistakes = str(caught.value).split("\n")
    assert first == "the candidates cannot be used, nothing was planned"
    assert [mistake.partition(": ")[0] for mistake in mistakes] == ["file:2"]
    assert said in mistakes[0]


def test_all_mistakes_are_listed_up_to_twenty() -> None:
    """One run shows what is wrong everywhere, but no more of it than fits a screen."""
    with pytest.raises(UsageError) as caught:
        plan.read(io.BytesIO(b'{"weight": 0, "key": "x"}\n' * 50), "file")
    found = str(caught.value).split("\n")
    assert len(found) == 22
    assert found[1].startswith("file:1: bad key 'x'")
    assert found[-1] == "and 80 more like these"


def test_a_missing_file_is_bad_usage(ask: Ask, box: Box) -> None:
    """As are a folder and a name with a null character."""
    for name in (str(box.folder / "none"), str(box.folder), "a\0b"):
        said = ask("plan", name)
        assert (said.code, said.out) == (2, "")
        assert said.err.startswith("headgate: cannot read ")


def test_a_command_may_tell_the_key() -> None:
    """A candidate without a key has the one that its command names, if that can be told."""
    seen: list[list[str]] = []

    def key_of(argv: list[str]) -> str | None:
        seen.append(argv)
        return OPUS if "-m" in argv else None

    records = [{"command": "claude -m 'opus 4'"}, {"command": ["x"]}, {"command": "x 'y"}, {}]
    lines = "\n".join(map(json.dumps, [*records, {"key": SONNET, "command": "claude -m x"}]))
    found = plan.read(io.BytesIO(lines.encode()), "file", key_of)
    assert [one.candidate.key for one in found] == [OPUS, None, None, None, SONNET]
    assert seen == [["claude", "-m", "opus 4"], ["x"], ["x", "'y"]]


def test_a_hundred_thousand_are_planned() -> None:
    """Many candidates of many keys are no trouble; all have a verdict, in their own order."""
    given = [Candidate(f"{'ab'[n % 2]}/m{n % 5_000}", n % 3, name=str(n)) for n in range(100_000)]
    with Gate.open("memory://", limits={"host": 70_000, "a": 1_000}) as gate:
        found = gate.plan(given)
    assert [one.name for one in found.verdicts] == [one.name for one in given]
    assert len(found.starts) == 51_000
    assert {one.pool for one in found.deferred} == {"a"}


@pytest.mark.parametrize(
    "bad", [Candidate("opus"), Candidate(weight=0), Candidate(since=float("nan"))]
)
def test_a_bad_candidate_is_named_in_python_too(bad: Candidate) -> None:
    """Its number is said with what is wrong."""
    with Gate.open("memory://") as gate, pytest.raises(UsageError, match="candidate 2: bad "):
        gate.plan([Candidate(), bad])


def test_usage_is_read_for_a_plan() -> None:
    """A pool that goes by the provider's own count is asked for it, as for a request."""
    counts: list[Any] = [(3, 4)]
    with Gate.open("memory://", limits={"host": 99}, usage={"a": lambda: counts[0]}) as gate:
        found = gate.plan([Candidate("a/x"), Candidate("a/x"), Candidate("b/x")])
    assert [one.code for one in found.verdicts] == [None, "upstream_full", None]


def test_deferrals_are_written_down_on_request(
    box: Box, ask: Ask, pulse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event for each, with its pool and its reason's code; without --log there is none."""
    limits(monkeypatch, "host=24")
    ask("plan", pulse)
    assert not box.events("deferred")
    assert ask("plan", pulse, "--log").code == 0
    told = [json.loads(line) for line in ask("events", "--json").out.splitlines()]
    assert [(one["event"], one["key"], one["pool"]) for one in told] == [
        ("deferred", OPUS, "*/claude-opus-*")
    ] * 2
    assert told[0]["text"] == "4: */claude-opus-* is full (4/4) (pool_full)"


def test_a_thousand_deferrals_are_written_down_at_most(
    box: Box, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What else happened must not be pushed out of the record."""
    limits(monkeypatch, "host=1")
    many = write(box.folder, *({"key": OPUS} for _ in range(1_203)))
    assert ask("plan", many, "--log").code == 0
    told = [json.loads(line) for line in ask("events", "--json", "-n", "2000").out.splitlines()]
    assert len(told) == 1_001
    assert told[-1]["text"] == "and 202 more"
