"""Reading a log as it grows: whole lines, and by whom they were written."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.work.log_file import Tail, open_log

CHUNK = 2**20


class Log:
    """A log that a program writes through its stdout and its stderr."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.out, self.err = open_log(path), open_log(path)
        self.tail = Tail(path)

    def close(self) -> None:
        self.tail.close()
        os.close(self.out)
        os.close(self.err)

    def by_stderr(self, *writes: tuple[int, str]) -> bool:
        """Whether what is read after these writes is surely stderr's."""
        for fd, text in writes:
            os.write(fd, text.encode())
        self.tail.lines()
        return self.tail.only_by(self.err, self.out)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path / "log")
    yield log
    log.close()


def test_it_is_told_who_wrote_a_line(log: Log) -> None:
    """What was written through stderr alone is stderr's; where both wrote, nobody can tell."""
    assert not log.by_stderr((log.out, "an answer\n"))
    assert log.by_stderr((log.err, "an error\n"))
    assert log.by_stderr((log.err, "an error\n"), (log.err, "and more\n"))
    assert not log.by_stderr((log.err, "an error\n"), (log.out, "an answer\n"))
    assert not log.by_stderr((log.out, "an answer\n"), (log.err, "an error\n"))


def test_a_line_that_the_other_began_is_not_told(log: Log) -> None:
    """A line that began on stdout is stdout's too, though its end came later and through stderr."""
    assert not log.by_stderr((log.out, "the answer is "))
    assert not log.by_stderr((log.err, "ERROR: no\n"))
    assert log.by_stderr((log.err, "ERROR: no\n"))


def test_who_opens_the_log_anew_is_nobody(log: Log) -> None:
    """What was written past both descriptors is not taken for stderr's."""
    assert log.by_stderr((log.err, "an error\n"))
    third = open_log(log.path)
    assert not log.by_stderr((third, "from somewhere\n"))
    assert not log.by_stderr((log.err, "an error\n"), (third, "from somewhere\n"))
    os.close(third)


def test_of_a_long_line_its_beginning_is_read(log: Log) -> None:
    """Its rest is no line of its own, however it comes."""
    os.write(log.out, b"{" + b"x" * 100_000)
    (head,) = log.tail.lines()
    assert head.startswith("{x")
    os.write(log.out, b"y" * 100_000)
    assert log.tail.lines() == []
    os.write(log.out, b"API Error: Request rejected (429)\nnext\nlast")
    assert log.tail.lines() == ["next"]
    assert log.tail.lines(to_end=True) == ["last"]


def test_what_is_left_of_a_line_is_no_line(log: Log) -> None:
    """Of more than is read at once the latest part counts, from its first whole line on."""
    line = b"API Error: Request rejected (429)\n"
    text = b"first\n" + b"z" * CHUNK + line
    text += b"." * (CHUNK - len(line) - 5) + b"\nlast\n"
    os.write(log.out, text[:CHUNK])
    os.write(log.out, text[CHUNK:])
    found = log.tail.lines()
    assert found[0] == "first"
    assert found[-1] == "last"
    assert not any(part.startswith("API Error") for part in found)


def test_a_log_that_was_emptied_is_read_from_its_start(log: Log) -> None:
    """Also while the rest of a long line was being left out."""
    os.write(log.out, b"x" * 100_000)
    log.tail.lines()
    os.truncate(log.path, 0)
    os.write(log.out, b"anew\n")
    assert log.tail.lines() == ["anew"]
