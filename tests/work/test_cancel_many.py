"""`cancel` of many: nothing of it starts, what runs ends side by side, stopped processes go on."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate import Gate, UsageError
from headgate.core.admission.lease_events import EndCause, EndRequest
from headgate.ledger import job_timers
from headgate.ledger.transaction.ledger import Ledger
from tests.runner.conftest import Terminal
from tests.support import HEADGATE, gone, until
from tests.work.conftest import JobBox

STUBBORN = 'trap "" TERM; touch up.$HEADGATE_JOB; while :; do sleep 0.1; done'
"""An agent that ends only when it is killed."""


@pytest.fixture
def busy(box: JobBox) -> JobBox:
    """A box with a worker and two seats, both taken by jobs that end when they are told to."""
    box.config("[pools.host]\nlimit = 2\n")
    box.worker()
    for _ in range(2):
        running(box, "--task", "first", "--", "sleep", "300")
    return box


def running(box: JobBox, *words: str) -> int:
    id = box.submit("--cwd", str(box.folder), *words)
    until(lambda: box.job(id)["pid"])
    return id


def kinds(box: JobBox) -> list[str]:
    return [row[2] for row in box.rows("event")]


def word_of(box: JobBox) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in box.rows("job"):
        found[row[1]] = found.get(row[1], 0) + 1
    return found


@pytest.mark.parametrize("by", ["ids", "all", "model"])
def test_nothing_of_many_is_started_on_the_way(busy: JobBox, by: str) -> None:
    """The seats of those that end first go to none of the rest, though it stands next in line."""
    mark = {"command": "touch ran.$HEADGATE_JOB", "cwd": str(busy.folder), "model": "a/b"}
    waiting = busy.batch(*[mark] * 300)
    words = {
        "ids": map(str, [*(row[0] for row in busy.rows("lease")), *waiting]),
        "all": ["--all"],
        "model": ["-m", "host"],
    }[by]
    said = busy.ask("cancel", *words)
    assert (said.code, said.out) == (0, "")
    assert said.err == "headgate: cancelled 302 of 302: 300 out of the line, 2 ended\n"
    assert word_of(busy) == {"cancelled": 302}
    assert kinds(busy).count("started") == 2
    assert not [*busy.folder.glob("ran.*")]


def test_what_runs_ends_side_by_side(box: JobBox) -> None:
    """All are asked to end before the first has, and each gets its grace at the same time."""
    box.worker()
    ids = [running(box, "--grace", "1s", "--", "sh", "-c", STUBBORN) for _ in range(3)]
    until(lambda: len([*box.folder.glob("up.*")]) == 3)
    found = json.loads(box.headgate("cancel", "--json", *map(str, ids)))
    assert [(one["id"], one["outcome"]) for one in found] == [(id, "ended") for id in ids]
    ends = [kind for kind in kinds(box) if kind in {"cancelling", "cancelled"}]
    assert ends == ["cancelling"] * 3 + ["cancelled"] * 3
    assert {box.job(id)["exit"] for id in ids} == {"0:9"}


def test_one_that_cannot_be_cancelled_does_not_keep_the_others(busy: JobBox) -> None:
    """No number, no such id, ended already: each is told, and the exit code is the first one's."""
    done = int(busy.headgate("submit", "-q", "--hold", "--", "true"))
    waits = busy.submit("--", "true")
    busy.headgate("cancel", str(done))
    words = ["x", "99", str(done), str(waits), str(waits)]
    said = busy.ask("cancel", "--json", *words)
    assert said.code == 2
    outcomes = [(one["id"], one["outcome"], one["error"]) for one in json.loads(said.out)]
    assert outcomes == [
        (
            "x",
            "failed",
            "bad id 'x': expected a number or the name of a job, as shown by headgate queue",
        ),
        (99, "failed", "nothing with the id 99 waits or runs; see headgate queue"),
        (done, "failed", f"job {done} has ended already, as cancelled"),
        (waits, "withdrawn", None),
    ]
    assert busy.state(waits) == "cancelled"


