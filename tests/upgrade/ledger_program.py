"""A ledger that is told what to do, one line of JSON at a time; it answers with who has seats.

It is run with either version's modules on the same store, so it uses only what both have, and its
clock is what it is told.
"""
# ruff: noqa: E402 - the modules of the version before get their new names first

import json
import sys
import traceback
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

MOVED = {
    "headgate.core.admission.pools": "headgate.core.pools",
    "headgate.core.answers.signals": "headgate.core.signals",
    "headgate.core.host.pressure": "headgate.core.strain",
    "headgate.gate.liveness.local_members": "headgate.gate.roll",
    "headgate.ledger.limits_by_hand": "headgate.ledger.tune",
    "headgate.ledger.release": "headgate.ledger.leave",
    "headgate.ledger.dead_members": "headgate.ledger.leave",
    "headgate.ledger.admission.admit": "headgate.ledger.admit",
    "headgate.ledger.learning.apply_signals": "headgate.ledger.learn",
    "headgate.ledger.learning.upstream_state": "headgate.ledger.upstream",
    "headgate.ledger.transaction.host_pressure": "headgate.ledger.strain",
    "headgate.ledger.transaction.ledger": "headgate.ledger.ledger",
    "headgate.ledger.transaction.pool_resolver": "headgate.ledger.ledger",
    "headgate.ledger.transaction.rows": "headgate.ledger.rows",
}
"""Modules of this version, and what they were called in the version before."""
RENAMED = {
    "headgate.gate.roll": {"LocalRegistry": "HomeRoll"},
    "headgate.ledger.leave": {"remove_dead_members": "sweep"},
    "headgate.ledger.ledger": {"PoolResolver": "Pages"},
    "headgate.ledger.upstream": {"record_foreign": "sighted"},
}
"""What is in them, and what it was called."""

if find_spec("headgate.core.strain") is not None:  # these are the modules of the version before
    for now, before in MOVED.items():
        package, _, name = now.rpartition(".")
        folder = sys.modules.setdefault(package, ModuleType(package))
        sys.modules[now] = import_module(before)
        setattr(folder, name, sys.modules[now])
    for module, names in RENAMED.items():
        for new, old in names.items():
            setattr(sys.modules[module], new, getattr(sys.modules[module], old))

from headgate.core.admission.pools import Declared, UsageSource
from headgate.core.answers.signals import Reading, Signal
from headgate.core.host.pressure import Host
from headgate.gate.liveness.local_members import LocalRegistry
from headgate.ledger import dead_members, limits_by_hand, release
from headgate.ledger.admission import admit
from headgate.ledger.learning import apply_signals, upstream_state
from headgate.ledger.transaction import host_pressure
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.pool_resolver import PoolResolver
from headgate.ledger.transaction.rows import Member
from headgate.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from headgate.core.times import Ms
else:
    Ms = int  # as it is where this runs; the version before has no name for it

POOLS = {
    "host": Declared(limit=99, memory_floor=2**30, load_ceiling=4.0),
    "a": Declared(limit=8, cooldown=Ms(0)),
    "free": Declared(limit="learn", cooldown=Ms(5_000)),
    "rates": Declared(rpm=5, tpm=600, spacing=Ms(700), adapt="off"),
    "read": Declared(limit=9, usage=UsageSource("python", call="x:y")),
    "told": Declared(limit=9, adapt="off"),
    "seen": Declared(limit=4, adapt="off", observe=("agent",)),
    "line": Declared(limit=2, adapt="off"),
}


class Gauge:
    """A container of this machine, and how it is there."""

    def __init__(self, space: str, host: Host) -> None:
        self.space = space
        self._host = host

    def look(self) -> Host:
        return self._host


class Program:
    """One process on the store."""

    def __init__(self, path: str) -> None:
        self.now = 0
        self.store = SqliteStore(Path(path), synchronous="OFF", clock=lambda: self.now)
        self.resolver = PoolResolver(POOLS)
        self.liveness = LocalRegistry(lambda: None)
        self.liveness.me = "p"
        self.liveness.join()

    def step(self, now: int, what: str, words: dict[str, Any]) -> list[int]:
        self.now = now
        self.resolver.gauge = None
        if what == "strain":
            self.resolver.gauge = Gauge(words["space"], Host(*words["host"]))
        with self.store.transaction(write=True) as tx:
            ledger = Ledger(tx, self.resolver, Ms(now), self.liveness, "m")
            if what == "join":
                tx.add_member(Member("p", "m", 1, "", Ms(0)))
            else:
                dead_members.remove_dead_members(ledger)
                getattr(self, what)(ledger, **words)
            while ledger.unsettled:
                admit.settle(ledger)
                if ledger.blocked:
                    dead_members.remove_dead_members(ledger)
            return [row.id for row in tx.leases(0, 1_000)]

    def ask(
        self,
        ledger: Ledger,
        *,
        key: str,
        count: int,
        weight: int = 1,
        urgency: int = 0,
        tokens: int = 0,
    ) -> None:
        for _ in range(count):
            request = admit.Request(key, "p", "m", weight, urgency, ledger.now, tokens=tokens)
            admit.ask(ledger, request)

    def release(self, ledger: Ledger, id: int) -> None:
        release.release(ledger, id)

    def report(self, ledger: Ledger, kind: str, id: int) -> None:
        apply_signals.report(ledger, Signal(kind, Ms(0)), lease=id)

    def claim(self, ledger: Ledger, pool: str) -> None:
        upstream_state.claim(ledger, pool, "p", Ms(1_000))

    def usage(self, ledger: Ledger, pool: str, in_use: float | None) -> None:
        reading = None if in_use is None else Reading(in_use, 5, note="é")
        upstream_state.record(ledger, pool, reading, asked=Ms(ledger.now - 50), problem="timeout")

    def sighted(self, ledger: Ledger, space: str, programs: int) -> None:
        upstream_state.record_foreign(ledger, space, {"seen": programs})

    def strain(self, ledger: Ledger, space: str, host: list[Any]) -> None:
        host_pressure.tell(ledger)

    def limit(self, ledger: Ledger, pool: str, limit: int) -> None:
        limits_by_hand.set_limit(ledger, pool, limit)

    def rest(self, ledger: Ledger) -> None:
        if hasattr(ledger, "reconsider"):
            ledger.reconsider()
        else:
            vars(ledger)["unsettled"] = True  # so it was in the version before


def main() -> None:
    """Do what each line says."""
    program = Program(sys.argv[1])
    for line in sys.stdin:
        try:
            said: object = program.step(*json.loads(line))
        except Exception:  # noqa: BLE001 - whatever it is, the test shows it
            said = traceback.format_exc()
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


main()
