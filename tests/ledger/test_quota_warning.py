"""A quota that is nearly gone: people hear of it once, and pools may have a lower limit for it."""

from headgate.core.admission.pools import Declared
from headgate.core.times import Ms, Seconds
from headgate.ledger import limits_by_hand
from headgate.ledger.learning import upstream_state
from headgate.ledger.queries import status_and_queue
from headgate.ledger.transaction.ledger import Ledger
from tests.ledger.test_learning import Lab

HOUR = Ms(3_600_000)


def warn(lab: Lab, *, key: str = "a/b", resets_in: Ms | None = HOUR, account: bool = False) -> None:
    def do(ledger: Ledger) -> None:
        upstream_state.warn(ledger, key, "5h: 91% used", resets_in=resets_in, account=account)

    lab.run(do)


def asked(lab: Lab, number: int) -> int:
    """How many of so many are let in."""
    before = set(lab.held())
    for _ in range(number):
        lab.ask()
    return len(set(lab.held()) - before)


def test_a_pool_has_its_lower_limit_until_the_quota_is_back(lab: Lab) -> None:
    """What runs goes on, nothing is let in above it, and time alone ends it."""
    lab.declare(a=Declared(limit=4, warned_limit=2, cooldown=Ms(0)))
    first = lab.ask()
    warn(lab)
    assert asked(lab, 4) == 1
    assert lab.pool("a").limit == 2
    assert lab.pool("a").notice == "a quota is nearly gone: the limit is 2 for 1h"
    lab.release(first)
    assert len(lab.held()) == 2
    lab.wait(HOUR + 1)
    assert len(lab.held()) == 4
    assert lab.pool("a").notice is None


def test_a_pool_without_a_limit_of_its_own_gets_one(lab: Lab) -> None:
    """`warned_limit` alone is enough."""
    lab.declare(a=Declared(warned_limit=1, cooldown=Ms(0)))
    assert asked(lab, 3) == 3
    warn(lab)
    assert asked(lab, 2) == 0


def test_the_limit_is_never_raised(lab: Lab) -> None:
    """One that is lower already stays."""
    lab.declare(a=Declared(limit=2, warned_limit=5, cooldown=Ms(0)))
    warn(lab)
    assert asked(lab, 4) == 2


def test_it_is_told_once_however_many_hear_it(lab: Lab) -> None:
    """Twenty agents of an account are told the same; when it is back it can be told again."""
    lab.declare(a=Declared(limit=4, warned_limit=2))
    for key in ("a/b", "a/c", "a/b"):
        warn(lab, key=key, account=True)
    assert lab.kinds().count("quota_warned") == 1
    lab.wait(HOUR + 1)
    warn(lab, account=True)
    assert lab.kinds().count("quota_warned") == 2


def test_one_without_an_end_wears_off(lab: Lab) -> None:
    """An hour after it was last told; and no word makes it last for longer than a week or so."""
    lab.declare(a=Declared(limit=4, warned_limit=1, cooldown=Ms(0)))
    warn(lab, resets_in=None)
    assert asked(lab, 2) == 1
    lab.wait(HOUR + 1)
    assert len(lab.held()) == 2
    warn(lab, resets_in=Ms(365 * 24 * HOUR))
    assert "for 8d" in str(lab.pool("a").notice)


def test_it_is_over_when_upstream_or_a_person_says_so(lab: Lab) -> None:
    """There is enough again, or somebody restores the pool."""
    lab.declare(a=Declared(limit=4, warned_limit=1, cooldown=Ms(0)))
    warn(lab, account=True)
    assert asked(lab, 3) == 1
    lab.run(lambda ledger: upstream_state.end_warning(ledger, "a/b"))
    assert len(lab.held()) == 3
    warn(lab)
    assert lab.pool("a").limit == 1
    lab.run(lambda ledger: limits_by_hand.restore(ledger, "a"))
    assert lab.pool("a").limit == 4


def test_it_survives_a_restart(lab: Lab) -> None:
    """Only the rows are left of every process, and they know of it."""
    lab.declare(a=Declared(limit=4, warned_limit=1, cooldown=Ms(0)))
    warn(lab)
    lab.restart()
    assert asked(lab, 2) == 1
    status = lab.read(lambda ledger: status_and_queue.status(ledger, Seconds(0.0)))
    assert status.pool("a").free == 0
