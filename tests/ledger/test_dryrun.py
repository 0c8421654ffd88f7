"""What a dry run says of random lines, with jobs in them, is what then happens."""

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headgate.core.admission.pools import FAIR, Declared
from headgate.core.display.snapshots import explain
from headgate.core.key_patterns import matches
from headgate.core.times import Ms
from headgate.errors import TooHeavyError
from headgate.ledger import dead_members, limits_by_hand
from headgate.ledger.admission import admit
from headgate.ledger.admission.admit import Request
from headgate.ledger.jobs import lifecycle
from headgate.ledger.queries import status_and_queue
from headgate.ledger.queries.forecast import Forecast, forecast
from headgate.ledger.queries.positions_and_etas import Survey
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.outside_use import place
from headgate.ledger.transaction.rows import WITHOUT_HOST, Member
from headgate.store.memory import MemoryStore
from headgate.store.sqlite import SqliteStore
from tests.ledger.test_machine import patient, usual
from tests.ledger.test_plan import rows
from tests.ledger.yard import Yard

KEYS = ("a/x", "a/y", "b/x", "b/y", "r/z", "s/z", "")
POOLS = ("host", "a", "b", "*/x", "a/y", "r", "s")
VIEWS = ("", "", "", "", "a=2", "a=5,b/y=1", "host=6,r/z=2", "*/x=unlimited")
MEMBERS = ("p", "q", "r", "far")
PRIORITIES = (0, 0, 0, 10, -10, 3)
T = TypeVar("T")
MORE = int(os.environ.get("HEADGATE_EXAMPLES", "1"))
"""How many times as many examples to try, by hand."""
picks = st.integers(0, 60)


class Step(NamedTuple):
    """One thing that happens; `pick` chooses among what there is at that moment."""

    kind: str
    key: str = ""
    priority: int = 0
    weight: int = 1
    ago: int = 0
    view: str = ""
    lender: int = 0
    tokens: int = 0
    pick: int = 0
    task: str = ""
    roles: str = ""


def step(*kinds: str, **fields: Any) -> st.SearchStrategy[Step]:  # noqa: ANN401
    return st.builds(Step, st.sampled_from(kinds), **fields)


work: dict[str, Any] = {
    "key": st.sampled_from(KEYS),
    "priority": st.sampled_from(PRIORITIES),
    "weight": st.sampled_from((1, 1, 1, 2, 2, 3)),
    "ago": st.sampled_from((0, 0, 1, 3, 50)),
    "view": st.sampled_from(VIEWS),
    "tokens": st.sampled_from((0, 0, 30)),
    "task": st.sampled_from(("t1", "t1", "t2", "t3")),
    "roles": st.sampled_from(("", "", "role:dev", "role:dev role:lead")),
    "pick": picks,
}
asks = step("ask", lender=st.sampled_from((0, 0, 0, WITHOUT_HOST, 1, 2, 3)), **work)
submits = step("submit", **work)
others = st.one_of(
    step("release", pick=picks),
    step("release", pick=picks),
    step("overtaken", pick=picks, ago=st.integers(0, 9)),
    step("time", pick=st.sampled_from((1, 40, 90, 1_000, 40_000))),
    step("pause", "resize", key=st.sampled_from(POOLS), pick=st.integers(0, 5)),
    step("work", "rest", "deaf", "gone", pick=picks),
)
steps = st.one_of(asks, asks, submits, submits, others, others)
histories = st.builds(
    lambda first, settled, unsettled: (first + settled, unsettled),
    st.sampled_from(([], [Step("work")], [Step("work")])),
    st.lists(steps, max_size=25),
    st.lists(steps, max_size=6),
)
"""What happened while the line was settled each time, and what has happened since."""
History = tuple[list[Step], list[Step]]
limits = st.fixed_dictionaries({name: st.integers(1, 5) for name in POOLS})
wanted = st.lists(
    step("ask", lender=st.sampled_from((0, 0, 0, WITHOUT_HOST, 1, 2)), **work),
    min_size=1,
    max_size=10,
)


