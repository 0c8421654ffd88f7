"""wait, hold, release, move, retry, cancel, queue and why, for jobs: what they print and refuse."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.cli import queue, why
from headgate.cli.shared import terminal
from headgate.core.display import json_shapes
from headgate.core.display.snapshots import AttemptStatus, JobStatus, Queue, Running, Waiting
from headgate.core.times import Seconds
from tests.cli.golden.compare import Ask, check, timeless
from tests.support import HEADGATE, STEADY, until
from tests.work.conftest import JobBox

NO_WORKER = "no worker is there to start it (headgate worker)"
NOON = Seconds(1_700_000_000.0)
EVIL = "\x1b[31mred\x1b]0;owned\x07\nnew line\x9b2J\u202egnp\x7f"
PLAIN = terminal.Pen()
JOB = JobStatus(
    id=7,
    state="held",
    code="held",
    reason="waits to be released",
    key="anthropic/claude-opus-4-6",
    task="oracle-2",
    name="night shift",
    label="claude",
    priority=0,
    weight=1,
    position=None,
    eta=None,
    submitted=NOON,
    started=None,
    ended=None,
    due=Seconds(NOON + 3600),
    attempts=0,
    exit="",
    pid=0,
)
ASIDE = (
    JOB,
    JOB._replace(id=8, state="queued", code="after", reason="comes after job 7", due=None),
    JOB._replace(id=9, state="parked", code="rate_limited", reason="upstream refused it", key=""),
)
RUNS = Running(
    5,
    "openai/gpt-5",
    "codex-5",
    10,
    1,
    "codex",
    "running",
    NOON,
    Seconds(754.0),
    4242,
    None,
    "job",
    2,
)
WAITS = Waiting(
    6, "openai/gpt-5", "t", 0, 1, "codex", 1, "pool_full", "openai", "openai is full (1/1)",
    Seconds(90.0), NOON, Seconds(61.0), "job",
)  # fmt: skip
QUEUE = Queue((RUNS._replace(last_line="compiling…"),), (WAITS,), 1, ASIDE, 3)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[JobBox]:
    box = JobBox(tmp_path)
    box.defaults = STEADY
    box.config("")
    yield box
    box.close()


def test_the_queue_shows_jobs_in_every_state() -> None:
    """Running ones with their last line, waiting ones with place and reason, and those aside."""
    drawn = timeless("\n".join(queue.lines(QUEUE, PLAIN)) + "\n")
    check("queue-jobs", re.sub(r"\d+d(\d+h)?", "T", drawn))


def test_the_queue_says_how_many_are_aside_in_all() -> None:
    """A list that is cut short says so."""
    drawn = queue.lines(QUEUE._replace(total_aside=5_000), PLAIN)
    assert "5000 not in the line (the first 3; for more: --size N)" in drawn


def test_why_tells_all_of_a_job() -> None:
    """Its reason, its exit, and a line for each attempt."""
    ended = JOB._replace(
        state="failed", reason="exit 3", exit="3:0", ended=Seconds(NOON + 60), due=None
    )
    runs = (
        AttemptStatus(
            1,
            "a/b",
            NOON,
            Seconds(NOON + 30.0),
            "rate_limited",
            "upstream refused it",
            "1:0",
        ),
        AttemptStatus(2, "a/b", Seconds(NOON + 40), Seconds(NOON + 60.0), "exit", "exit 3", "3:0"),
    )
    drawn = [*why._of_job(ended, PLAIN), *why._runs(runs, PLAIN)]
    check("why-job", timeless("\n".join(drawn) + "\n"))


def test_hostile_text_draws_nothing_on_a_terminal() -> None:
    """Names, tasks, reasons and output are shown, and not obeyed."""
    job = JOB._replace(task=EVIL, name=EVIL, reason=EVIL, key=EVIL, label=EVIL)
    run = RUNS._replace(task=EVIL, last_line=EVIL, label=EVIL)
    view = Queue((run,), (), 0, (job,), 1)
    drawn = [*queue.lines(view, terminal.Pen(width=70)), *why._of_job(job, PLAIN)]
    drawn += queue._ended([job._replace(ended=NOON)], PLAIN)
    assert all(map(str.isprintable, drawn))


def test_hostile_output_reaches_logs_and_no_list(box: JobBox) -> None:
    """A log is what the program wrote, byte by byte; a list shows its last line, and obeys nothing.

    Half a line, a hundred kilobytes without a break, and bytes that are no text are no trouble.
    """
    box.worker()
    evil = box.folder / "evil"
    evil.write_bytes(
        b"\xff\xfe" + b"z" * 100_000 + b"\r\nfirst\x1b[2J\x1b]0;x\x07last\x9b\0\x7f\xf0"
    )
    script = f"cat {evil}; touch up; while [ ! -e go ]; do sleep 0.02; done"
    id = box.submit("--cwd", str(box.folder), "--", "sh", "-c", script)
    until((box.folder / "up").exists)
    shown = box.headgate("queue")
    assert "firstlast" in shown
    assert all(line.isprintable() for line in shown.splitlines())
    (row,) = box.asked("queue")["running"]
    assert row["last_line"].startswith("firstlast")
    assert row["last_line"].isprintable()
    (box.folder / "go").touch()
    box.until_state(id, "done")
    path = box.headgate("logs", str(id), "--path").strip()
    assert Path(path).read_bytes() == evil.read_bytes()
    box.headgate("queue", "--all")
    box.headgate("why", str(id))


def test_a_long_line_is_cut_for_the_queue(box: JobBox) -> None:
    """The last line that says something, and not all of it."""
    box.worker()
    script = (
        "printf 'said\\n'; head -c 50000 /dev/zero | tr '\\0' y; printf '\\n\\n \\n'; sleep 300"
    )
    id = box.submit("--", "sh", "-c", script)
    row = until(lambda: [one for one in box.asked("queue")["running"] if "y" in one["last_line"]])[
        0
    ]
    assert row["last_line"] == "y" * 200
    assert row["attempts"] == 1
    assert row["type"] == "job"
    box.headgate("cancel", str(id))


def test_the_queue_of_real_jobs(box: JobBox) -> None:
    """What runs, what waits and why, what is aside, what has ended: each where it belongs."""
    box.config("[pools.a]\nlimit = 1\n")
    box.worker()
    ended = box.submit("--", "sh", "-c", "exit 3")
    box.ask("wait", str(ended))
    runs = box.submit("-m", "a/b", "--task", "one", "--", "sh", "-c", "echo here; sleep 300")
    waits = box.submit("-m", "a/b", "-p", "background", "--", "true")
    after = box.submit("--after", str(waits), "--", "true")
    held = box.submit("--hold", "--name", "for people", "--", "true")
    said = until(
        lambda: (it := box.asked("queue", "--all"))["running"][0]["last_line"] == "here" and it
    )
    assert isinstance(said, dict)
    assert [row["id"] for row in said["running"]] == [runs]
    assert said["running"][0]["key"] == "a/b"
    (row,) = said["waiting"]
    assert (row["id"], row["position"], row["code"]) == (waits, 1, "pool_full")
    assert (row["reason"], row["type"], row["key"]) == ("a is full (1/1)", "job", "a/b")
    aside = {row["id"]: row for row in said["aside"]}
    assert sorted(aside) == [after, held]
    assert (aside[after]["code"], aside[held]["name"]) == ("after", "for people")
    assert [(row["id"], row["exit"]) for row in said["ended"]] == [(ended, "3:0")]
    assert [said[f"total_{name}"] for name in ("running", "waiting", "aside")] == [1, 1, 2]
    shown = box.headgate("queue", "--all")
    for text in ("1 running", "here", "1 waiting", "a is full (1/1)", "background",
                 "2 not in the line", f"comes after job {waits}", "1 ended", "3:0"):  # fmt: skip
        assert text in shown
    box.headgate("cancel", str(waits), str(runs))


def test_one_aside_is_found_behind_hundreds(box: JobBox) -> None:
    """However many stand in line, a job that waits for something else is listed."""
    job = {"command": ["true"], "name": "n"}
    ids = box.batch(*[job] * 300, {"command": ["true"], "after": ["n"]})
    said = box.asked("queue")
    assert [row["id"] for row in said["aside"]] == [ids[-1]]
    assert (said["total_waiting"], len(said["waiting"])) == (300, 100)


def test_wait_tells_how_each_ended(box: JobBox) -> None:
    """0 if all are done, 1 if one is not, with a line for each on stderr and nothing on stdout."""
    box.worker()
    good, bad = box.submit("--", "true"), box.submit("--", "sh", "-c", "exit 7")
    assert box.ask("wait", str(good)) == (0, "", f"headgate: job {good} is done: exit 0\n")
    said = box.ask("wait", str(good), str(bad))
    assert (said.code, said.out) == (1, "")
    assert said.err.splitlines()[1] == f"headgate: job {bad} is failed: exit 7"
    assert box.ask("wait", "-q", str(bad)) == (1, "", "")


def test_wait_json(box: JobBox) -> None:
    """All about each job, in the order in which they were named; the exit code says the same."""
    box.worker()
    good, bad = box.submit("--", "true"), box.submit("--", "sh", "-c", "exit 7")
    said = box.ask("wait", "--json", str(bad), str(good))
    assert (said.code, said.err) == (1, "")
    rows = json.loads(said.out)
    assert [(row["id"], row["state"], row["exit"]) for row in rows] == [
        (bad, "failed", "7:0"),
        (good, "done", "0:0"),
    ]
    assert list(rows[0]) == ["schema", *json_shapes.WORK]


def test_wait_gives_up_when_told_to(box: JobBox) -> None:
    """124, and how each stands by then; a job that has not even been started is no error."""
    id = box.submit("--hold", "--", "true")
    said = box.ask("wait", str(id), "--timeout", "50ms")
    assert said == (124, "", f"headgate: job {id} is held: waits to be released\n")
    rows = json.loads(box.ask("wait", str(id), "--timeout", "0", "--json").out)
    assert rows[0]["state"] == "held"


def test_wait_hears_of_an_end(box: JobBox) -> None:
    """A waiter that came before the job ended is told of it."""
    box.worker()
    id = box.submit("--cwd", str(box.folder), "--", "sh", "-c",
                    "touch up; while [ ! -e go ]; do sleep 0.02; done")  # fmt: skip
    until((box.folder / "up").exists)
    waiter = box.start(HEADGATE, "wait", str(id))
    (box.folder / "go").touch()
    assert waiter.line(stream="stderr") == f"headgate: job {id} is done: exit 0"
    assert waiter.wait() == 0


@pytest.mark.parametrize(
    "verb, id",
    [
        *(("wait", id) for id in ("x", "0", "-1", "1.5", "9" * 20, "", "٣")),
        *((verb, "x") for verb in ("hold", "release", "retry", "cancel", "logs", "why")),
    ],
)
def test_bad_ids(ask: Ask, verb: str, id: str) -> None:
    """Every verb says what an id looks like."""
    said = ask(verb, "--", id)
    assert (said.code, said.out) == (2, "")
    assert (
        f"bad id {id!r}: expected a number or the name of a job, as shown by headgate queue"
        in said.err
    )


@pytest.mark.parametrize("verb", ["wait", "hold", "release", "retry", "cancel", "logs", "why"])
def test_unknown_ids(ask: Ask, verb: str) -> None:
    """Every verb says that there is nothing with this id, and where to look."""
    said = ask(verb, "77")
    assert (said.code, said.out) == (2, "")
    assert "77" in said.err
    assert "headgate queue" in said.err


def test_hold_release_move_and_retry(box: JobBox) -> None:
    """Each says where the job stands now; with --json, all about it."""
    first, second = box.submit("--", "true"), box.submit("--", "true")
    held = f"headgate: job {first} is held: waits to be released\n"
    assert box.ask("hold", str(first)) == (0, "", held)
    assert box.ask("hold", str(first)) == (0, "", held)
    queued = f"headgate: job {first} is queued, position {{}}: {NO_WORKER}\n"
    assert box.ask("release", str(first)) == (0, "", queued.format(1))
    moved = box.ask("move", str(second), "--first")
    assert moved.err == f"headgate: job {second} is queued, position 1: {NO_WORKER}\n"
    (row,) = box.asked("move", str(first), "-p", "interactive")
    assert (row["position"], row["priority"], row["state"]) == (1, 10, "queued")
    assert list(row) == ["schema", *json_shapes.WORK]
    box.headgate("cancel", str(first))
    again = f"headgate: job {first} is queued, position 1: {NO_WORKER}\n"
    assert box.ask("retry", str(first)) == (0, "", again)


def test_a_retry_runs_again(box: JobBox) -> None:
    """A new attempt with a log of its own, under the same id."""
    box.worker()
    script = "echo $HEADGATE_ATTEMPT; test $HEADGATE_ATTEMPT = 2"
    id = box.submit("--", "sh", "-c", script)
    assert box.ask("wait", str(id)).code == 1
    box.headgate("retry", str(id))
    assert box.ask("wait", str(id)).code == 0
    assert [box.log(id, number) for number in (1, 2)] == ["1\n", "2\n"]
    said = box.ask("retry", str(id))
    assert said.code == 0, "what is done can be had again, too"


def test_one_bad_id_does_not_keep_the_others(box: JobBox) -> None:
    """All that can be done is done; the exit code tells that something could not."""
    first, second = box.submit("--", "true"), box.submit("--", "true")
    said = box.ask("hold", "x", str(first), "77", str(second))
    assert said.code == 2
    assert len(said.err.splitlines()) == 4
    assert [box.state(id) for id in (first, second)] == ["held", "held"]
    said = box.ask("release", "--json", "77", str(first))
    assert said.code == 2
    bad, good = json.loads(said.out)
    said_of_77 = {"schema": 1, "id": 77, "outcome": "failed"}
    assert bad == {**said_of_77, "error": "there is no job 77; see headgate queue"}
    assert (good["id"], good["state"]) == (first, "queued")
    said = box.ask("cancel", "--json", "77", str(first))
    assert said.code == 2
    good = {"schema": 1, "id": first, "outcome": "withdrawn", "error": None}
    assert json.loads(said.out)[1] == good


def test_what_does_not_make_sense_is_refused(box: JobBox) -> None:
    """The message says what the job does instead, and which verb would."""
    box.worker()
    runs = box.submit("--", "sleep", "300")
    held = box.submit("--hold", "--", "true")
    done = box.finished("--", "true")
    until(lambda: "pid" in box.job(runs) and box.job(runs)["pid"])
    for words, message in (
        (["hold", str(runs)], f"job {runs} runs already; to end it: headgate cancel {runs}"),
        (
            ["release", str(done)],
            f"job {done} has ended, as done; to have it again: headgate retry",
        ),
        (["release", str(runs)], f"job {runs} runs already"),
        (["retry", str(held)], f"job {held} has not ended: it is held"),
        (["cancel", str(done)], f"job {done} has ended already, as done"),
        (["move", str(held)], "say where to: headgate move ID --first, or -p PRIORITY"),
        (["move", str(held), "-p", "x"], "bad priority 'x'"),
        (["cancel", str(held), "--grace", "x"], "bad grace 'x'"),
        (["wait", str(held), "--timeout", "x"], "bad timeout 'x'"),
        (["queue", "--page", "0"], "bad --page '0'"),
    ):
        said = box.ask(*words)
        assert (said.code, said.out) == (2, "")
        assert message in said.err
    box.headgate("cancel", str(runs))


def test_cancel_in_every_state(box: JobBox) -> None:
    """Held, waiting for another, in line, running: one verb, and nothing is left of any."""
    box.worker()
    runs = box.submit("--", "sleep", "300")
    after = box.submit("--after", str(runs), "--", "true")
    held = box.submit("--hold", "--", "true")
    late = box.submit("--weight", "3", "--", "true")
    until(lambda: box.job(runs)["pid"])
    ids = [held, late, after, runs]
    said = box.ask("cancel", *map(str, ids))
    assert said.code == 0
    assert said.err.splitlines() == [
        *(f"headgate: {id} is out of the line" for id in ids[:3]),
        f"headgate: {runs} has ended",
    ]
    assert [box.state(id) for id in ids] == ["cancelled"] * 4
    assert box.job(runs)["exit"] == "0:15"
    assert box.rows("lease") + box.rows("ticket") == []


def test_why_follows_a_job_through_its_life(box: JobBox) -> None:
    """Waiting, running, ended: always all that is known of it, as text and as JSON."""
    id = box.submit("-m", "a/b", "--name", "mine", "--cwd", str(box.folder), "--", "sh", "-c",
                    "touch up; while [ ! -e go ]; do sleep 0.02; done")  # fmt: skip
    assert f"{id} waits, at place 1" in box.headgate("why", str(id))
    assert (box.job(id)["state"], box.job(id)["attempt_list"]) == ("queued", [])
    box.worker()
    until((box.folder / "up").exists)
    assert f"{id} runs" in box.headgate("why", str(id))
    said = box.job(id)
    assert (said["state"], said["attempt_list"][0]["ended"]) == ("running", None)
    (box.folder / "go").touch()
    box.until_state(id, "done")
    shown = box.headgate("why", str(id))
    assert f"job {id} has ended: done" in shown
    assert re.search(r"exit +0:0", shown)
    said = box.job(id)
    assert (said["state"], said["exit"], said["name"]) == ("done", "0:0", "mine")
    assert [event["event"] for event in said["events"]] == ["queued", "started", "done"]


def test_a_broken_configuration_keeps_nobody_from_looking(box: JobBox) -> None:
    """queue, why, logs, hold and cancel go on without it; submit refuses."""
    id = box.submit("--", "true")
    box.config("nonsense")
    for words in (["queue"], ["why", str(id)], ["hold", str(id)], ["cancel", str(id)]):
        assert box.ask(*words).code == 0
    assert box.ask("submit", "--", "true").code == 2


def test_without_its_configuration_a_verb_lets_nobody_in(box: JobBox) -> None:
    """Who does not know the limits leaves it to others to give seats away."""
    box.config("[pools.a]\nlimit = 1\n")
    box.worker()
    runs = box.submit("-m", "a/b", "--", "sleep", "300")
    waits, third = box.submit("-m", "a/b", "--", "true"), box.submit("-m", "a/b", "--", "true")
    good = box.config("[pools.a]\nlimit = 1\n").read_text()
    box.config("nonsense")
    for words in (["hold"], ["release"], ["cancel"], ["retry"]):
        assert box.ask(*words, str(third)).code == 0
        assert [box.state(id) for id in (runs, waits)] == ["running", "queued"]
    assert box.state(third) == "queued"
    box.config(good.removeprefix(box.defaults))
    box.headgate("cancel", str(runs))
    box.until_state(waits, "done")
    box.until_state(third, "done")


def test_a_list_that_nobody_reads(box: JobBox) -> None:
    """Queue | head ends quietly."""
    box.batch(*[{"command": ["true"]}] * 200)
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        program = box.start(HEADGATE, "queue", "--size", "200", stdout=closed)
    assert program.wait() == 141
    assert program.line(stream="stderr") == ""
