"""Rows to fill a store with, and everything a store says, for comparing."""

import random
from collections.abc import Callable
from typing import Any

from headgate.core.admission.lease_events import ACCEPTED, PENDING, EndCause, EndRequest, refused
from headgate.core.admission.pools import PoolRow
from headgate.core.jobs.job import Job
from headgate.core.jobs.states import State, Word
from headgate.core.times import Ms
from headgate.ledger.transaction.job_rows import Attempt
from headgate.ledger.transaction.request_rows import RequestRow
from headgate.ledger.transaction.rows import (
    EventRow,
    Lane,
    LeaseRow,
    Member,
    Rest,
    Ticket,
    Tx,
)

NOTES = ("n1", "n2", "n3")
KEYS = ("a/x", "a/y", "b/z")
MEMBERS = ("p1", "p2", "p3")
STOP = EndRequest(EndCause.CANCEL, "stop")
JOBS = (11, 12, 13, 14, 15, 16)
"""The jobs of a store that was filled: queued, after it, held, running, done, parked."""


def lane(
    key: str = "a/x",
    cls: str = "normal",
    *,
    machine: str = "m",
    lender: int = 0,
    view: str = "",
) -> Lane:
    """A lane as it is asked for."""
    return Lane(0, machine, key, cls, lender, view, 0)


def ticket(
    id: int,
    lane: int,
    *,
    urgency: int = 0,
    since: int = 0,
    member: str = "p1",
    tokens: int = 0,
) -> Ticket:
    return Ticket(id, lane, urgency, Ms(since), Ms(5), 1, "task", member, "label", 0, "", tokens)


def lease(
    id: int,
    *,
    key: str = "a/x",
    cls: str = "normal",
    weight: int = 1,
    chain: int = 0,
    lender: int = 0,
    member: str = "p1",
    machine: str = "m",
    granted: int = 7,
) -> LeaseRow:
    return LeaseRow(
        id=id,
        machine=machine,
        key=key,
        cls=cls,
        urgency=0,
        weight=weight,
        task="task",
        member=member,
        label="label",
        marked=1,
        granted=Ms(granted),
        chain=chain,
        lender=lender,
        sent=f"a={id}/2/1",
        tokens=10 * id,
    )


CODES = {
    State.HELD: "held",
    State.AFTER: "after",
    State.ASKED: "confirm",
    State.QUEUED: "",
    State.BACKOFF: "exit",
    State.PARKED: "rate_limited",
    State.STARTING: "starting",
    State.RUNNING: "",
}
"""A code for each state; those of jobs that have ended have any."""


def job(id: int, state: State = State.QUEUED, *, due: int = 0, ended: int = 0) -> Job:
    """A job; what it was submitted with can be told from its id."""
    code = CODES.get(state, "exit")
    return Job(
        id=id,
        state=state,
        code=code,
        text=code and f"because of {code}",
        key="a/x",
        urgency=0,
        since=Ms(id),
        weight=1 + id,
        task=f"task-{id}",
        name="näme",
        label="label",
        submitted=Ms(5),
        due=Ms(due),
        expires=Ms(due),
        attempts=0,
        parks=0,
        started=Ms(0),
        ended=Ms(ended),
        exit="",
        session="",
        spec=f'{{"argv":["{id}"],"cwd":"/"}}',
    )


def attempt(job: int, number: int, *, ended: int = 0) -> Attempt:
    return Attempt(job, number, "a/x", Ms(10 * number), Ms(ended), "exit" if ended else "", "", "")


def rest(where: str, seats: int, until: int, *, keep: int | None = None) -> Rest:
    """Seats that rest; their row is kept no longer than that, unless something else is said."""
    return Rest(
        where,
        seats,
        Ms(until),
        Ms(until if keep is None else keep),
        Ms(until - 9),
        Ms(until - 5),
        1,
    )


