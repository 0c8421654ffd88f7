"""Texts that are kept and cannot be read: two worlds with one history, in one a text is changed.

Whatever happens to a text, nobody is let in who would not have been with the text as it was,
nothing raises, and what a newer version wrote is still there afterwards.
"""

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from headgate.core.admission.lease_events import PENDING
from headgate.core.admission.pools import Declared, PoolRow, UsageSource
from headgate.core.admission.setting_precedence import sound
from headgate.core.answers.signals import ACCEPTED, CONCURRENCY
from headgate.core.host.pressure import Host
from headgate.core.quantities import FOREVER
from headgate.core.stored_text import stored_values
from headgate.core.stored_text.formats import StoredText, Unreadable
from headgate.core.times import Ms, Seconds
from headgate.ledger import limits_by_hand, notification_cursors, release
from headgate.ledger.learning import upstream_state
from headgate.ledger.queries import status_and_queue
from headgate.ledger.transaction import host_pressure
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.rows import LeaseRow
from headgate.ledger.transaction.unreadable import KIND
from tests.ledger.test_learning import Lab

SECOND, MINUTE = 1_000, 60_000


class Gauge:
    """A machine that has room for everything."""

    space = "here"

    def look(self) -> Host:
        return Host(2**34, 2**33, 4.0, 0.1)


class Crowd(Gauge):
    """Another container of it, in which there is none."""

    space = "there"

    def look(self) -> Host:
        return Host(2**34, 1, 4.0, 9.0)


def _learned(lab: Lab) -> None:
    """A limit of 5, with bars above it, of a configured 8."""
    lab.declare(a=Declared(limit=8, cooldown=Ms(0)))
    for _ in range(2):
        ids = [lab.ask() for _ in range(8)]
        lab.tell(CONCURRENCY, lab.held()[-1])
        for id in ids:
            lab.run(partial(release.withdraw, id=id))
        lab.wait(MINUTE)
    assert (lab.limit(), lab.held(), lab.waiting()) == (5, [], [])


def _paced(lab: Lab) -> None:
    _learned(lab)
    for _ in range(4):
        id = lab.ask()
        lab.tell(ACCEPTED, id)
        lab.wait(2 * SECOND)
        lab.release(id)


def _metered(lab: Lab) -> None:
    lab.declare(a=Declared(limit=99, rpm=6, tpm=600, spacing=Ms(100), adapt="off", cooldown=Ms(0)))
    for _ in range(4):
        lab.ask(tokens=50)
        lab.wait(SECOND)


def _read_usage(lab: Lab) -> None:
    source = UsageSource("python", call="x:y")
    lab.declare(a=Declared(limit=9, cooldown=Ms(0), usage=source, adapt="off"))
    for used in (2, 4, 3):
        lab.wait(SECOND)
        lab.read_usage(used, 5)


def _told_usage(lab: Lab) -> None:
    """Read by another program: this one only sees what that wrote."""
    _read_usage(lab)
    lab.run(lambda ledger: upstream_state.claim(ledger, "a", "q", Ms(1)))
    lab.read_usage(5, 5)
    lab.declare(a=Declared(limit=9, cooldown=Ms(0), adapt="off"))


def _foreign(lab: Lab) -> None:
    lab.declare(a=Declared(limit=4, cooldown=Ms(0), adapt="off", observe=("agent",)))
    lab.run(lambda ledger: upstream_state.record_foreign(ledger, "s", {"a": 3}))


def _strained(lab: Lab) -> None:
    lab.resolver.gauge = Crowd()
    lab.declare(host=Declared(limit=9, memory_floor=2**30, load_ceiling=4.0), a=Declared(limit=9))
    lab.run(host_pressure.tell)
    lab.resolver.gauge = Gauge()


def _warned(lab: Lab) -> None:
    lab.declare(a=Declared(limit=9, warned_limit=2, cooldown=Ms(0), adapt="off"))
    lab.run(
        lambda ledger: upstream_state.warn(
            ledger, "a/b", "nearly gone", resets_in=Ms(60 * MINUTE), account=True
        )
    )