class Street(Yard):
    """A yard with two machines, and pools of every kind that a count of rows can tell all about."""

    def __init__(self, open_it: Any, declared: dict[str, int], *, fair: bool) -> None:  # noqa: ANN401
        self.settles = True
        self.fair = fair
        super().__init__(open_it)
        self.limits = declared
        self.pools(
            {name: declared[name] for name in ("host", "*/x")},
            **{
                "a/y": Declared(limit=declared["a/y"], per_task=2),
                "role:*": Declared(per_task=3),
                "role:lead": Declared(limit=2, order=FAIR if fair else None),
            },
            a=Declared(limit=declared["a"], cooldown=Ms(50), order=FAIR if fair else None),
            b=Declared(limit=declared["b"], reserve=(("interactive", 1), ("background", 1))),
            r=Declared(limit=declared["r"], spacing=Ms(80), tpm=100),
            s=Declared(limit=declared["s"], adapt="learn", cooldown=Ms(0)),
        )
        self.run(lambda ledger: ledger.tx.add_member(Member("far", "n", 1, "", Ms(0))))

    def run(self, do: Callable[[Ledger], T]) -> T:
        """One transaction; one by a process that does not know the limits settles nothing."""
        if self.settles:
            return super().run(do)
        with self.store.transaction(write=True) as tx:
            ledger = Ledger(tx, self.resolver, Ms(self.now), self.liveness, "m")
            result = do(ledger)
            lifecycle.pick_up(ledger)
            return result

    def play(self, one: Step) -> None:  # noqa: C901, PLR0912 - a case for each kind
        """Let one thing happen."""
        held, line = self.held(), self.in_line()
        match one.kind:
            case "ask":
                request = self.request(one)
                if self.liveness.listening(request.member):
                    with suppress(TooHeavyError):
                        self.run(lambda ledger: admit.ask(ledger, request))
            case "submit":
                self.submit(
                    one.key,
                    urgency=-one.priority,
                    since=self.now - one.ago,
                    weight=one.weight,
                    view=one.view,
                    task=one.task,
                    roles=one.roles,
                )
            case "release" if held:
                self.release(held[one.pick % len(held)])
            case "overtaken" if line:
                self._overtake(line[one.pick % len(line)], one.ago)
            case "time":
                self.now += one.pick
            case "pause":
                self.run(lambda ledger: limits_by_hand.pause(ledger, one.key, Ms(one.pick * 30)))
            case "resize":
                self.run(lambda ledger: limits_by_hand.set_limit(ledger, one.key, one.pick or 1))
            case "work":
                self.worker(f"w{one.pick % 2}")
            case "rest":
                self.run(partial(_stop, name=f"w{one.pick % 2}"))
            case "deaf":
                self.liveness.orphan((*MEMBERS, "w0", "w1")[one.pick % 6])
            case "gone":
                self.liveness.end((*MEMBERS, "w0", "w1")[one.pick % 6])
            case _:
                pass

    def request(self, one: Step) -> Request:
        """What somebody asks for."""
        member = MEMBERS[one.pick % 4]
        held = self.held()
        return Request(
            key=one.key,
            member=member,
            machine="n" if member == "far" else "m",
            weight=one.weight,
            urgency=-one.priority,
            since=Ms(self.now - one.ago),
            view=one.view,
            lender=held[-one.lender] if 0 < one.lender <= len(held) else min(0, one.lender),
            tokens=one.tokens,
            task=one.task,
            roles=one.roles,
        )

    def _overtake(self, id: int, ago: int) -> None:
        """Have a ticket have been overtaken in all its pools, which nobody has acted on yet."""

        def do(ledger: Ledger) -> None:
            ticket = ledger.tx.ticket(id)
            assert ticket is not None
            lane = next(row for row in ledger.lanes() if row.id == ticket.lane)
            needs = admit.make_head(ledger, lane, ticket).needs
            times = (f"{need.place}={self.now - ago + n}" for n, need in enumerate(needs))
            ledger.tx.set_overtaken(id, ",".join(times))

        self.run(do)

    def bury(self) -> None:
        """Bury the dead, as every look does that finds any."""
        if self.read(dead_members.find_dead):
            self.tidy()

    def totals(self) -> Counter[str]:
        """Seats held and at rest, counted from the rows alone."""

        def count(ledger: Ledger) -> Counter[str]:
            families: dict[tuple[int, str], int] = {}
            for lease in ledger.tx.leases(0, 9_999):
                for name in POOLS:
                    if matches(name, lease.key):
                        one = (lease.chain or -lease.id, place(name, lease.machine))
                        families[one] = max(families.get(one, 0), lease.weight)
            found: Counter[str] = Counter()
            for (_, where), seats in families.items():
                found[where] += seats
            for rest in ledger.tx.rests():
                found[rest.place] += rest.seats if rest.until > ledger.now else 0
            return found

        return self.read(count)


def _stop(ledger: Ledger, name: str) -> None:
    ledger.tx.drop_member(name)
    ledger.reconsider()


def _lender_in_line(ledger: Ledger) -> bool:
    """Whether somebody borrows from a job that was taken back before it was started.

    Its id is that of the lease it had, and of the one it may get in the very next pass. A dry run
    does not follow that: it takes such a child to borrow nothing.
    """
    return any(lane.lender and ledger.tx.ticket(lane.lender) for lane in ledger.lanes())


@contextmanager
def street(
    kind: str, declared: dict[str, int], history: History, *, fair: bool
) -> Iterator[Street]:
    """A street after a history."""
    with tempfile.TemporaryDirectory(prefix="headgate-dryrun-") as folder:
        it = Street(
            lambda clock: (
                MemoryStore(clock=clock)
                if kind == "memory"
                else SqliteStore(Path(folder) / "s.db", synchronous="OFF", clock=clock)
            ),
            declared,
            fair=fair,
        )
        settled, unsettled = history
        for one in settled:
            it.play(one)
        it.settles = False
        for one in unsettled:
            it.play(one)
        it.settles = True
        it.bury()
        odd = it.read(_lender_in_line)
        if odd:
            it.store.close()
        assume(not odd)
        yield it
        it.store.close()


