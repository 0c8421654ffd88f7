"""Odd circumstances: outputs closed or full, too few descriptors, a store that is locked."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import apsw
import pytest

from headgate import Gate, StoreUnavailableError
from tests.support import HEADGATE, LONG, Box, until


def shell(box: Box, script: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which `headgate` is ours."""
    return subprocess.run(
        ["sh", "-c", script.replace("headgate", HEADGATE)],
        env=box.env,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_run_does_its_work_whatever_is_closed(box: Box, closed: str) -> None:
    """The program runs, and its exit code is ours."""
    ran = box.folder / "ran"
    done = shell(box, f"headgate run -- sh -c 'touch {ran}; exit 3' {closed}")
    assert (done.returncode, ran.exists()) == (3, True)


@pytest.mark.parametrize("verb", ["status", "queue", "limits", "events", "--help", "status --json"])
def test_a_full_output_is_an_error_of_ours(box: Box, verb: str) -> None:
    """What cannot be written is said in a line, with 125."""
    box.headgate("limits", "set", "a", "1")
    done = shell(box, f"headgate {verb} > /dev/full")
    assert (done.returncode, done.stderr) == (125, "headgate: No space left on device\n")


def test_too_few_descriptors_are_an_error_and_no_hang(box: Box) -> None:
    """A process without descriptors gets an error at once, and goes on once it has some."""
    script = """
import resource
gate.status()
resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
files = []
try:
    while True:
        files.append(open("/dev/null"))
except OSError:
    pass
try:
    gate.slot("a/b", timeout=5).acquire()
except StoreUnavailableError as error:
    print("refused")
files.clear()
with gate.slot("a/b", timeout=5):
    print("let in")
print(len(gate.queue().running), "left")
"""
    program = box.python(script)
    assert [program.line() for _ in range(3)] == ["refused", "let in", "0 left"]


def test_the_stores_own_folder_is_not_the_programs_fault(box: Box) -> None:
    """A file where the pipes should be is our error, 125, and names the place."""
    box.members.write_text("")
    done = shell(box, "headgate run -- true")
    assert done.returncode == 125
    assert str(box.members) in done.stderr or str(box.path) in done.stderr


def test_no_wait_does_not_wait_for_a_locked_store(box: Box) -> None:
    """Somebody keeps the file locked: who does not want to wait, or not long, gets an answer."""
    gate = box.gate()
    gate.status()
    db = apsw.Connection(str(box.path))
    db.execute("BEGIN IMMEDIATE")
    begun = time.monotonic()
    with pytest.raises(StoreUnavailableError, match="did not answer"):
        gate.slot("a/b", timeout=0).acquire()
    assert time.monotonic() - begun < LONG
    db.execute("ROLLBACK")
    db.close()
    until(lambda: not gate.queue().running)
    with gate.slot("a/b", timeout=LONG):
        pass


def test_a_pool_that_was_only_set_by_hand_can_be_restored(box: Box) -> None:
    """Nothing is said about it any more, and no row stays."""
    for words in (("set", "foo", "2"), ("unset", "bar"), ("cooldown", "baz", "3s")):
        box.headgate("limits", *words)
        box.headgate("limits", "restore", words[1])
    assert box.rows("pool") == []


@pytest.mark.parametrize("verb", ["why", "cancel"])
def test_nothing_has_the_id_0(box: Box, verb: str) -> None:
    """Ids begin with 1."""
    done = shell(box, f"headgate {verb} 0")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("headgate: bad id '0'")


def test_a_wait_that_was_too_long_is_told_as_such(box: Box) -> None:
    """The last event of a ticket says that its time was up."""
    box.env["HEADGATE_LIMITS"] = "a/b=1"
    holder = box.holder()
    assert shell(box, "headgate run --wait 100ms -m a/b -- true").returncode == 124
    assert [event[7] for event in box.events("withdrawn")] == ["waited for 0.1s, its time was up"]
    assert holder.end() == 0


def test_the_eta_counts_down(box: Box) -> None:
    """The first in line is told what is left of the usual time, not all of it."""
    gate = box.gate(limits={"a/b": 1})
    begun = time.monotonic()
    with gate.slot("a/b"):
        time.sleep(1)  # a hold that history will remember
    usual = time.monotonic() - begun
    lease = gate.slot("a/b").acquire()
    waiter = threading.Thread(target=lambda: gate.slot("a/b").acquire().release())
    waiter.start()
    until(lambda: gate.queue().waiting)
    etas = []
    for _ in range(3):
        time.sleep(0.1)
        etas.append(gate.queue().waiting[0].eta or 0)
    lease.release()
    waiter.join(LONG)
    assert usual > etas[0] > etas[1] > etas[2] > 0


def test_a_broken_configuration_keeps_nobody_from_cancelling(box: Box) -> None:
    """The mistake is told; looking and cancelling go on without the file."""
    box.env["HEADGATE_LIMITS"] = "a/b=1"
    holder = box.holder()
    box.config("[pools.host]\nlimit = -1\n")
    (one,) = json.loads(box.headgate("queue", "--json"))["running"]
    box.headgate("cancel", str(one["id"]), "--grace", "5s")
    assert holder.wait() == 143


def test_a_script_that_does_not_say_by_what_is_run_by_the_shell(box: Box) -> None:
    """As shells and env do."""
    script = box.folder / "script"
    script.write_text("echo $1; exit 4\n")
    script.chmod(0o700)
    done = shell(box, f"headgate run -- {script} hello")
    assert (done.returncode, done.stdout) == (4, "hello\n")


def test_a_deleted_store_is_told_to_who_waits(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that does not come back ends the wait with an error that says so."""
    monkeypatch.setattr("headgate.gate.process_runtime._GONE", 0.5)
    gate = Gate.open(box.url, limits={"a/b": 1})
    holder = gate.slot("a/b").acquire()
    for path in box.folder.glob("s.db*"):
        if path.is_file():
            Path(path).unlink()
    with pytest.raises(StoreUnavailableError, match="was removed or replaced"):
        gate.slot("a/b", timeout=LONG).acquire()
    assert not holder.released
    gate.close()


def test_public_names_can_be_listed() -> None:
    """Tab completion sees what is loaded late."""
    done = subprocess.run(
        [sys.executable, "-c", "import headgate; print('Gate' in dir(headgate))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True\n"
