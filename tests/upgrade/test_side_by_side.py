"""The version before and this one, on one store at the same time."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support import until
from tests.upgrade.conftest import NEWEST, Version, marked
from tests.work.conftest import JobBox
from tests.work.scene import Scene

pytestmark = pytest.mark.timeout(90)


@pytest.fixture(params=["old", "new"])
def one(request: pytest.FixtureRequest, old: Version, new: Version) -> Version:
    """Either version, with the store of the newer one."""
    new.do("status")
    assert marked(new.box) == (3, NEWEST)
    return old if request.param == "old" else new


@pytest.fixture
def other(one: Version, old: Version, new: Version) -> Version:
    return new if one is old else old


def test_the_store_is_migrated_under_who_holds_and_who_waits(
    box: JobBox, old: Version, new: Version
) -> None:
    """Their seats hold, the one who waits gets in when the other ends, and both end as they do."""
    old.do("limits", "set", "a/b", "1")
    holder = old.holder()
    waiter = old.waiter()
    program = old.python(
        "with gate.slot('p/q'):\n    print('in')\n    sys.stdin.readline()\nprint('out')\n"
    )
    assert program.line() == "in"
    assert {row["key"] for row in new.asked("queue")["running"]} == {"a/b", "p/q"}
    assert marked(box) == (3, NEWEST)
    late = new.waiter()
    assert new.asked("queue")["waiting"][0]["position"] == 1
    assert holder.end() == 0
    assert waiter.line() == "up"
    assert waiter.end() == 0
    assert late.line() == "up"
    assert program.end() == 0
    assert program.line() == "out"
    assert late.end() == 0
    assert box.left_over() == {}
    assert box.rows("process") == []


def test_one_line_for_both(box: JobBox, one: Version, other: Version) -> None:
    """Who came first gets in first, whichever version it is of and whoever gives the seat back."""
    one.do("limits", "set", "a/b", "1")
    holder = one.holder()
    line = [version.waiter() for version in (other, one, other)]
    for version in (one, other):
        assert version.ask("capacity", "a/b").code == 75
        assert [row["position"] for row in version.asked("queue")["waiting"]] == [1, 2, 3]
        assert version.asked("status")["waiting"] == 3
    for program in line:
        assert holder.end() == 0
        assert program.line() == "up"
        holder = program
    assert holder.end() == 0
    assert box.left_over() == {}


def test_either_cancels_what_the_other_runs(box: JobBox, one: Version, other: Version) -> None:
    """A running program, one that waits, and one whose runner was killed."""
    one.do("limits", "set", "a/b", "2")
    running, orphan = one.holder(), one.holder()
    waiting = one.waiter()
    ids = sorted(row[0] for row in box.rows("lease"))
    orphan.kill()
    assert other.ask("cancel", str(box.rows("ticket")[0][0])).code == 0
    for id in ids:
        assert other.ask("cancel", str(id)).code == 0
    assert waiting.wait() == 125
    assert running.wait() != 0
    until(lambda: not one.asked("queue")["running"])
    assert box.left_over() == {}
    assert box.rows("process") == []


def test_limits_pauses_and_reports_of_either_hold_for_both(one: Version, other: Version) -> None:
    """What one sets or tells, the other shows and obeys."""
    one.do("limits", "set", "a/*", "7")
    assert limits(other)["a/*"] == 7
    one.do("pause", "a/*", "--note", "lunch")
    assert other.ask("capacity", "a/b").code == 75
    other.do("resume", "a/*")
    assert one.ask("capacity", "a/b").code == 0
    one.do("report", "a/b", "rate-limited", "--retry-after", "60s")
    assert other.ask("run", "-m", "a/b", "--no-wait", "--", "true").code == 75
    other.do("resume", "a/b")
    assert one.ask("run", "-m", "a/b", "--no-wait", "--", "true").code == 0
    other.do("limits", "unset", "a/*")
    assert limits(one).get("a/*") is None


def test_a_refusal_told_by_either_lowers_the_limit_for_both(
    box: JobBox, one: Version, other: Version
) -> None:
    """Of three seats two are left, for whoever asks; nobody finds anything unreadable."""
    box.config('[pools.host]\nlimit = 40\n[pools."a/b"]\nlimit = 3\nadapt = "learn"\n')
    holders = [one.holder(), other.holder()]
    one.do("report", "a/b", "concurrency-limited", "--retry-after", "0s")
    for version in (one, other):
        assert limits(version)["a/b"] == 2
        assert version.ask("run", "-m", "a/b", "--no-wait", "--", "true").code == 75
    assert [holder.end() for holder in holders] == [0, 0]
    other.do("limits", "restore", "a/b")
    assert limits(one)["a/b"] == 3
    assert not box.events("unreadable")


def test_starts_of_either_count_for_the_rates_of_both(
    box: JobBox, one: Version, other: Version
) -> None:
    """Two a minute, whichever version starts them."""
    box.config('[pools.host]\nlimit = 40\n[pools."a/b"]\nrpm = 2\n')
    for version, code in ((one, 0), (other, 0), (one, 75), (other, 75)):
        said = version.ask("run", "-m", "a/b", "--no-wait", "--", "true")
        assert said.code == code, said


def limits(version: Version) -> dict[str, Any]:
    return {pool["pool"]: pool["limit"] for pool in version.asked("status")["pools"]}


def test_jobs_of_one_are_handled_and_run_by_the_other(
    box: JobBox, one: Version, other: Version
) -> None:
    """Submitted, held, moved, let go and retried by one version, and run by the other's worker."""
    ids = [one.submit("--hold", "--", "sh", "-c", f"exit {code}") for code in (0, 3, 0)]
    cancelled = one.submit("--", "true")
    other.do("cancel", str(cancelled))
    for id in ids:
        assert other.asked("why", str(id))["state"] == "held"
        other.do("release", str(id))
    other.do("hold", str(ids[2]))
    other.do("move", str(ids[1]), "--first")
    one.do("release", str(ids[2]))
    other.worker()
    assert one.ask("wait", *map(str, ids), "--timeout", "20s").code == 1
    assert [box.state(id) for id in ids] == ["done", "failed", "done"]
    assert [other.asked("why", str(id))["exit"] for id in ids] == ["0:0", "3:0", "0:0"]
    assert box.state(cancelled) == "cancelled"
    one.do("retry", str(ids[1]))
    until(lambda: len(one.asked("why", str(ids[1]))["attempts"]) == 2)
    box.until_state(ids[1], "failed")
    for version in (one, other):
        assert version.ask("logs", str(ids[0])).code == 0
        assert {row["id"] for row in version.asked("queue", "--all")["ended"]} >= set(ids)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_worker_of_one_goes_on_where_the_others_stopped(
    number: int, box: JobBox, one: Version, other: Version, tmp_path: Path
) -> None:
    """Runners of the one see their jobs to the end; what waits is started by the other's worker."""
    one.do("limits", "set", "a/b", "2")
    worker = one.worker()
    ends = tmp_path / "end"
    script = f"until test -e {ends}; do sleep 0.05; done; exit 5"
    ids = [one.submit("-m", "a/b", "--", "sh", "-c", script) for _ in range(4)]
    for id in ids[:2]:
        box.until_state(id, "running")
    until(lambda: all(row[13] for row in box.rows("lease")))
    worker.send(number)
    worker.wait()
    other.worker()
    assert [box.state(id) for id in ids[2:]] == ["queued", "queued"]
    ends.touch()
    for id in ids:
        box.until_state(id, "failed")
        job = one.asked("why", str(id))
        assert (job["exit"], job["code"], len(job["attempts"])) == ("5:0", "exit", 1)


