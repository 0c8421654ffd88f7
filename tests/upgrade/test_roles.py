"""A process of the version before knows no roles and no shares, and breaks no bound of them."""

import pytest

from tests.support import until
from tests.upgrade.conftest import Version

pytestmark = pytest.mark.timeout(90)


def test_it_lets_nobody_in_who_is_kept_out_by_them(old: Version, new: Version) -> None:
    """It frees seats, settles the line, and leaves such tickets to processes that know more."""
    new.do("status")
    new.do("limits", "set", "role:lead", "1")
    new.do("limits", "per-task", "c", "1")
    lead = new.start("run", "--role", "lead", "-m", "a/b", "--", "sh", "-c", "echo up; exec cat")
    mine = new.start("run", "--task", "t", "-m", "c/x", "--", "sh", "-c", "echo up; exec cat")
    assert lead.line() == mine.line() == "up"
    others = [
        new.start("run", *words, "--", "sh", "-c", "echo up; exec cat")
        for words in (("--role", "lead", "-m", "p/q"), ("--task", "t", "-m", "c/x"))
    ]
    for one in others:
        assert " waits, " in one.line(stream="stderr")
    for _ in range(3):  # each settles the line twice
        assert old.holder("d/e").end() == 0
    assert len(new.asked("queue")["waiting"]) == 2
    assert len(old.asked("queue")["waiting"]) == 2
    assert lead.end() == 0
    assert mine.end() == 0
    assert [one.line() for one in others] == ["up", "up"]
    assert [one.end() for one in others] == [0, 0]


def test_its_worker_starts_no_job_that_they_keep_out(old: Version, new: Version) -> None:
    """Not even when its worker is the only one; one of this version does, when there is room."""
    new.do("status")
    new.do("limits", "set", "role:lead", "1")
    lead = new.start("run", "--role", "lead", "--", "sh", "-c", "echo up; exec cat")
    assert lead.line() == "up"
    worker = old.worker()
    job = new.submit("--role", "lead", "--", "true")
    plain = new.submit("--", "true")
    until(lambda: new.asked("why", str(plain))["state"] == "done")
    assert new.asked("why", str(job))["state"] == "waiting"
    assert lead.end() == 0
    knows = new.worker()
    until(lambda: new.asked("why", str(job))["state"] == "done")
    for one in (worker, knows):
        one.process.terminate()
        one.process.wait()
