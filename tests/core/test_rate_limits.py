"""So many requests and tokens a minute: no minute sees more, wherever it begins."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core import rate_limits
from headgate.core.quantities import MOST
from headgate.core.rate_limits import MINUTE, RateMeter, Rates, RateSlot
from headgate.core.stored_text.formats import Unreadable
from headgate.core.stored_text.stored_values import METER, full_meter
from headgate.core.times import Ms

NOW = Ms(1_000_000_000)


class Provider:
    """Starts what the meter lets start, and keeps the truth beside it."""

    def __init__(self, limits: Rates) -> None:
        self.limits = limits
        self.now: int = NOW
        self.meter = RateMeter()
        self.starts: list[int] = []
        self.spent: dict[int, tuple[int, int]] = {}
        """By request: when it started, and how many tokens it is known to have used."""
        self.last: int = -MINUTE

    def known(self, since: int) -> int:
        return sum(tokens for at, tokens in self.spent.values() if since < at <= self.now)

    def ask(self, tokens: int) -> bool:
        at, what = rate_limits.opens(self.meter, self.limits, tokens, Ms(self.now))
        assert at >= self.now
        if at > self.now:
            assert what in {"rpm", "tpm", "spacing"}
            assert rate_limits.opens(self.meter, self.limits, tokens, at)[0] == at, (
                "it opens when said"
            )
            assert rate_limits.opens(self.meter, self.limits, tokens, Ms(at - 1))[0] == at, (
                "and not before"
            )
            return False
        if self.limits.spacing:
            assert self.now - self.last >= self.limits.spacing
        window = self.now - MINUTE
        if self.limits.rpm:
            assert sum(at > window for at in self.starts) < self.limits.rpm
        if self.limits.tpm and tokens:
            fits = self.known(window) + tokens <= self.limits.tpm
            assert fits or (tokens > self.limits.tpm and not self.known(window))
        self.meter = rate_limits.charge(self.meter, tokens, Ms(self.now))
        self.last = self.now
        self.starts.append(self.now)
        self.spent[len(self.spent)] = self.now, tokens
        return True


amounts = st.sampled_from([0, 1, 10, 400, 999, 1_000, 1_001, 5_000])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), amounts, st.just(0)),
        st.tuples(st.just("ask"), amounts, st.just(0)),
        st.tuples(
            st.just("wait"), st.sampled_from([1, 300, 999, 1_000, 7_500, 59_999]), st.just(0)
        ),
        st.tuples(st.just("settle"), amounts, st.integers(0, 20)),
        st.tuples(st.just("refund"), st.just(0), st.integers(0, 20)),
        st.tuples(st.just("correct"), st.integers(0, 6), st.integers(0, 1_200)),
        st.tuples(st.just("keep"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@given(
    st.sampled_from([0, 1, 3, 5]),
    st.sampled_from([0, 1_000]),
    st.sampled_from([0, 1, 2_500]),
    steps,
)
@settings(max_examples=200)
def test_no_minute_sees_more(
    rpm: int, tpm: int, spacing: int, history: list[tuple[str, int, int]]
) -> None:
    """Whatever is settled, refunded or corrected, starts and tokens of a minute stay in bounds."""
    it = Provider(Rates(rpm, tpm, Ms(spacing)))
    for step, number, pick in history:
        if step == "ask":
            it.ask(number)
        elif step == "wait":
            it.now += number
        elif step == "correct":
            it.meter = rate_limits.correct(
                it.meter, it.limits, (None, number), (None, pick), Ms(it.now)
            )
        elif step == "keep":
            assert METER._read(METER.write(it.meter)) == it.meter
        elif it.spent:
            id = sorted(it.spent)[pick % len(it.spent)]
            then, tokens = it.spent[id]
            if step == "settle":
                it.meter = rate_limits.set_used(it.meter, Ms(then), tokens, number, Ms(it.now))
                it.spent[id] = then, number
            elif then in it.starts:
                it.meter = rate_limits.refund(it.meter, Ms(then), tokens, Ms(it.now))
                it.starts.remove(then)
                it.spent[id] = -1, 0
        assert all(slot.requests >= 0 and slot.tokens >= 0 for slot in it.meter.slots)
        assert list(it.meter.slots) == sorted(it.meter.slots)
        assert len(it.meter.slots) <= 62


def test_requests_of_a_minute() -> None:
    """Three at once; the fourth when the second of the first is a minute past."""
    it = Provider(Rates(rpm=3))
    it.now = NOW + 250
    assert [it.ask(0) for _ in range(4)] == [True, True, True, False]
    assert rate_limits.opens(it.meter, it.limits, 0, Ms(it.now)) == (NOW + 61_000, "rpm")
    it.now = NOW + 60_999
    assert not it.ask(0)
    it.now = NOW + 61_000
    assert [it.ask(0) for _ in range(4)] == [True, True, True, False]


def test_tokens_of_a_minute() -> None:
    """As many as fit; what needs none is not held up; what is larger than all waits for none."""
    it = Provider(Rates(tpm=1_000))
    assert it.ask(700)
    assert not it.ask(400)
    assert it.ask(300)
    assert it.ask(0)
    assert rate_limits.opens(it.meter, it.limits, 1, Ms(it.now)) == (NOW + 61_000, "tpm")
    it.now = NOW + 61_000
    assert it.ask(5_000)
    assert not it.ask(1)
    assert not it.ask(9_999)
    it.now += 61_000
    assert it.ask(9_999)


def test_just_enough_is_waited_for() -> None:
    """The room of the oldest seconds is enough for a small request, not for a large one."""
    it = Provider(Rates(tpm=1_000))
    for tokens in (300, 300, 400):
        assert it.ask(tokens)
        it.now += 10_000
    assert rate_limits.opens(it.meter, it.limits, 300, Ms(it.now)) == (NOW + 61_000, "tpm")
    assert rate_limits.opens(it.meter, it.limits, 301, Ms(it.now)) == (NOW + 71_000, "tpm")
    assert rate_limits.opens(it.meter, it.limits, 601, Ms(it.now)) == (NOW + 81_000, "tpm")


def test_starts_keep_apart() -> None:
    """So many milliseconds between two starts, the first one at once."""
    it = Provider(Rates(spacing=Ms(2_500)))
    assert it.ask(0)
    assert rate_limits.opens(it.meter, it.limits, 0, Ms(it.now)) == (NOW + 2_500, "spacing")
    it.now += 2_499
    assert not it.ask(0)
    it.now += 1
    assert it.ask(0)


def test_the_longest_wait_is_told() -> None:
    """Where several things are waited for, the last of them."""
    meter = rate_limits.charge(RateMeter(), 1_000, NOW)
    assert rate_limits.opens(meter, Rates(1, 1_000, Ms(90_000)), 5, NOW)[1] == "spacing"
    assert rate_limits.opens(meter, Rates(2, 1_000, Ms(2_000)), 5, NOW)[1] == "tpm"
    assert rate_limits.opens(meter, Rates(1, 9_000, Ms(2_000)), 5, NOW)[1] == "rpm"
    assert rate_limits.opens(meter, Rates(), 5, NOW) == (NOW, "")


def test_what_was_used_counts_instead_of_the_estimate() -> None:
    """Less makes room at once, more takes it, in the minute in which the request started."""
    it = Provider(Rates(tpm=1_000))
    assert it.ask(1_000)
    less = rate_limits.set_used(it.meter, NOW, 1_000, 200, Ms(NOW + 30_000))
    assert rate_limits.opens(less, it.limits, 800, Ms(NOW + 30_000))[0] == NOW + 30_000
    more = rate_limits.set_used(it.meter, NOW, 1_000, 1_500, Ms(NOW + 30_000))
    assert rate_limits.opens(more, it.limits, 1, Ms(NOW + 30_000))[0] == NOW + 61_000
    late = rate_limits.set_used(it.meter, NOW, 1_000, 9_000, Ms(NOW + 61_000))
    assert late.slots == ()


def test_what_was_never_sent_is_given_back() -> None:
    """A start and its tokens; but not more than were charged."""
    meter = rate_limits.charge(RateMeter(), 500, NOW)
    assert rate_limits.refund(meter, NOW, 500, Ms(NOW + 10)).slots == ()
    twice = rate_limits.refund(
        rate_limits.refund(rate_limits.charge(meter, 100, NOW), NOW, 500, NOW),
        NOW,
        500,
        NOW,
    )
    assert twice.slots == ()
    again = rate_limits.charge(
        rate_limits.refund(rate_limits.refund(meter, NOW, 0, NOW), NOW, 0, NOW), 0, NOW
    )
    assert again.slots == (RateSlot(NOW // 1_000, 1, 500),)
    old = rate_limits.refund(meter, Ms(NOW - 2 * MINUTE), 500, NOW)
    assert old.slots == meter.slots


def test_upstream_is_believed_where_it_has_less() -> None:
    """Its lower limit counts and what others used is charged; a higher figure changes nothing."""
    limits = Rates(rpm=10, tpm=1_000)
    meter = rate_limits.charge(RateMeter(), 100, NOW)
    found = rate_limits.correct(meter, limits, (4, 1), (500, 350), Ms(NOW + 5_000))
    assert found.slots == (RateSlot(NOW // 1_000, 1, 100), RateSlot(NOW // 1_000 + 5, 2, 50))
    assert rate_limits.opens(found, limits, 350, Ms(NOW + 5_000))[0] == NOW + 5_000
    assert rate_limits.opens(found, limits, 351, Ms(NOW + 5_000))[1] == "tpm"
    last = rate_limits.charge(found, 0, Ms(NOW + 5_000))
    assert rate_limits.opens(last, limits, 0, Ms(NOW + 5_000)) == (NOW + 61_000, "rpm")
    same = rate_limits.correct(meter, limits, (20, 20), (9_000, 9_000), NOW)
    assert same.slots == meter.slots
    assert rate_limits.opens(same, Rates(rpm=2), 0, NOW)[0] == NOW
    kept = rate_limits.correct(found, limits, (None, None), (None, None), NOW)
    assert (kept.rpm, kept.tpm) == (4, 500)
    nobody_asked = rate_limits.correct(meter, Rates(), (1, 0), (1, 0), NOW)
    assert rate_limits.opens(nobody_asked, Rates(), 5, NOW)[0] == NOW


@pytest.mark.parametrize(
    "reset, opens",
    [(None, 61_000), (0, 1_000), (5_000, 6_000), (60_000, 61_000), (7 * 86_400_000, 61_000)],
)
def test_what_upstream_counted_is_gone_when_it_says(reset: Ms | None, opens: int) -> None:
    """After its reset, to the second; after a minute if it names none, or a longer one."""
    limits = Rates(rpm=10, tpm=1_000)
    found = rate_limits.correct(RateMeter(), limits, (10, 0), (1_000, 0), NOW, reset=reset)
    for tokens in (0, 700):
        assert rate_limits.opens(found, limits, tokens, NOW)[0] == NOW + opens
    ours = rate_limits.charge(RateMeter(), 1_000, NOW)
    found = rate_limits.correct(ours, limits, (10, 0), (1_000, 0), NOW, reset=reset)
    assert rate_limits.opens(found, limits, 0, NOW)[0] == NOW + opens
    assert rate_limits.opens(found, limits, 1, NOW)[0] == NOW + 61_000, (
        "what we used is known better"
    )


@given(st.integers(0, 12), st.integers(0, 1_500), st.integers(0, 8))
def test_a_correction_never_makes_room(left: int, tokens_left: int, charged: int) -> None:
    """After a correction a request starts no earlier than before it."""
    limits, meter = Rates(rpm=8, tpm=1_000), RateMeter()
    for _ in range(charged):
        meter = rate_limits.charge(meter, 120, NOW)
    after = rate_limits.correct(meter, limits, (None, left), (None, tokens_left), Ms(NOW + 900))
    for tokens in (0, 1, 500, 1_000):
        before = rate_limits.opens(meter, limits, tokens, Ms(NOW + 900))[0]
        assert rate_limits.opens(after, limits, tokens, Ms(NOW + 900))[0] >= before


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "null",
        '"ab"',
        "[1, 2]",
        "[1, [[2]]]",
        "[1, [[1, 2, 3, 4]]]",
        '["a"]',
        "[1, [], 0, 0, 0]",
        '[1, [["a", 1, 1]]]',
        '{"a": 1}',
        "[" * 100_000,
    ],
)
def test_garbage_is_no_meter(text: str) -> None:
    """What is no meter is unreadable, and then the minute counts as used up."""
    assert METER.read(text) == Unreadable(text)
    for wanted in (Rates(rpm=9), Rates(tpm=900), Rates(rpm=MOST, spacing=Ms(70_000))):
        assert rate_limits.opens(full_meter(NOW), wanted, 1, NOW)[0] >= NOW + MINUTE


def test_a_meter_can_be_kept() -> None:
    """What is written comes back the same."""
    meter = rate_limits.correct(
        rate_limits.charge(RateMeter(), 100, NOW),
        Rates(9, 900),
        (4, 1),
        (500, 350),
        Ms(NOW + 5_000),
    )
    assert METER._read(METER.write(meter)) == meter
    assert METER._read(METER.write(RateMeter())) == RateMeter()