def test_who_comes_after_another_is_cancelled_with_it(busy: JobBox) -> None:
    """Both are cancelled; the second has not failed because of the first."""
    chain = [busy.submit("--", "true")]
    for _ in range(3):
        chain.append(busy.submit("--after", str(chain[-1]), "--", "true"))
    assert busy.ask("cancel", *map(str, chain)).code == 0
    assert {busy.state(id) for id in chain} == {"cancelled"}


def test_work_is_chosen_by_what_it_is_for(busy: JobBox) -> None:
    """Task, name and model narrow it down together; what is not like that is left alone."""
    ours = busy.submit("--task", "mine", "--name", "build", "-m", "a/b", "--", "true")
    named = busy.submit("--task", "mine", "--name", "other", "-m", "a/b", "--", "true")
    held = busy.submit("--task", "mine", "--name", "build", "-m", "c/d", "--hold", "--", "true")
    slot = busy.waiter("a/b", "--task", "mine")
    assert busy.ask("cancel", "--task", "mine", "--name", "build", "-m", "a").code == 0
    assert [busy.state(id) for id in (ours, named, held)] == ["cancelled", "queued", "held"]
    assert busy.ask("cancel", "--name", "build").code == 0
    assert [busy.state(id) for id in (ours, named, held)] == ["cancelled", "queued", "cancelled"]
    assert busy.ask("cancel", "--task", "mine").code == 0
    assert busy.state(named) == "cancelled"
    assert slot.wait() == 125
    assert word_of(busy) == {"cancelled": 3, "running": 2}
    said = busy.ask("cancel", "--task", "mine")
    assert (said.code, said.err) == (0, "headgate: nothing that waits or runs is like that\n")


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "give either ids, or --all"),
        (["1", "--all"], "give either ids, or --all"),
        (["1", "--task", "x"], "give either ids, or --all"),
        (["--task", ""], "bad task ''"),
        (["--name", " "], "bad name ' '"),
        (["--all", "--task", "a\x1bb"], "bad task"),
        (["-m", ""], "bad pool ''"),
        (["-m", "a//b"], "bad pool 'a//b'"),
        (["--all", "--grace", "x"], "bad grace 'x'"),
    ],
)
def test_what_makes_no_sense_cancels_nothing(busy: JobBox, words: list[str], message: str) -> None:
    """An empty variable in a script must not turn a few into all."""
    said = busy.ask("cancel", *words)
    assert said.code == 2
    assert message in said.err
    assert "cancelling" not in kinds(busy)


def test_on_a_terminal_it_is_shown_first(busy: JobBox) -> None:
    """What would be cancelled, and a question; anything but yes cancels nothing."""
    waits = busy.submit("--task", "mine", "--name", "build", "-m", "a/b", "--", "true")
    for answer, state in (("\r", "queued"), ("no\r", "queued"), ("y\r", "cancelled")):
        terminal = Terminal(busy, [HEADGATE, "cancel", "--task", "mine"])
        terminal.shows("build")
        terminal.shows("cancel 1 (1 waiting)? [y/N]")
        terminal.type(answer)
        assert terminal.program.wait() == (0 if state == "cancelled" else 1)
        assert busy.state(waits) == state
        terminal.close()
    terminal = Terminal(busy, [HEADGATE, "cancel", "--all", "--yes"])
    assert terminal.program.wait() == 0
    assert word_of(busy) == {"cancelled": 3}
    terminal.close()


def test_work_does_not_cancel_itself_by_accident(box: JobBox) -> None:
    """An agent that cancels all goes on; its own id ends it."""
    box.worker()
    other = running(box, "--", "sleep", "300")
    own = box.submit("--cwd", str(box.folder), "--", "sh", "-c",
                     f"{HEADGATE} run -- {HEADGATE} cancel --all && touch lives")  # fmt: skip
    box.until_state(own, "done")
    assert (box.folder / "lives").exists()
    assert box.state(other) == "cancelled"


