"""`headgate init` asks whether connections may be opened, where somebody could want that."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runner.conftest import Terminal
from tests.support import HEADGATE
from tests.work.conftest import JobBox

QUESTION = "see the requests of claude? [y/N]"


@pytest.fixture
def box(tmp_path: Path) -> Iterator[JobBox]:
    """Somebody who has claude installed, and logs in with a key."""
    box = JobBox(tmp_path)
    program = box.folder / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    box.env |= {"PATH": f"{program.parent}:{os.defpath}", "HEADGATE_CONFIG": str(tmp_path / "c")}
    yield box
    box.close()


def settings(box: JobBox) -> list[str]:
    """The lines of the file that set something."""
    lines = (box.folder / "c").read_text().splitlines()
    return [
        line.partition(" #")[0].strip() for line in lines if line[:1] not in {"#", "[", " ", ""}
    ]


@pytest.mark.parametrize("answer, said", [("y\r", ['meter = "wire"']), ("\r", [])])
def test_a_person_is_asked(box: JobBox, answer: str, said: list[str]) -> None:
    """Yes is written down; anything else leaves the defaults."""
    terminal = Terminal(box, [HEADGATE, "init"])
    terminal.shows(QUESTION)
    terminal.type(answer)
    assert terminal.program.wait() == 0
    terminal.close()
    assert settings(box) == said
    assert box.ask("config", "check").code == 0


def test_nobody_is_asked_about_what_is_not_installed(box: JobBox) -> None:
    """Without such an agent, the file is written at once."""
    (box.folder / "bin" / "claude").unlink()
    terminal = Terminal(box, [HEADGATE, "init"])
    terminal.shows("every line of it is a default")
    assert terminal.program.wait() == 0
    terminal.close()
    assert settings(box) == []


def test_who_is_not_there_is_not_asked(box: JobBox) -> None:
    """A script gets the defaults, or what it says."""
    assert box.ask("init").code == 0
    assert settings(box) == []
    assert box.ask("init", "--force", "--meter", "requests").code == 0
    assert settings(box) == ['meter = "requests"']
    assert box.ask("init", "--force", "--meter", "wir").code == 2


def test_a_file_that_is_there_is_no_reason_to_ask(box: JobBox) -> None:
    """It is said before anything else is."""
    (box.folder / "c").write_text("")
    terminal = Terminal(box, [HEADGATE, "init"])
    terminal.shows("is there already; to replace it: headgate init --force")
    assert terminal.program.wait() == 2
    terminal.close()
