"""How strained each machine is, brought into the count.

Our own machine's figures are read by whoever decides, at that moment. Those of other machines, and
of other containers of ours, which may be confined to less, are notes in the store: whoever waits
there writes one while it is strained, and none when it is not.
"""

from headgate.core.admission.pools import Pool
from headgate.core.admission.seats import Use
from headgate.core.host import pressure
from headgate.core.host.pressure import Host, PressureLimits
from headgate.core.key_patterns import HOST
from headgate.core.stored_text import stored_values
from headgate.core.stored_text.formats import Unreadable
from headgate.core.stored_text.stored_values import StoredPressure
from headgate.core.times import NO_TIME, Ms
from headgate.ledger.transaction import unreadable
from headgate.ledger.transaction.interface import TransactionContext
from headgate.ledger.transaction.outside_use import place

RENEWED = Ms(1_000)
"""After so many milliseconds whoever waits looks again, and writes its note anew."""
_FORGOTTEN = Ms(5_000)
"""A note that nobody has renewed for so many milliseconds says nothing."""


def fill(ledger: TransactionContext, use: Use, pool: Pool) -> None:
    """Look up how strained the machines are that somebody waits on."""
    machines = {ledger.machine, *ledger.tx.machines()} - {""}
    for machine in machines:
        here = machine == ledger.machine
        notes = _notes(ledger, machine)
        known = [one.host for one in notes if not (here and _mine(ledger, one.space))]
        if here and (own := _own(ledger)) is not None:
            known.append(own)
        if known:
            use.hosts[place(HOST, machine)] = _worst(known)
    if pool.pressure_limits is not None and pool.pressure_limits.agent_memory:
        for lease in ledger.tx.recent(ledger.now - pressure.WARM_UP):
            where = place(HOST, lease.machine)
            use.starting[where] = use.starting.get(where, 0) + lease.weight


def tell(ledger: TransactionContext) -> None:
    """Let those who decide elsewhere know how strained it is here, where somebody waits."""
    if ledger.gauge is None or _pressure_limits(ledger) is None:
        return
    notes = _notes(ledger, ledger.machine)
    mine = next((one.at for one in notes if _mine(ledger, one.space)), None)
    host = _strained(ledger)
    if host is None and mine is None:
        return
    if host is not None and mine is not None and ledger.now - mine < RENEWED:
        return
    notes = [note for note in notes if not _mine(ledger, note.space)]
    if host is not None:
        notes.append(StoredPressure(ledger.gauge.space, **host._asdict(), at=ledger.now))
    unreadable.keep(ledger, f"strain:{ledger.machine}", stored_values.STRAINED.write(tuple(notes)))


def renews(ledger: TransactionContext) -> Ms:
    """When to look again, because it is strained here, or was the last time; 0 if neither."""
    if _pressure_limits(ledger) is None:
        return NO_TIME
    for one in _notes(ledger, ledger.machine):
        if _mine(ledger, one.space):
            return max(ledger.now + Ms(1), Ms(one.at) + RENEWED)
    return ledger.now + Ms(1) if _strained(ledger) else NO_TIME


def _strained(ledger: TransactionContext) -> Host | None:
    """How it is here, if that is too much for anything to start."""
    pressure_limits, host = _pressure_limits(ledger), _own(ledger)
    if pressure_limits is None or host is None:
        return None
    starting = ledger.use.starting.get(place(HOST, ledger.machine), 0)
    return host if pressure.judge(pressure_limits, host, starting) else None


def _pressure_limits(ledger: TransactionContext) -> PressureLimits | None:
    pool = ledger.pool_set.pools.get(HOST)
    return pool.pressure_limits if pool is not None else None


def _own(ledger: TransactionContext) -> Host | None:
    return ledger.gauge.look() if ledger.gauge is not None else None


def _mine(ledger: TransactionContext, space: str) -> bool:
    return ledger.gauge is not None and space == ledger.gauge.space


def _worst(hosts: list[Host]) -> Host:
    """What is worst anywhere: all of them share one pool."""
    tightest = min(hosts, key=lambda host: host.free)
    loads = [host.load for host in hosts if host.load is not None]
    return tightest._replace(load=max(loads, default=None))


def _notes(ledger: TransactionContext, machine: str) -> list[StoredPressure]:
    """What was written of a machine lately: for each set of processes, how it was and when."""
    name = f"strain:{machine}"
    found = stored_values.STRAINED.read(ledger.tx.note(name))
    if isinstance(found, Unreadable) or (found and stored_values.cut_off(found[-1].at, ledger.now)):
        said = (HOST, "how strained other containers are", "nothing starts for 5s")
        careful = stored_values.worst(ledger.now)
        found = unreadable.found(ledger, name, stored_values.STRAINED, said, careful)
    return [one for one in found or () if ledger.now - one.at < _FORGOTTEN]
