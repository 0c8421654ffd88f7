"""Hostile text, wherever text can come from, through every verb that shows some.

Nothing that is for a person may steer the terminal: no escape sequence, no control character but
the ends of lines and tabs, no sign that turns the direction of writing around.
"""

import json
import os
import pty
import re
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from headgate.cli import VERBS
from headgate.cli.logs import _Plain
from headgate.core.printable_text import plain
from tests.support import HEADGATE, LONG, STEADY, until
from tests.work.conftest import JobBox

CORPUS = [
    "\x1b[2J\x1b[5m",  # clears the screen
    "\x1b[31m",  # a colour that is ours too
    "\x1b]0;title\x07",
    "\x1b]52;c;aGFjaw==\x1b\\",  # sets the clipboard
    "\x1b]8;;http://example.com\x1b\\link",
    "\x1bP$q\x1b\\",
    "\x1b[6n\x1b[c",  # the terminal answers, as if somebody typed
    "\x9b2J\x9d0;x\x9c",
    "\x07\x08\x0b\x0c\x0e\x0f\x7f",
    "safe\r\x1b[Kevil",
    "\u202egpj.exe\u202c\u2066\u2069\u200e\u200f",
    "\x85\u2028\u2029",
    "\x1b",
]
HOSTILE = "x".join(CORPUS)
OWN = re.compile(r"\r\x1b\[2K")
"""The line of `run` that is redrawn."""
COLUMNS = {
    "job": ("text", "task", "name", "label", "exit", "session"),
    "attempt": ("text", "key", "exit"),
    "event": ("text", "task", "pool", "kind"),
    "ticket": ("task", "label"),
    "lease": ("task", "label"),
    "pool": ("pause_note",),
    "process": ("version",),
}
CONFIG = f"""
[[classify]]
name = {json.dumps(HOSTILE)}
signal = {json.dumps(HOSTILE)}
line = {json.dumps(HOSTILE + "(")}
[profiles.{json.dumps(HOSTILE)}]
retries = [{json.dumps(HOSTILE)}]
[pools.{json.dumps(HOSTILE)}]
limit = {json.dumps(HOSTILE)}
[{json.dumps(HOSTILE)}]
a = 1
"""
HOOK = '[[notify]]\nname = "hook"\ncommand = ["sh", "-c", "cat hostile >&2; exit 3"]\n'


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobBox]:
    """A store whose texts are all hostile: a job that has ended, one that runs, one that waits."""
    box = JobBox(tmp_path_factory.mktemp("hostile"))
    box.defaults = STEADY + '[pools."a/b"]\nlimit = 1\n'
    box.config("")
    (box.folder / "hostile").write_bytes(HOSTILE.encode())
    worker = box.worker()
    talk = f"cat '{box.folder}/hostile'; echo; cat '{box.folder}/hostile' >&2; exec sleep 1000"
    ended = box.submit("--", "cat", f"{box.folder}/hostile")
    box.headgate("wait", str(ended))
    running = box.submit("-m", "a/b", "--", "sh", "-c", talk)
    box.until_state(running, "running")
    until(lambda: log_of(box, running).exists())
    until(lambda: log_of(box, running).read_bytes().count(HOSTILE.encode()) == 2)
    assert box.submit("-m", "a/b", "--", "true") == running + 1
    box.headgate("pause", "c")
    worker.kill()  # it would put some of it right
    db = apsw.Connection(str(box.path))
    for table, columns in COLUMNS.items():
        for column in columns:
            db.execute(f"UPDATE {table} SET {column} = ?", (HOSTILE,))  # noqa: S608 - our own names
    db.close()
    yield box
    box.close()


def log_of(box: JobBox, id: int) -> Path:
    return Path(f"{box.path}.logs", f"{id}.1.log")


