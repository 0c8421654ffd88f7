"""One more request at a time, until an account refuses one.

Going up by one, a single request is refused: the first that is too many. After it nothing more is
tried than what is one below, once. Between two levels there is a rest, for a provider goes on
counting for a while what has ended. All of a level are under way at once: they are sent in one
moment, and none may have ended before the last was sent.
"""

import time
from collections.abc import Callable

from headgate.core.answers.signals import CONCURRENCY, OVERLOADED, QUOTA, RATE, Signal
from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import show_seconds
from headgate.core.times import NO_TIME, Seconds, seconds
from headgate.errors import HeadgateError
from headgate.probe.ask import ApiEndpoint, ProbeAnswer, ask_together

_TOKENS = (16, 128)
"""How long an answer may be; the second if answers of the first length do not overlap."""
_PATIENCE = Seconds(300)
"""Beyond which nobody waits for a Retry-After."""


class AccountProbeOptions(NamedTuple):
    """How far a probe goes, and how gently."""

    most: int = 8
    rest: Seconds = Seconds(3)
    """Between two levels."""
    timeout: Seconds = Seconds(60)

    @property
    def budget(self) -> int:
        """The most requests that it can take: each level, one of them twice, one below once."""
        return self.most * (self.most + 1) // 2 + 2 * self.most


class AccountProbeResult(NamedTuple):
    """What a probe of an account has found."""

    limit: int | None
    """How many it takes at once; None if it took as many as were tried, or nobody knows."""
    works: int
    """How many at once were all accepted."""
    confirmed: bool
    kind: str
    """What the refusal said; empty if there was none."""
    reasons: tuple[str, ...]
    spent: int
    refused: int


class _Level(NamedTuple):
    answers: list[ProbeAnswer]
    refusal: Signal | None

    @property
    def together(self) -> bool:
        """Whether all of them were under way at once."""
        sent = max(answer.sent for answer in self.answers)
        return sent < min(answer.ended for answer in self.answers)


class _Prober:
    """One probe on its way."""

    def __init__(
        self,
        target: ApiEndpoint,
        options: AccountProbeOptions,
        say: Callable[[str], None],
        sleep: Callable[[float], None],
    ) -> None:
        self.target = target
        self.options = options
        self.say = say
        self.sleep = sleep
        self.tokens = _TOKENS[0]
        self.spent = 0
        self.refused = 0

    def level(self, count: int) -> _Level:
        """Send so many at once."""
        answers = ask_together(self.target, count, self.tokens, self.options.timeout)
        self.spent += count
        refusal = None
        for answer in answers:
            said = answer.signal
            if said is not None and said.kind in {CONCURRENCY, RATE, QUOTA}:
                self.refused += 1
                refusal = said
        if refusal is None:
            for answer in answers:
                self._check(answer, count)
        return _Level(answers, refusal)

    def _check(self, answer: ProbeAnswer, count: int) -> None:
        """Raise what is wrong with an answer that is neither yes nor a refusal."""
        if 200 <= answer.status < 300 and not (answer.signal and answer.signal.kind == OVERLOADED):
            return
        host, key = self.target.host[:80], self.target.key_env
        if answer.trouble or not answer.status:
            said = answer.trouble or f"{host} did not answer"
        elif answer.status in {401, 403}:
            said = f"{host} answered {answer.status}; is {key} right?"
        elif answer.signal is not None:
            said = f"{host} is overloaded ({answer.status}), whoever asks; try again later"
        else:
            said = f"{host} answered {answer.status}; are the URL, --api and the model right?"
        raise HeadgateError(f"the probe stopped at {count} at once: {said}")

    def climb(self) -> tuple[int, Signal | None, str]:
        """One more at a time; how many worked, and what stopped it."""
        count = 1
        while count <= self.options.most:
            if count > 1:
                self.sleep(self.options.rest)
            found = self.level(count)
            if found.refusal is not None:
                self.say(f"{count} at once: refused ({found.refusal.kind})")
                return count - 1, found.refusal, ""
            if not found.together:
                if self.tokens == _TOKENS[-1]:
                    return count - 1, None, f"answers come too fast for {count} to be under way"
                self.tokens = _TOKENS[-1]
                continue
            self.say(f"{count} at once: accepted")
            count += 1
        return self.options.most, None, f"no limit up to {self.options.most}"


def probe_account(
    target: ApiEndpoint,
    options: AccountProbeOptions,
    *,
    say: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> AccountProbeResult:
    """Find out how many requests at once an account takes."""
    it = _Prober(target, options, say, sleep)
    works, refusal, why = it.climb()
    if refusal is None:
        return AccountProbeResult(None, works, confirmed=True, kind="", reasons=(why,), **_cost(it))
    if not works:
        raise HeadgateError(
            f"{target.host[:80]} refused a single request ({refusal.kind}): "
            "others use the account now, or it is closed; try again later"
        )
    if refusal.kind != CONCURRENCY:
        why = f"{works} at once worked, then it was {refusal.kind}: that is no limit on how many"
        return AccountProbeResult(
            None, works, confirmed=False, kind=refusal.kind, reasons=(why,), **_cost(it)
        )
    return _confirm(it, works, refusal)


def _confirm(it: _Prober, works: int, refusal: Signal) -> AccountProbeResult:
    """See that one below what was refused still works, when upstream wants to be asked again."""
    wait = max(it.options.rest, seconds(refusal.retry_after or NO_TIME))
    reasons = [f"{works} at once were accepted, {works + 1} were not"]
    confirmed = False
    if wait > _PATIENCE:
        reasons.append(f"not confirmed: it wants {show_seconds(wait)} of peace")
    else:
        it.say(f"waiting {show_seconds(wait)}, then {works} once more")
        it.sleep(wait)
        again = it.level(works).refusal
        confirmed = again is None
        if again is None:
            reasons.append(f"{works} at once were accepted once more after that")
        else:
            works = max(1, works - 1)
            reasons.append(f"then {works + 1} were refused too: others use the account as well")
    return AccountProbeResult(
        works, works, confirmed=confirmed, kind=CONCURRENCY, reasons=(*reasons,), **_cost(it)
    )


def _cost(it: _Prober) -> dict[str, int]:
    return {"spent": it.spent, "refused": it.refused}
