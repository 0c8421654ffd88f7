"""What somebody has put where a job's log is to be: nothing else is written to, or shown."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import until
from tests.work.conftest import JobBox

PLANTS: dict[str, tuple[Callable[[Path, Path], None], str]] = {
    "a link": (lambda log, other: log.symlink_to(other), "it is a symbolic link"),
    "a link to nothing": (
        lambda log, other: log.symlink_to(other.with_name("new")),
        "it is a symbolic link",
    ),
    "another name": (lambda log, other: log.hardlink_to(other), "the file has another name too"),
    "a pipe": (lambda log, _: os.mkfifo(log), "No such device or address"),
    "a folder": (lambda log, _: log.mkdir(), "Is a directory"),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_a_job_writes_only_to_a_log_of_its_own(box: JobBox, plant: str) -> None:
    """It does not start, and says why; what the name leads to stays as it is."""
    other = box.folder / "other"
    other.write_text("precious\n")
    ran = box.folder / "ran"
    logs = Path(f"{box.path}.logs")
    logs.mkdir(mode=0o700)
    put, why = PLANTS[plant]
    put(logs / "1.1.log", other)
    box.worker()
    id = box.submit("--", "touch", str(ran))
    assert box.until_state(id, "failed", "done") == "failed"
    found = box.job(id)
    assert (found["code"], why in found["reason"]) == ("no_log", True), found
    assert other.read_text() == "precious\n"
    assert not ran.exists()
    assert not other.with_name("new").exists()


def test_what_a_link_leads_to_is_not_shown(box: JobBox) -> None:
    """Neither by `logs`, nor as the last line in `queue`; a pipe keeps nobody waiting."""
    secret = box.folder / "secret"
    secret.write_text("precious\n")
    box.worker()
    id = box.submit("--", "sleep", "1000")
    box.until_state(id, "running")
    log = Path(f"{box.path}.logs", f"{id}.1.log")
    sleeps = b"sleep\x001000\x00"
    until(lambda: command_line(box.asked("queue")["running"][0]["pid"]) == sleeps)
    log.unlink()
    log.symlink_to(secret)
    for words in (("logs", str(id)), ("logs", "-f", str(id)), ("logs", "-n", "1", str(id))):
        said = box.ask(*words)
        assert (said.code, said.out) == (2, "")
        assert f"{log}: it is a symbolic link" in said.err
    assert "precious" not in box.headgate("queue")
    log.unlink()
    os.mkfifo(log)
    assert box.ask("logs", str(id)).code == 2
    assert str(id) in box.headgate("queue")
    box.headgate("cancel", str(id))


def command_line(pid: int) -> bytes:
    """What a process was started with; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""
