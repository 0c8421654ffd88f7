"""The provider behind the server: its accounts, who is inside, and what is written down about it.

Nothing here waits: whoever asks is let in or refused, counted and written down in one step, so
that no other request of the same event loop can come in between.
"""

import random
import time
from collections import Counter
from collections.abc import Callable
from hashlib import sha256

from headgate.core.named_tuple import NamedTuple
from headgate.sim.dialects.dialect import Dialect, Limits, Rate, Refusal, kind_of
from headgate.sim.journal import Journal, JournalLine
from headgate.sim.server.behaviour import Behaviour, RequestOptions, Script
from headgate.sim.upstream import ProviderPlan, Upstream

MINUTE = 60_000
SOON = 60_000
"""Milliseconds before its quota is gone from which on an account is warned."""


class Who(NamedTuple):
    """Where a request comes from."""

    session: int
    account: str = ""
    model: str = ""
    task: str = ""


class Visit(NamedTuple):
    """A request that was let in."""

    who: Who
    begun: int
    script: Script

    @property
    def end(self) -> int:
        """When it will have been answered."""
        return self.begun + self.script.duration


class Account(Upstream):
    """One key's account: the provider model, and who is really inside."""

    def __init__(self, plan: ProviderPlan, seed: int) -> None:
        super().__init__(plan, seed)
        self.inside: dict[int, Visit] = {}
        self.models: Counter[str] = Counter()
        """Requests inside, model by model."""
        self.answers: Counter[str] = Counter()
        """How many were accepted and refused, kind by kind."""

    def change(self, plan: ProviderPlan) -> None:
        """Behave otherwise from now on."""
        self.plan = plan
        self._weights = dict(plan.weights)
        self._model_caps = dict(plan.model_caps)

    def model_cap(self, model: str) -> int | None:
        """How much of a model may be in flight."""
        return self._model_caps.get(model)

    def over(self, now: int, model: str) -> int:
        """By how much one more request of a model would be too many."""
        weight = self._weights.get(model, 1)
        most = self._model_caps.get(model)
        single = 0 if most is None else self._model_load.get(model, 0) + weight - most
        return max(0, single, self.counted(now) + weight - self.cap(now))

    def sessions(self, now: int, in_use: int) -> int:
        """What the usage endpoint says in requests, where models weigh differently."""
        if not self._weights:
            return in_use
        return len(self._active) + len(self._leaving) + self.counted(now) - self._load

    def limits(self, now: int) -> Limits:
        """What is left of the rates and of the quota."""
        plan = self.plan
        self._forget(now)
        requests = tokens = None
        if plan.rpm:
            last = self._requests[-1] + MINUTE - now if self._requests else 0
            requests = Rate(plan.rpm, max(0, plan.rpm - len(self._requests)), last)
        if plan.tpm:
            last = self._tokens[-1][0] + MINUTE - now if self._tokens else 0
            used = sum(n for _, n in self._tokens)
            tokens = Rate(plan.tpm, max(0, plan.tpm - used), last)
        for start, end in plan.quota:
            if now < end:
                near = "allowed_warning" if now + SOON >= start else "allowed"
                return Limits(requests, tokens, "rejected" if start <= now else near, end - now)
        return Limits(requests, tokens)