class Scene(NamedTuple):
    """A history that leaves a text, and the name of the note that it is in."""

    play: Callable[[Lab], None]
    shape: StoredText[Any]
    note: str = ""
    """Empty for what a pool has learned."""


SCENES = {
    "learned": Scene(_learned, stored_values.LEARNED),
    "pace": Scene(_paced, stored_values.PACE, "pace:a"),
    "meter": Scene(_metered, stored_values.METER, "meter:a"),
    "usage": Scene(_read_usage, stored_values.SIGHT, "usage:a"),
    "usage of another": Scene(_told_usage, stored_values.SIGHT, "usage:a"),
    "gated": Scene(_told_usage, stored_values.GATED, "gated"),
    "foreign": Scene(_foreign, stored_values.SIGHTINGS, "foreign:a"),
    "strain": Scene(_strained, stored_values.STRAINED, "strain:m"),
    "warned": Scene(_warned, stored_values.WARNED, "warned:a"),
}


def text_of(lab: Lab, scene: Scene) -> str:
    if scene.note:
        return lab.read(lambda ledger: ledger.tx.note(scene.note))
    return lab.read(lambda ledger: ledger.pool_row("a").learned)


def put(lab: Lab, scene: Scene, text: str) -> None:
    def do(ledger: Ledger) -> None:
        if scene.note:
            ledger.tx.set_note(scene.note, text)
        else:
            ledger.tx.set_pool_row(ledger.pool_row("a")._replace(learned=text))

    with lab.store.transaction(write=True) as tx:
        do(Ledger(tx, lab.resolver, Ms(lab.now), lab.liveness, "m"))


def newer(text: str) -> str:
    """The same with a field more, as a version to come may write it."""
    if text.startswith("["):
        return json.dumps([*json.loads(text), {"more": 1}], separators=(",", ":"))
    return f"{text}|1"


def readable(scene: Scene, text: str, now: int) -> bool:
    """Whether nobody can tell that it is not what was written.

    Texts have no checksum. One that was cut off at the end of an entry is a shorter list, and one
    with another digit is another value.
    """
    found = scene.shape.read(text)
    if found is None or isinstance(found, Unreadable):
        return found is None
    if scene.shape is stored_values.WARNED:
        return not stored_values.cut_off(found.until, now)
    timed = scene.shape in (stored_values.SIGHTINGS, stored_values.STRAINED)
    return not (timed and stored_values.cut_off(found[-1].at, now))


ODD = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@st.composite
def spoiled(draw: st.DrawFn, text: str) -> str:
    """A text to which one thing has happened; never an empty one, which is none."""
    at = draw(st.integers(1, max(1, len(text) - 1)))
    start = draw(st.integers(0, len(text) - 1))
    way = draw(st.sampled_from(["cut", "head", "put", "swap", "add", "newer", "other"]))
    if way == "cut":
        return text[:at]
    if way == "head":
        return text[at:]
    if way == "put":
        return text[:start] + draw(ODD) + text[start:]
    if way == "swap":
        return text[:start] + draw(ODD) + text[at:]
    if way == "add":
        return text + draw(ODD)
    if way == "newer":
        return newer(text)
    return draw(
        st.sampled_from(["{", "NaN", "null", "[NaN]", "[1e999,1]", "[" * 9_999, "x", "[[]]"])
    )


STEPS = st.lists(
    st.sampled_from(["ask", "ask", "ask", "accept", "look", "second", "minute", "release"]),
    min_size=1,
    max_size=12,
)


