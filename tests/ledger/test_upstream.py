"""What is known of upstream beside its answers, told to real ledgers."""

import pytest

from headgate.core.admission.pools import Declared, UsageSource
from headgate.core.answers.retry_after import RateHeader, RateHeaders
from headgate.core.answers.signals import (
    ACCEPTED,
    CONCURRENCY,
    OVERLOADED,
    QUOTA,
    RATE,
    USAGE,
    Reading,
    Signal,
)
from headgate.core.times import Ms
from headgate.ledger.admission import admit
from headgate.ledger.learning import apply_signals, rate_charges, upstream_state
from headgate.ledger.transaction.ledger import Ledger
from tests.ledger.test_learning import HOUR, MINUTE, SECOND, SOURCE, Lab

FUNCTION = UsageSource("python", call="(this program)")


def plain(lab: Lab) -> None:
    """Look through the eyes of a process that has no function for the pool."""
    lab.declare(a=Declared(limit=4, cooldown=Ms(0)))


def reading(lab: Lab) -> None:
    """Look through the eyes of the one that has."""
    lab.declare(a=Declared(limit=4, cooldown=Ms(0), usage=FUNCTION))


def test_what_one_process_reads_counts_in_all(lab: Lab) -> None:
    """Whoever settles the line without the function heeds the readings, while there are any."""
    reading(lab)
    assert lab.run(lambda ledger: upstream_state.claim(ledger, "a", "p", Ms(7_000)))
    lab.read_usage(4, 4)
    waits = lab.ask()
    plain(lab)
    lab.tidy()
    late = lab.ask(member="q")
    assert lab.codes() == {waits: "upstream_full", late: "upstream_full"}
    lab.restart()
    lab.tidy()
    assert lab.waiting() == [waits, late]
    lab.now += 7 * SECOND
    lab.tidy()
    assert lab.waiting() == [], "nobody reads it any more"


def test_who_has_no_function_waits_for_an_answer_that_is_under_way(lab: Lab) -> None:
    """A reading that another process is about to get is awaited, not passed over."""
    reading(lab)
    waits = lab.ask()
    assert lab.run(lambda ledger: upstream_state.claim(ledger, "a", "p", Ms(7_000)))
    plain(lab)
    lab.tidy()
    late = lab.ask(member="q")
    assert lab.codes() == {waits: "no_reading", late: "no_reading"}
    lab.read_usage(3, 4)
    assert lab.held() == [waits]
    lab.now += HOUR
    reading(lab)
    assert lab.run(lambda ledger: upstream_state.claim(ledger, "a", "p", Ms(7_000)))
    plain(lab)
    lab.wait(6_999)
    assert lab.codes() == {late: "no_reading"}
    lab.wait(1)
    assert lab.held() == [waits, late], "whoever asked has died"


def test_a_report_of_usage_raises_no_limit_of_its_own_accord(lab: Lab) -> None:
    """Where the configuration names no source, what somebody says is in use changes nothing."""
    lab.declare(a=Declared(limit="learn", cooldown=Ms(0)))
    told = Signal(USAGE, reading=Reading(0, 50))
    lab.run(lambda ledger: apply_signals.report(ledger, told, pool="a"))
    assert lab.limit() == 2
    ids = [lab.ask() for _ in range(4)]
    assert len(lab.held()) == 3, "two and a probe"
    assert lab.waiting() == ids[3:]
    lab.declare(a=Declared(limit="learn", cooldown=Ms(0), usage=SOURCE))
    lab.run(lambda ledger: apply_signals.report(ledger, told, pool="a"))
    assert lab.limit() == 50


def test_a_reading_that_loses_its_limit_keeps_the_last_one(lab: Lab) -> None:
    """Upstream leaves the field out for once: it will not have become unlimited."""
    lab.declare(a=Declared(limit=4, cooldown=Ms(0), usage=SOURCE))
    lab.read_usage(0, 2)
    ids = [lab.ask() for _ in range(3)]
    lab.now += SECOND
    lab.read_usage(2)
    assert lab.held() == ids[:2]
    assert lab.waiting() == ids[2:]
    upstream_now = lab.pool("a").upstream
    assert upstream_now is not None
    assert upstream_now.limit == 2
    lab.now += SECOND
    lab.read_usage(2, 3)
    assert lab.held() == ids


def elsewhere(lab: Lab, machine: str, space: str, count: int) -> None:
    """A set of processes on some machine is counted."""
    with lab.store.transaction(write=True) as tx:
        ledger = Ledger(tx, lab.resolver, Ms(lab.now), lab.liveness, machine)
        upstream_state.record_foreign(ledger, space, {"a": count})
        admit.settle(ledger)