class Provider:
    """All accounts, under one plan and one clock."""

    def __init__(
        self, plan: ProviderPlan, behaviour: Behaviour, journal: Journal, seed: int = 0
    ) -> None:
        self.first_plan, self.first_manner, self.seed = plan, behaviour, seed
        self.journal = journal
        self._session = 0
        self._start()

    def _start(self) -> None:
        self.plan, self.behaviour = self.first_plan, self.first_manner
        self.chance = random.Random(self.seed)  # noqa: S311 - a simulation wants it repeatable
        self.first = Account(self.plan, self.seed)
        """The account of whoever comes first."""
        self.accounts: dict[str, Account] = {}
        self._asked: Counter[tuple[str, str]] = Counter()
        self._began = time.monotonic_ns()

    def now(self) -> int:
        """Milliseconds since the plan began."""
        return (time.monotonic_ns() - self._began) // 1_000_000

    def next_session(self) -> int:
        """A number for a request."""
        self._session += 1
        return self._session

    def account(self, name: str) -> Account:
        """The account of a hashed key."""
        found = self.accounts.get(name)
        if found is None:
            number = len(self.accounts)
            found = Account(self.plan, self.seed + number) if number else self.first
            self.accounts[name] = found
        return found

    def ask(
        self,
        who: Who,
        script: Script,
        wanted_options: RequestOptions,
        dialect: Dialect,
        *,
        tokens: int = 0,
    ) -> Visit | Refusal:
        """Let a request in, or refuse it."""
        now, account = self.now(), self.account(who.account)
        over = account.over(now, who.model)
        failing = self.chance.random() < self.behaviour.errors
        refusal = self._requested_refusal(who, wanted_options)
        if refusal is None and failing:
            refusal = Refusal("error")
        if refusal is not None:
            return self.refused(who, refusal, dialect)
        answer = account.ask(now, who.session, who.model, tokens)
        if answer.kind != "accepted":
            refusal = Refusal(answer.kind, retry_after=answer.retry_after)
            over = over if answer.kind == "concurrency" else 0
            return self.refused(who, refusal, dialect, over=over)
        visit = Visit(who, now, script.stretched(answer.slowdown))
        account.inside[who.session] = visit
        account.models[who.model] += 1
        account.answers["accepted"] += 1
        self.record("enter", who, status=200)
        return visit

    def _requested_refusal(self, who: Who, wanted_options: RequestOptions) -> Refusal | None:
        if wanted_options.status is None and wanted_options.refuse is None:
            return None
        if wanted_options.times is not None:
            self._asked[who.account, wanted_options.text] += 1
            if self._asked[who.account, wanted_options.text] > wanted_options.times:
                return None
        kind = wanted_options.refuse or kind_of(wanted_options.status or 0)
        return Refusal(kind, retry_after=wanted_options.retry_after, status=wanted_options.status)

    def refused(self, who: Who, refusal: Refusal, dialect: Dialect, *, over: int = 0) -> Refusal:
        """Write down that a request was not let in."""
        if who.account in self.accounts:
            self.accounts[who.account].answers[refusal.kind] += 1
        status = refusal.status or dialect.status(refusal.kind)
        self.record("refused", who, kind=refusal.kind, over=over, status=status)
        return refusal._replace(status=status)

    def end(self, visit: Visit, event: str, note: str = "") -> bool:
        """A request has ended, in one of three ways. Only the first end counts."""
        who = visit.who
        account = self.accounts.get(who.account)
        if account is None or account.inside.pop(who.session, None) is not visit:
            return False
        now = self.now()
        early = max(1, visit.end - now) if event == "cancelled" else 0
        account.leave(now, who.session, cancelled_for=early)
        account.models -= Counter([who.model])
        account.answers[event] += 1
        self.record(event, who, status=499 if event == "cancelled" else 200, note=note)
        return True

    def record(self, event: str, who: Who | None = None, **fields: object) -> JournalLine:
        """Write something down, with the counts of this moment."""
        now, who = self.now(), who or Who(0)
        account = self.accounts.get(who.account)
        if account is not None:
            fields |= {
                "in_flight": len(account.inside),
                "model_in_flight": account.models[who.model],
                "counted": account.counted(now),
                "cap": account.cap(now),
                "model_cap": account.model_cap(who.model),
            }
        return self.journal.write(event, now, **who._asdict(), **fields)

    def visits(self) -> list[Visit]:
        """Everybody inside."""
        return [visit for account in self.accounts.values() for visit in account.inside.values()]

    def change(
        self, how: Callable[[ProviderPlan], ProviderPlan], behaviour: Behaviour, note: str
    ) -> None:
        """Behave otherwise from now on, towards every account."""
        self.plan, self.behaviour = how(self.plan), behaviour
        for account in {id(one): one for one in (self.first, *self.accounts.values())}.values():
            account.change(how(account.plan))
        self.record("plan", note=note)

    def reset(self) -> None:
        """Begin anew, as at the start. Whoever is inside must have been ended before."""
        self._start()
        self.journal.forget()
        self.record("reset")


def account_of(key: str) -> str:
    """The name of a key's account: a hash, so that no log knows the key."""
    return sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:12]