class Run:
    """A world in which steps are taken, and who has been let in since it began."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.before = set(lab.held())
        self.entered: set[int] = set()

    def step(self, what: str) -> int:
        lab = self.lab
        mine = sorted(self.entered & set(lab.held()))
        if what == "ask":
            lab.ask(tokens=10)
        elif what == "second":
            lab.wait(SECOND)
        elif what == "minute":
            lab.wait(MINUTE + SECOND)
        elif what == "look":
            lab.read(lambda ledger: status_and_queue.status(ledger, Seconds(0.0)))
        elif what == "release" and mine:
            lab.release(mine[0])
        elif what == "accept" and (unanswered := list(filter(self._pending, mine))):
            lab.tell(ACCEPTED, unanswered[0])  # upstream answers in the order of the questions
        self.entered |= set(lab.held()) - self.before
        return len(self.entered)

    def _pending(self, id: int) -> bool:
        return self.lab.lease(id).answer == PENDING


def worlds(folder: str, scene: Scene) -> tuple[Lab, Lab]:
    pair = []
    for name in ("intact", "spoiled"):
        (Path(folder) / name).mkdir()
        pair.append(Lab("sqlite", Path(folder) / name))
        scene.play(pair[-1])
    return pair[0], pair[1]


@pytest.mark.parametrize("kind", sorted(SCENES))
@given(data=st.data(), steps=STEPS)
@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
def test_no_change_of_a_text_lets_more_in(kind: str, data: st.DataObject, steps: list[str]) -> None:
    """Whatever happens to a text: no more are let in than before, nothing raises or is lost."""
    scene = SCENES[kind]
    with tempfile.TemporaryDirectory() as folder:
        one, other = worlds(folder, scene)
        text = text_of(one, scene)
        assert text == text_of(other, scene)
        changed = data.draw(spoiled(text))
        assume(not readable(scene, changed, one.now))
        put(other, scene, changed)
        intact, odd = Run(one), Run(other)
        for step in steps:
            most, found = intact.step(step), odd.step(step)
            assert found <= most, (step, changed)
        if "unreadable" in other.kinds():
            assert changed in kept_texts(other, scene)
        one.store.close()
        other.store.close()


def kept_texts(lab: Lab, scene: Scene) -> set[str]:
    """Where a text is that could not be read: in its place, or set aside."""
    name = scene.note or "what was learned:a"
    aside = lab.read(lambda ledger: ledger.tx.note(f"{KIND}:{name}"))
    return {text_of(lab, scene), aside}


@pytest.fixture
def lab(lab: Lab) -> Lab:
    lab.declare(a=Declared(limit=8, cooldown=Ms(0)))
    return lab


LEARNED_2 = '[2,8,2,2,1,1,0,[],0,1,0,0,true,8,true,"a field that is not known"]'


@pytest.mark.parametrize(
    "text, limit",
    [
        (LEARNED_2, 2),
        (LEARNED_2[:20], 2),
        ("[2,", 2),
        ("[2", 1),
        ("[99,8,", 8),
        ('{"limit": 2}', 1),
        (LEARNED_2.replace("[2", "[٢", 1), 1),
        (LEARNED_2.replace("[2", "[02", 1), 1),
        ("[0,8]", 1),
        ("[1e999,8]", 1),
    ],
)
def test_what_was_learned_and_cannot_be_read_leaves_the_most_careful_limit(
    lab: Lab, text: str, limit: int
) -> None:
    """The limit that can be saved from it, never above what is configured; else one seat."""
    put(lab, SCENES["learned"], text)
    ids = []
    for _ in range(9):
        ids.append(lab.ask())
        if ids[-1] in lab.held():
            lab.tell(ACCEPTED, ids[-1])
    assert len(lab.held()) == lab.limit() == limit
    assert lab.kinds().count(KIND) == 1
    assert text_of(lab, SCENES["learned"]) == text


def test_nothing_is_learned_over_what_a_newer_version_wrote(lab: Lab) -> None:
    """Refusals, acceptances, pauses and cooldowns leave the text; pausing works all the same."""
    text = LEARNED_2
    put(lab, SCENES["learned"], text)
    first = lab.ask()
    lab.tell(CONCURRENCY, first)
    assert lab.paused() == 30 * SECOND
    lab.run(lambda ledger: limits_by_hand.resume(ledger, "a"))
    lab.tell(ACCEPTED, lab.ask())
    lab.run(lambda ledger: limits_by_hand.set_cooldown(ledger, "a", Ms(5)))
    lab.run(lambda ledger: limits_by_hand.pause(ledger, "a", Ms(5)))
    lab.release(first)
    lab.read_usage(1, 30)
    assert text_of(lab, SCENES["learned"]) == text
    assert lab.limit() == 2
    assert not {"limit_raised", "limit_reduced"} & set(lab.kinds())


def test_a_refusal_under_a_limit_that_was_saved_pauses_and_lets_no_more_in(lab: Lab) -> None:
    """What an intact text would have lost is not known; but nothing starts for a while."""
    put(lab, SCENES["learned"], LEARNED_2)
    first = lab.ask()
    lab.tell(ACCEPTED, first)
    for _ in range(3):
        refused = lab.ask()
        assert lab.held() == [first, refused]
        lab.tell(CONCURRENCY, refused)
        lab.release(refused)
        late = lab.ask()
        assert lab.held() == [first], "it is paused"
        lab.run(partial(release.withdraw, id=late))
        lab.wait(30 * SECOND)
    for _ in range(9):
        lab.ask()
        lab.wait(MINUTE)
        assert len(lab.held()) <= 2


@pytest.mark.parametrize(
    "decide",
    [
        lambda ledger: limits_by_hand.set_limit(ledger, "a", 6),
        lambda ledger: limits_by_hand.restore(ledger, "a"),
        lambda ledger: limits_by_hand.unset_limit(ledger, "a"),
    ],
)
def test_a_person_replaces_what_cannot_be_read(lab: Lab, decide: Callable[[Ledger], None]) -> None:
    """Set, restore and unset count at once; the text that they replace is set aside."""
    put(lab, SCENES["learned"], LEARNED_2)
    put(lab, SCENES["pace"], "garbage")
    lab.run(decide)
    assert lab.limit() in {6, 8, None}
    assert not lab.pool("a").unreadable
    assert text_of(lab, SCENES["pace"]) == ""
    assert LEARNED_2 in kept_texts(lab, SCENES["learned"])


def test_status_says_what_cannot_be_read_and_what_to_do(lab: Lab) -> None:
    """The notice of the pool names the limit that was saved, and the way out."""
    put(lab, SCENES["learned"], LEARNED_2)
    notice = lab.pool("a").notice or ""
    assert "another version wrote it" in notice
    assert "2 seats" in notice
    assert "headgate limits restore 'a'" in notice
    assert lab.kinds().count(KIND) == 0, "a look writes nothing"


def test_work_too_heavy_for_the_saved_limit_stands_aside(lab: Lab) -> None:
    """It is neither turned away nor in anybody's way."""
    put(lab, SCENES["learned"], "[1,")
    heavy = lab.ask(weight=3)
    light = lab.ask()
    assert lab.held() == [light]
    assert lab.codes() == {heavy: "outgrown"}


