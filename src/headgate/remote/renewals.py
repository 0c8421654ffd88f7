"""This client as a member: one renewal for all that it has, and when all of it must be over.

A thread renews. Each renewal waits at the server until there is something to tell, so it also
brings grants, and who is to end. What it brings is all that the client waits for and holds, not a
change: what was lost on the way comes with the next.

The fence is counted here from when the last renewal was *sent* that was answered, by a clock that
nobody sets and that counts sleep. The server counts from when it got it, which is later, and adds a
margin. So all has ended here before its seats are given on:

    fence - lead     every lease is told to end: programs are terminated, tasks cancelled
    fence            the guardian kills what is left, and this process if it still holds anything
"""

import atexit
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from headgate.core.display.snapshots import Waiting
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Ms, Seconds, seconds
from headgate.errors import (
    CancelledWorkError,
    FencedError,
    GateClosedError,
    HeadgateError,
    HoldExpiredError,
    InternalError,
)
from headgate.gate.lease import Lease
from headgate.gate.transactions.background_thread import start_without_signals
from headgate.gate.transactions.deliver_outcomes import call_safely, running_loop
from headgate.ledger.transaction.ledger import Ledger
from headgate.remote.guardian import now
from headgate.remote.guardian_process import GuardianProcess
from headgate.remote.lease import RemoteLease
from headgate.remote.pending import Outbox, Pending
from headgate.remote.server import PATIENCE, Server, UnreachableError

if TYPE_CHECKING:
    from headgate.core.answers.answer_rules import Rule

_WAIT = Seconds(10)
"""For how long a renewal waits at the server if there is nothing to tell."""
_SLACK = Seconds(5)
"""How much longer its answer may take."""
_LEAD = Ms(10_000)
_ENDING = 2_000
"""How many milliseconds work has to end whose seats were given on already."""
_RELEASE = Seconds(3)
_PAUSES = (0.05, 0.2, 0.5, 1.0)
_GONE = "its client was silent for too long, so its seats were given on"
_OPEN: "weakref.WeakSet[Renewals]" = weakref.WeakSet()
_SILENT = "the server was not heard of for so long that its seats may be given on"


class _Member(NamedTuple):
    """What the server has said of this client."""

    id: str
    store: str
    fence: Ms | None


