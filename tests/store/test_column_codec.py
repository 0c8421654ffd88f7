"""Columns and types: what version 0.1.0 wrote is understood, and what is written it understands."""

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.admission.lease_events import (
    ACCEPTED,
    PENDING,
    RELIEF,
    Answer,
    EndCause,
    EndRequest,
    refused,
    relief,
)
from headgate.core.jobs.job import Job
from headgate.core.jobs.states import State, Word
from headgate.core.times import Ms
from headgate.store import column_codec
from headgate.store.schema import migrations
from tests.store.rows import CODES, job, lease

KNOWN = [
    ("queued", "", State.QUEUED),
    ("parked", "", State.QUEUED),
    ("queued", "after", State.AFTER),
    ("queued", "exit", State.BACKOFF),
    ("queued", "max_hold", State.BACKOFF),
    ("parked", "rate_limited", State.PARKED),
    ("parked", "relieved", State.PARKED),
    ("held", "held", State.HELD),
    ("running", "starting", State.STARTING),
    ("running", "", State.RUNNING),
    ("running", "adopted", State.RUNNING),
    ("done", "exit", State.DONE),
    ("failed", "dependency", State.FAILED),
    ("cancelled", "cancelled", State.CANCELLED),
    ("expired", "expired", State.EXPIRED),
    ("lost", "lost", State.LOST),
]
words = st.sampled_from([word.value for word in Word])
codes = st.sampled_from(["", "after", "exit", "held", "starting", "adopted", "rate_limited"])


def _columns(row: Job) -> tuple[str, str]:
    named = column_codec.write_job(row)
    return named["state"], named["code"]


def _again(row: Job) -> Job:
    """A job that was written and read."""
    named = column_codec.write_job(row)
    return column_codec.read_job([named[name] for name in JOB_COLUMNS])


def _names(table: str) -> list[str]:
    """The columns of a table, in the order in which SQLite gives them."""
    db = apsw.Connection(":memory:")
    for step in migrations():
        db.execute(step.script)
    found = [str(row[1]) for row in db.execute(f"PRAGMA table_info({table})")]
    db.close()
    return found


JOB_COLUMNS, LEASE_COLUMNS = _names("job"), _names("lease")


@pytest.mark.parametrize("word, code, state", KNOWN)
def test_what_was_written_is_understood(word: str, code: str, state: State) -> None:
    """Each pair of columns that version 0.1.0 writes is one state."""
    assert column_codec.read_state(word, code) is state
    assert {known for _, _, known in KNOWN} == set(State) - {State.ASKED}


@pytest.mark.parametrize("state", State)
def test_what_is_written_was_known_before(state: State) -> None:
    """Each state is written as 0.1.0 would, but that one back in line is `queued`, not `parked`."""
    row = job(1, state)
    word, code = _columns(row)
    assert set(column_codec.write_job(row)) == set(JOB_COLUMNS)
    assert word == state.word
    assert column_codec.read_state(word, code) is state
    assert _again(row) == row
    if state in CODES:
        assert code == CODES[state]


def test_one_that_asks_is_held_to_others() -> None:
    """Version 0.1.0 takes it for held, lets it go when it is released, and has it expire."""
    assert _columns(job(1, State.ASKED)) == ("held", "confirm")


def test_who_was_adopted_is_told_by_the_code() -> None:
    """A job whose runner was killed keeps that, and no other state does."""
    row = job(1, State.RUNNING)._replace(code="adopted", adopted=True)
    assert _columns(row) == ("running", "adopted")
    assert _again(row) == row
    assert _columns(row._replace(state=State.QUEUED)) == ("queued", "")


@given(words, codes)
def test_reading_and_writing_settle(word: str, code: str) -> None:
    """Whatever is read is written as something that is read as the same."""
    row = column_codec.read_job([*_row(word, code)])
    again = _again(row)
    assert (again.state, again.adopted) == (row.state, row.adopted)
    assert _columns(again) == _columns(row)


