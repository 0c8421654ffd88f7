"""What the configuration says, followed while it changes."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from headgate import config as configuration
from headgate.core.admission.pools import NOTHING, Declared, UsageSource
from headgate.core.key_patterns import parse_pattern
from headgate.core.times import Seconds
from headgate.gate.host.memory_and_load import HostGauge
from headgate.gate.transactions.operation import Participant
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.pool_resolver import PoolResolver

if TYPE_CHECKING:
    from headgate.config import Config
    from headgate.core.answers.answer_rules import Rule
    from headgate.core.host.pressure import Host

_LOOK = Seconds(0.5)
Source = configuration.Watched | configuration.Defaults


class Settings(Participant):
    """The configuration of one gate, and its own view and functions laid over it."""

    def __init__(
        self, source: Source, view: str, usage: Mapping[str, Callable[[], object]] | None = None
    ) -> None:
        self.view = view
        self.functions = {parse_pattern(name): call for name, call in (usage or {}).items()}
        """How this program itself tells what upstream counts, by pool."""
        self._source = source
        self.resolver = PoolResolver(self._pools(), source.config.defaults, HostGauge())
        self._problems: deque[str] = deque()
        """What is wrong with a file that was changed: an event, in time."""
        self._next_look = 0.0

    @property
    def config(self) -> "Config":
        """What it says now."""
        return self._source.config

    @property
    def known(self) -> bool:
        """Whether the limits are known; not so if the file cannot be read."""
        return not isinstance(self._source, configuration.Defaults)

    def look_at_host(self) -> "Host | None":
        """How this machine is now; None if it cannot be told."""
        return self.resolver.gauge.look() if self.resolver.gauge else None

    def refresh(self) -> None:
        """Follow the configuration file, looking at it no more often than twice a second."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK
        fresh = self._source.fresh()
        if fresh is not None:
            self.resolver.declare(self._pools(), fresh.defaults)
        if self._source.problem:
            self._problems.append(self._source.problem)
            self._source.problem = None

    def begin(self, ledger: Ledger) -> None:
        """Have the store keep what the file says, and tell what is wrong with it."""
        ledger.tx.retain(self._source.config.store)
        while self._problems:
            ledger.tell("config_refused", self._problems.popleft())

    def rules(self) -> "tuple[Rule, ...]":
        """How to read what upstream answers."""
        from headgate.core.answers.builtin_rules import BUILTIN

        return (*self.config.classify, *BUILTIN)

    def _pools(self) -> Mapping[str, Declared]:
        """What the file says of pools, and this gate's own functions."""
        pools = dict(self._source.config.pools)
        source = UsageSource("python", call="(this program)")
        for name in self.functions:
            pools[name] = pools.get(name, NOTHING)._replace(usage=source)
        return pools