def test_foreign_programs_count_once_per_machine(lab: Lab) -> None:
    """Of the containers of a machine the one that sees most counts; machines add up."""
    lab.declare(a=Declared(limit=9, cooldown=Ms(0), observe=("x",)))
    elsewhere(lab, "m", "inner", 2)
    elsewhere(lab, "m", "outer", 3)
    assert lab.pool("a").foreign == 3
    elsewhere(lab, "n", "outer", 1)
    assert lab.pool("a").foreign == 4
    elsewhere(lab, "m", "outer", 0)
    assert lab.pool("a").foreign == 3


def test_foreign_programs_that_nobody_confirms_are_forgotten(lab: Lab) -> None:
    """After ten seconds without a look their seats are free, also for who has waited."""
    lab.declare(a=Declared(limit=2, cooldown=Ms(0), observe=("x",)))
    elsewhere(lab, "n", "s", 2)
    waits = lab.ask()
    lab.wait(9_999)
    assert lab.waiting() == [waits]
    lab.wait(1)
    assert lab.held() == [waits]
    assert lab.pool("a").foreign == 0


def test_the_last_seat_is_left_alone_for_longer_and_longer(lab: Lab) -> None:
    """At a limit of one there is nothing to cut, so a Retry-After of 0 does not open at once."""
    lab.declare(a=Declared(limit=1, cooldown=Ms(0)))
    pauses = []
    for _ in range(6):
        id = lab.ask()
        assert lab.held() == [id]
        lab.tell(CONCURRENCY, id, retry_after=Ms(0))
        pauses.append(lab.paused())
        lab.release(id)
        lab.wait(pauses[-1])
    assert pauses == [5_000, 10_000, 20_000, 40_000, 60_000, 60_000]
    lab.tell(CONCURRENCY, lab.ask(), retry_after=Ms(HOUR))
    assert lab.paused() == HOUR


@pytest.mark.parametrize("kind", [CONCURRENCY, RATE, OVERLOADED])
def test_the_tokens_of_a_refused_request_are_given_back(lab: Lab, kind: str) -> None:
    """Nobody has used them; but it was sent, and counts as one. What was accepted was used."""
    lab.declare(a=Declared(limit=4, cooldown=Ms(0), rpm=3, tpm=1_000, adapt="off"))
    first = lab.ask(tokens=900)
    second = lab.ask(tokens=900)
    assert lab.codes() == {second: "rate"}
    lab.tell(kind, first, retry_after=Ms(0))
    assert lab.held() == [first, second]
    lab.tell(kind, first, retry_after=Ms(0))
    lab.release(first)
    lab.tell(ACCEPTED, second)
    lab.tell(kind, second, retry_after=Ms(0))
    third = lab.ask(tokens=101)
    assert lab.codes() == {third: "rate"}
    fourth = lab.ask("a/y", tokens=100)
    fifth = lab.ask("a/z")
    assert fourth in lab.held()
    assert lab.codes() == {third: "rate", fifth: "rate"}, "three were sent"


def test_the_reset_in_a_header_is_believed(lab: Lab) -> None:
    """Upstream's minute ends when it says so, not a minute from now."""
    lab.declare(a=Declared(limit=9, cooldown=Ms(0), rpm=10))
    first = lab.ask()
    told = RateHeaders(requests=RateHeader(10, 0, Ms(5_000)))
    lab.run(lambda ledger: rate_charges.correct(ledger, first, told))
    waits = lab.ask()
    lab.wait(4_999)
    assert lab.codes() == {waits: "rate"}
    lab.wait(SECOND + 1)  # what was charged is kept by the second
    assert waits in lab.held()


@pytest.mark.parametrize("kind", [CONCURRENCY, RATE, QUOTA, OVERLOADED])
def test_a_refusal_that_comes_after_the_release_pauses(lab: Lab, kind: str) -> None:
    """Its key still tells which pool it is about; the limit learns nothing from it."""
    gone = lab.ask()
    lab.release(gone)
    before = lab.learned()
    late = Signal(kind, Ms(MINUTE))
    assert lab.run(lambda ledger: apply_signals.report(ledger, late, lease=gone, key="a/x")) == "a"
    assert (lab.paused(), lab.learned()) == (MINUTE, before)
    waits = lab.ask()
    assert lab.codes() == {waits: "pool_paused"}