def test_ctrl_c_in_the_middle_can_be_repeated(box: JobBox) -> None:
    """Nothing of what waited comes back; what still runs can be cancelled again."""
    box.config("[pools.host]\nlimit = 1\n")
    box.worker()
    runs = running(box, "--", "sh", "-c", STUBBORN)
    until((box.folder / f"up.{runs}").exists)
    waits = box.submit("--", "true")
    program = box.start(HEADGATE, "cancel", "--all", "--grace", "1h")
    box.until_state(waits, "cancelled")
    until(lambda: "cancelling" in kinds(box))
    program.send(signal.SIGINT)
    assert program.wait() == 130
    assert box.state(runs) == "running"
    assert box.ask("cancel", "--all", "--grace", "0s").code == 0
    assert word_of(box) == {"cancelled": 2}


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGTSTP])
def test_a_stopped_run_goes_on_so_that_it_can_end(box: JobBox, number: int) -> None:
    """Its wrapper alone is stopped, or both by Ctrl-Z: `cancel` ends them in their grace."""
    program = box.run("--", "sh", "-c", "echo $$; exec sleep 300", process_group=0)
    agent = int(program.line())
    (work,) = until(box.running)
    os.kill(program.pid, number)
    until(lambda: stopped(program.pid))
    said = box.ask("cancel", str(work["id"]), "--grace", "15s")
    assert (said.code, said.err) == (0, f"headgate: {work['id']} has ended\n")
    assert program.wait() == 143
    assert gone(agent)
    assert box.left_over() == {}


@pytest.mark.parametrize("who", ["runner", "agent", "both"])
def test_a_stopped_job_goes_on_so_that_it_can_end(box: JobBox, who: str) -> None:
    """A runner that is stopped, its agent, or both: the agent hears of its end, and obeys."""
    box.worker()
    id = running(box, "--", "sh", "-c", 'trap "touch heard; exit 7" TERM; touch up; '
                 "while :; do sleep 0.1; done")  # fmt: skip
    until((box.folder / "up").exists)
    pids = {"runner": [box.runner(id)], "agent": [box.job(id)["pid"]]}
    for pid in pids.get(who) or [*pids["agent"], *pids["runner"]]:
        os.kill(pid, signal.SIGSTOP)
        until(lambda pid=pid: stopped(pid))  # type: ignore[misc]
    assert box.ask("cancel", str(id), "--grace", "15s").code == 0
    assert (box.state(id), box.job(id)["exit"]) == ("cancelled", "7:0")
    assert (box.folder / "heard").exists()


def _relieve(ledger: Ledger) -> None:
    job_timers.relieve(ledger, "no memory")


def _bound(ledger: Ledger) -> None:
    for lease in ledger.tx.job_leases():
        asked = EndRequest(EndCause.MAX_HOLD, "held too long")
        ledger.tx.change_lease(lease._replace(cancel=asked))
        ledger.woken.add(lease.member)


@pytest.mark.parametrize("ask", [_relieve, _bound])
def test_one_that_is_being_ended_for_another_reason(
    box: JobBox, ask: Callable[[Ledger], None]
) -> None:
    """To make room, or for its pool's bound: once it is cancelled, it does not come back."""
    box.worker()
    id = running(box, "--retries", "3", "--grace", "2s", "--", "sh", "-c", STUBBORN)
    until((box.folder / f"up.{id}").exists)
    gate = box.gate()
    gate._transactor.run(ask)
    assert gate.cancel(id) == "ended"
    assert box.state(id) == "cancelled"


def test_the_same_from_a_program(busy: JobBox) -> None:
    """`find_work` tells what `cancel_all` would end; ids and a choice together are refused."""
    waits = busy.submit("--task", "mine", "--", "true")
    gate: Gate = busy.gate()
    (found,) = gate.find_work(task="mine")
    assert (found.id, found.state, found.type) == (waits, "waiting", "job")
    with pytest.raises(UsageError, match="not by both"):
        gate.cancel_all([waits], task="mine")
    heard: list[int] = []
    outcomes = gate.cancel_all(on_outcome=lambda one: heard.append(one.id))
    assert [one.outcome for one in outcomes] == ["ended", "ended", "withdrawn"]
    assert sorted(heard) == [one.id for one in outcomes]
    assert gate.cancel_all() == []
