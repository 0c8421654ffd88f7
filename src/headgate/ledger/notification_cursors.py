"""What was told to whom: a cursor over the events for each target of notifications.

One notifier at a time delivers for a target. It claims the target with its member's id and a token
of its own; the claim ends when it is let go, or with the member's process. The cursor is the last
event that was dealt with, and moves only once that is so: after a crash the event that was under
way is told again, and none is left out.
"""

from collections.abc import Iterable

from headgate.core.display.snapshots import Event
from headgate.core.named_tuple import NamedTuple
from headgate.core.notification_targets import FAILED, MISSED
from headgate.core.quantities import FOREVER
from headgate.core.stored_text.formats import whole
from headgate.core.times import Seconds
from headgate.ledger.queries import status_and_queue
from headgate.ledger.transaction import unreadable
from headgate.ledger.transaction.ledger import Ledger


class Claim(NamedTuple):
    """Who wants to deliver: a living process, and which of its notifiers."""

    member: str
    token: str


class Batch(NamedTuple):
    """Events to deal with, in order. The first may be one that says how many were missed."""

    store: str
    events: tuple[Event, ...]


class Standing(NamedTuple):
    """How far the notifications for one target have come."""

    behind: int | None
    """Events not looked at yet; None if it was never delivered to."""
    claimed: bool
    """Whether somebody living delivers."""


def pending(ledger: Ledger, names: Iterable[str], me: Claim) -> list[str]:
    """The targets for which there are events that nobody else is about to deal with."""
    newest = _newest(ledger)
    return [
        name for name in names if _cursor(ledger, name) != newest and not _others(ledger, name, me)
    ]


def take(ledger: Ledger, name: str, me: Claim, most: int, wall: Seconds) -> Batch | None:
    """Claim a target and read what is next for it; None if somebody else delivers.

    A target that is seen for the first time is told nothing of the past.
    """
    if _others(ledger, name, me):
        return None
    ledger.tx.set_note(_claimed(name), f"{me.member} {me.token}")
    newest, cursor = _newest(ledger), _cursor(ledger, name)
    if cursor is None or cursor > newest:
        _complain_of_cursor(ledger, name)
        ledger.tx.set_note(_noted(name), str(newest))
        return Batch(ledger.tx.uid(), ())
    rows = ledger.tx.events(cursor, most, 0)
    events = [status_and_queue.event(row, ledger, wall) for row in rows]
    oldest = ledger.tx.events(0, 1, 0)
    if oldest and oldest[0].id > cursor + 1:
        # Ids between those that are kept may be missing too, but were never anything.
        lost = oldest[0].id - cursor - 1
        text = f"{lost} events were forgotten before they could be told; only the newest are kept"
        events.insert(
            0,
            Event(
                seq=oldest[0].id - 1,
                at=wall,
                event=MISSED,
                work=None,
                key="",
                task="",
                pool="",
                text=text,
            ),
        )
    return Batch(ledger.tx.uid(), tuple(events))


def advance(ledger: Ledger, name: str, me: Claim, to: int) -> bool:
    """Note that all events up to this one are dealt with; False if the target is not ours."""
    if ledger.tx.note(_claimed(name)) != f"{me.member} {me.token}":
        return False
    ledger.tx.set_note(_noted(name), str(max(to, _cursor(ledger, name) or 0)))
    return True


def give_up(ledger: Ledger, name: str, me: Claim, event: Event, why: str) -> bool:
    """The same, of an event that could not be delivered: that is an event too.

    It is told to the other targets, unless this one was about such a failure itself: two that both
    fail would never come to an end with each other's.
    """
    if not advance(ledger, name, me, event.seq):
        return False
    if event.event != FAILED:
        work = "" if event.work is None else f" {event.work}"
        text = f"{name}: gave up on {event.event}{work}: {why}"
        ledger.tell(FAILED, text)  # not in the work's own history, whose last word counts
    return True


def complain(ledger: Ledger, name: str, why: str) -> None:
    """Let it be known that nothing can be delivered to a target from here."""
    ledger.tell(FAILED, f"{name}: {why}")


def drop_claims(ledger: Ledger, names: Iterable[str], me: Claim) -> None:
    """Leave targets to others."""
    for name in names:
        if ledger.tx.note(_claimed(name)) == f"{me.member} {me.token}":
            ledger.tx.set_note(_claimed(name), "")


def standing(ledger: Ledger, name: str) -> Standing:
    """How far a target has come."""
    cursor = _cursor(ledger, name)
    member = ledger.tx.note(_claimed(name)).partition(" ")[0]
    return Standing(
        None if cursor is None else max(0, _newest(ledger) - cursor),
        bool(member) and ledger.listening(member),
    )


def _others(ledger: Ledger, name: str, me: Claim) -> bool:
    """Whether somebody else who lives has claimed a target."""
    member, _, token = ledger.tx.note(_claimed(name)).partition(" ")
    return bool(member) and token != me.token and ledger.listening(member)


def _newest(ledger: Ledger) -> int:
    rows = ledger.tx.events(-1, 1, 0)
    return rows[-1].id if rows else 0


def _cursor(ledger: Ledger, name: str) -> int | None:
    return whole(ledger.tx.note(_noted(name)), FOREVER)


def _complain_of_cursor(ledger: Ledger, name: str) -> None:
    """Tell of a cursor that cannot be one, unless there was none yet."""
    text = ledger.tx.note(_noted(name))
    if text:
        what, instead = f"how far {name} was told", "it is told of what happens from now on"
        unreadable.remember(ledger, _noted(name), text, what, instead)
        unreadable.tell(ledger)


def _noted(name: str) -> str:
    return f"notified:{name}"


def _claimed(name: str) -> str:
    return f"notifier:{name}"