def test_either_adopts_what_the_others_runner_left(
    box: JobBox, one: Version, other: Version, tmp_path: Path
) -> None:
    """The worker of one version looks after a program whose runner of the other was killed."""
    worker = one.worker()
    ends = tmp_path / "end"
    id = one.submit("--", "sh", "-c", f"until test -e {ends}; do sleep 0.05; done")
    box.until_state(id, "running")
    until(lambda: all(row[13] for row in box.rows("lease")))
    worker.kill()
    os.kill(box.runner(id), signal.SIGKILL)
    other.worker()
    until(lambda: box.events("adopted"))
    ends.touch()
    box.until_state(id, "done")
    codes = [attempt["code"] for attempt in other.asked("why", str(id))["attempts"]]
    assert codes == ["lost", "exit"]


def test_parked_jobs_of_one_are_let_in_by_the_other(
    box: JobBox, one: Version, other: Version
) -> None:
    """An agent that ran into a rate limit under one version is resumed under the other."""
    scene = Scene(box)
    kind = scene.cast("claude", "--requests", "3", "--pause", "0.2")
    scene.shut()
    worker = one.worker()
    id = one.submit("--cwd", str(box.folder), "--", kind.program, *kind.words)
    until(lambda: box.events("parked"))
    worker.send(signal.SIGTERM)
    worker.wait()
    assert box.state(id) in {"parked", "queued"}
    assert other.asked("why", str(id))["id"] == id
    assert id not in {row["id"] for row in other.asked("queue")["running"]}
    scene.provider.plan(cap=50)
    other.worker()
    other.do("resume", str(box.events("paused")[0][6]))
    box.until_state(id, "done")
    assert one.asked("why", str(id))["exit"] == "0:0"
    for done in scene.done():
        assert done.steps == sorted(set(done.steps)), "it did a step twice"


def test_one_of_both_tells_each_event(
    box: JobBox, one: Version, other: Version, tmp_path: Path
) -> None:
    """With workers of both versions there, somebody is told of each end; kills only repeat it."""
    told = tmp_path / "told"
    command = f"echo $HEADGATE_SUMMARY >> {told}"
    box.config(f"[[notify]]\nname = 'me'\ncommand = '{command}'\nevents = ['done']\n")
    workers = [one.worker(), other.worker()]
    ids: set[int] = set()
    for version in (one, other, one):
        ids.update(each.submit("--", "true") for each in (one, other))
        until(lambda: ids == {int(line.split()[1]) for line in lines(told)})
        workers.pop(0).kill()
        workers.append(version.worker())


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_doctor_names_the_processes_of_another_version(
    box: JobBox, old: Version, new: Version
) -> None:
    """Which they are, and nothing when they have ended."""
    holder, mine = old.holder(), new.holder("c/d")
    report = json.loads(new.ask("doctor", "--json").out)
    (found,) = [it for it in report["findings"] if it["code"] == "other_versions"]
    assert f"pid {holder.pid} (an older headgate, schema 3)" in found["text"]
    assert str(mine.pid) not in found["text"]
    assert holder.end() == 0
    assert mine.end() == 0
    report = json.loads(new.ask("doctor", "--json").out)
    assert not [it for it in report["findings"] if it["code"] == "other_versions"]
    assert old.ask("doctor").code == new.ask("doctor").code