def happening(kind: str = "granted", work: int = 0, at: int = 1) -> EventRow:
    return EventRow(0, Ms(at), kind, work, "a/x", "task", "pool", "text")


def request(key: str = "a/x", *, refused: int = 0, told: bool = True) -> RequestRow:
    """A request that has ended; the store says which number it has, and whose it is."""
    return RequestRow(
        seq=0,
        work=0,
        at=Ms(9),
        key=key,
        task="task",
        outcome="complete",
        status=200,
        waited=Ms(4_000 * refused),
        first_byte=Ms(30) if told else None,
        took=Ms(70),
        input=1_000 if told else None,
        output=20 if told else None,
        cached=900 if told else None,
        tries=1 + refused,
        refused=refused,
    )


def said(tx: Tx) -> dict[str, Any]:
    """All that can be read, in a form in which two stores can be compared."""
    lanes = sorted(tx.lanes(), key=lambda one: one[1:])
    resolver = {one[1:]: tx.page(one.id, None, 10**6) for one in lanes}
    lines = {name: [row._replace(lane=0) for row in page] for name, page in resolver.items()}
    heads = {one[1:]: tx.page(one.id, None, 1) for one in lanes}
    tickets = [row for page in resolver.values() for row in page]
    leases = tx.leases(0, 10**6)
    jobs = {word: tx.jobs(word, 0, 10**6) for word in Word}
    ids = sorted({row.id for rows in jobs.values() for row in rows} | set(JOBS))
    return {
        "uid": bool(tx.uid()),
        "notes": [tx.note(name) for name in NOTES],
        "pool_rows": sorted(tx.pool_table().rows.values(), key=lambda row: row.name),
        "lines": lines,
        "heads": {name: [row.id for row in rows] for name, rows in heads.items()},
        "ranks": [tx.rank(row.lane, row.order) for row in tickets],
        "tickets": [tx.ticket(row.id) == row for row in tickets],
        "tickets_of": [sorted(row.id for row in tx.tickets_of(name)) for name in MEMBERS],
        "how_many": [tx.count_tickets_of(name) for name in MEMBERS],
        "anyone": [bool(tx.waiting_members("m", name, 1)) for name in MEMBERS],
        "leases": leases,
        "lease": [tx.lease(row.id) for row in leases],
        "leases_of": [sorted(tx.leases_of(name)) for name in MEMBERS],
        "recent": [sorted(tx.recent(Ms(since))) for since in (-1, 6, 7, 8)],
        "held": sorted(tx.held()),
        "families": [(row.chain, row.id) for row in tx.families()],
        "family": [[one.id for one in tx.family(row.chain)] for row in tx.families()],
        "rests": sorted(tx.rests()),
        "holds": [tx.usual_hold([key]) for key in KEYS],
        "members": sorted(tx.members()),
        "events": [row[1:] for row in tx.events(-1, 10**6, 0)],
        "jobs": jobs,
        "job": [tx.job(id) for id in ids],
        "latest": {word: [row.id for row in tx.jobs(word, -1, 2)] for word in Word},
        "counts": {word: tx.count_jobs(word) for word in Word},
        "aside": (tx.aside(3), tx.count_aside()),
        "due": [[row.id for row in tx.due_jobs(Ms(now), 3)] for now in (0, 99, 100, 10**6)],
        "next_due": tx.next_due(),
        "old": [tx.old_jobs(Ms(before), 3) for before in (0, 50, 51, 10**6)],
        "needs": [(tx.needs_of(id), tx.needed_by(id)) for id in ids],
        "attempts": [tx.attempts(id) for id in ids],
        "job_leases": tx.job_leases(),
        "requests": [[row[1:] for row in tx.requests_of(id, 3)] for id in (1, 7, 8, *ids)],
        "metered": [tx.metered(id) for id in (1, 7, 8, *ids)],
        "in_flight": tx.in_flight(),
    }


