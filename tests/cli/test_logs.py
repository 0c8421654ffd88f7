"""`logs`: what a job wrote, all of it or the end, as it comes, over its attempts."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.cli import logs
from headgate.work.read_output import start_of_last
from tests.support import HEADGATE, STEADY, until
from tests.work.conftest import JobBox

TWICE = """
echo "begin $HEADGATE_ATTEMPT"; touch up-$HEADGATE_ATTEMPT
while [ ! -e go-$HEADGATE_ATTEMPT ]; do sleep 0.02; done
printf "end $HEADGATE_ATTEMPT"; [ $HEADGATE_ATTEMPT = 2 ]
"""


@pytest.fixture
def box(tmp_path: Path) -> Iterator[JobBox]:
    box = JobBox(tmp_path)
    box.defaults = STEADY
    box.config('[jobs]\nbackoff = "10ms"\n')
    yield box
    box.close()


def _wrote(box: JobBox, text: str, *words: str) -> str:
    """A job that has written something and ended."""
    id = box.finished(*words, "--", "printf", "%s", text)
    return str(id)


def test_logs_are_what_was_written(box: JobBox) -> None:
    """All of it on stdout, and nothing else; a file that can be read elsewhere."""
    box.worker()
    id = _wrote(box, "one\ntwo\nthree")
    assert box.ask("logs", id) == (0, "one\ntwo\nthree", "")
    path = Path(box.headgate("logs", id, "--path").strip())
    assert path == Path(f"{box.path}.logs", f"{id}.1.log")
    assert path.read_text() == "one\ntwo\nthree"


@pytest.mark.parametrize(
    "text, lines, expected",
    [
        ("a\nb\nc\n", "2", "b\nc\n"),
        ("a\nb\nc", "2", "b\nc"),
        ("a\nb\nc\n", "3", "a\nb\nc\n"),
        ("a\nb\nc\n", "999999", "a\nb\nc\n"),
        ("a\nb\nc\n", "0", ""),
        ("a\nb\nc", "0", ""),
        ("a\n\n\n", "2", "\n\n"),
        ("", "5", ""),
        ("\n", "1", "\n"),
        ("x" * 300_000 + "\n" + "y" * 300_000, "1", "y" * 300_000),
        ("l\n" * 200_000, "150000", "l\n" * 150_000),
    ],
)
def test_the_last_lines(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], text: str, lines: str, expected: str
) -> None:
    """As many as wanted, a last one without a break included, however long they are."""
    path = tmp_path / "log"
    path.write_text(text)
    fd = os.open(path, os.O_RDONLY)
    try:
        start = start_of_last(fd, int(lines))
        logs._copy(fd, start, logs._output())
    finally:
        os.close(fd)
    assert capfdbinary.readouterr().out.decode() == expected


def test_holes_are_left_out(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """What was given back to the file system is not shown as zeros, and the gap is told."""
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.write(b"first\n" + b"b" * 4090)
        file.seek(2**26)
        file.write(b"\nsecond\nthird\n")
    fd = os.open(path, os.O_RDONLY)
    try:
        assert logs._copy(fd, 0, logs._output()) == 2**26 + 14
        said = capfdbinary.readouterr()
        assert said.out.replace(b"b" * 4090 + b"\n", b"").split() == [b"first", b"second", b"third"]
        assert b"\0" not in said.out
        assert b"bytes are left out here" in said.err
        logs._copy(fd, start_of_last(fd, 1), logs._output())
        assert capfdbinary.readouterr() == (b"third\n", b"")
        assert start_of_last(fd, 10) == 0
    finally:
        os.close(fd)


def test_each_attempt_has_its_log(box: JobBox) -> None:
    """The last by default; another by its number, if there was one."""
    box.worker()
    id = str(box.submit("--retries", "1", "--", "sh", "-c", "echo $HEADGATE_ATTEMPT; false"))
    assert box.ask("wait", id).code == 1
    assert box.ask("logs", id).out == "2\n"
    assert box.ask("logs", id, "--attempt", "1").out == "1\n"
    said = box.ask("logs", id, "--attempt", "3")
    assert (said.code, said.out) == (2, "")
    assert f"job {id} has no attempt 3, its last is 2" in said.err


def test_logs_that_are_not_there(box: JobBox) -> None:
    """Not started yet, gone, or nonsense: each says so."""
    id = str(box.submit("--hold", "--", "true"))
    for words in (["logs", id], ["logs", id, "--path"], ["logs", id, "--attempt", "1"]):
        said = box.ask(*words)
        assert (said.code, said.out) == (2, "")
        assert f"job {id} has not been started yet: it is held" in said.err
    for words, message in (
        (["-n", "x"], "bad -n 'x'"),
        (["-n", "-1"], "-n"),
        (["--attempt", "0"], "bad --attempt '0'"),
        (["-f", "-n", "x"], "bad -n 'x'"),
        (["-f", "--attempt", "1"], "use it without --attempt"),
    ):
        said = box.ask("logs", id, *words)
        assert (said.code, said.out) == (2, "")
        assert message in said.err
    box.worker()
    box.headgate("release", id)
    box.headgate("wait", id)
    Path(box.headgate("logs", id, "--path").strip()).unlink()
    said = box.ask("logs", id)
    assert said.code == 2
    assert f"the log of job {id} is gone" in said.err


def test_following_a_job_over_its_attempts(box: JobBox) -> None:
    """From before it starts to its end: every line as it comes, attempt by attempt, and why."""
    id = str(box.submit("--retries", "1", "--cwd", str(box.folder), "--", "sh", "-c", TWICE))
    follower = box.start(HEADGATE, "logs", "-f", id)
    assert follower.silent(for_seconds=0.2)
    box.worker()
    assert follower.line() == "begin 1"
    (box.folder / "go-1").touch()
    assert follower.line(stream="stderr") == "headgate: attempt 2"
    assert follower.line() == "end 1begin 2"
    assert follower.alive()
    (box.folder / "go-2").touch()
    assert follower.line(stream="stderr") == f"headgate: job {id} is done: exit 0"
    assert follower.wait() == 0
    assert follower.line() == "end 2"
    assert box.ask("logs", "-f", id) == (
        0,
        "begin 2\nend 2",
        f"headgate: job {id} is done: exit 0\n",
    )


def test_following_begins_where_it_was_told_to(box: JobBox) -> None:
    """The last lines of what is there, and then all that comes."""
    box.worker()
    script = "seq 1000; touch up; while [ ! -e go ]; do sleep 0.02; done; echo last"
    id = str(box.submit("--cwd", str(box.folder), "--", "sh", "-c", script))
    until((box.folder / "up").exists)
    follower = box.start(HEADGATE, "logs", "-f", "-n", "2", id)
    assert [follower.line(), follower.line()] == ["999", "1000"]
    (box.folder / "go").touch()
    assert follower.line() == "last"
    assert follower.wait() == 0


def test_following_ends_when_nobody_listens(box: JobBox) -> None:
    """Logs -f | head: the pipe is closed, and the job goes on."""
    box.worker()
    script = "while [ ! -e go ]; do echo more; sleep 0.02; done"
    id = str(box.submit("--cwd", str(box.folder), "--", "sh", "-c", script))
    follower = box.start(HEADGATE, "logs", "-f", id)
    assert follower.line() == "more"
    assert follower.process.stdout
    follower.process.stdout.close()
    assert follower.wait() == 141
    assert box.state(int(id)) == "running"
    (box.folder / "go").touch()
    box.until_state(int(id), "done")
