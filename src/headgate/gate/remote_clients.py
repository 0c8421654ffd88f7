"""Clients on other machines, as the process that serves them sees them.

Nothing of them is in this process only: who they are, what they wait for and what they hold is in
the store (`ledger/remote_members.py`), so another process can go on where this one ended. What is
here is who waits for an answer: whoever grants or cancels something of theirs wakes this process.

A client is told of its whole standing whenever that is another than the one it has seen. So an
answer that gets lost does no harm: the next has all of it again.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Any, TypeVar

from headgate.core.display.snapshots import Waiting
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds
from headgate.errors import CancelledWorkError, FencedError, NoRoomError
from headgate.gate.liveness.member_pipes import MemberRegistry
from headgate.gate.transactions.group_commit import Transactor
from headgate.gate.transactions.operation import Attendant, Joining, Operation
from headgate.ledger import remote_members
from headgate.ledger.admission.admit import Request
from headgate.ledger.queries import status_and_queue
from headgate.ledger.release import accept_late, withdraw
from headgate.ledger.remote_members import Held, Standing
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.remote_rows import RemoteMember

T = TypeVar("T")
_BUSY = Seconds(60)
"""For how long after a client was served this process goes on looking out for all of them."""


class Spots(NamedTuple):
    """A client's standing, with where its tickets stand in the line."""

    standing: Standing
    spots: dict[int, Waiting]

    @property
    def digest(self) -> str:
        """A short text that is another whenever there is something to tell."""
        from hashlib import blake2b

        places = {id: (one.position, one.reason) for id, one in self.spots.items()}
        said = repr((sorted(self.standing.waits), sorted(self.standing.holds.items()), places))
        return blake2b(said.encode(), digest_size=9).hexdigest()


class Asked(NamedTuple):
    """What became of a request: it holds, or it waits at a place in the line."""

    id: int
    held: Held | None
    spot: Waiting | None


class _Poll(NamedTuple):
    """Somebody who waits for an answer."""

    member: str
    ticket: int
    """0 for whatever concerns the member."""
    seen: str
    places: bool
    loop: asyncio.AbstractEventLoop
    changed: "asyncio.Future[Asked | None]"
    """What became of the ticket; None if it is gone, or for a member."""


class _Nothing(Enum):
    """What has become of something that is as it was."""

    NOTHING = auto()


_NOTHING = _Nothing.NOTHING


