"""What is said to people: a sentence for each reason, and how many seats are free."""

import pytest

from headgate.core.admission.seats import Reason
from headgate.core.display.snapshots import PoolStatus, UpstreamStatus, explain
from headgate.core.quantities import FOREVER
from headgate.core.times import Ms, Seconds

NOW = Ms(1_000_000)


@pytest.mark.parametrize(
    "reason, sentence",
    [
        (Reason("pool_full", "a", 4, 4), "a is full (4/4)"),
        (Reason("pool_paused", "a", until=Ms(NOW + 90_000)), "a is paused for 1m30s more"),
        (
            Reason("pool_paused", "a", until=Ms(NOW + 5_000), note="tea {pool}"),
            "a is paused for 5s more: tea {pool}",
        ),
        (
            Reason("pool_paused", "a", until=FOREVER, note="tea"),
            "a is paused until it is resumed (headgate resume 'a'): tea",
        ),
        (Reason("cooling", "a", 4, 4), "a has seats that rest after their release (4/4)"),
        (
            Reason("reserved", "a", 3, 4, note="interactive"),
            "a keeps its free seats for interactive work (3/4)",
        ),
        (Reason("kept", "a", 3, 4), "a keeps its free seats for an older ticket (3/4)"),
        (Reason("too_heavy", "a", 5, 4), "a can never hold 5 seats, its limit is 4"),
        (Reason("behind", "a", 4, 4), "others are ahead in the line for a (4/4)"),
        (Reason("behind", "a"), "others are ahead in the line for a"),
        (Reason("next", "a"), "it is about to be let in"),
        (
            Reason("confirming", "a", 1, 2),
            "a waits for an answer before it lets in another one (1/2)",
        ),
        (Reason("upstream_full", "a", 4, 4), "a is full by the provider's own count (4/4)"),
        (Reason("no_reading", "a"), "a waits for a reading of what the provider counts"),
        (
            Reason("rate", "a", 0, None, Ms(NOW + 5_000), "rpm"),
            "a has used up its requests of this minute, for 5s more",
        ),
        (
            Reason("rate", "a", 0, None, Ms(NOW + 5_000), "tpm"),
            "a has used up its tokens of this minute, for 5s more",
        ),
        (
            Reason("spacing", "a", 0, None, Ms(NOW + 2_000), "spacing"),
            "a keeps its starts apart, for 2s more",
        ),
        (Reason("something_new", "a", 1, 2), "something_new a (1/2)"),
    ],
)
def test_every_reason_is_a_sentence(reason: Reason, sentence: str) -> None:
    """A reason names its pool and its figures, and until when where that is known."""
    assert explain(reason, NOW) == sentence


PLAIN = PoolStatus(
    pool="a",
    limit=4,
    configured_limit=4,
    source="file",
    in_use=1,
    cooling=1,
    queued=0,
    paused=False,
    paused_until=None,
    cooldown_ms=Ms(0),
    max_hold=None,
    reserve={},
)


def upstream(*, estimate: int, cap: int) -> UpstreamStatus:
    return UpstreamStatus(
        fresh=True,
        in_use=1.0,
        limit=4,
        hard_cap=None,
        estimate=estimate,
        cap=cap,
        age=Seconds(0.5),
        lag_ms=None,
        low_priority=False,
        note="",
        problem="",
    )


@pytest.mark.parametrize(
    "pool, free",
    [
        (PLAIN, 2),
        (PLAIN._replace(limit=None), None),
        (PLAIN._replace(limit=1), 0),
        (PLAIN._replace(paused=True), 0),
        (PLAIN._replace(foreign=1), 1),
        (PLAIN._replace(upstream=upstream(estimate=3, cap=9)), 1),
        (PLAIN._replace(upstream=upstream(estimate=0, cap=9)), 3),
        (PLAIN._replace(upstream=upstream(estimate=0, cap=2)), 1),
    ],
)
def test_free_is_what_could_be_had_now(pool: PoolStatus, free: int | None) -> None:
    """Limit less what is held, rests or was seen; by upstream's own count while that is fresh."""
    assert pool.free == free
