"""`submit`, by real processes: what it prints, what it keeps, what it refuses."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.core.display import json_shapes
from tests.cli.golden.compare import Ask
from tests.support import HEADGATE, STEADY
from tests.work.conftest import JobBox

NO_WORKER = "no worker is there to start it (headgate worker)"
DAY = 86_400


@pytest.fixture
def box(tmp_path: Path) -> Iterator[JobBox]:
    box = JobBox(tmp_path)
    box.defaults = STEADY
    box.config("")
    yield box
    box.close()


def _submitted(box: JobBox) -> int:
    return len(box.rows("job")) if box.path.exists() else 0


def test_the_id_goes_to_stdout_and_the_place_to_stderr(box: JobBox) -> None:
    """A script reads the id, a person reads where the job stands and why."""
    said = [box.ask("submit", "--", "true"), box.ask("submit", "--", "true")]
    assert [(one.code, one.out) for one in said] == [(0, "1\n"), (0, "2\n")]
    assert said[0].err == f"headgate: job 1 is queued, position 1: {NO_WORKER}\n"
    assert said[1].err == f"headgate: job 2 is queued, position 2: {NO_WORKER}\n"
    assert box.ask("submit", "-q", "--", "true") == (0, "3\n", "")


def test_where_a_job_stands_if_not_in_line(box: JobBox) -> None:
    """Held ones and those that come after others say so."""
    held = box.ask("submit", "--hold", "--", "true")
    assert held.err == "headgate: job 1 is held: waits to be released\n"
    after = box.ask("submit", "--after", "1", "--", "true")
    assert after.err == "headgate: job 2 is queued: comes after job 1\n"


def test_submit_json_keeps_the_contract(box: JobBox) -> None:
    """All that is known of the new job, with times as text and nothing made up."""
    words = ["-m", "a/b", "--task", "t", "--name", "for people", "-p", "3", "--weight", "2"]
    said = box.ask("submit", "--json", *words, "--", "/bin/echo", "secret prompt")
    assert said.err == ""
    job = json.loads(said.out)
    assert list(job) == ["schema", *json_shapes.WORK]
    assert "secret" not in said.out
    expected = {
        "id": 1,
        "state": "queued",
        "code": "no_worker",
        "reason": NO_WORKER,
        "key": "a/b",
        "task": "t",
        "name": "for people",
        "label": "echo",
        "priority": 3,
        "weight": 2,
        "position": 1,
        "started": None,
        "ended": None,
        "attempts": 0,
        "exit": None,
        "pid": None,
    }
    assert {name: job[name] for name in expected} == expected
    assert job["submitted"].endswith("Z")
    assert job["due"] > job["submitted"], "it expires after a day"


def test_a_job_is_safe_when_its_id_is_printed(box: JobBox) -> None:
    """The row is there, with its command, before the submitter is; and outlives a kill -9."""
    program = box.start(HEADGATE, "submit", "--", "echo", "precious")
    id = int(program.line())
    program.kill()
    (row,) = box.rows("job")
    assert row[0] == id
    assert "precious" in row[20]


def test_how_long_a_job_may_wait(box: JobBox) -> None:
    """A day, what the configuration says, what the command says, or forever."""
    box.submit("--", "true")
    box.submit("--expires", "never", "--", "true")
    box.submit("--expires", "90s", "--", "true")
    box.config('[jobs]\nexpires = "1h"\n')
    box.submit("--", "true")
    box.config('[jobs]\nexpires = "never"\n')
    box.submit("--", "true")
    waits = [row[13] and (row[13] - row[11]) // 1000 for row in box.rows("job")]
    assert waits == [DAY, 0, 90, 3600, 0]


def test_an_expired_job_is_told_of(box: JobBox) -> None:
    """Nobody has to be there: whoever looks next finds it expired, with an event for it."""
    id = box.submit("--expires", "50ms", "--", "true")
    said = box.ask("wait", str(id))
    assert said.code == 1
    assert said.err == f"headgate: job {id} is expired: not started within 50ms\n"
    assert [row[3] for row in box.events("expired")] == [id]


def test_the_environment_of_the_submitter_is_not_kept(box: JobBox) -> None:
    """Not one variable of it is in any file of the store; what --env says is."""
    box.ask("submit", "--env", "WANTED=aardvark-1", "--", "true", env={"SECRET": "zebra-7f3a"})
    text = json.dumps({"command": ["true"]})
    box.ask("submit", "--batch", "-", text=text, env={"SECRET": "zebra-7f3a"})
    found = b"".join(path.read_bytes() for path in box.folder.iterdir() if path.is_file())
    assert b"aardvark-1" in found
    assert b"zebra-7f3a" not in found
    for name in ("HOME", "LOGNAME", "SSH_AUTH_SOCK"):
        assert f'"{name}"'.encode() not in found


def test_what_is_kept_is_closed_to_others(box: JobBox) -> None:
    """Commands and logs are readable by their owner alone."""
    box.worker()
    id = box.finished("--", "echo", "hello")
    log = Path(box.headgate("logs", str(id), "--path").strip())
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (box.path, log, log.parent)]
    assert modes == [0o600, 0o600, 0o700]


@pytest.mark.parametrize(
    "words, message",
    [
        (["--after", "x", "--", "true"], "bad --after 'x': expected a number or the name of a job"),
        (["--after", "9" * 30, "--", "true"], "bad --after"),
        (["--after", "99", "--", "true"], "bad --after 99: there is no such job"),
        (["--env", "FOO", "--", "true"], "bad --env 'FOO': expected NAME=VALUE"),
        (["--env", "=x", "--", "true"], "bad --env '': expected NAME=VALUE"),
        (["--expires", "soon", "--", "true"], "bad expires 'soon': expected a time such as"),
        (["-p", "high", "--", "true"], "bad priority 'high'"),
        (["--weight", "0", "--", "true"], "bad weight '0'"),
        (["--weight", "9", "--", "true"], "weight 9 can never fit into pool host"),
        (["--retries", "-1", "--", "true"], "bad retries '-1'"),
        (["--attempts", "0", "--", "true"], "bad attempts '0'"),
        (["--grace", "x", "--", "true"], "bad grace 'x'"),
        (["--fallback-after", "x", "--", "true"], "bad fallback_after 'x'"),
        (["--max-tool-calls", "many", "--", "true"], "bad max_tool_calls 'many'"),
        (["--patience", "off", "--", "true"], "use --no-park"),
        (["--since", "12", "--", "true"], "bad since '12'"),
        (["--name", "a\nb", "--", "true"], "bad name 'a\\nb': expected one printable line"),
        (["--task", "\x1b[31m", "--", "true"], "bad task '\\x1b[31m'"),
        (["-m", "a b", "--", "true"], "bad key 'a b': expected PROVIDER/MODEL"),
        (["-m", "a/b,,c/d", "--", "true"], "bad key ''"),
        (["--", ""], "no program given"),
        ([], "give either a program"),
        (["--batch", "-", "--", "true"], "give either a program"),
        (["--batch", "/not/there"], "cannot read /not/there: No such file or directory"),
        (["--batch", "/"], "cannot read /: Is a directory"),
    ],
)
def test_what_is_refused(box: JobBox, ask: Ask, words: list[str], message: str) -> None:
    """Bad usage: what was found, what is allowed, and nothing is submitted."""
    said = ask("submit", *words)
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert "Traceback" not in said.err
    assert _submitted(box) == 0


def test_a_store_that_ends_with_its_process_takes_no_jobs(box: JobBox) -> None:
    """Jobs have to outlive the process that hands them in."""
    said = box.ask("--store", "memory://", "submit", "--", "true")
    assert (said.code, said.out) == (2, "")
    assert "use one in a file: --store sqlite:///path" in said.err


def test_the_model_is_told_by_the_command(box: JobBox) -> None:
    """Without -m a known agent's own words say what it uses; a name in the environment, too."""
    program = box.folder / "claude"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    opus = box.submit("--", str(program), "--model", "opus", "-p", "x")
    named = box.ask("submit", "-q", "--", "claude", "-p", "x", env={"ANTHROPIC_MODEL": "mine-1"})
    said = box.submit("-m", "a/b", "--", str(program), "--model", "opus", "-p", "x")
    plain = box.submit("--", "true", "--model", "opus")
    keys = {row[0]: row[4] for row in box.rows("job")}
    assert keys[opus].startswith("anthropic/claude-opus-")
    assert (keys[int(named.out)], keys[said], keys[plain]) == ("anthropic/mine-1", "a/b", "")