class RemoteClients(Attendant):
    """Serves clients on other machines. For one event loop, or several."""

    def __init__(self, transactor: Transactor, registry: MemberRegistry) -> None:
        self._transactor = transactor
        self._registry = registry
        self._polls: set[_Poll] = set()
        self._outcomes: list[tuple[_Poll, Asked | _Nothing | None]] = []
        self._until = 0.0

    @property
    def busy(self) -> bool:
        """Whether this process has to know what others do: it serves somebody."""
        return time.monotonic() < self._until

    def conclude(self, ledger: Ledger, operations: Sequence[Operation]) -> None:
        """Find those whom this transaction concerns."""
        self._outcomes = [
            (poll, outcome)
            for poll in (tuple(self._polls) if ledger.woken else ())
            if poll.member in ledger.woken and (outcome := _outcome(ledger, poll)) is not _NOTHING
        ]

    def committed(self, ledger: Ledger, operations: Sequence[Operation]) -> Iterable[Operation]:
        """Tell them."""
        self._tell(self._outcomes)
        return ()

    def look(self, ledger: Ledger) -> None:
        """Find those for whom other processes, or time, did something. Nothing is changed."""
        found = []
        for poll in tuple(self._polls):
            if poll.ticket:
                outcome = _outcome(ledger, poll)
            else:
                changed = _spots(ledger, poll.member, places=poll.places).digest != poll.seen
                outcome = None if changed else _NOTHING
            if outcome is not _NOTHING:
                found.append((poll, outcome))
        self._tell(found)

    def _tell(self, outcomes: "Iterable[tuple[_Poll, Asked | _Nothing | None]]") -> None:
        for poll, outcome in outcomes:
            try:
                poll.loop.call_soon_threadsafe(_resolve, poll.changed, outcome)
            except RuntimeError:  # its loop was closed
                self._polls.discard(poll)

    async def join(self, row: RemoteMember) -> tuple[RemoteMember, str]:
        """Count a client among the members; its row, and the name of the store."""
        from headgate import __version__

        await asyncio.to_thread(self._registry.announce, row.id)
        row = row._replace(server=self._registry.me)
        schema = self._transactor.store.schema

        def do(ledger: Ledger) -> tuple[RemoteMember, str]:
            return remote_members.join(ledger, row, __version__, schema), ledger.tx.uid()

        return await self._perform(do)

    async def renew(self, member: str, seen: str, wait: Seconds, *, places: bool) -> Spots:
        """Note that a client was heard of; its standing, as soon as that is not the one seen."""
        if not self._registry.is_announced(member):
            await asyncio.to_thread(self._registry.announce, member)
        me = self._registry.me

        def do(ledger: Ledger) -> Spots:
            remote_members.hear(ledger, member, me)
            return _spots(ledger, member, places=places)

        poll = self._poll(member, 0, seen, places=places)
        try:
            try:
                found = await self._perform(do)
            except FencedError:  # it has left meanwhile, and has no files any more
                await asyncio.to_thread(self._registry.forget, member)
                raise
            if found.digest != seen or not wait:
                return found
            await _either(poll.changed, wait)
        finally:
            self._polls.discard(poll)
        return await self._perform(lambda ledger: _checked(ledger, member, places=places))

    async def leave(self, member: str) -> None:
        """A client has ended all it had, and goes."""
        await self._perform(lambda ledger: remote_members.leave(ledger, member))

    async def ask(
        self, request: Request, key: str, digest: str, wait: Seconds, *, patient: bool
    ) -> Asked:
        """Ask for seats; what became of it, after so many seconds at most.

        Who is not `patient` gets a NoRoomError if there is none now, and nothing is left of it.
        """
        operation = _Ask(request, key, digest, patient=patient)
        found: Asked = await self._submit(operation)
        if found.held is not None or not wait:
            return found
        return await self.wait(request.member, found.id, wait) or found

    async def wait(self, member: str, id: int, wait: Seconds) -> Asked | None:
        """What has become of a ticket after so many seconds at most; None if it is gone."""
        poll = self._poll(member, id, "", places=False)
        try:
            found = await self._perform(lambda ledger: _look_up(ledger, member, id))
            if found is None or found.held is not None or not wait:
                return found
            if await _either(poll.changed, wait):
                return poll.changed.result()
        finally:
            self._polls.discard(poll)
        return await self._perform(lambda ledger: _look_up(ledger, member, id))

    @property
    def waiting(self) -> int:
        """How many wait for an answer."""
        return len(self._polls)

    async def end(self, member: str, id: int, *, completed: bool, accepted: bool) -> bool:
        """Give back what a client holds, or take it out of the line; False if there is none."""

        def do(ledger: Ledger) -> bool:
            if accepted and remote_members.held(ledger, member, id) is not None:
                accept_late(ledger, id, completed=completed)
            return remote_members.withdraw_or_release(ledger, member, id, completed=completed)

        return await self._perform(do)

    async def of_lease(self, member: str, id: int, do: Callable[[Ledger, Held], T]) -> T | None:
        """Have something of a client's lease kept; None if there is no such lease."""

        def apply(ledger: Ledger) -> T | None:
            held = remote_members.held(ledger, member, id)
            return None if held is None else do(ledger, held)

        return await self._perform(apply)

    def _poll(self, member: str, ticket: int, seen: str, *, places: bool) -> _Poll:
        loop = asyncio.get_running_loop()
        poll = _Poll(
            member=member,
            ticket=ticket,
            seen=seen,
            places=places,
            loop=loop,
            changed=loop.create_future(),
        )
        self._polls.add(poll)
        self._until = time.monotonic() + _BUSY
        return poll

    async def _perform(self, do: Callable[[Ledger], T]) -> T:
        return await self._submit(Joining(do))  # type: ignore[no-any-return]

    async def _submit(self, operation: Operation):  # type: ignore[no-untyped-def]  # noqa: ANN202
        """Have an operation run, and wait for it without stopping the loop."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        operation.loop = loop
        operation.told = lambda _: _resolve(done)
        self._until = time.monotonic() + _BUSY
        self._transactor.submit(operation)
        await done
        if operation.error is not None:
            raise operation.error
        return operation.result


class _Ask(Joining):
    """One request of a client. It is looked at again once the line is settled."""

    def __init__(self, request: Request, key: str, digest: str, *, patient: bool) -> None:
        super().__init__(lambda _: None)
        self._request = request
        self._key = key
        self._digest = digest
        self.impatient = not patient
        self._id = 0

    def apply(self, ledger: Ledger) -> None:
        """Ask, or find what was asked for before."""
        self.result = None
        remote_members.check(ledger, self._request.member)
        self._id = remote_members.ask(ledger, self._request, self._key, self._digest)

    def conclude(self, ledger: Ledger) -> None:
        """See whether it was let in."""
        if self.error is not None:
            return
        self.result = found = _look_up(ledger, self._request.member, self._id)
        if found is None:
            self.error = CancelledWorkError("its ticket was removed")
        elif found.held is None and self.impatient:
            why = found.spot.reason if found.spot else "the line is not empty"
            ledger.tx.drop_remote_request(self._id)
            withdraw(ledger, self._id, "turned_away", why)
            self.error = NoRoomError(f"no room: {why}")


def _outcome(ledger: Ledger, poll: _Poll) -> Asked | _Nothing | None:
    """What has become of what somebody waits for, if anything has."""
    if not poll.ticket:
        return None
    if ledger.tx.ticket(poll.ticket) is not None:
        return _NOTHING
    held = remote_members.held(ledger, poll.member, poll.ticket)
    return None if held is None else Asked(poll.ticket, held, None)


def _look_up(ledger: Ledger, member: str, id: int) -> Asked | None:
    held = remote_members.held(ledger, member, id)
    if held is not None:
        return Asked(id, held, None)
    ticket = ledger.tx.ticket(id)
    if ticket is None or ticket.member != member:
        return None
    spot = status_and_queue.waiting(ledger, [id], Seconds(time.time())).get(id)
    return Asked(id, None, spot)


def _spots(ledger: Ledger, member: str, *, places: bool) -> Spots:
    standing = remote_members.standing(ledger, member)
    ids = list(standing.waits) if places else []
    return Spots(standing, status_and_queue.waiting(ledger, ids, Seconds(time.time())))


def _checked(ledger: Ledger, member: str, *, places: bool) -> Spots:
    remote_members.check(ledger, member)
    return _spots(ledger, member, places=places)


async def _either(changed: "asyncio.Future[Any]", wait: Seconds) -> bool:
    """Wait until something has changed, or the time is up; whether something has."""
    done, _ = await asyncio.wait([changed], timeout=wait)
    return bool(done)


def _resolve(future: "asyncio.Future[Any]", result: object = None) -> None:
    if not future.done():
        future.set_result(result)


def started(ledger: Ledger, held: Held, pid: int) -> None:
    """Let people know which process uses a lease."""
    row = ledger.tx.lease(held.id)
    if row is not None:
        ledger.tx.change_lease(row._replace(pid=pid))
