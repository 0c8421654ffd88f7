"""What a job reads: what was handed in for it, each time from the beginning; never lost unsaid."""

import json
import os
import shlex
import sys

import pytest

from tests.support import HEADGATE, until
from tests.work.conftest import JobBox
from tests.work.scene import OPUS, Kind, Scene

HOSTILE = (
    b"\x00\xff\xfe\x1b[31m {model} $(x)\n\r\n" + "é€😀".encode() + b"\xed\xa0\x80 no end of line"
)
MOST = 128 * 1024


def copied(box: JobBox, *words: str, text: bytes) -> bytes:
    """What a job that was handed in with this input has read."""
    said = box.ask("submit", "-q", "--cwd", str(box.folder), *words, "--", "sh", "-c",
                   "cat >read", text=text)  # fmt: skip
    assert said.code == 0, said.err
    box.headgate("wait", said.out.strip())
    return (box.folder / "read").read_bytes()


@pytest.mark.parametrize("data", [HOSTILE, b"", b"x" * MOST, os.urandom(MOST)])
def test_a_job_reads_what_was_piped_in(box: JobBox, data: bytes) -> None:
    """Any bytes, to the last one that is allowed; from stdin, and from a file."""
    box.worker()
    assert copied(box, "--stdin", "-", text=data) == data
    path = box.folder / "prompt"
    path.write_bytes(data)
    assert copied(box, "--stdin", str(path), text=b"") == data


def test_each_try_reads_it_from_the_beginning(box: JobBox) -> None:
    """A retry has the same input, also of another job that the same runner goes on with."""
    box.config('[jobs]\nbackoff = "10ms"\n')
    box.worker()
    config = {"cwd": str(box.folder), "retries": 2}
    ids = box.batch(
        {**config, "command": 'cat >>a; test "$HEADGATE_ATTEMPT" = 2', "stdin": "one\n"},
        {**config, "command": "cat >>b"},
    )
    for id in ids:
        box.until_state(id, "done", within=40)
    assert (box.folder / "a").read_text() == "one\none\n"
    assert (box.folder / "b").read_text() == ""


def test_a_resumed_agent_does_not_get_its_prompt_again(box: JobBox) -> None:
    """It has read it; what it is told when it goes on is on its command line."""
    scene = Scene(box)
    words = ("-p", "--output-format", "stream-json", "--verbose", "--model", OPUS)
    scene.cast("claude", "--requests", "8", "--pause", "0.4")
    real = scene.bin / "claude"
    real.rename(scene.bin / "real")
    prompt = f"prompt=$(tee -a {box.folder}/read)"
    real.write_text(f'#!/bin/sh\n{prompt}\nexec {scene.bin}/real "$@" ${{prompt:+"$prompt"}}\n')
    real.chmod(0o755)
    (box.folder / "prompt").write_text("do it\n")
    box.worker()
    kind = Kind("claude", "claude", words, f"anthropic/{OPUS}")
    id = scene.submit(kind, "--stdin", str(box.folder / "prompt"), "--max-runtime", "2s",
                      "--retries", "20", "--attempts", "30")  # fmt: skip
    box.until_state(id, "done", within=40)
    (done,) = scene.done()
    assert done.starts[:2] == [False, True]
    assert (box.folder / "read").read_text() == "do it\n"


@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_input_that_nobody_asked_for_is_refused(box: JobBox, kind: str) -> None:
    """`cat prompt | headgate submit -- agent` does not hand in an agent without its prompt."""
    box.headgate("queue")
    path = box.folder / "prompt"
    path.write_text("do it")
    if kind == "pipe":
        said = box.ask("submit", "--", "cat", text="do it")
        code, out, err = said
    else:
        with path.open("rb") as file:
            program = box.start(HEADGATE, "submit", "--", "cat", stdin=file)
        raw, rest = program.process.communicate(timeout=20)
        code, out, err = program.wait(), raw.decode(), rest.decode()
    assert (code, out) == (2, "")
    assert "nothing was submitted: there is input on stdin, and --stdin - gives it" in err
    assert box.rows("job") == []


@pytest.mark.parametrize(
    "script",
    [
        "printf '1\\n2\\n3\\n' | while read n; do $H submit -q -- echo $n; done",
        "printf '1\\n2\\n3\\n' >lines; while read n; do $H submit -q -- echo $n; done <lines",
        "printf '$H submit -q -- echo 1\\n%.0s' 1 2 3 | sh",
        "for n in 1 2 3; do sleep 1000 | $H submit -q -- echo $n & done; wait -n; sleep 3",
    ],
)
def test_input_of_others_is_left_alone(box: JobBox, script: str) -> None:
    """The lines of a loop, the rest of a script, a pipe that nobody closes: three jobs each."""
    text = script.replace("$H", shlex.quote(HEADGATE))
    box.headgate("queue")
    box.start("bash", "-c", f"cd {shlex.quote(str(box.folder))}; {text}")
    until(lambda: len(box.rows("job")) == 3)


def test_what_is_not_ours_is_said(box: JobBox) -> None:
    """Where it may be the caller's, the job is handed in, with a warning."""
    line = f"echo do it | sh -c {shlex.quote(f'{shlex.quote(HEADGATE)} submit -- cat; true')}"
    program = box.start("sh", "-c", line)
    _, err = program.process.communicate(timeout=20)
    assert b"warning: there is input on stdin, which the job does not get: --stdin -" in err
    assert len(box.rows("job")) == 1


@pytest.mark.parametrize(
    "words, text, message",
    [
        (["--stdin", "-"], b"x" * (MOST + 1), "bad stdin: more than 128 KiB"),
        (["--stdin", "/dev/zero"], b"", "bad stdin: more than 128 KiB"),
        (["--stdin", "no such file"], b"", "cannot read --stdin no such file: No such file"),
        (["--stdin", "."], b"", "cannot read --stdin .: Is a directory"),
    ],
)
def test_what_cannot_be_kept_is_refused(
    box: JobBox, words: list[str], text: bytes, message: str
) -> None:
    """Too much, endless, or not there: nothing is handed in."""
    said = box.ask("submit", *words, "--", "cat", text=text)
    assert said.code == 2
    assert message in said.err
    assert not box.path.exists() or box.rows("job") == []


def test_the_field_of_a_batch(box: JobBox) -> None:
    """Each job has its own; what is no text is refused with its line."""
    lines = [{"command": "cat", "stdin": value} for value in ("a", 7, "\ud800")]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    said = box.ask("submit", "--batch", "-", text=text)
    assert said.code == 2
    assert "line 2: bad stdin 7: expected text" in said.err
    assert "line 3: bad stdin: it is no text" in said.err
    said = box.ask("submit", "--batch", "-", "--stdin", "x", text=text)
    assert "bad --stdin: in a batch each job has its own" in said.err


def test_an_endless_writer_is_not_read_to_its_end(box: JobBox) -> None:
    """Only as much is read as tells that it is too much."""
    yes = f"{sys.executable} -c 'while True: print(1)' 2>&- | {shlex.quote(HEADGATE)}"
    program = box.start("sh", "-c", f"{yes} submit --stdin - -- cat")
    assert program.wait() == 2