def on_terminal(box: JobBox, *words: str | bytes, **env: str) -> str:
    """What a verb shows on a terminal that changes nothing of it."""
    ours, theirs = pty.openpty()
    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    env = {**box.env, "TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "2000", **env}
    with subprocess.Popen(
        [HEADGATE, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=box.folder
    ) as program:
        os.close(theirs)
        shown = b""
        try:
            while more := os.read(ours, 65536):
                shown += more
        except OSError:  # the other end is closed
            pass
        os.close(ours)
        program.wait(LONG)
    return shown.decode()


def assert_harmless(shown: str) -> None:
    rest = OWN.sub("", shown)
    odd = {letter for letter in rest if not letter.isprintable()} - {"\n", "\t"}
    assert not odd, rest
    assert "Traceback" not in rest


SHOWN: dict[str, list[list[str | bytes]]] = {
    "run": [
        ["run", "--", f"./{HOSTILE.replace('/', '')}"],
        ["run", "-m", HOSTILE, "--", "true"],
        ["run", "--task", HOSTILE, "--", "true"],
        ["run", "-m", "a/b", "--wait", "300ms", "--", "true"],
        ["run", b"--\xff\xfe\x1b[2J", "--", "true"],
    ],
    "completion": [
        ["completion", "words", "headgate", "why", ""],
        ["completion", "words", "headgate", HOSTILE, HOSTILE],
        ["completion", HOSTILE],
    ],
    "submit": [
        ["submit", "--name", HOSTILE, "--", "true"],
        ["submit", "-m", HOSTILE, "--", "true"],
        ["submit", "--hold", "--", HOSTILE],
        ["submit", "--hold", "--", b"\xff\x1b[2J"],
        ["submit", "--hold", "--batch", "hostile"],
    ],
    "status": [["status"]],
    "queue": [["queue"], ["queue", HOSTILE]],
    "capacity": [["capacity", "a/b"], ["capacity", HOSTILE]],
    "plan": [["plan", "hostile"], ["plan", HOSTILE]],
    "why": [["why", "1"], ["why", "2"], ["why", "3"], ["why", HOSTILE]],
    "cancel": [["cancel", "1"], ["cancel", HOSTILE]],
    "logs": [
        ["logs", "1"],
        ["logs", "-n", "3", "2"],
        ["logs", "-f", "1"],
        ["logs", "--path", "1"],
        ["logs", HOSTILE],
    ],
    "wait": [["wait", "1"], ["wait", HOSTILE]],
    "retry": [["retry", "3"], ["retry", HOSTILE]],
    "hold": [["hold", "1"], ["hold", HOSTILE]],
    "release": [["release", "1"], ["release", HOSTILE]],
    "move": [["move", "1", "--first"], ["move", "1", "-p", HOSTILE]],
    "limits": [["limits"], ["limits", "set", HOSTILE, "1"], ["limits", "set", "a", HOSTILE]],
    "pause": [["pause", HOSTILE], ["pause", "a", "--note", HOSTILE]],
    "resume": [["resume", HOSTILE]],
    "report": [["report", HOSTILE, "accepted"], ["report", "a", HOSTILE]],
    "events": [["events"], ["events", "-n", HOSTILE]],
    "notify": [["notify", "test"], ["notify", "list"], ["notify", "test", HOSTILE]],
    "init": [["init", "--service", HOSTILE], ["--config", f"/nowhere/{HOSTILE}", "init"]],
    "config": [["config", "check"], ["--config", HOSTILE, "config", "check"]],
    "probe": [["probe", HOSTILE], ["probe", "account", "--url", HOSTILE]],
    "doctor": [["doctor"], ["--store", f"sqlite:///nowhere/{HOSTILE}", "doctor"]],
    "worker": [["worker", HOSTILE], ["--store", f"sqlite:///nowhere/{HOSTILE}", "worker"]],
    "up": [["up", HOSTILE]],
    "sim": [["sim", HOSTILE], ["sim", "run", HOSTILE]],
    "demo": [["demo", HOSTILE]],
    "serve": [["serve", HOSTILE], ["serve", "--listen", HOSTILE]],
    "token": [
        ["token", "create", "--scope", HOSTILE],
        ["token", "create", "--scope", "read", "--name", HOSTILE],
        ["token", "list"],
        ["token", "revoke", HOSTILE],
    ],
    "store": [
        ["store", "check"],
        ["store", "backup", f"/nowhere/{HOSTILE}"],
        ["store", HOSTILE],
        ["store", "compact", "--at-most", HOSTILE],
    ],
    "": [[HOSTILE], [f"--{HOSTILE}"], ["--store", HOSTILE, "status"], ["--config", HOSTILE, "why"]],
}
"""How each verb is made to show what somebody else has written."""


def test_no_verb_is_left_out() -> None:
    """A new verb says here how it shows text."""
    assert set(SHOWN) == {*VERBS, ""}


@pytest.mark.parametrize("verb", SHOWN)
def test_no_verb_lets_text_steer_a_terminal(box: JobBox, verb: str) -> None:
    """Neither what it finds in the store, nor what it repeats of its own words."""
    box.config(HOOK if verb == "notify" else "")
    for words in SHOWN[verb]:
        assert_harmless(on_terminal(box, *words))


@pytest.mark.parametrize("verb", ["config", "status", "doctor", "submit", "worker"])
def test_no_configuration_steers_a_terminal(box: JobBox, verb: str) -> None:
    """What is wrong with it is told, in words that are harmless."""
    words = {"config": ["config", "check"], "submit": ["submit", "--hold", "--", "true"]}
    path = box.config(CONFIG)
    shown = on_terminal(box, *words.get(verb, [verb]))
    box.config("")
    assert str(path) in shown.replace("\n", "")
    assert_harmless(shown)


@pytest.mark.parametrize("variable", ["HEADGATE_LIMITS", "HEADGATE_STORE", "HEADGATE_CONFIG"])
def test_no_variable_steers_a_terminal(box: JobBox, variable: str) -> None:
    """Nor what is wrong with the environment."""
    for value in (HOSTILE, f"sqlite:///nowhere/{HOSTILE}", f"{HOSTILE}=1"):
        assert_harmless(on_terminal(box, "status", **{variable: value}))


def test_a_worker_shows_events_without_what_steers(box: JobBox) -> None:
    """Those that happen while it is up."""
    ours, theirs = pty.openpty()
    env = {"NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "2000"}
    worker = box.start(HEADGATE, "worker", stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    shown = b""
    id = box.submit("--no-check", "--", f"./{HOSTILE.replace('/', '')}")
    while b"cannot start" not in shown:
        shown += os.read(ours, 65536)
    worker.kill()
    os.close(ours)
    assert_harmless(shown.decode().replace("\r\n", "\n"))
    assert_harmless(on_terminal(box, "why", str(id)))


def test_a_log_in_a_pipe_is_exact(box: JobBox) -> None:
    """What a program reads is what the job wrote, to the byte."""
    argv = [HEADGATE, "logs", "1"]
    done = subprocess.run(argv, env=box.env, capture_output=True, check=True)
    assert done.stdout == HOSTILE.encode()


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_a_log_is_harmless_in_whatever_parts_it_comes(
    step: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sequence may be cut anywhere; what is between them stays."""
    text = f"one\r\n\ttwo ü\n{HOSTILE}\nthree\r\nfour\n"
    data, out = text.encode() + b"\xff\xfe end\n", _Plain()
    for at in range(0, len(data), step):
        out.write(data[at : at + step])
    shown = capsys.readouterr().out
    assert_harmless(shown)
    assert shown.startswith("one\n\ttwo ü\n")
    assert shown.endswith("three\nfour\n\ufffd\ufffd end\n")
    assert "title" not in shown


def test_plain_text_stays_as_it_is() -> None:
    """Lines, tabs and letters of any script."""
    for text in ("", "a\tb\nc", "日本語 ü é ☃", "\n\n"):
        assert plain(text) == text
