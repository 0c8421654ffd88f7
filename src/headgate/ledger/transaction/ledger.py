"""An open transaction: its pools, its count of seats, its clock reading."""

from collections.abc import Iterable, Mapping

from headgate.core.admission.next_in_line import Head
from headgate.core.admission.pools import AUTO, NOTHING, Declared, PoolRow
from headgate.core.admission.seats import Need, Reason, Use
from headgate.core.admission.setting_precedence import PoolSet, read_view, resolve_pools
from headgate.core.key_patterns import HOST, NO_KEY, matches
from headgate.core.learning.control_law import Learned
from headgate.core.stored_text.stored_values import LEARNED
from headgate.core.times import Ms
from headgate.ledger.transaction import host_pressure, outside_use, unreadable
from headgate.ledger.transaction.interface import Gauge, UnreadableNote
from headgate.ledger.transaction.outside_use import place
from headgate.ledger.transaction.rows import EventRow, Lane, LeaseRow, Liveness, Ticket, Tx


class PoolResolver:
    """Resolves the settings into a `PoolSet`; returns the last one while nothing has changed."""

    def __init__(
        self,
        declared: Mapping[str, Declared],
        defaults: Declared = NOTHING,
        gauge: Gauge | None = None,
    ) -> None:
        self._rows: tuple[PoolRow, ...] | None = None
        self.gauge = gauge
        """How to tell what this machine has."""
        self.declare(declared, defaults)

    def declare(self, declared: Mapping[str, Declared], defaults: Declared = NOTHING) -> None:
        """Use another configuration from now on."""
        self._declared = declared
        self._defaults = defaults
        self._observed = {name: said.observe for name, said in declared.items() if said.observe}
        self._pool_set: PoolSet | None = None

    @property
    def last(self) -> PoolSet | None:
        """The last `PoolSet`; None since the configuration changed."""
        return self._pool_set

    def observed(self) -> dict[str, tuple[str, ...]]:
        """The pools that count programs which never asked, and how to know these."""
        return self._observed

    def has_usage_source(self) -> bool:
        """Whether any pool says where upstream's own count can be read."""
        return any(said.usage is not None for said in self._declared.values())

    def pool_set(self, rows: tuple[PoolRow, ...]) -> PoolSet:
        """The pools, given the rows set by hand."""
        if self._pool_set is None or rows != self._rows:
            self._rows = rows
            said = self._declared.get(HOST)
            needed = said is not None and said.limit == AUTO and self.gauge is not None
            host = self.gauge.look() if needed and self.gauge else None
            self._pool_set = resolve_pools(self._declared, rows, self._defaults, host)
        return self._pool_set


