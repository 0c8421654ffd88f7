"""The seats a program holds, and how they are given back."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from headgate.core.answers.signals import USAGE, Signal, parse_signal, parse_wait
from headgate.core.quantities import parse_task, parse_tokens
from headgate.core.times import Ms, Seconds
from headgate.errors import HeadgateError, UsageError
from headgate.gate.liveness.process_marks import MARK
from headgate.ledger.learning import apply_signals, rate_charges
from headgate.ledger.transaction.ledger import Ledger

if TYPE_CHECKING:
    from headgate.core.answers.answer_rules import Rule


class LeaseOwner(Protocol):
    """What a lease asks of the process that holds it."""

    def release(self, lease: "Lease", *, completed: bool, accepted: bool) -> None:
        """Give a lease's seats back, now or as soon as the store can be written."""

    def report(self, lease: "Lease", do: Callable[[Ledger], object]) -> None:
        """Have something of a lease kept as soon as the store can be written; does not wait."""

    def rules(self) -> "tuple[Rule, ...]":
        """How to read what upstream answers."""


class Lease:
    """All the seats one admitted piece of work holds. Give them back with `release`, once or often.

    id        a number never used again, as in `headgate why 12`
    key       what the work uses; empty for work that uses no model
    task      whom it is for
    weight    how many seats it takes in each of its pools
    waited    how many seconds it stood in line
    """

    def __init__(
        self,
        owner: LeaseOwner,
        id: int,
        *,
        key: str,
        task: str,
        weight: int,
        mark: str,
        waited: Seconds,
    ) -> None:
        self.id = id
        self.key = key
        self.task = task
        self.weight = weight
        self.waited = waited
        self.ended_by: HeadgateError | None = None
        self._mark = mark
        self.on_end: Callable[[HeadgateError], None] | None = None
        self._owner = owner
        self._released = False
        self._lock = threading.Lock()

    @property
    def released(self) -> bool:
        """Whether the seats were given back by this program."""
        return self._released

    @property
    def environment(self) -> dict[str, str]:
        """What a program started under this lease should find in its environment."""
        return {MARK: self._mark, "HEADGATE_TASK": self.task}

    def release(self, *, completed: bool = True, accepted: bool = False) -> bool:
        """Give the seats back now; True the first time, and False ever after. Any thread may.

        completed   False if upstream was broken off: it may go on for a while with what it had
                    accepted, so the seats rest for as long as that usually takes
        accepted    upstream has accepted it, which nobody was told of before
        """
        with self._lock:
            first, self._released = not self._released, True
        if first:
            try:
                self._owner.release(self, completed=completed, accepted=accepted)
            except BaseException:  # Ctrl-C: whoever releases again, as `finally` does, is heard
                self._released = False
                raise
        return first

    def report(
        self,
        signal: str,
        *,
        retry_after: float | str | None = None,
        tokens: int | None = None,
        account: bool = False,
        note: str = "",
    ) -> None:
        """Tell what upstream said to this piece of work, as in `accepted`.

        retry_after   for how many seconds upstream asks to be left alone
        tokens        how many tokens the work has used so far, for pools with a `tpm`
        account       the answer holds for the whole account, not for this model only
        Returns at once; the pools know it as soon as the store does.
        """
        kind = parse_signal(signal)
        if kind == USAGE:
            raise UsageError("bad signal 'usage': a lease has no usage; tell it with gate.report")
        told = Signal(kind, parse_wait(retry_after), account=account, note=parse_task(note, "note"))
        used = None if tokens is None else parse_tokens(tokens)

        def apply(ledger: Ledger) -> None:
            apply_signals.report(ledger, told, lease=self.id, key=self.key)
            if used is not None:
                rate_charges.spend(ledger, self.id, used)

        self._owner.report(self, apply)

    def tell(self, signal: Signal) -> None:
        """The same, for a signal that was read off an answer or off a program's output."""
        self._owner.report(
            self, lambda ledger: apply_signals.report(ledger, signal, lease=self.id, key=self.key)
        )

    def still_refused(self, signal: Signal, length: Ms) -> None:
        """Tell that it still waits because of a signal: its pool stays closed so long, if it is."""
        self._owner.report(
            self, lambda ledger: apply_signals.still_refused(ledger, signal, length, self.key)
        )

    def answered(
        self,
        status: int,
        headers: Mapping[str, str] | Iterable[tuple[str, str]],
        body: str | bytes | None = b"",
    ) -> str | None:
        """Learn from an HTTP answer to this piece of work; returns the signal that it was."""
        from headgate.core.answers.classify import Response, classify
        from headgate.core.answers.retry_after import rate_headers

        provider = self.key.partition("/")[0]
        now = Seconds(time.time())
        pairs = headers.items() if hasattr(headers, "items") else headers
        plain = {str(name): str(value) for name, value in pairs}
        text = body if isinstance(body, str) else bytes(body or b"")
        found = classify(Response(int(status), plain, text, provider), now, self._owner.rules())
        left = rate_headers(plain, now)

        def apply(ledger: Ledger) -> None:
            if left is not None:
                rate_charges.correct(ledger, self.id, left)
            if found is not None:
                apply_signals.report(ledger, found, lease=self.id, key=self.key)

        if found is not None or left is not None:
            self._owner.report(self, apply)
        return None if found is None else found.kind

    def when_ended(self, function: Callable[[HeadgateError], None] | None) -> None:
        """Call a function when somebody asks for this work to end; at once if that has happened."""
        with self._lock:
            self.on_end, ended = function, self.ended_by
        if ended is not None and function is not None:
            function(ended)

    def end(self, error: HeadgateError) -> None:
        """Somebody wants this work to end: tell whoever does the work, once."""
        with self._lock:
            first = self.ended_by is None and not self._released
            if first:
                self.ended_by = error
            function = self.on_end
        if first and function is not None:
            function(error)

    def __repr__(self) -> str:
        """Show what it is."""
        state = "released" if self._released else "held"
        return f"<Lease {self.id} {self.key or 'host'} {state}>"


current_lease: ContextVar[Lease | None] = ContextVar("current_lease", default=None)
"""The lease of the innermost `with gate.slot` around this thread or task."""
