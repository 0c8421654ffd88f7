"""Texts that are kept and cannot be read: what counts in their place, and that people hear of it.

Reading one never fails and never widens the gate: whoever reads names a careful value. The next
writing transaction sets the text aside (the note `unreadable:NAME`) and tells of it, once for each
text. So nothing that a newer version wrote is lost, whatever replaces it.
"""

from typing import TypeVar

from headgate.core.admission.pools import UnreadableNotice
from headgate.core.admission.setting_precedence import ALONE, read_view
from headgate.core.stored_text.formats import StoredText, Unreadable
from headgate.ledger.transaction.interface import TransactionContext, UnreadableNote

T = TypeVar("T")
KIND = "unreadable"


def found(
    ledger: TransactionContext,
    name: str,
    shape: StoredText[T],
    said: tuple[str, str, str],
    careful: T,
    *,
    stays: bool = False,
) -> T:
    """Remember that a note cannot be read, and that something careful counts in its place.

    `said` is the pool, what the note is about, and what counts while it cannot be read.
    """
    pool, what, instead = said
    text = ledger.tx.note(name)
    unread = UnreadableNotice(
        what=what, text=text, why=Unreadable(text).why, instead=instead, stays=stays
    )
    ledger.unreadable[name] = UnreadableNote(unread, pool, "" if stays else shape.write(careful))
    return careful


def remember(ledger: TransactionContext, name: str, text: str, what: str, instead: str) -> None:
    """Have it told that a text which is no note cannot be read."""
    unread = UnreadableNotice(what, text, Unreadable(text).why, instead, stays=False)
    ledger.unreadable[name] = UnreadableNote(unread, "")


def keep(ledger: TransactionContext, name: str, text: str) -> None:
    """Write a note anew; a text that could not be read is set aside first."""
    if name in ledger.unreadable:
        tell(ledger)
    ledger.tx.set_note(name, text)


def check_view(ledger: TransactionContext, view: str) -> None:
    """Remember a view that cannot be read."""
    if read_view(view) is ALONE:
        instead = "it starts when nothing else runs here"
        remember(ledger, "view", view, "the HEADGATE_LIMITS of somebody who waits", instead)


def tell(ledger: TransactionContext) -> None:
    """Set aside what was found unreadable, and tell of it once for each text. Writes."""
    for pool in ledger.pool_set.unread:
        for unread in pool.unread:
            _tell(ledger, f"{unread.what}:{pool.name}", UnreadableNote(unread, pool.name))
    notes, ledger.unreadable = ledger.unreadable, {}
    for name, one in notes.items():
        _tell(ledger, name, one)
        if one.replacement:
            ledger.tx.set_note(name, one.replacement)


def _tell(ledger: TransactionContext, name: str, one: UnreadableNote) -> None:
    aside = f"{KIND}:{name}"
    if ledger.tx.note(aside) != one.unread.text:
        ledger.tx.set_note(aside, one.unread.text)
        ledger.tell(KIND, one.unread.words(one.pool), pool=one.pool)


def words(ledger: TransactionContext, pool: str) -> tuple[str, ...]:
    """What people should know of a pool: all that was found unreadable about it."""
    seen = ledger.pool_set.pools.get(pool)
    known = seen.unread if seen is not None else ()
    notes = (one.unread for one in ledger.unreadable.values() if one.pool == pool)
    return tuple(unread.words(pool) for unread in (*known, *notes))
