"""A quota that is gone until a time that people read off a clock."""

import time
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from tests.support import LONG, until
from tests.work.conftest import JobBox
from tests.work.test_talk import BRISK, STREAM, program

PLACE = "Pacific/Chatham"
"""A zone in which no machine is that runs this."""


def ahead(hours: float) -> datetime:
    """A moment in some hours, in whole minutes, as the clocks of that place show it."""
    at = datetime.fromtimestamp(time.time() + hours * 3_600, ZoneInfo(PLACE))
    return at.replace(second=0, microsecond=0)


def refused(box: JobBox, name: str, line: str) -> str:
    """An agent that is refused so until a file is there, and then is done."""
    (box.folder / "line").write_text(f"{line}\n")
    go, text = box.folder / "go", box.folder / "line"
    return program(box, name, f"[ -e {go} ] && exit 0; cat {text}; exit 1")


def closed_for(box: JobBox, pool: str) -> float:
    """For how many seconds a pool is closed."""
    pools = {entry["pool"]: entry["paused_until"] for entry in box.asked("status")["pools"]}
    return datetime.fromisoformat(pools[pool]).timestamp() - time.time()


CLOCK = "{0:%I:%M%p} ({1})"
DATE = "{0:%b} {0.day}"
LIMIT = "You've hit your limit · resets"
CODEX = "ERROR: You've hit your usage limit. Buy more, or try again at"


@pytest.mark.parametrize(
    "name,words,line",
    [
        ("claude", ("-p", "x"), f"{LIMIT} {CLOCK}"),
        ("claude", ("-p", "x"), f"{LIMIT} {DATE} at {CLOCK}"),
        ("claude", ("-p", "x"), f"{LIMIT} {{0:%a}} {CLOCK}"),
        (
            "claude",
            ("-p", "x", *STREAM),
            f'{{{{"type":"result","is_error":true,"result":"{LIMIT} {CLOCK}"}}}}',
        ),
        ("codex", ("exec", "x"), f"{CODEX} {{0:%I:%M %p}}."),
        ("codex", ("exec", "x"), f"{CODEX} {DATE}th, {{0.year}} {{0:%I:%M %p}}."),
    ],
)
def test_the_pool_is_closed_until_then(
    name: str, words: tuple[str, ...], line: str, box: JobBox
) -> None:
    """The whole account is, and its jobs wait for it without an attempt more."""
    box.config(BRISK)
    box.env["TZ"] = PLACE
    box.worker()
    path = refused(box, name, line.format(ahead(3), PLACE))
    id = box.submit("-m", "acme/m", "--attempts", "1", "--", path, *words)
    assert box.until_state(id, "parked", "failed") == "parked"
    assert 10_800 - 60 - LONG <= closed_for(box, "acme") <= 10_800
    later = box.submit("-m", "acme/other", "--", path, *words)
    until(lambda: box.job(id)["code"] == "pool_paused")
    assert box.job(later)["code"] == "pool_paused"
    assert [len(box.job(job)["attempt_list"]) for job in (id, later)] == [1, 0]
    (box.folder / "go").touch()
    box.headgate("resume", "acme")
    box.until_state(id, "done")
    box.until_state(later, "done")
    assert [len(box.job(job)["attempt_list"]) for job in (id, later)] == [2, 1]
    (readmitted,) = box.events("readmitted")
    assert "attempt 2" in readmitted[7]


def test_attempts_are_used_up_where_nobody_says_until_when(box: JobBox) -> None:
    """A quota without a time is asked for again, as often as a job has attempts."""
    box.config(BRISK)
    box.worker()
    path = refused(box, "claude", "You've hit your limit · resets 99:99am")
    id = box.submit("-m", "acme/m", "--attempts", "1", "--", path, "-p", "x")
    assert box.until_state(id, "parked", "failed") == "failed"
    assert 0 < closed_for(box, "acme") <= 30


def test_a_job_without_a_key_waits_by_itself(box: JobBox) -> None:
    """No pool keeps it out of the line: it stays out until the time that it was told."""
    box.config(BRISK)
    box.worker()
    line = f"You've hit your limit · resets {ahead(3):%I:%M%p} ({PLACE})"
    path = refused(box, "mine", line)
    box.config(f'{BRISK}\n[profiles.mine]\nlike = "claude"\nprovider = ""\ndefault = ""\n')
    id = box.submit("--attempts", "2", "--", path, "-p", "x")
    assert box.until_state(id, "parked", "failed") == "parked"
    assert len(box.job(id)["attempt_list"]) == 1
    due = datetime.fromisoformat(box.job(id)["due"]).timestamp() - time.time()
    assert 10_800 - 60 - LONG <= due <= 10_800