def fill(tx: Tx) -> None:
    """Something in every table."""
    tx.set_note("n1", "one")
    tx.set_pool_row(PoolRow("host", 3))
    tx.set_pool_row(PoolRow("a", "unlimited", Ms(100), Ms(2**62), "why"))
    tx.set_pool_row(PoolRow("c", "learn", learned="[3]"))
    for member in ("p1", "p2"):
        tx.add_member(Member(member, "m", 11, "space", Ms(1), 0, 7, "1.2", 4))
    for key in ("a/x", "a/y"):
        line = tx.lane(lane(key))
        for since in (5, 3, 9):
            tx.add_ticket(ticket(tx.next_id(), line, since=since, tokens=9))
    tx.add_lease(lease(tx.next_id()))
    tx.add_lease(lease(tx.next_id(), weight=3, granted=8))
    first = tx.next_id()
    tx.add_lease(lease(first, chain=first))
    tx.add_lease(lease(tx.next_id(), chain=first, lender=first, member="p2"))
    tx.add_rest(rest("a", 1, 100))
    tx.add_rest(rest("a", 2, 200))
    tx.add_rest(rest("a", 3, 100, keep=300))
    tx.learn_hold("a/x", Ms(1_000))
    tx.add_event(happening(work=1))
    tx.add_event(happening("released", work=1))
    for row in (
        job(tx.next_id(), due=300),
        job(tx.next_id(), State.AFTER),
        job(tx.next_id(), State.HELD, due=100),
        job(tx.next_id(), State.STARTING),
        job(tx.next_id(), State.DONE, ended=50),
        job(tx.next_id(), State.PARKED, due=100),
    ):
        tx.add_job(row)
    tx.add_after(12, 11)
    tx.add_after(12, 14)
    tx.add_lease(lease(14)._replace(job=1))
    tx.keep_attempt(attempt(15, 2, ended=50))
    tx.keep_attempt(attempt(15, 1, ended=20))
    tx.keep_meter(7, "wire", "because", "")
    tx.add_requests(7, [request(), request("a/y", refused=2, told=False)])
    tx.set_in_flight(7, 2, Ms(8))
    tx.keep_meter(12, "agent", "because", "a hint")


def changed(row: Job) -> Job:
    """A job in which all has changed that ever does."""
    return row._replace(
        state=State.PARKED,
        code="rate_limited",
        text="ünï\n'",
        key="b/z",
        urgency=-10,
        since=Ms(-(2**52)),
        due=Ms(2**52),
        expires=Ms(7),
        attempts=3,
        parks=2,
        started=Ms(8),
        ended=Ms(9),
        exit="0:9",
        session="s-1",
        failures=4,
    )