@pytest.mark.parametrize("limit", ["auto", 2.5, 0, 2**62])
def test_a_limit_set_by_hand_that_is_none_is_one_seat(lab: Lab, limit: float | str) -> None:
    """A word that is not known here is not taken for no limit at all."""

    def spoil(ledger: Ledger) -> None:
        ledger.tx.set_pool_row(ledger.pool_row("a")._replace(limit=limit))  # type: ignore[arg-type]
        ledger.reload_pools()

    lab.run(spoil)
    first = lab.ask()
    lab.tell(ACCEPTED, first)
    lab.ask()
    assert lab.held() == [first]
    assert KIND in lab.kinds()
    assert lab.read(lambda ledger: ledger.pool_row("a").limit) == limit


def test_a_cooldown_and_a_pause_that_are_none_are_long() -> None:
    """Seats rest for two minutes, and a pause lasts until somebody resumes."""
    row, unread = sound(PoolRow("a", cooldown=2**62, paused_until="soon"))  # type: ignore[arg-type]
    assert (row.cooldown, row.paused_until, len(unread)) == (120_000, FOREVER, 2)


@pytest.mark.parametrize(
    "sent", ["a=0/1", "a=x/1/0", "a=0/99999999999999999999/0", "?", "a=0/1/9#"]
)
def test_a_lease_that_forgot_how_it_was_sent_teaches_caution_only(lab: Lab, sent: str) -> None:
    """Its acceptance raises nothing, its refusal cuts, and its release works."""
    ids = [lab.ask() for _ in range(3)]
    for id in ids:
        row = lab.lease(id)

        def forget(ledger: Ledger, row: LeaseRow = row) -> None:
            ledger.tx.drop_lease(row.id)
            ledger.tx.add_lease(row._replace(sent=sent))

        lab.run(forget)
    lab.tell(ACCEPTED, ids[0])
    assert lab.learned().best == 0
    lab.tell(CONCURRENCY, ids[1])
    assert (lab.limit() or 0) < 8
    for id in ids:
        lab.release(id)
    assert lab.kinds().count(KIND) == 1


