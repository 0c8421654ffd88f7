"""Ask what would become of some work if it were all started now, and start nothing."""

import time
from collections.abc import Callable, Iterable

from headgate.core.admission.candidates import DEFER, START, Candidate, Plan, Verdict
from headgate.core.admission.seats import Reason
from headgate.core.display.snapshots import explain
from headgate.core.key_patterns import NO_KEY, matches, parse_key
from headgate.core.quantities import parse_priority, parse_task, parse_tokens, parse_weight
from headgate.core.roles import parse_roles
from headgate.core.times import Ms, Seconds, seconds
from headgate.errors import UsageError
from headgate.gate.process_runtime import Runtime
from headgate.gate.usage_poller import unread_pools
from headgate.ledger.admission.admit import Request
from headgate.ledger.learning import apply_signals
from headgate.ledger.queries.forecast import Forecast, forecast
from headgate.ledger.transaction.ledger import Ledger


def plan(
    runtime: Runtime,
    candidates: Iterable[Candidate],
    view: str,
    lender: int,
    since: Callable[[float | None], Ms],
) -> Plan:
    """A verdict for each candidate; those without a `since` begin now."""
    given = list(candidates)
    like = Request(
        key=NO_KEY,
        member=runtime.registry.me,
        machine=runtime.membership.machine,
        lender=lender,
        view=view,
    )
    requests = [_request(n, one, like, since) for n, one in enumerate(given, 1)]
    _refresh(runtime, {request.uses for request in requests})

    def look(ledger: Ledger) -> Plan:
        words = _Words(ledger.now)
        verdicts = (
            _verdict(one, request, found, words)
            for one, request, found in zip(given, requests, forecast(ledger, requests), strict=True)
        )
        return Plan(tuple(verdicts), Seconds(time.time()))

    return runtime.transactor.read(look)


def write_deferrals(ledger: Ledger, found: Plan) -> None:
    """Keep an event of each candidate that would have to wait; of the first thousand."""
    deferred = [one for one in found.verdicts if one.verdict == DEFER]
    for one in deferred[:_MOST_TOLD]:
        text = f"{one.reason} ({one.code})"
        text = f"{one.name}: {text}" if one.name else text
        ledger.tell("deferred", text, key=one.key, task=one.task, pool=one.pool or "")
    if len(deferred) > _MOST_TOLD:
        ledger.tell("deferred", f"and {len(deferred) - _MOST_TOLD} more")


def _request(
    number: int, one: Candidate, like: Request, since: Callable[[float | None], Ms]
) -> Request:
    try:
        return like._replace(
            key=parse_key(one.key) if one.key is not None else NO_KEY,
            weight=parse_weight(one.weight),
            urgency=-parse_priority(one.priority),
            since=since(one.since),
            task=parse_task(one.task),
            tokens=parse_tokens(one.tokens),
            roles=parse_roles(one.roles),
        )
    except UsageError as error:
        raise UsageError(f"candidate {number}: {error}") from None


def _refresh(runtime: Runtime, keys: set[str]) -> None:
    """Do first what asking for seats would do first.

    Old probes are taken for accepted, and pools that need a reading get one.
    """
    if runtime.transactor.read(lambda ledger: apply_signals.untidy(ledger, keys)):
        runtime.transactor.run(lambda ledger: apply_signals.tidy(ledger, *keys))
    if not runtime.has_usage_source():
        return
    for name in runtime.transactor.read(lambda ledger: unread_pools(ledger, keys)):
        key = next((key for key in keys if matches(name, key)), None)
        if key is not None:
            runtime.poller.refresh(key.partition(" ")[0])


_MOST_TOLD = 1_000
"""Of so many deferrals there are events: there is room for ten thousand of all kinds."""


class _Words:
    """Reasons in words; thousands of candidates have the same ones."""

    def __init__(self, now: Ms) -> None:
        self._now = now
        self._found: dict[tuple[Reason, ...], str] = {}

    def of(self, reasons: tuple[Reason, ...]) -> str:
        """All of them as one text."""
        found = self._found.get(reasons)
        if found is None:
            found = "; ".join(explain(reason, self._now) for reason in reasons)
            self._found[reasons] = found
        return found


def _verdict(one: Candidate, request: Request, found: Forecast, words: _Words) -> Verdict:
    first = found.reasons[0] if found.reasons else None
    return Verdict(
        verdict=DEFER if first else START,
        name=one.name,
        key=request.key,
        task=request.task,
        priority=-request.urgency,
        weight=request.weight,
        code=first.code if first else None,
        pool=first.pool if first else None,
        reason=words.of(found.reasons) if first else None,
        position=found.position,
        eta=None if found.eta is None else seconds(found.eta),
    )
