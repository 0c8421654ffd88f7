"""`headgate store`: what it says of a store that is there, and of one that is not."""

import json
import re

import apsw
import pytest

from tests.cli.golden.compare import Ask, Said, check
from tests.support import Box

pytestmark = pytest.mark.usefixtures("steady")


def shown(box: Box, title: str, said: Said) -> str:
    """What a verb said, without this folder and without numbers of bytes."""
    text = (said.out + said.err).replace(str(box.folder), "FOLDER")
    text = re.sub(r"[0-9]+ (bytes|before)", r"N \1", text)
    return f"-- {title} (exit {said.code})\n{text}"


def test_what_it_says(box: Box, ask: Ask) -> None:
    """Each action, as it went well and as it did not."""
    gate = box.gate()
    with gate.slot("a/b"):
        pass
    gate.close()
    copy, there = box.folder / "copy.db", box.folder / "there"
    there.write_text("mine")
    said = [
        shown(box, "check", ask("store", "check")),
        shown(box, "backup", ask("store", "backup", str(copy))),
        shown(box, "backup, again", ask("store", "backup", str(copy))),
        shown(box, "compact", ask("store", "compact")),
        shown(box, "elsewhere", ask("--store", f"{box.folder}/no.db", "store", "check")),
    ]
    db = apsw.Connection(str(copy))
    db.execute("INSERT INTO ticket SELECT 7, 99, 0, 0, 0, 1, '', '', '', 0, '', 0")
    db.close()
    mistaken = ask("--store", str(copy), "store", "check")
    said.append(shown(box, "check, of one with a mistake", mistaken))
    check("store", "".join(said))
    found = json.loads(ask("--store", str(copy), "store", "check", "--json").out)
    assert not found["healthy"]
    assert len(found["problems"]) == 2