@pytest.mark.parametrize("view", ["a=", "=3", "a", "a=0", "a=1,b", "a b=1"])
def test_a_view_that_cannot_be_read_waits_for_an_empty_machine(lab: Lab, view: str) -> None:
    """Who waits under it starts when nothing else runs, and stops nobody."""
    other = lab.ask("b/y")
    waits = lab.ask(view=view)
    assert lab.held() == [other]
    assert KIND in lab.kinds()
    lab.release(other)
    assert lab.held() == [waits]


@pytest.mark.parametrize("text", ["host@m=x", "?", "[[1,2]]", "[" * 5_000])
def test_a_ticket_that_forgot_where_it_was_overtaken_keeps_its_place(lab: Lab, text: str) -> None:
    """Seats are kept for it as for one that was overtaken everywhere."""
    lab.pools({"a": 2}, b=Declared(limit=1))
    first, second = lab.ask(), lab.ask()
    heavy = lab.ask(weight=2)
    lab.run(lambda ledger: ledger.tx.set_overtaken(heavy, text))
    lab.release(first)
    late = lab.ask(urgency=0)
    assert lab.held() == [second]
    lab.release(second)
    assert lab.held() == [heavy]
    assert lab.waiting() == [late]


@pytest.mark.parametrize("cursor", ["x", "-1", "9" * 5_000, "1.5", "٣"])
def test_a_cursor_that_cannot_be_read_goes_on_from_now(lab: Lab, cursor: str) -> None:
    """A target is told of what happens from now on, and that it may have missed something."""
    me = notification_cursors.Claim("p", "t")
    lab.run(lambda ledger: ledger.tx.set_note("notified:x", cursor))
    batch = lab.run(lambda ledger: notification_cursors.take(ledger, "x", me, 9, Seconds(0.0)))
    assert batch is not None
    assert batch.events == ()
    later = lab.run(lambda ledger: notification_cursors.take(ledger, "x", me, 9, Seconds(0.0)))
    assert later is not None
    assert [event.event for event in later.events] == [KIND]


@pytest.mark.parametrize(
    "text", ["", "5", "x y", "05 5", "[1]", '["a",2]', "[99999999999999,9999]#00000000"]
)
def test_a_reset_that_cannot_be_read_makes_no_refusal_stale(lab: Lab, text: str) -> None:
    """A refusal counts, as if nobody had set the limit."""
    lab.run(lambda ledger: limits_by_hand.set_limit(ledger, "a", 4))
    lab.run(lambda ledger: ledger.tx.set_note("reset:a", text))
    lab.tell(CONCURRENCY, lab.ask())
    assert "limit_reduced" in lab.kinds() or lab.learned().refusals
