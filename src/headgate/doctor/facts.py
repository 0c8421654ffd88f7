"""What the checks are about, gathered once; what cannot be had is a finding."""

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from headgate.config import Config, Defaults
from headgate.core import wall_clock
from headgate.core.display.deadlock import Deadlock
from headgate.core.display.snapshots import Status
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import NO_TIME, Ms, Seconds, ms
from headgate.doctor.finding import Finding, note, ok, problem
from headgate.errors import HeadgateError, UsageError
from headgate.gate import Gate
from headgate.ledger.transaction.rows import Member
from headgate.store import Store, open_store
from headgate.store.locate import state_folder
from headgate.store.memory import MemoryStore
from headgate.store.urls import file_of, show_url

_EVENTS = 10_000
_LEASES = 1_000_000
_REFUSALS = {"refused", "limit_reduced"}


class StoreContents(NamedTuple):
    """What a store tells of the past."""

    keys: Mapping[str, Ms | None] = {}
    """The keys that were used or asked for, each with how long it was usually held."""
    started: Mapping[str, int] = {}
    """How often each key was let in lately, as far as events tell."""
    overdue: Mapping[str, int] = {}
    """How often work of each key was ended by `max_hold` lately."""
    clock: Ms = NO_TIME
    """By how much the store's clock is ahead of the wall clock."""
    unseen: Ms = NO_TIME
    """How much time has passed by a clock that is doubted."""
    members: tuple[Member, ...] = ()
    """The processes that hold or wait, of whatever version, and some that were killed."""
    schema: int = 0
    """The newest schema that this version knows."""
    refused: Mapping[str, int] = {}
    """How often upstream refused work of each pool lately because too much of it ran at once."""
    leases: frozenset[int] = frozenset()
    """The work that holds seats."""


class Facts(NamedTuple):
    """Everything there is to look at."""

    config: Config
    environ: Mapping[str, str]
    url: str
    status: Status
    path: Path | None = None
    """The store's file, if it has one."""
    folder: Path | None = None
    """Where its members keep their pipes; None if it could not be opened."""
    seen: StoreContents = StoreContents()
    deadlocks: tuple[Deadlock, ...] = ()


def store_path(url: str) -> Path | None:
    """The file of a store that has one."""
    try:
        found = file_of(url)
    except UsageError:  # which opening it tells
        return None
    return found[0] if found else None


def gather(
    config: Config, environ: Mapping[str, str], url: str, view: str
) -> tuple[Facts, list[Finding]]:
    """Read the store, if there is one yet; without one, the limits are those of the settings."""
    path = store_path(url)
    facts = Facts(
        config=config,
        environ=environ,
        url=url,
        status=_look(MemoryStore(), config, view)[0],
        path=path,
    )
    where = show_url(url)
    if path is not None and not path.exists():
        return facts, [_missing(path, where)]
    try:
        store = open_store(url)
        seen = _look_back(store)
        status, deadlocks = _look(store, config, view)
    except HeadgateError as error:
        return facts, [problem("store_unusable", str(error).replace(url, where))]
    work = f"{status.total_running} running, {status.total_waiting} waiting"
    found = ok("store", f"{where}: {work}, {len(seen.keys)} keys seen")
    facts = facts._replace(status=status, folder=store.folder, seen=seen, deadlocks=deadlocks)
    return facts, [found]


def _missing(path: Path, where: str) -> Finding:
    if path.parent.is_dir() or path.parent == state_folder():
        return note("no_store", f"{where}: not there yet; it is made when first used")
    text = f"{where}: the folder {path.parent} does not exist"
    return problem("store_unusable", text, f"make it: mkdir -p '{path.parent}'")


def _look(store: Store, config: Config, view: str) -> tuple[Status, tuple[Deadlock, ...]]:
    with closing(Gate(store, config=FixedConfig(config), view=view)) as gate:
        return gate.status(), gate.deadlocks()


class FixedConfig(Defaults):
    """A configuration that was read already."""

    def __init__(self, config: Config) -> None:
        self.config = config


def _look_back(store: Store) -> StoreContents:
    with store.transaction(write=False) as tx:
        events = tx.events(-1, _EVENTS, 0)
        keys = {row.key for row in events} | {row.key for row in tx.held()}
        keys |= {row.key for row in tx.lanes()} | {row.key for row in tx.families()}
        usual = {key: _whole(tx.usual_hold([key])) for key in sorted(keys) if key}
        members = tuple(tx.members())
        wall = tx.note(wall_clock.NOTE)
        leases = frozenset(row.id for row in tx.leases(0, _LEASES))
    started, overdue = (
        Counter(row.key for row in events if row.kind == kind) for kind in ("granted", "overdue")
    )
    ahead = store.now() - ms(Seconds(time.time()))
    return StoreContents(
        keys=usual,
        started=started,
        overdue=overdue,
        clock=ahead,
        unseen=wall_clock.unseen(wall, NO_TIME, store.now()),
        members=members,
        schema=store.schema,
        refused=Counter(row.pool for row in events if row.kind in _REFUSALS),
        leases=leases,
    )


def _whole(mean: float | None) -> Ms | None:
    return None if mean is None else Ms(round(mean))
