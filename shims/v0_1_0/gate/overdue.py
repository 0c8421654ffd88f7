"""For processes of version 0.1.0 that live on after an upgrade. It goes with the next version.

They load this file, under this name, when a lease is held for too long or when they begin to keep
watch, and their thread would end if they could not. All other modules that they have are those of
version 0.1.0, so this uses nothing that is newer. No process of this version loads it: see
`gate/liveness/max_hold.py`.
"""

import threading
from functools import partial
from importlib import import_module
from typing import Any

_GRACE = 10.0


def end_orphans(clerk: Any) -> None:  # noqa: ANN401 - of version 0.1.0, like all that follows
    """End what holds seats beyond `max_hold` without a process of ours to end it."""
    strays: Any = import_module("headgate.gate.strays")
    for mark, lease in clerk.read(_overdue):
        text = "held longer than its pool's max_hold, with no process of headgate left to end it"
        clerk.run(partial(note, id=lease.id, text=text))
        find = partial(strays.programs, clerk.roll, lease, mark)
        threading.Thread(target=strays.end, args=(find, _GRACE), daemon=True).start()


def _overdue(ledger: Any) -> list[tuple[str, Any]]:  # noqa: ANN401 - as above
    if not any(pool.max_hold for pool in ledger.book.pools.values()):
        return []
    leave: Any = import_module("headgate.ledger.leave")
    found = []
    for lease in ledger.tx.leases(0, 10_000):
        holds = [pool.max_hold for pool in ledger.book.of(lease.key) if pool.max_hold]
        late = holds and ledger.now - lease.granted > min(holds)
        if late and lease.marked and not lease.cancel and not ledger.census.listening(lease.member):
            found.append((leave.mark(ledger.tx.uid(), lease.id), lease))
    return found


def note(ledger: Any, id: int, text: str) -> None:  # noqa: ANN401 - as above
    """Remember why a lease is being ended."""
    lease = ledger.tx.lease(id)
    if lease is not None:
        ledger.tx.change_lease(lease._replace(cancel=text))
        ledger.tell("overdue", text, work=id, key=lease.key, task=lease.task)
