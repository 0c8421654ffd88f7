"""Completion: what can stand where, and that real shells complete it."""

import os
import pty
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headgate.cli import VERBS
from headgate.cli.shared.completion_words import unquoted
from headgate.cli.shared.synonyms import SYNONYMS, meant
from tests.cli.golden.compare import Ask
from tests.support import HEADGATE, LONG, Box


def words(ask: Ask, *line: str) -> list[str]:
    """What is proposed for the last word of a command line."""
    said = ask("completion", "words", "headgate", *line)
    assert (said.code, said.err) == (0, "")
    return [shown.partition("\t")[0] for shown in said.out.splitlines()]


def test_verbs_actions_and_options_are_proposed(box: Box, ask: Ask) -> None:
    """At each place what can stand there; what the shell knows better is left to it."""
    assert words(ask, "sta") == ["status"]
    assert words(ask, "--store", "x", "help", "wai") == ["wait"]
    assert words(ask, "limits", "un") == ["unset"]
    assert words(ask, "limits", "set", "--n") == ["--new"]
    assert words(ask, "config", "check", "") == [":file"]
    assert words(ask, "submit", "--cwd", "") == [":dir"]
    assert words(ask, "run", "-m", "a/b", "--", "cl") == [":command 4"]
    assert words(ask, "run", "claude", "-") == [":command 1"]
    assert words(ask, "completion", "") == ["bash", "zsh", "fish", "words"]
    assert words(ask, "nonsense", "") == []
    assert "--config" in words(ask, "--")


def test_jobs_pools_and_models_are_proposed(box: Box, ask: Ask) -> None:
    """From the store: names before numbers, and only jobs to which the verb can do something."""
    with box.gate() as gate:
        gate.slot("openai/gpt-5").acquire().release()
    ask("submit", "--name", "night shift", "--hold", "--", "true")
    ask("submit", "--name", "over", "--hold", "--", "true")
    ask("cancel", "over")
    assert words(ask, "release", "") == ["night shift", "2"]
    assert words(ask, "release", "night\\ s") == ["night shift"]
    assert words(ask, "hold", "") == []
    assert words(ask, "retry", "") == ["over", "3"]
    assert words(ask, "why", "o") == ["over"]
    assert words(ask, "pause", "") == ["*/claude-opus-*", "host"]
    assert words(ask, "pause", "'*") == ["*/claude-opus-*"]
    assert words(ask, "run", "-m", "") == ["openai/gpt-5"]


def test_a_broken_store_completes_nothing(
    box: Box, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody wants an error in the middle of what they type."""
    monkeypatch.setenv("HEADGATE_STORE", "nonsense://x")
    assert words(ask, "why", "") == []


@pytest.mark.parametrize(
    "typed, taken", [("'a b", "a b"), ("a\\ b", "a b"), ('"x', "x"), ("x", "x"), ("", "")]
)
def test_words_are_read_as_the_shell_does(typed: str, taken: str) -> None:
    """Quotes and backslashes of a word that is not finished yet."""
    assert unquoted(typed) == taken


@contextmanager
def terminal(box: Box, *argv: str, **more: str) -> Iterator[int]:
    """A shell on a terminal of its own."""
    env = {**box.env, "PATH": f"{Path(HEADGATE).parent}:{os.environ['PATH']}", "TERM": "dumb"}
    env |= {"PS1": "$ ", "HOME": str(box.folder), **more}
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True
    )
    os.close(theirs)
    try:
        yield ours
    finally:
        shell.kill()
        shell.wait(LONG)
        os.close(ours)


def read(fd: int, wanted: str) -> str:
    """Read from a terminal until something is on it."""
    seen, ends = "", time.monotonic() + LONG
    while wanted not in seen:
        ready, _, _ = select.select([fd], [], [], max(0, ends - time.monotonic()))
        assert ready, f"{wanted!r} did not come: {seen!r}"
        seen += os.read(fd, 4096).decode(errors="replace")
    return seen


SHELLS = {"bash": ("bash", "--norc", "-i"), "zsh": ("zsh", "-f", "-i")}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_real_shell_completes(box: Box, ask: Ask, shell: str) -> None:
    """Tab completes a verb, the name of a job and the name of a pool, quoted as it has to be."""
    if shutil.which(shell) is None:
        pytest.skip(f"COMPLETION OF {shell} NOT TRIED: there is no {shell} here")
    ask("submit", "--name", "night shift", "--hold", "--", "true")
    pool = "'*/cl" if shell == "zsh" else "\\*/cl"
    with terminal(box, *SHELLS[shell]) as fd:
        typed(fd, f'eval "$(headgate completion {shell})"')
        assert "work with no model: open" in typed(fd, "headgate capac\t")
        assert '"name": "night shift"' in typed(fd, "headgate why nig\t --json")
        assert "\n4\r" in typed(fd, f"headgate limits get {pool}\t")


def typed(fd: int, line: str) -> str:
    """Type a line, and read what comes of it; the mark is not what the terminal echoes."""
    os.write(fd, f"{line}; echo mark=$((40 + 2))\n".encode())
    return read(fd, "mark=42")


def test_a_real_fish_completes(box: Box, ask: Ask) -> None:
    """Fish is asked for what it would propose, with its descriptions."""
    if shutil.which("fish") is None:
        pytest.skip("COMPLETION OF fish NOT TRIED: there is no fish here")
    ask("submit", "--name", "night shift", "--hold", "--", "true")
    script = (
        "headgate completion fish | source; complete -C 'headgate limits un'; "
        "complete -C 'headgate why nig'; complete -C 'headgate run -- fis'"
    )
    env = {**box.env, "PATH": f"{Path(HEADGATE).parent}:{os.environ['PATH']}"}
    env["HOME"] = str(box.folder)
    done = subprocess.run(
        ["fish", "--no-config", "-c", script], env=env, capture_output=True, text=True, check=True
    )
    shown = done.stdout.splitlines()
    assert shown[0] == "unset\tlift a pool's limit"
    assert shown[1].startswith("night shift\t1 held")
    assert any(line.split("\t")[0] == "fish" for line in shown[2:])


@pytest.mark.parametrize("word", SYNONYMS)
def test_no_synonym_is_a_verb_and_each_leads_to_one(ask: Ask, word: str) -> None:
    """What other tools call it is proposed under the name that it has here."""
    said = ask(word)
    assert said.code == 2
    assert f"(did you mean {SYNONYMS[word]}?)" in said.err
    verb = SYNONYMS[word].split()[0]
    assert verb == "--version" or ask(verb, "--help").code == 0


@pytest.mark.parametrize("word", ["unhold", "unpauze", "unresume", "unrelease", "norun"])
def test_the_opposite_is_never_proposed(word: str) -> None:
    """Who wants to undo something is not told to do it."""
    assert meant(word, VERBS) not in {word[2:], "pause", "hold", "run"}


def test_an_option_that_there_is_not(ask: Ask) -> None:
    """The nearest one is proposed."""
    assert "(did you mean --wait?)" in ask("run", "--wiat", "3m", "--", "true").err
    assert "did you mean" not in ask("run", "--nonsense", "--", "true").err
