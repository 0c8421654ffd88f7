"""A job whose row is damaged: it does not run, says so, and is in nobody's way."""

import apsw
import pytest

from headgate.core.jobs.job import UNREADABLE, Spec, dump, load
from headgate.core.jobs.stored_spec import _FIELDS
from tests.support import until
from tests.work.conftest import JobBox

SPECS = [
    *("", "{", "[1,2]", "null", '"x"', "{}", '{"cwd":"/"}', '{"argv":["true"]}', "[" * 9_000),
    *(
        f'{{"argv":{argv},"cwd":"/"}}'
        for argv in ("3", "[]", "[1,null]", '"true"', r'["a\u0000"]', r'["\ud800"]', '["\ufffd"]')
    ),
    *(
        f'{{"argv":["true"],"cwd":"/",{more}}}'
        for more in (
            '"env":[1]',
            '"env":{"A=":"b"}',
            '"env":{"A":1}',
            '"retries":"many"',
            '"attempts":-1',
            '"backoff":1e99',
            '"expires":"x"',
            '"models":{}',
            '"terms":{"max_runtime":"x"}',
            '"view":7',
            '"escalate":2',
            '"grace":1.5',
        )
    ),
    '{"argv":["true"],"cwd":{"a":1}}',
]


@pytest.mark.parametrize("text", SPECS)
def test_a_damaged_text_is_no_command(text: str) -> None:
    """Whatever is wrong with it, nothing raises, and nothing of it counts."""
    assert load(text) is UNREADABLE


def test_what_was_submitted_is_read_as_it_was() -> None:
    """Every field; what a newer version has added is left out."""
    whole = Spec(
        argv=("a\udcff", "ü"),
        cwd="/",
        env={"A": "b"},
        view="host=1",
        expires=None,
        models=("a/b",),
        fallback_after=None,
        escalate=True,
        retries=3,
        attempts=4,
        grace=None,
        terms={"park": False, "stale_after": None, "patience": 5},
    )
    assert load(dump(whole)) == whole
    assert load('{"argv":["a"],"cwd":"/","newer":[{}],"terms":{"newer":1}}').argv == ("a",)
    assert set(_FIELDS) == set(Spec._fields)


DAMAGE = {
    "cut off": "spec = substr(spec, 1, 8)",
    "no text": "spec = CAST(x'7bff7d' AS TEXT)",
    "another shape": "spec = '[1,2]'",
    "another type": """spec = '{"argv":["true"],"cwd":"/","terms":{"max_runtime":"x"}}'""",
}
VERBS = [
    *(("why", "2"), ("queue",), ("queue", "--json"), ("status",), ("doctor",), ("events",)),
    *(("hold", "2"), ("release", "2"), ("move", "2", "--first"), ("limits",), ("capacity",)),
]


def damage(box: JobBox, how: str) -> None:
    db = apsw.Connection(str(box.path))
    db.execute(f"UPDATE job SET {how} WHERE id = 2")  # noqa: S608 - our own words
    db.close()


def word(box: JobBox, id: int) -> str:
    """The state of a job, whatever else is in its row."""
    db = apsw.Connection(str(box.path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        db.set_busy_timeout(10_000)
        return str(db.execute("SELECT state FROM job WHERE id = ?", (id,)).fetchall()[0][0])
    finally:
        db.close()


def until_word(box: JobBox, id: int, wanted: str) -> None:
    until(lambda: word(box, id) == wanted)


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_job_fails_and_the_others_run(box: JobBox, how: str) -> None:
    """Before it is its turn every verb goes on; then the job fails, with a reason."""
    for _ in range(3):
        box.submit("--retries", "5", "--", "true")
    damage(box, DAMAGE[how])
    for words in VERBS:
        said = box.ask(*words)
        assert "Traceback" not in said.err, words
        assert said.code in {0, 1}, said.err
    box.worker()
    until_word(box, 2, "failed")
    for id in (1, 3):
        until_word(box, id, "done")
    assert (box.job(2)["code"], box.job(2)["attempts"]) == ("damaged", 1)
    assert "submit it again" in box.headgate("why", "2")


@pytest.mark.parametrize(
    "how", ["state = 'wibble'", "label = CAST(x'ff' AS TEXT)", "key = CAST(x'61ff' AS TEXT)"]
)
def test_other_damage_of_a_row_stops_nobody(box: JobBox, how: str) -> None:
    """A word of no meaning, or a text that is none: the command is whole, so it is run."""
    for _ in range(3):
        box.submit("--", "true")
    damage(box, how)
    assert [box.ask(*words).code for words in VERBS[:4]] == [0] * 4
    box.worker()
    for id in (1, 2, 3):
        until_word(box, id, "done")


@pytest.mark.parametrize("how", [*DAMAGE.values(), "state = 'wibble'"])
def test_a_damaged_job_can_be_cancelled(box: JobBox, how: str) -> None:
    """It leaves the line for good."""
    for _ in range(3):
        box.submit("--", "true")
    damage(box, how)
    box.headgate("cancel", "2")
    assert word(box, 2) == "cancelled"
