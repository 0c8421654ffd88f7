"""Run a verb in this process, and compare what people see with the files beside this one.

After a change that was meant: HEADGATE_UPDATE_GOLDEN=1 make test ARGS=tests/cli, and read the diff.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from headgate.cli import main

_HERE = Path(__file__).parent
_TIMES = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "YYYY-MM-DD hh:mm:ss"),
    (re.compile(r"(?: +~?|(?<=\())\d+(?:\.\d+)?(?:ms|s)\b"), "  T"),
)


class Said(NamedTuple):
    """How a verb ended, and what it wrote."""

    code: int
    out: str
    err: str


Ask = Callable[..., Said]


def asking(capsys: pytest.CaptureFixture[str]) -> Ask:
    """A way to run verbs in this process."""

    def ask(*words: str) -> Said:
        capsys.readouterr()
        try:
            code = main(list(words))
        except SystemExit as end:
            code = int(end.code or 0)
        return Said(code, *capsys.readouterr())

    return ask


def check(name: str, text: str) -> None:
    """The text must be that of the golden file, which is written anew if it is to be updated."""
    path = _HERE / f"{name}.txt"
    if os.environ.get("HEADGATE_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def timeless(text: str) -> str:
    """The text without its times, and without the padding that depends on how long they are."""
    for pattern, instead in _TIMES:
        text = pattern.sub(instead, text)
    return re.sub(r"(?<=\S) {2,}", "  ", text)