def test_a_task_is_told_by_the_environment(box: JobBox) -> None:
    """What an agent hands in is for the task that it works for itself, unless it says otherwise."""
    box.ask("submit", "--", "true", env={"HEADGATE_TASK": "oracle-2"})
    box.ask("submit", "--task", "other", "--", "true", env={"HEADGATE_TASK": "oracle-2"})
    assert [row[8] for row in box.rows("job")] == ["oracle-2", "other"]


def test_terms_that_end_healthy_agents_are_warned_of(box: JobBox) -> None:
    """It is handed in all the same."""
    said = box.ask("submit", "--max-runtime", "5m", "--", "true")
    assert said.out == "1\n"
    assert "warning: max_runtime: agents run for hours" in said.err


def test_a_batch_is_handed_in_together(box: JobBox) -> None:
    """A line each, with any of the options; names of earlier ones can be waited for."""
    lines = [
        {"name": "build", "command": ["true", "-j"], "cwd": "tests", "priority": "interactive"},
        {"command": "echo one | cat", "after": "build", "env": {"A": "1"}, "expires": None},
        {"command": ["true"], "after": ["build", 1], "hold": True, "retries": 20, "weight": "2"},
    ]
    text = "\n".join(map(json.dumps, lines)) + "\n\n"
    box.submit("--", "true")
    said = box.ask("submit", "--batch", "-", text=text)
    assert (said.code, said.out) == (0, "2\n3\n4\n")
    assert said.err == "headgate: 3 jobs submitted, 2 to 4\n"
    specs = [json.loads(row[20]) for row in box.rows("job")][1:]
    assert specs[0]["argv"] == ["true", "-j"]
    assert specs[0]["cwd"] == os.path.abspath("tests")  # noqa: PTH100 - what the shell means
    assert specs[1]["argv"] == ["/bin/sh", "-c", "echo one | cat"]
    assert specs[1]["env"] == {"A": "1"}
    assert (specs[2]["retries"], specs[2]["attempts"]) == (20, 21)
    assert sorted(box.rows("after")) == [(3, 2), (4, 1), (4, 2)]
    rows = {row[0]: row for row in box.rows("job")}
    assert [rows[id][1] for id in (2, 3, 4)] == ["queued", "queued", "held"]
    assert rows[2][5] == -10
    assert json.loads(box.headgate("why", "3", "--json"))["reason"] == "comes after job 2"