CHANGES: dict[str, Callable[[Tx], object]] = {
    "set_note, new": lambda tx: tx.set_note("n2", "two"),
    "set_note, again": lambda tx: tx.set_note("n1", "other"),
    "tune, new": lambda tx: tx.set_pool_row(PoolRow("b", 1)),
    "tune, again": lambda tx: tx.set_pool_row(PoolRow("host", 9)),
    "tune, learned": lambda tx: tx.set_pool_row(PoolRow("host", 3, learned="[2]")),
    "tune, no more": lambda tx: tx.set_pool_row(PoolRow("c")),
    "add_ticket": lambda tx: tx.add_ticket(ticket(tx.next_id(), tx.lanes()[0].id)),
    "add_ticket, new lane": lambda tx: tx.add_ticket(
        ticket(tx.next_id(), tx.lane(lane("b/z", "background", lender=7, view="host=1")))
    ),
    "set_overtaken": lambda tx: tx.set_overtaken(2, '{"a":1}'),
    "drop_ticket": lambda tx: tx.drop_ticket(2),
    "drop_ticket, the whole lane": lambda tx: [tx.drop_ticket(id) for id in (1, 2, 3)],
    "add_lease": lambda tx: tx.add_lease(lease(tx.next_id(), key="b/z")),
    "add_lease, in a family": lambda tx: tx.add_lease(lease(tx.next_id(), chain=9, lender=9)),
    "drop_lease": lambda tx: tx.drop_lease(7),
    "drop_lease, of a family": lambda tx: tx.drop_lease(9),
    "change_lease": lambda tx: tx.change_lease(
        (tx.lease(8) or lease(8))._replace(chain=8, pid=5, cancel=STOP)
    ),
    "change_lease, an answer": lambda tx: tx.change_lease(
        (tx.lease(8) or lease(8))._replace(answer=refused(Ms(2)))
    ),
    "change_lease, what it used": lambda tx: tx.change_lease(
        (tx.lease(8) or lease(8))._replace(tokens=2**40)
    ),
    "add_rest": lambda tx: tx.add_rest(rest("b", 1, 300)),
    "drop_rests": lambda tx: tx.drop_rests(Ms(150)),
    "learn_hold, new": lambda tx: tx.learn_hold("b/z", Ms(5)),
    "learn_hold, again": lambda tx: tx.learn_hold("a/x", Ms(9_000)),
    "add_member": lambda tx: tx.add_member(Member("p3", "m", 12, "", Ms(2))),
    "add_member, again": lambda tx: tx.add_member(Member("p1", "m", 99, "", Ms(2))),
    "add_member, a version": lambda tx: tx.add_member(
        Member("p1", "m", 11, "space", Ms(1), started=8, version="1.3", schema=5)
    ),
    "drop_member": lambda tx: tx.drop_member("p1"),
    "add_event": lambda tx: tx.add_event(happening("lost")),
    "add_member, a worker": lambda tx: tx.add_member(
        Member("p1", "m", 11, "space", Ms(1), works=1)
    ),
    "change_lease, another member": lambda tx: tx.change_lease(
        (tx.lease(8) or lease(8))._replace(member="p3")
    ),
    "add_job": lambda tx: tx.add_job(job(tx.next_id(), due=40)),
    "change_job": lambda tx: tx.change_job(changed(job(13))),
    "change_job, ended": lambda tx: tx.change_job(job(11, State.FAILED, ended=50)),
    "drop_job": lambda tx: tx.drop_job(12),
    "drop_job, with attempts": lambda tx: tx.drop_job(15),
    "add_after": lambda tx: tx.add_after(16, 11),
    "drop_after": lambda tx: tx.drop_after(12, 14),
    "keep_attempt, new": lambda tx: tx.keep_attempt(attempt(14, 1)),
    "keep_attempt, changed": lambda tx: tx.keep_attempt(attempt(15, 2, ended=99)),
    "keep_meter, new": lambda tx: tx.keep_meter(8, "wire", "why", ""),
    "keep_meter, again": lambda tx: tx.keep_meter(7, "agent", "not why", "hint"),
    "add_requests, of another": lambda tx: tx.add_requests(8, [request()]),
    "add_requests, more": lambda tx: tx.add_requests(7, [request(), request()]),
    "set_in_flight": lambda tx: tx.set_in_flight(7, 0, Ms(0)),
    "set_in_flight, of another": lambda tx: tx.set_in_flight(8, 1, Ms(5)),
}
"""Each kind of change, to a store that was filled."""