class Renewals:
    """The client, its thread and its guardian. Any thread may call."""

    def __init__(
        self,
        server: Server,
        rules: "Callable[[], tuple[Rule, ...]]",
        fence: float | str | None,
    ) -> None:
        self.server = server
        self.rules = rules
        self._fence = fence
        self._lock = threading.RLock()
        self._member: _Member | None = None
        self._until = 0
        self._pending: dict[str, Pending] = {}
        self._leases: dict[int, RemoteLease] = {}
        self._given_back: dict[int, tuple[bool, bool]] = {}
        self._max_hold: dict[int, tuple[float, Seconds]] = {}
        self._seen = ""
        self._homeless: list[Pending] = []
        """Those who stood in line when this client was fenced."""
        self._thread: threading.Thread | None = None
        self._guardian = GuardianProcess()
        self._wake = threading.Event()
        self._outbox: Outbox | None = None
        self.closed = False
        _OPEN.add(self)

    def member(self) -> str:
        """The id of this client; it joins if it has not."""
        with self._lock:
            if self.closed:
                raise GateClosedError("this gate is closed; open another one")
            if self._member is None:
                self._join()
            assert self._member is not None  # noqa: S101 - joined, or raised
            return self._member.id

    def _join(self) -> None:
        sent = now()
        wanted: dict[str, object] = {"name": socket.gethostname()[:100]}
        if self._fence is not None:
            wanted["fence"] = self._fence
        found = self.server.ask_until(
            "POST", "/v1/members", wanted, deadline=time.monotonic() + PATIENCE
        )
        fence = found["fence"]
        self._member = _Member(
            found["member"], found["store"], None if fence is None else Ms(round(fence * 1_000))
        )
        self._seen = ""
        self._heard(sent)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="headgate-renew", daemon=True)
            start_without_signals(self._thread)

    def _heard(self, sent: int) -> None:
        """The server has answered what was sent then.

        What is left from before this client was fenced gets no time by that.
        """
        me = self._member.id if self._member is not None else ""
        if any(lease.member != me for lease in self._leases.values()):
            return
        fence = self._member.fence if self._member is not None else None
        self._until = 0 if fence is None else sent + fence
        self._guardian.send(f"until {self._until}")

    @property
    def lead(self) -> Ms:
        """How long before its fence a client ends what it has."""
        fence = self._member.fence if self._member is not None else None
        return Ms(0) if fence is None else min(_LEAD, fence // 4)

    def left(self) -> float:
        """In how many seconds all has to be told to end."""
        return (self._until - self.lead - now()) / 1_000 if self._until else float("inf")

    def held(self) -> list[RemoteLease]:
        """The leases that are held."""
        with self._lock:
            return list(self._leases.values())

    def store(self) -> str:
        """The name of the server's store."""
        self.member()
        assert self._member is not None  # noqa: S101 - it is one
        return self._member.store

    def ask(self, one: Pending, *, patient: bool, deadline: float) -> None:
        """Ask for seats: afterwards it is granted, has failed, or waits."""
        self._guard()
        with self._lock:
            self._pending[one.key] = one
        while True:
            member = self.member()
            body = {**one.request, "member": member, "patient": patient}
            try:
                found = self.server.ask_until(
                    "POST", "/v1/tickets", body, key=one.key, deadline=deadline
                )
            except FencedError:
                self._fenced(member)
                continue
            except HeadgateError:
                with self._lock:
                    self._pending.pop(one.key, None)
                raise
            break
        with self._lock:
            one.id = found["id"]
            one.since = now()
            if found["lease"] is None:
                one.waited = True
            elif one.lease is None:  # else the thread was faster
                self._grant(one, found["lease"])
        if one.lease is None and one.on_wait is not None and found["ticket"]["waiting"]:
            call_safely(partial(self._spot, one, found["ticket"]["waiting"]))
        self._wake.set()

    def forget(self, one: Pending) -> None:
        """Nobody wants it any more: what came of it is given back."""
        with self._lock:
            self._pending.pop(one.key, None)
            lease = one.lease
            if lease is None and one.id:
                self._given_back[one.id] = (True, False)
        if lease is not None:
            lease.release()
        elif one.id:
            self._give_back(one.id, Seconds(3))

    def valid(self, lease: RemoteLease) -> bool:
        """Whether work may begin under a lease: this client may have slept since it was granted."""
        with self._lock:
            if self.left() > 0:
                return True
            self._leases.pop(lease.id, None)
            self._guardian.send(f"drop {lease.mark}")
            return False

    def release(self, lease: Lease, *, completed: bool = True, accepted: bool = False) -> None:
        """Give a lease back, now or as soon as the server can be reached.

        A plain thread waits for that a moment, an event loop does not.
        """
        with self._lock:
            held = self._leases.pop(lease.id, None)
            self._max_hold.pop(lease.id, None)
            if held is not None:
                self._guardian.send(f"drop {held.mark}")
            self._given_back[lease.id] = (completed, accepted)
        if running_loop() is None:
            self._give_back(lease.id, _RELEASE)
        else:
            self._later(lambda: self._give_back(lease.id, PATIENCE))

    def report(self, lease: Lease, do: Callable[[Ledger], object]) -> None:
        """Only leases of a store on this machine are told so."""
        raise InternalError("a client of a server has no store of its own; please report this")

    def _give_back(self, id: int, patience: Seconds) -> bool:
        """Tell the server; False if it cannot be reached."""
        with self._lock:
            said = self._given_back.get(id)
            member = self._member
        if said is None or member is None:
            return True
        completed, accepted = (str(one).lower() for one in said)
        path = f"/v1/leases/{id}?member={member.id}&completed={completed}&accepted={accepted}"
        try:
            self.server.ask("DELETE", path, patience=patience)
        except UnreachableError:
            return False
        except HeadgateError:  # it is not there any more
            pass
        with self._lock:
            self._given_back.pop(id, None)
        return True

    def signal(self, lease: Lease, said: Mapping[str, object]) -> None:
        """Have the server know what upstream said; in a thread, until it does."""
        body = {**said, "member": self.member()}
        self._in_thread("POST", f"/v1/leases/{lease.id}/signals", body)

    def started(self, lease: RemoteLease, pid: int) -> None:
        """Let people know which process uses a lease."""
        body = {"member": self.member(), "pid": pid}
        self._in_thread("PUT", f"/v1/leases/{lease.id}/program", body)

    def _in_thread(self, method: str, path: str, body: object) -> None:
        def do() -> None:
            with suppress(HeadgateError):
                self.server.ask_until(method, path, body, deadline=time.monotonic() + PATIENCE)

        self._later(do)

    def _later(self, do: Callable[[], object]) -> None:
        """Have something done by another thread, in order."""
        with self._lock:
            if self._outbox is None:
                self._outbox = Outbox()
        self._outbox.put(do)

    # The thread

    def _run(self) -> None:
        failures = 0
        while not self.closed:
            self._see_to_time()
            if self._leases:
                self._guard()
            sent = now()
            try:
                if self._homeless:
                    self._ask_again()
                if not self._renew(sent):
                    return
                failures = 0
                for id in list(self._given_back):
                    if not self._give_back(id, Seconds(2)):
                        break
            except UnreachableError:
                pause = _PAUSES[min(failures, len(_PAUSES) - 1)]
                failures += 1
                left = self.left() if self._leases else pause
                self._wake.wait(min(pause, left) if left > 0 else pause)
                self._wake.clear()
            except HeadgateError:  # the token was revoked, or the server is another: go on trying
                self._wake.wait(1.0)
                self._wake.clear()

    def _renew(self, sent: int) -> bool:
        with self._lock:
            member = self._member
        if member is None or self.closed:
            self._wake.wait(1.0)  # until somebody asks for something
            self._wake.clear()
            return not self.closed
        with self._lock:
            places = any(one.on_wait is not None for one in self._pending.values())
            wait = _WAIT if member.fence is None else min(_WAIT, seconds(member.fence) / 8)
            for at, _ in self._max_hold.values():
                wait = max(Seconds(0), min(wait, Seconds(at - time.monotonic())))
            if places:
                wait = min(wait, Seconds(1))
            known = self._seen
        patience = Seconds(wait + _SLACK)
        if self._leases:
            patience = Seconds(max(0.05, min(patience, self.left() + 0.05)))
        if member.fence is not None:
            patience = min(patience, Seconds(max(0.2, seconds(member.fence) / 3)))
        body = {"seen": known, "wait": min(wait, patience), "places": places}
        try:
            found = self.server.ask(
                "POST", f"/v1/members/{member.id}/renewal", body, patience=patience
            )
        except FencedError:
            self._fenced(member.id)
            return True
        with self._lock:
            if self._member is not member or self.closed:
                return not self.closed
            self._heard(sent)
            self._seen = found["seen"]
            told = self._take_in(found, sent)
        for do in told:
            call_safely(do)
        return True

    def _see_to_time(self) -> None:
        """End what has to end: all of it before the fence, and each that is held for too long."""
        if self.left() <= 0 and self._leases:
            self._end_all(_SILENT)
        late = [id for id, (at, _) in list(self._max_hold.items()) if time.monotonic() >= at]
        for id in late:
            _, allowed = self._max_hold.pop(id)
            if (lease := self._leases.get(id)) is not None:
                text = f"lease {id} was held longer than its pool's max_hold of {allowed:g}s"
                lease.end(HoldExpiredError(f"{text}; its work is being ended"))

    def _end_all(self, why: str) -> None:
        for lease in list(self._leases.values()):
            lease.end(FencedError(f"lease {lease.id} is over: {why}"))

    def _fenced(self, member: str) -> None:
        """The server does not know this client any more: what it held is over, the rest asks."""
        with self._lock:
            if self._member is None or self._member.id != member:
                return
            self._member = None
            self._given_back.clear()
            self._homeless += [one for one in self._pending.values() if one.id]
            for one in self._homeless:
                one.id = 0
            if self._leases:
                soon = now() + _ENDING
                self._until = min(self._until, soon) if self._until else soon
                self._guardian.send(f"until {self._until}")
        self._end_all(_GONE)
        self._wake.set()

    def _ask_again(self) -> None:
        """Have those who waited when this client was fenced stand in line again."""
        with self._lock:
            homeless, self._homeless = self._homeless, []
        while homeless:
            one = homeless[0]
            if one.key in self._pending and one.lease is None:
                try:
                    self.ask(one, patient=True, deadline=time.monotonic() + _RELEASE)
                except UnreachableError:
                    with self._lock:
                        self._pending[one.key] = one
                        self._homeless += homeless
                    raise
                except HeadgateError as error:
                    one.error = error
                if one.settled:
                    call_safely(partial(one.told, one))
            homeless.pop(0)

    def _take_in(self, found: Any, sent: int) -> list[Callable[[], None]]:  # noqa: ANN401 - any JSON
        """Bring what is here in line with what the server says; who is to be told, unlocked."""
        held = {one["id"]: one for one in found["leases"]}
        waits = {one["id"]: one for one in found["tickets"]}
        by_id = {one.id: one for one in self._pending.values() if one.id}
        told = [
            *self._take_leases(held, by_id),
            *self._take_tickets(waits, by_id),
        ]
        for id, pending in by_id.items():
            if id not in held and id not in waits and pending.since < sent and not pending.lease:
                self._pending.pop(pending.key, None)
                pending.error = CancelledWorkError("somebody took it out of the line")
                told.append(partial(pending.told, pending))
        for id, lease in self._leases.items():
            if id not in held and lease.taken_at < sent:
                told.append(partial(lease.end, FencedError(f"lease {lease.id}: {_GONE}")))
        return told

    def _take_leases(
        self, held: Mapping[int, Mapping[str, Any]], by_id: Mapping[int, Pending]
    ) -> Iterator[Callable[[], None]]:
        """What was granted, and what is to end; what nobody here knows is given back."""
        for id, row in held.items():
            pending = by_id.get(id) or self._pending.get(row["request"])
            if pending is not None and pending.lease is None:
                pending.id = id
                self._grant(pending, row)
                if pending.settled:
                    yield partial(pending.told, pending)
            elif id not in self._leases:
                self._given_back.setdefault(id, (True, False))
            elif row["ending"]:
                yield partial(self._leases[id].end, CancelledWorkError(row["ending"]))

    def _take_tickets(
        self, waits: Mapping[int, Mapping[str, Any]], by_id: Mapping[int, Pending]
    ) -> Iterator[Callable[[], None]]:
        """Where those stand who want to know; what nobody here knows is given back."""
        for id, row in waits.items():
            pending = by_id.get(id) or self._pending.get(row["request"])
            if pending is None:
                self._given_back.setdefault(id, (True, False))
            elif row["waiting"]:
                yield partial(self._spot, pending, row["waiting"])

    def _grant(self, one: Pending, row: Mapping[str, Any]) -> None:
        """Make the lease of a request; the lock is held.

        This process may have slept since it was granted. Then it has to be heard of first.
        """
        if self.left() <= 0:
            self._homeless.append(one)
            self._wake.set()
            return
        self._pending.pop(one.key, None)
        lease = RemoteLease(
            self,
            row["id"],
            key=one.request["key"],
            task=row["task"],
            weight=one.request["weight"],
            mark=row["mark"],
            waited=Seconds(time.monotonic() - one.asked if one.waited else 0.0),
        )
        lease.taken_at = now()
        lease.member = self._member.id if self._member is not None else ""
        self._leases[lease.id] = lease
        if row["max_hold"] is not None:
            allowed = Seconds(row["max_hold"])
            self._max_hold[lease.id] = (time.monotonic() + allowed, allowed)
        self._guardian.send(f"hold {lease.mark}")
        one.lease = lease

    def _spot(self, one: Pending, spot: Mapping[str, Any]) -> None:
        known = {name: spot[name] for name in Waiting._fields if name in spot}
        said = (spot["position"], spot["reason"])
        if one.on_wait is not None and one.lease is None and said != one.said:
            one.said = said
            one.on_wait(Waiting(**known))

    def _guard(self) -> None:
        """Have a guardian beside this process that knows of all that is held."""
        with self._lock:
            self.member()
            self._guardian.be_there(self._until, [lease.mark for lease in self._leases.values()])

    def close(self) -> None:
        """Give everything back and leave."""
        with self._lock:
            if self.closed:
                return
        if self._outbox is not None:
            self._outbox.close(PATIENCE)
        with self._lock:
            self.closed = True
            member, pending = self._member, list(self._pending.values())
            self._pending.clear()
            self._leases.clear()
        for one in pending:
            one.error = GateClosedError("this gate was closed while the request waited")
            one.told(one)
        if member is not None:
            with suppress(HeadgateError):
                self.server.ask("DELETE", f"/v1/members/{member.id}", patience=Seconds(3))
        self._wake.set()
        self._guardian.close()

    def abandon(self) -> None:
        """Let go in a forked child: its parent goes on."""
        self._lock = threading.RLock()
        self.closed = True
        self._outbox = None
        self._guardian = GuardianProcess()


@atexit.register
def _close_all() -> None:
    for one in list(_OPEN):
        one.close()


def _after_fork() -> None:
    for one in list(_OPEN):
        one.abandon()
    _OPEN.clear()


os.register_at_fork(after_in_child=_after_fork)
