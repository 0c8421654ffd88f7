"""An open transaction: its pools, its count of seats, its clock reading."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from headgate.core.admission.next_in_line import Head, last_turn
from headgate.core.admission.pool_set import PoolSet
from headgate.core.admission.pools import FAIR, Pool, PoolRow
from headgate.core.admission.seats import Need, Use
from headgate.core.key_patterns import HOST, NO_KEY, matches
from headgate.core.learning.control_law import Learned
from headgate.core.stored_text.stored_values import LEARNED
from headgate.core.times import Ms
from headgate.ledger.transaction import host_pressure, outside_use, task_shares, unreadable
from headgate.ledger.transaction.families import chain_seats, has_lent
from headgate.ledger.transaction.interface import UnreadableNote
from headgate.ledger.transaction.line_changes import LineChanges
from headgate.ledger.transaction.outside_use import place
from headgate.ledger.transaction.pool_resolver import PoolResolver
from headgate.ledger.transaction.remote_rows import Hearing, is_remote
from headgate.ledger.transaction.rows import (
    WITHOUT_HOST,
    EventRow,
    Lane,
    LeaseRow,
    Liveness,
    Ticket,
    Tx,
)

_NO_MACHINE = "-"
"""Stands for the machine of requests, which need no seat in any `host`."""


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
        self.pool_set = resolver.pool_set(tx.pool_table())
        self.woken: set[str] = set()
        self.granted: dict[int, LeaseRow] = {}
        self.removed_members: list[str] = []
        self.freed_job_leases: list[tuple[LeaseRow, str]] = []
        """Leases of jobs that were freed by somebody who knows nothing of the job, and why."""
        self.blocked = False
        """Whether the last pass has left somebody waiting."""
        self.unreadable: dict[str, UnreadableNote] = {}
        """Notes that were read in vain, by name; the next to write sets them aside."""
        self.next_runner = ""
        """A runner that has just finished a job, and takes the next one that is let in."""
        self.changes = LineChanges()
        self.dead_removed = False
        self._resolver = resolver
        self._use: Use | None = None
        self._lanes: list[Lane] | None = None
        self._workers: list[str] | None = None
        self._extra: set[str] = set()
        """Names of pools that only somebody's view has."""
        self._looked_up: set[str] = set()
        self._recent: list[LeaseRow] | None = None
        self._views: set[str] = set()

    @property
    def use(self) -> Use:
        """Seats in use, counted from the rows the first time it is asked for.

        What else is known of a pool is looked up when somebody needs a seat of it (`look_up`).
        """
        if self._use is None:
            self._use = Use()
            self._extra = set()
            self._count_all(self._use)
        return self._use

    def _names(self, uses: str) -> Sequence[str]:
        """The pools that seats of some work are counted in: those that only a view names, too."""
        names = self.pool_set.names_of(uses)
        if not self._extra:
            return names
        return [*names, *(name for name in self._extra if matches(name, uses))]

    def _count(self, use: Use, names_of: Callable[[str], Iterable[str]]) -> None:
        held, by_class = use.held, use.by_class  # there may be thousands of rows
        for machine, key, cls, seats, _, roles in self.tx.held():
            for name in names_of(f"{key} {roles}" if roles else key):
                if not machine and name == HOST:  # a request: its agent sits there
                    continue
                where = place(name, machine)
                held[where] = held.get(where, 0) + seats
                by_class[where, cls] = by_class.get((where, cls), 0) + seats
        chains: dict[int, list[LeaseRow]] = {}
        for lease in self.tx.families():
            chains.setdefault(lease.chain, []).append(lease)
        for members in chains.values():
            for where, heaviest in chain_seats(members, names_of).items():
                use.take(where, heaviest.cls, heaviest.weight)

    def look_up(self, pools: Iterable[Pool]) -> None:
        """Bring into the count what there is to know about some pools beside our own seats."""
        use, known = self.use, self._looked_up
        for pool in pools:
            if pool.name not in known:
                known.add(pool.name)
                self._fill(use, pool.name)

    def _fill(self, use: Use, name: str) -> None:
        pool = self.pool_set.pools.get(name)  # as it is, whatever somebody's view makes of it
        if pool is not None:
            outside_use.fill(self, use, pool)
            if name in self.pool_set.pools.sharing:
                task_shares.fill(self, use, pool)

    def recent_leases(self) -> list[LeaseRow]:
        """Leases that may still wait for upstream's answer, as of the last count."""
        if self._recent is None:
            self._recent = self.tx.recent(self.now - outside_use.SILENCE)
        return self._recent

    def under(self, view: str) -> PoolSet:
        """The pools under somebody's `HEADGATE_LIMITS`; counts seats of pools only it names."""
        seen = self.pool_set.under(view)
        if view and self._use is not None and view not in self._views:
            self._views.add(view)
            unreadable.check_view(self, view)
            extra = self.pool_set.beyond(view) - self._extra
            if extra:
                self._count(self._use, lambda uses: [name for name in extra if matches(name, uses)])
                self._extra |= extra
        return seen

    def lanes(self) -> list[Lane]:
        """The lanes in which someone waits; jobs wait for a worker of this machine."""
        if self._lanes is None:
            self._lanes = [self.local(lane) for lane in self.tx.lanes()]
        return self._lanes

    def local(self, lane: Lane) -> Lane:
        """A lane as it is decided on here: jobs wait for a worker of this machine."""
        return lane if lane.machine else lane._replace(machine=self.machine, jobs=True)

    def own_lane(self, lane: Lane, task: str) -> Lane:
        """The lane for work of a task, where that matters: no task holds up another."""
        if self.under(lane.view).tells_tasks_apart(lane.uses):
            return lane._replace(share=task_shares.share_of(task))
        return lane

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
        return self.changes.some

    def reconsider(self) -> None:
        """Look at the whole line again: time has passed, or somebody may have ended."""
        self.changes.look_everywhere()

    def settled(self) -> None:
        """All that can be let in is in."""
        self.changes = LineChanges()

    def set_works(self, member: str, *, works: bool) -> None:
        """Have a member start jobs from now on, or no more."""
        self._workers = None
        self.reconsider()
        row = self.tx.member(member)
        if row is not None:
            self.tx.add_member(row._replace(works=int(works)))

    def workers(self) -> list[str]:
        """The members of this machine that start jobs."""
        if self._workers is None:
            self._workers = [
                row.id
                for row in self.tx.working_members()
                if row.machine == self.machine
                and self.listening(row.id)
                and not self.stopped(row.id)
            ]
        return self._workers

    def listening(self, member: str) -> bool:
        """Whether a member's own process is there."""
        if is_remote(member):
            return self.hearing(member) is not Hearing.FENCED
        return self.liveness.listening(member, self.tx.member)

    def alive(self, member: str) -> bool:
        """Whether anything that inherited a member's life still runs."""
        if is_remote(member):
            return self.hearing(member) is not Hearing.FENCED
        return self.liveness.alive(member, self.tx.member)

    def stopped(self, member: str) -> bool | None:
        """Whether a member's process is stopped; None if it cannot be seen.

        A client on another machine that is silent is taken to be: what it were granted would idle.
        """
        if is_remote(member):
            return self.hearing(member) is not Hearing.HEARD
        return self.liveness.stopped(member, self.tx.member)

    def hearing(self, member: str) -> Hearing:
        """What is known of a client on another machine; nobody comes back who is forgotten."""
        row = self.tx.remote_member(member)
        return Hearing.FENCED if row is None else row.hearing(self.now, self.machine)

    def add_ticket(self, ticket: Ticket) -> None:
        """Put a ticket into its lane."""
        self._lanes = None
        self.changes.change_lane(ticket.lane)
        if self.tx.few_lanes() is None:
            first = self.tx.page(ticket.lane, None, 1)
            if first and first[0].overtaken and ticket.order < first[0].order:
                self.reconsider()  # seats may have been kept for whoever was first
        self.tx.add_ticket(ticket)

    def drop_ticket(self, id: int) -> Ticket | None:
        """Take a ticket out of the line; None if it is not there."""
        self._lanes = None
        ticket = self.tx.drop_ticket(id)
        if ticket is not None:
            self.changes.change_lane(ticket.lane)
            if ticket.overtaken:  # seats may have been kept for it
                self.reconsider()
        return ticket

    def reload_pools(self) -> None:
        """Look at the pools again after one was changed; whoever waits may profit."""
        self.pool_set = self._resolver.pool_set(self.tx.pool_table())
        self._use = None
        self._views.clear()
        self.reconsider()

    def pool_row(self, pool: str) -> PoolRow:
        """What was set by hand or learned for a pool."""
        return self.tx.pool_table().get(pool) or PoolRow(pool)

    def learn(self, pool: str, learned: Learned) -> None:
        """Keep what a pool has learned; it counts at once.

        What cannot be read stays: whoever can read it knows more.
        """
        known = self.pool_set.pools.get(pool)
        if known is not None and known.fixed:
            return
        self.tx.set_pool_row(self.pool_row(pool)._replace(learned=LEARNED.write(learned)))
        self.pool_set = self._resolver.pool_set(self.tx.pool_table())
        self.changes.free((pool,), self.machine)

    def recount(self) -> None:
        """Count the seats in use again from the rows, because some have changed."""
        self.reconsider()
        self._count_again()

    def _count_again(self) -> None:
        if self._use is not None:
            self._use.clear()
            self._count_all(self._use)

    def _count_all(self, use: Use) -> None:
        self._recent = None
        self._count(use, self._names)
        for rest in self.tx.rests():
            if rest.until > self.now:
                use.rest(rest.place, rest.seats)
        host = self.pool_set.pools.get(HOST)
        if host is not None and host.pressure_limits is not None:
            host_pressure.fill(self, use, host)
        for name in self._looked_up:
            self._fill(use, name)

    def count_grant(self, use: Use, head: Head, lane: Lane) -> None:
        """Count what is not a need of whoever was let in, but follows from the grant.

        It sits in pools that only another's view names, too. And of its family only the heaviest
        member counts, so that seats it has borrowed may be those of another class from now on.
        """
        if not head.lender:
            if self._extra:
                names = {need.pool.name for need in head.needs}
                for name in self._extra - names:
                    if matches(name, lane.uses):
                        use.take(place(name, lane.host), head.cls, head.weight)
            return
        asked = {need.place for need in head.needs}
        lent = chain_seats(self.lenders(head.lender), self._names)
        for name in self._names(lane.uses):
            where = place(name, lane.machine)
            most = lent.get(where)
            covered = most.weight if most is not None else 0
            if where not in asked:
                use.take(where, head.cls, max(0, head.weight - covered))
            if most is not None and head.weight > covered:
                use.hand_over(where, most.cls, head.cls, covered)
                if head.task is not None and (where, most.task) in use.by_task:
                    use.take_for(where, most.task, -covered)
                    use.take_for(where, head.task, covered)

    def uncount(self, lease: LeaseRow, resting: Collection[str] = ()) -> None:
        """Take an unrelated lease that was removed off the count, if there is one already.

        In some of its pools its seats are not free yet, but rest.
        """
        names = self._names(lease.uses)
        if lease.is_request:
            names = [name for name in names if name != HOST]
        self.changes.free(names, lease.machine, lease.weight, resting)
        if resting:
            self._count_again()
        elif self._use is not None:
            for name in names:
                where = place(name, lease.machine)
                self._use.take(where, lease.cls, -lease.weight)
                if (where, lease.task) in self._use.by_task:
                    self._use.take_for(where, lease.task, -lease.weight)

    def needs(
        self,
        uses: str,
        machine: str,
        weight: int,
        *,
        lender: int = 0,
        view: str = "",
        tokens: int = 0,
        task: str | None = None,
    ) -> tuple[tuple[Need, ...], int]:
        """The seats a piece of work must get, and the chain it would join by borrowing (or 0).

        Work that is started by a lease's own program borrows that lease's seats while it
        waits, and needs only what they do not cover. A request of an agent needs no seat in
        `host`: the agent has it. `task` is whom it is for; None if it is for nobody so far.
        """
        _ = self.use
        seen = self.under(view)
        pools = seen.of(uses)
        self.look_up(pools)
        if lender == WITHOUT_HOST:
            machine = _NO_MACHINE
        plain = seen.needs.get((uses, machine, weight))
        if plain is None:
            plain = tuple(
                [
                    Need(pool, place(pool.name, machine), weight)
                    for pool in pools
                    if pool.name != HOST or machine != _NO_MACHINE
                ]
            )
            seen.needs[uses, machine, weight] = plain
        if self.pool_set.pools.sharing and task is not None and seen.tells_tasks_apart(uses):
            plain = tuple(
                need._replace(task=task) if need.pool.tells_tasks_apart else need for need in plain
            )
        if not tokens and lender in (0, WITHOUT_HOST):
            return plain, 0
        covered, chain = self._lent(lender, {pool.name for pool in pools}) if lender else ({}, 0)
        needs = [
            need._replace(seats=max(0, weight - covered.get(need.place, 0)), tokens=tokens)
            for need in plain
        ]
        return tuple(needs), chain

    def _lent(self, lender: int, names: set[str]) -> tuple[Mapping[str, int], int]:
        family = self.lenders(lender)
        if not family:
            return {}, 0
        found = chain_seats(family, lambda uses: [name for name in names if matches(name, uses)])
        lent = {where: most.weight for where, most in found.items()}
        return lent, family[0].chain or lender

    def last_turn(self, needs: Iterable[Need]) -> Ms:
        """When the task of some work had its last turn in any pool where tasks take turns."""
        use = self.use
        for need in needs:
            if need.task is None or need.pool.order != FAIR:
                continue
            if (need.place, need.task) not in use.turns:
                use.turns[need.place, need.task] = self.tx.turn(need.place, need.task)
        return last_turn(needs, use)

    def lenders(self, lender: int) -> list[LeaseRow]:
        """The family whose seats a child of this lease can borrow; none if it has lent them."""
        lease = self.tx.lease(lender) if lender > 0 else None
        if lease is None:
            return []
        family = self.tx.family(lease.chain) if lease.chain else [lease]
        return [] if has_lent(lease, family) else family

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
