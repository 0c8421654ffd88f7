"""Asks upstream what it counts, on behalf of everybody on this machine who waits.

Nobody asks while somebody else does: whoever wants to ask claims it in the store first, and the
claim runs out by itself if its process dies. The member on watch asks first; if it does not
(it may lack the key), another who waits does a moment later.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from headgate.core.admission.pools import UsageSource
from headgate.core.answers.signals import Reading
from headgate.core.times import NO_TIME, Ms, Seconds, ms, seconds
from headgate.errors import GateClosedError, StoreError
from headgate.gate.transactions.group_commit import Transactor
from headgate.ledger.learning import upstream_state
from headgate.ledger.transaction import outside_use
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.watch_duty import WatchList

if TYPE_CHECKING:
    from headgate.usage import Failed, Stream

Ask = Callable[[], object]
_TIMEOUT = Seconds(5)
_MARGIN = Ms(2_000)
_SECOND = Seconds(1)
_LATE = Seconds(3)
"""For so long a reading that is due is left to the member on watch."""
_PATIENCE = Ms(5_000)
"""For so long beyond the usual who lacks the key leaves it to those who have it."""
_QUIET = Seconds(30)
"""After which a stream that nobody asked about is closed."""


class Poller:
    """Asks in threads of its own, one per pool and time, so that nobody has to wait for it."""

    def __init__(
        self,
        transactor: Transactor,
        me: str,
        called: Callable[[], None],
        has_usage_source: Callable[[], bool],
    ) -> None:
        self._transactor = transactor
        self._me = me
        self._called = called
        self._gauged = has_usage_source
        self.functions: dict[str, Ask] = {}
        """Pools whose usage a function of this program tells."""
        self._at_it: set[str] = set()
        self._keyless: dict[str, Ms] = {}
        """Since when this process would ask about a pool if it had the key; the store's time."""
        self._not_before: dict[str, float] = {}
        self._since: dict[str, float] = {}
        """Since when, or from when on, a reading is due."""
        self._due: dict[str, float] = {}
        self._streams: dict[str, tuple[UsageSource, Stream, float]] = {}
        self._lock = threading.Lock()

    def plan(self, plan: WatchList) -> None:
        """Ask about the pools whose usage is to be read, when it is this process's turn.

        What is due stays due since then, however often it is planned again. Who is neither on
        watch nor looks out for that member asks only where the key was lacking.
        """
        now = time.monotonic()
        since = self._since
        near = plan.on_watch or plan.members
        self._since = {
            name: now + seconds(wait) if wait > 0 else min(now, since.get(name, now))
            for name, wait in plan.polls.items()
            if near or name in plan.keyless
        }
        self._due = {
            name: max(at + self._grace(plan, name), self._not_before.get(name, 0.0))
            for name, at in self._since.items()
        }

    def _grace(self, plan: WatchList, name: str) -> Seconds:
        """For how long to leave it to the member on watch, unless that one lacks the key."""
        here = name in plan.keyless and name not in self._keyless
        return Seconds(0) if plan.on_watch or here else _LATE

    def next(self) -> float | None:
        """When there is something to ask, on the monotonic clock."""
        return min((at for name, at in self._due.items() if name not in self._at_it), default=None)

    def start_due(self) -> None:
        """Begin to ask what is due."""
        now = time.monotonic()
        for name, at in list(self._due.items()):
            if now >= at and name not in self._at_it:
                with self._lock:
                    self._at_it.add(name)
                thread = threading.Thread(
                    target=self._ask, args=(name,), name="headgate-usage", daemon=True
                )
                thread.start()
        for name, (_, stream, used) in list(self._streams.items()):
            if now - used > _QUIET:
                del self._streams[name]
                stream.close()

    def close(self) -> None:
        """Ask no more."""
        self._due = {}
        for _, stream, _ in self._streams.values():
            stream.close()
        self._streams.clear()

    def refresh(self, key: str) -> None:
        """Ask now, for someone who will not wait, about pools of this key without a reading."""
        if not self._gauged():
            return
        for name in self._transactor.read(lambda ledger: unread_pools(ledger, [key])):
            with self._lock:
                busy = name in self._at_it
                self._at_it.add(name)
            if not busy:
                self._ask(name)

    def _ask(self, name: str) -> None:
        try:
            self._ask_and_tell(name)
        except (StoreError, GateClosedError):
            pass  # whoever waits tries again
        finally:
            with self._lock:
                self._at_it.discard(name)
                self._due.pop(name, None)
            self._called()

    def _ask_and_tell(self, name: str) -> None:
        transactor = self._transactor
        source = transactor.run(partial(self._claim, name=name))
        if source is None:
            return
        if _lacks_key(source):
            problem = source.no_key
            transactor.run(
                partial(
                    upstream_state.record, name=name, reading=None, asked=NO_TIME, problem=problem
                )
            )
            return
        asked = transactor.store.now()
        found, age = self._read(name, source)
        asked = max(asked, transactor.store.now() - age) if age is not None else asked
        transactor.run(
            partial(
                upstream_state.record,
                name=name,
                reading=found if isinstance(found, Reading) else None,
                asked=asked,
                problem="" if isinstance(found, Reading) else found.reason,
            )
        )

    def _claim(self, ledger: Ledger, name: str) -> UsageSource | None:
        pool = ledger.pool_set.pools.get(name)
        if pool is None or pool.usage is None:
            return None
        if _lacks_key(pool.usage):
            self._not_before[name] = time.monotonic() + _SECOND
            since = self._keyless.setdefault(name, ledger.now)
            last = max(since, Ms(outside_use.sight(ledger, name).at))
            if ledger.now - last < _PATIENCE + pool.usage.every:
                return None  # somebody who has the key may ask
        else:
            self._keyless.pop(name, None)
        patience = ms(_TIMEOUT) + _MARGIN
        claimed = upstream_state.claim(ledger, name, self._me, patience)
        return pool.usage if claimed else None

    def _read(self, name: str, source: UsageSource) -> "tuple[Reading | Failed, Ms | None]":
        """A reading, and how old it is if it was not asked for just now."""
        from headgate.usage import read
        from headgate.usage.call import ask_function

        function = self.functions.get(name)
        if function is not None:
            return ask_function(function, name, _TIMEOUT), None
        if source.kind != "featherless":
            return read(source, environ=os.environ, timeout=_TIMEOUT), None
        return self._listen(name, source)

    def _listen(self, name: str, source: UsageSource) -> "tuple[Reading | Failed, Ms | None]":
        """The newest reading of a stream, which is opened on the first call and then kept."""
        from headgate.usage import Failed, Stream

        kept = self._streams.get(name)
        if kept is None or kept[0] != source:
            if kept is not None:
                kept[1].close()
            kept = (source, Stream(source, environ=os.environ), 0.0)
        stream = kept[1]
        self._streams[name] = (source, stream, time.monotonic())
        deadline = time.monotonic() + _TIMEOUT
        while time.monotonic() < deadline:
            latest = stream.latest
            age = time.monotonic() - latest.at if latest is not None else _TIMEOUT
            if latest is not None and age < _TIMEOUT:
                return latest.reading, ms(Seconds(age))
            if stream.trouble:
                break
            time.sleep(0.05)
        return Failed(stream.trouble or "the stream says nothing"), None


def _lacks_key(source: UsageSource) -> bool:
    return bool(source.key_env) and not os.environ.get(source.key_env)


def unread_pools(ledger: Ledger, keys: Iterable[str]) -> set[str]:
    """The pools of some keys that let nobody in before there is a reading."""
    pools = {pool for key in keys for pool in ledger.pool_set.of(key)}
    ledger.look_up(pools)
    return {pool.name for pool in pools} & ledger.use.unread
