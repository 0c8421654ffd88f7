"""Checks the table `[store]`: how much is kept of what is over."""

from collections.abc import Mapping

from headgate.config.parsed_config import Retention
from headgate.config.problems import Notes, read_table
from headgate.core.table_fields import Field, Fields, whole

_LEAST, _MOST = 100, 1_000_000
_NUMBER = f"a whole number from {_LEAST} to {_MOST}"


def read_store(notes: Notes, document: Mapping[str, object]) -> Retention:
    """What the table says; what is wrong in it goes into the notes."""
    table = notes.table((), document, "store")
    return Retention(**read_table(notes, ("store",), table, FIELDS))


FIELDS: Fields = {
    "events": Field(
        whole(_LEAST, _MOST),
        _NUMBER,
        str(Retention().events),
        "How many events are kept: the newest. Who follows them later finds no older ones.",
    ),
    "requests": Field(
        whole(_LEAST, _MOST),
        _NUMBER,
        str(Retention().requests),
        "How many requests of agents are kept one by one. Their sums stay with their work.",
    ),
    "history": Field(
        whole(_LEAST, _MOST),
        _NUMBER,
        str(Retention().history),
        "Of how much work that has ended, beside jobs, sums and roles are kept. How long jobs are "
        "kept, `keep` in `[jobs]` says.",
    ),
}