def test_a_batch_from_a_file_in_json(box: JobBox) -> None:
    """A file does as well as stdin, and --json lists all that was handed in."""
    path = box.folder / "jobs.jsonl"
    path.write_text('{"command": ["true"]}\n{"command": ["true"]}\n')
    said = box.asked("submit", "--batch", str(path))
    assert [(job["id"], job["position"]) for job in said] == [(1, 1), (2, 2)]


MISTAKES = [
    ('{"comand": ["true"]}', "'comand': unknown; allowed here: command, key, model"),
    ("nonsense", "no JSON: Expecting value at column 1"),
    ('{"command": ["true"', "no JSON: "),
    ('{"weight": ' + "9" * 5_000 + "}", "no JSON: "),
    ("[1]", "found [1], expected an object with a command"),
    ("{}", "bad command None: expected a list of words, or a line for sh"),
    ('{"command": ["a", 1]}', "bad command ['a', 1]"),
    ('{"command": [""]}', "no program given"),
    ('{"command": ["a", "b\\u0000"]}', "bad command: 'b\\x00' is no text"),
    ('{"command": ["\\ud800"]}', "bad command: '\\ud800' is no text"),
    (json.dumps({"command": ["a", "x" * 200_000]}), "a word of more than 128 KiB"),
    (json.dumps({"command": ["x" * 100_000] * 11}), "more than 1 MiB of words"),
    ('{"command": ["a"], "cwd": "\\u0000"}', "bad cwd: '\\x00' is no text"),
    ('{"command": ["a"], "cwd": 5}', "bad cwd 5: expected text"),
    ('{"command": ["a"], "env": {"K": "s3cret", "A": 1}}', "bad env 'A': 1 is no text"),
    ('{"command": ["a"], "env": ["A=1"]}', "bad env ['A=1']: expected an object of texts"),
    ('{"command": ["a"], "env": {"A": "s3cret\\u0000"}}', "bad --env A: its value is no text"),
    ('{"command": ["a"], "env": {"": "x"}}', "bad --env '': expected NAME=VALUE"),
    ('{"command": ["a"], "hold": "no"}', "bad hold 'no': expected true or false"),
    ('{"command": ["a"], "park": 0}', "bad park 0: expected true or false"),
    ('{"command": ["a"], "escalate": "x"}', "bad escalate 'x': expected true or false"),
    (
        '{"command": ["a"], "after": ["later"]}',
        "bad --after 'later': expected a number or the name of a job",
    ),
    ('{"command": ["a"], "models": {"a": 1}}', "bad models {'a': 1}: expected PROVIDER/MODEL"),
    ('{"command": ["a"], "weight": true}', "bad weight True"),
    ('{"command": ["a"], "priority": 1.5}', "bad priority 1.5"),
    ('{"command": ["a"], "expires": NaN}', "bad expires nan"),
    ('{"command": ["a"], "name": "\\u001b[2J"}', "bad name '\\x1b[2J'"),
]