def change_at_random(  # noqa: C901, PLR0912 - a case for each kind of change
    tx: Tx, dice: random.Random
) -> None:
    """Some change that makes sense for the rows that are there."""
    lanes = sorted(tx.lanes(), key=lambda one: one[1:])
    tickets = sorted(row.id for one in lanes for row in tx.page(one.id, None, 10**6))
    leases = [row.id for row in tx.leases(0, 10**6)]
    number = dice.randrange(1, 10)
    match dice.choice("ttttddllllkkcorvhmnuejjjjjjjq"):
        case "t":
            cls = dice.choice(["normal", "background"])
            line = tx.lane(lane(dice.choice(KEYS), cls, lender=dice.randrange(2)))
            tx.add_ticket(
                ticket(
                    tx.next_id(),
                    line,
                    urgency=dice.randrange(-2, 3),
                    since=dice.randrange(4),
                    member=dice.choice(MEMBERS),
                    tokens=number,
                )
            )
        case "d" if tickets:
            tx.drop_ticket(dice.choice(tickets))
        case "l":
            tx.add_lease(
                lease(
                    tx.next_id(),
                    key=dice.choice(KEYS),
                    weight=number,
                    chain=dice.choice([0, 0, 3, 5]),
                    member=dice.choice(MEMBERS),
                    granted=dice.randrange(5, 10),
                )
            )
        case "k" if leases:
            tx.drop_lease(dice.choice(leases))
        case "c" if leases:
            row = tx.lease(dice.choice(leases))
            assert row is not None
            answer = dice.choice([PENDING, ACCEPTED, refused(Ms(2))])
            row = row._replace(chain=dice.choice([0, 3, 5]), answer=answer, tokens=number)
            tx.change_lease(row._replace(pid=number, cancel=STOP))
        case "o" if tickets:
            tx.set_overtaken(dice.choice(tickets), f'{{"a":{number}}}')
        case "r":
            until = dice.randrange(100)
            tx.add_rest(rest(dice.choice("ab"), number, until, keep=until + dice.choice([0, 50])))
        case "v":
            tx.drop_rests(Ms(dice.randrange(100)))
        case "h":
            tx.learn_hold(dice.choice(KEYS), Ms(number * 100))
        case "m":
            member = Member(dice.choice(MEMBERS), "m", number, "", Ms(number))
            tx.add_member(member._replace(schema=dice.choice([0, number])))
        case "n":
            tx.set_note(dice.choice(NOTES), str(number))
        case "u":
            limit = dice.choice([number, None])
            learned = dice.choice(["", f"[{number}]"])
            tx.set_pool_row(PoolRow(dice.choice("ab"), limit, None, None, "", learned))
        case "j":
            change_jobs_at_random(tx, dice)
        case "q":
            change_requests_at_random(tx, dice)
        case _:
            tx.add_event(happening(work=number))


def change_requests_at_random(tx: Tx, dice: random.Random) -> None:
    """Some change of requests, or of how their work is metered."""
    work = dice.choice([1, 7, 8, *JOBS])
    match dice.choice("rif"):
        case "r":
            rows = [request(refused=dice.randrange(3), told=dice.random() < 0.5)]
            tx.add_requests(work, rows * dice.randrange(3))
        case "i":
            tx.set_in_flight(work, dice.randrange(3), Ms(dice.randrange(9)))
        case _:
            tx.keep_meter(work, dice.choice(["wire", "agent"]), "because", "")


def change_jobs_at_random(tx: Tx, dice: random.Random) -> None:
    """Some change of jobs, of whom they wait for, or of their attempts."""
    known = sorted(row.id for word in Word for row in tx.jobs(word, 0, 10**6))
    number = dice.randrange(1, 10)
    state = dice.choice(list(State))
    due, ended = dice.choice([0, number]), dice.choice([0, number])
    match dice.choice("jjcccawdk"):
        case "c" if known:
            row = tx.job(dice.choice(known))
            assert row is not None
            row = row._replace(failures=number, adopted=state is State.RUNNING)
            code = "adopted" if row.adopted else CODES.get(state, "exit")
            tx.change_job(row._replace(state=state, code=code, due=Ms(due), ended=Ms(ended)))
        case "a" if known:
            tx.keep_attempt(attempt(dice.choice(known), dice.randrange(1, 4), ended=number))
        case "w" if known:
            tx.add_after(dice.choice(known), dice.choice(known))
        case "d" if known:
            one = dice.choice(known)
            for other in tx.needs_of(one)[:1]:
                tx.drop_after(one, other)
        case "k" if known:
            tx.drop_job(dice.choice(known))
        case _:
            tx.add_job(job(tx.next_id(), state, due=due, ended=ended))