def check_plan(it: Street, candidates: list[Step]) -> None:
    """Plan, see that nothing has changed, ask for all of it at once, and compare."""
    requests = [it.request(one) for one in candidates]
    requests = [one for one in requests if it.liveness.listening(one.member)]
    before = rows(it)
    planned = it.read(lambda ledger: forecast(ledger, requests))
    assert rows(it) == before
    order = sorted(range(len(requests)), key=lambda n: (requests[n].urgency, requests[n].since, n))

    def ask_all(ledger: Ledger) -> dict[int, int]:
        ids = {}
        for n in order:
            with suppress(TooHeavyError):
                ids[admit.ask(ledger, requests[n])] = n
        return ids

    with pytest.MonkeyPatch.context() as patched:
        if it.fair:  # who asks first is let in first, unless all stand in the line before any is
            patched.setattr(admit, "has_rivals", lambda *_: True)
        ids = it.run(ask_all)
    held = set(it.held())
    assert {n for id, n in ids.items() if id in held} == {
        n for n, one in enumerate(planned) if not one.reasons
    }
    refused = set(range(len(requests))) - set(ids.values())
    assert {planned[n].reasons[0].code for n in refused} <= {"too_heavy"}
    queue = [row for row in it.queue() if row.id in ids]
    if not any(row.code == "too_heavy" for row in queue):  # else who is refused hangs on the order
        for row in queue:
            check_spot(it, row, planned[ids[row.id]])


def check_spot(it: Street, row: Any, one: Forecast) -> None:  # noqa: ANN401
    """Whoever has to wait hears what was planned."""
    said = "; ".join(explain(reason, Ms(it.now)) for reason in one.reasons)
    assert (said, one.position) == (row.reason, row.position)


def check_settling(it: Street) -> None:
    """A look says who will be let in, settling does it, and then nobody waits who need not."""
    before = it.totals()
    viewed = any(lane.view for lane in it.read(lambda ledger: ledger.lanes()))
    let_in = it.read(lambda ledger: {head.id for head in Survey(ledger).dry.let_in()})
    queue = {row.id: row.code for row in it.queue()}
    assert {id for id, code in queue.items() if code == "next"} >= let_in
    held = set(it.held())

    def unsettle(ledger: Ledger) -> None:
        ledger.reconsider()

    it.run(unsettle)
    assert set(it.held()) - held == let_in
    assert not it.read(lambda ledger: Survey(ledger).stuck)
    pool_set = it.read(lambda ledger: ledger.pool_set)
    for where, seats in it.totals().items():
        pool = pool_set.pools[where.partition("@")[0]]
        if pool.limit is not None and pool.learned is None and not viewed:
            assert seats <= max(pool.limit, before[where]), f"{where} grew to {seats}"


def check_capacity(it: Street) -> None:
    """Capacity says that there is room exactly where one more would start."""
    for key in KEYS:
        for cls, urgency in (("interactive", -10), ("normal", 0), ("background", 10)):
            found = it.read(partial(status_and_queue.capacity, key=key, cls=cls))
            like = Request(key=key, member="p", machine="m", urgency=urgency)
            (one,) = it.read(partial(forecast, requests=[like]))
            assert (found.code is None) == (not one.reasons)


@patient
@settings(usual, max_examples=250 * MORE)
@given(declared=limits, history=histories, candidates=wanted, fair=st.booleans())
def test_a_plan_is_what_happens(
    declared: dict[str, int], history: History, candidates: list[Step], *, fair: bool
) -> None:
    """Whoever a plan says would start does when all are asked for, and the others hear the same."""
    with street("memory", declared, history, fair=fair) as it:
        check_plan(it, candidates)


@patient
@settings(usual, max_examples=60 * MORE)
@given(declared=limits, history=histories, candidates=wanted, fair=st.booleans())
def test_a_plan_is_what_happens_on_disk(
    declared: dict[str, int], history: History, candidates: list[Step], *, fair: bool
) -> None:
    """The same on SQLite."""
    with street("sqlite", declared, history, fair=fair) as it:
        check_plan(it, candidates)


@patient
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@settings(usual, max_examples=120 * MORE)
@given(limits, histories)
def test_a_look_says_who_is_next(kind: str, declared: dict[str, int], history: History) -> None:
    """Settling lets exactly those in whom nothing blocks, up to the limits, and leaves no gap."""
    with street(kind, declared, history, fair=True) as it:
        check_settling(it)


@patient
@settings(usual, max_examples=100 * MORE)
@given(limits, histories)
def test_capacity_is_a_plan_for_one(declared: dict[str, int], history: History) -> None:
    """There is room for a key exactly if one more of it would start."""
    with street("memory", declared, history, fair=True) as it:
        check_capacity(it)