@pytest.mark.parametrize("line, message", MISTAKES)
def test_a_mistake_in_a_batch(box: JobBox, ask: Ask, line: str, message: str) -> None:
    """The line is named, what is wrong with it is said, and nothing is submitted."""
    path = box.folder / "jobs.jsonl"
    path.write_text('\n{"command": ["true"]}\n' + line + '\n{"command": ["true"]}\n')
    said = ask("submit", "--batch", str(path))
    assert (said.code, said.out) == (2, "")
    first, second = said.err.splitlines()
    assert first == "headgate: nothing was submitted:"
    assert second.startswith("line 3: ")
    assert message in second
    assert len(second) < 500
    assert "s3cret" not in second
    assert _submitted(box) == 0


def test_all_mistakes_of_a_batch_are_told_at_once(box: JobBox) -> None:
    """Each with its line, up to twenty; nothing is submitted."""
    good, bad = '{"command": ["true"], "name": "n"}', '{"command": 5}'
    said = box.ask("submit", "--batch", "-", text=f"{good}\n{bad}\n\n{good}\nx\n{bad}")
    assert [line.partition(":")[0] for line in said.err.splitlines()] == [
        "headgate",
        "line 2",
        "line 5",
        "line 6",
    ]
    said = box.ask("submit", "--batch", "-", text="\n".join([bad] * 25))
    assert said.err.splitlines()[-2:] == [
        "line 20: bad command 5: expected a list of words, or a line for sh",
        "and 5 more like these",
    ]
    assert _submitted(box) == 0


def test_a_batch_that_the_store_refuses_leaves_nothing(box: JobBox) -> None:
    """All or none, also where only the store can tell: an unknown id, too heavy a job."""
    good = {"command": ["true"]}
    for bad, message in (
        ({**good, "after": 99}, "bad --after 99: there is no such job"),
        ({**good, "weight": 99}, "weight 99 can never fit"),
    ):
        text = "\n".join(map(json.dumps, [good, bad, good]))
        said = box.ask("submit", "--batch", "-", text=text)
        assert (said.code, said.out) == (2, "")
        assert message in said.err
        assert (box.rows("job"), box.rows("ticket"), box.events("queued")) == ([], [], [])


def test_batches_without_jobs(box: JobBox) -> None:
    """Nothing in it is no error; what is no text is."""
    said = box.ask("submit", "--batch", "-", text="\n\n")
    assert said == (0, "", "headgate: nothing was submitted: there was no job in it\n")
    said = box.ask("submit", "--batch", "-", text=b'{"command": ["\xff"]}\n')
    assert (said.code, said.out) == (2, "")
    assert "expected UTF-8 text" in said.err


def test_names_that_are_no_text_survive(box: JobBox) -> None:
    """A file name in no encoding at all reaches the program byte by byte."""
    box.worker()
    name = os.fsdecode(b"caf\xe9")
    id = box.finished("--", "printf", "%s", name)
    path = Path(f"{box.path}.logs", f"{id}.1.log")
    assert path.read_bytes() == b"caf\xe9"


def test_many_at_once_lose_nothing(box: JobBox) -> None:
    """Ten submitters at the same time: every id once, every job there."""
    programs = [box.start(HEADGATE, "submit", "-q", "--", "true") for _ in range(10)]
    ids = [int(program.line()) for program in programs]
    assert [program.wait() for program in programs] == [0] * 10
    assert sorted(ids) == list(range(1, 11))
    assert [row[0] for row in box.rows("job")] == sorted(ids)