class Ledger:
    """Everything one transaction reads and changes. Lives as long as the transaction does.

    What must happen after the commit is collected here: `woken` (members to wake), `granted`
    (leases that came out of the line), `removed_members` (members found dead).
    """

    def __init__(
        self,
        tx: Tx,
        resolver: PoolResolver,
        now: Ms,
        liveness: Liveness,
        machine: str,
        *,
        view: str = "",
    ) -> None:
        self.tx = tx
        self.now = now
        self.liveness = liveness
        self.machine = machine
        self.view = view
        self.gauge = resolver.gauge
        self.pool_set = resolver.pool_set(tx.pool_rows())
        self.woken: set[str] = set()
        self.granted: dict[int, LeaseRow] = {}
        self.removed_members: list[str] = []
        self.freed_job_leases: list[tuple[LeaseRow, str]] = []
        """Leases of jobs that were freed by somebody who knows nothing of the job, and why."""
        self.blocked: dict[int, tuple[Reason, ...]] = {}
        self.unreadable: dict[str, UnreadableNote] = {}
        """Notes that were read in vain, by name; the next to write sets them aside."""
        self.next_runner = ""
        """A runner that has just finished a job, and takes the next one that is let in."""
        self._unsettled = False
        self.dead_removed = False
        self._resolver = resolver
        self._use: Use | None = None
        self._lanes: list[Lane] | None = None
        self._workers: list[str] | None = None
        self._counted: set[str] = set()
        self._views: set[str] = set()

    @property
    def use(self) -> Use:
        """Seats in use, counted from the rows the first time it is asked for."""
        if self._use is None:
            self._use = Use()
            self._counted = set(self.pool_set.pools)
            self._count_all(self._use)
        return self._use

    def _count(self, use: Use, names: Iterable[str]) -> None:
        for row in self.tx.held():
            for name in names:
                if matches(name, row.key):
                    use.take(place(name, row.machine), row.cls, row.seats)
        chains: dict[int, list[LeaseRow]] = {}
        for lease in self.tx.families():
            chains.setdefault(lease.chain, []).append(lease)
        for members in chains.values():
            for where, heaviest in chain_seats(members, names).items():
                use.take(where, heaviest.cls, heaviest.weight)

    def under(self, view: str) -> PoolSet:
        """The pools under somebody's `HEADGATE_LIMITS`; counts seats of pools only it names."""
        seen = self.pool_set.under(view)
        if view and self._use is not None and view not in self._views:
            self._views.add(view)
            unreadable.check_view(self, view)
            extra = set(read_view(view)) - self._counted
            if extra:
                self._count(self._use, extra)
                self._counted |= extra
        return seen

    def lanes(self) -> list[Lane]:
        """The lanes in which someone waits; jobs wait for a worker of this machine."""
        if self._lanes is None:
            self._lanes = [
                lane if lane.machine else lane._replace(machine=self.machine, jobs=True)
                for lane in self.tx.lanes()
            ]
        return self._lanes

    def active_lanes(self) -> list[Lane]:
        """The lanes out of which someone can be let in: jobs only if a worker is there."""
        lanes = self.lanes()
        if not lanes or not any(lane.jobs for lane in lanes) or self.workers():
            return lanes
        return [lane for lane in lanes if not lane.jobs]

    @property
    def unsettled(self) -> bool:
        """Whether something has changed that may let somebody in.

        Whatever decisions are made from is changed by way of this class, which knows: tickets,
        pools, seats in use, workers. What changes by itself is time (`reconsider`).
        """
        return self._unsettled

    def reconsider(self) -> None:
        """Look at the line again: time has passed, or somebody may have ended."""
        self._unsettled = True

    def settled(self) -> None:
        """All that can be let in is in."""
        self._unsettled = False

    def set_works(self, member: str, *, works: bool) -> None:
        """Have a member start jobs from now on, or no more."""
        self._workers = None
        self._unsettled = True
        for row in self.tx.members():
            if row.id == member:
                self.tx.add_member(row._replace(works=int(works)))

    def workers(self) -> list[str]:
        """The members of this machine that start jobs."""
        if self._workers is None:
            self._workers = [
                row.id
                for row in self.tx.members()
                if row.works
                and row.machine == self.machine
                and self.listening(row.id)
                and not self.stopped(row.id)
            ]
        return self._workers

    def listening(self, member: str) -> bool:
        """Whether a member's own process is there."""
        return self.liveness.listening(member, self.tx.member)

    def alive(self, member: str) -> bool:
        """Whether anything that inherited a member's life still runs."""
        return self.liveness.alive(member, self.tx.member)

    def stopped(self, member: str) -> bool | None:
        """Whether a member's process is stopped; None if it cannot be seen."""
        return self.liveness.stopped(member, self.tx.member)

    def add_ticket(self, ticket: Ticket) -> None:
        """Put a ticket into its lane."""
        self._lanes = None
        self._unsettled = True
        self.tx.add_ticket(ticket)

    def drop_ticket(self, id: int) -> Ticket | None:
        """Take a ticket out of the line; None if it is not there."""
        self._lanes = None
        self._unsettled = True
        return self.tx.drop_ticket(id)

    def reload_pools(self) -> None:
        """Look at the pools again after one was changed; whoever waits may profit."""
        self.pool_set = self._resolver.pool_set(self.tx.pool_rows())
        self._use = None
        self._views.clear()
        self._unsettled = True

    def pool_row(self, pool: str) -> PoolRow:
        """What was set by hand or learned for a pool."""
        return next((row for row in self.tx.pool_rows() if row.name == pool), PoolRow(pool))

    def learn(self, pool: str, learned: Learned) -> None:
        """Keep what a pool has learned; it counts at once.

        What cannot be read stays: whoever can read it knows more.
        """
        known = self.pool_set.pools.get(pool)
        if known is not None and known.fixed:
            return
        self.tx.set_pool_row(self.pool_row(pool)._replace(learned=LEARNED.write(learned)))
        self.pool_set = self._resolver.pool_set(self.tx.pool_rows())
        self._unsettled = True

    def recount(self) -> None:
        """Count the seats in use again from the rows, because some have changed."""
        self._unsettled = True
        if self._use is not None:
            self._use.clear()
            self._count_all(self._use)

    def _count_all(self, use: Use) -> None:
        self._count(use, self._counted)
        for rest in self.tx.rests():
            if rest.until > self.now:
                use.rest(rest.place, rest.seats)
        outside_use.fill(self, use)
        host = self.pool_set.pools.get(HOST)
        if host is not None and host.pressure_limits is not None:
            host_pressure.fill(self, use, host)

    def count_grant(self, use: Use, head: Head, lane: Lane) -> None:
        """Count what is not a need of whoever was let in, but follows from the grant.

        It sits in pools that only another's view names, too. And of its family only the heaviest
        member counts, so that seats it has borrowed may be those of another class from now on.
        """
        if not head.lender:
            if len(self._counted) > len(self.pool_set.pools):
                names = {need.pool.name for need in head.needs}
                for name in self._counted - names:
                    if matches(name, lane.key):
                        use.take(place(name, lane.machine), head.cls, head.weight)
            return
        asked = {need.place for need in head.needs}
        lent = chain_seats(self.lenders(head.lender), self._counted)
        for name in self._counted:
            if matches(name, lane.key):
                where = place(name, lane.machine)
                most = lent.get(where)
                covered = most.weight if most is not None else 0
                if where not in asked:
                    use.take(where, head.cls, max(0, head.weight - covered))
                if most is not None and head.weight > covered:
                    use.hand_over(where, most.cls, head.cls, covered)

    def uncount(self, lease: LeaseRow) -> None:
        """Take an unrelated lease that was removed off the count, if there is one already."""
        self._unsettled = True
        if self._use is not None:
            for name in self._counted:
                if matches(name, lease.key):
                    self._use.take(place(name, lease.machine), lease.cls, -lease.weight)

    def needs(
        self,
        key: str,
        machine: str,
        weight: int,
        *,
        lender: int = 0,
        view: str = "",
        tokens: int = 0,
    ) -> tuple[tuple[Need, ...], int]:
        """The seats a piece of work must get, and the chain it would join by borrowing (or 0).

        Work that is started by a lease's own program borrows that lease's seats while it
        waits, and needs only what they do not cover.
        """
        _ = self.use
        pools = self.under(view).of(key)
        covered: Mapping[str, int] = {}
        chain = 0
        if lender:
            covered, chain = self._lent(lender, [pool.name for pool in pools])
        places = [place(pool.name, machine) for pool in pools]
        needs = [
            Need(pool, where, max(0, weight - covered.get(where, 0)), tokens)
            for pool, where in zip(pools, places, strict=True)
        ]
        return tuple(needs), chain

    def _lent(self, lender: int, names: list[str]) -> tuple[Mapping[str, int], int]:
        family = self.lenders(lender)
        if not family:
            return {}, 0
        lent = {where: most.weight for where, most in chain_seats(family, names).items()}
        return lent, family[0].chain or lender

    def lenders(self, lender: int) -> list[LeaseRow]:
        """The family whose seats a child of this lease can borrow; none if it has lent them."""
        lease = self.tx.lease(lender) if lender else None
        if lease is None:
            return []
        family = self.tx.family(lease.chain) if lease.chain else [lease]
        lent = any(member.id > lender for member in family)  # to a child, or to its child
        return [] if lent else family

    def tell(
        self,
        kind: str,
        text: str = "",
        *,
        work: int = 0,
        key: str = NO_KEY,
        task: str = "",
        pool: str = "",
    ) -> None:
        """Keep an event."""
        self.tx.add_event(
            EventRow(
                id=0, at=self.now, kind=kind, work=work, key=key, task=task, pool=pool, text=text
            )
        )


def chain_seats(members: list[LeaseRow], names: Iterable[str]) -> dict[str, LeaseRow]:
    """Whose seats count for a family in each place: its members lend, so only the heaviest's."""
    heaviest: dict[str, LeaseRow] = {}
    for lease in members:
        for name in names:
            if matches(name, lease.key):
                where = place(name, lease.machine)
                if where not in heaviest or lease.weight > heaviest[where].weight:
                    heaviest[where] = lease
    return heaviest