def _row(word: str, code: str) -> list[object]:
    named = {**column_codec.write_job(job(1)), "state": word, "code": code}
    return [named[name] for name in JOB_COLUMNS]


@pytest.mark.parametrize("code", ["", "after"])
@pytest.mark.parametrize("state", [State.BACKOFF, State.PARKED])
def test_one_put_aside_is_never_written_as_one_in_line(state: State, code: str) -> None:
    """A code that would make another state of it is not written."""
    word, written = _columns(job(1, state)._replace(code=code))
    assert column_codec.read_state(word, written) is state


def test_a_state_that_nobody_knows_is_damage() -> None:
    """A job with a word of no meaning is for a person to decide on, and starts nothing."""
    assert column_codec.read_state("asleep", "") is State.HELD


@pytest.mark.parametrize(
    "number, answer",
    [(0, PENDING), (1, ACCEPTED), (2, refused(Ms(2))), (1_010_000, refused(Ms(1_010_000)))],
)
def test_an_answer_is_a_number_in_its_column(number: int, answer: Answer) -> None:
    """Nothing, yes, or the time of a no; never a time that would mean something else."""
    assert column_codec.read_answer(number) == answer
    assert column_codec.write_answer(answer) == number
    assert column_codec.write_answer(refused(Ms(0))) == 2


@given(st.integers(0, 2**60))
def test_answers_settle(number: int) -> None:
    """Every number is read and written as itself."""
    assert column_codec.write_answer(column_codec.read_answer(number)) == number


@pytest.mark.parametrize(
    "text, cause",
    [
        ("cancelled by hand", EndCause.CANCEL),
        ("to relieve the machine: 12 MiB are free", EndCause.RELIEVE),
        ("held longer than its pool's max_hold of 300ms", EndCause.MAX_HOLD),
        (
            "held longer than its pool's max_hold, with no process of headgate left to end it",
            EndCause.MAX_HOLD,
        ),
    ],
)
def test_who_asked_for_an_end_is_told_by_the_sentence(text: str, cause: EndCause) -> None:
    """Only here: version 0.1.0 kept no cause, and must still park what makes room."""
    assert column_codec.read_end_request(text) == EndRequest(cause, text)
    assert column_codec.write_end_request(EndRequest(cause, text)) == text


def test_nobody_asked_for_an_end() -> None:
    """No request is an empty text; one without a sentence is not."""
    assert column_codec.read_end_request("") is None
    assert column_codec.write_end_request(None) == ""
    for cause in EndCause:
        found = column_codec.read_end_request(column_codec.write_end_request(EndRequest(cause, "")))
        assert found is not None
        assert found.cause is cause
    assert column_codec.write_end_request(relief("why")) == f"{RELIEF}why"


@given(st.sampled_from(EndCause), st.text())
def test_requests_settle(cause: EndCause, text: str) -> None:
    """Whatever is written is read and written as the same, with its cause unless it lies."""
    written = column_codec.write_end_request(EndRequest(cause, text))
    found = column_codec.read_end_request(written)
    assert column_codec.write_end_request(found) == written


@pytest.mark.parametrize("answer", [PENDING, ACCEPTED, refused(Ms(99))])
@pytest.mark.parametrize("request_", [None, relief("x"), EndRequest(EndCause.CANCEL, "by hand")])
def test_a_lease_comes_back_as_it_was(answer: Answer, request_: EndRequest | None) -> None:
    """Every field of it, through its columns."""
    row = lease(7)._replace(answer=answer, cancel=request_, life="m-1", job=1, pid=3)
    written = column_codec.write_lease(row)
    assert len(written) == len(LEASE_COLUMNS)
    named = dict(zip(LEASE_COLUMNS, written, strict=True))
    assert (named["id"], named["pid"], named["life"], named["job"]) == (7, 3, "m-1", 1)
    assert column_codec.read_lease((*written, row.roles)) == row
