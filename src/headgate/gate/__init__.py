"""The runtime of one process: it opens a store, takes part in the line, and holds leases.

A process takes part in a store through its `runtime`, which is put together from these parts, each
with one owner; those further down use those further up.

delivery      how outcomes reach whoever asked
strays        programs that carry a lease's mark, wherever they ended up
roll          who is alive, told by the kernel; how to wake one another
operation     what a program wants done inside a transaction, and who takes part in every one
lease         the seats a program holds, and how they are given back
acquisition   the request for them, from asking to its end
holdings      what this process waits for and what it holds
background    the one thread, which sleeps until something happens
transactor    group commit: everybody's operations in as few transactions as possible
membership    this process among the others: alive, woken, waking
watcher       what it looks out for while it waits
poller        asks providers what they count
runtime       all of these, put together
slot          the wait for seats: `async with gate.slot(…)`, or plain `with`
gate          the face for programs
jobs          the face for those who hand in work, and crew, for those who do it
"""

from headgate.gate.gate import Gate
from headgate.gate.lease import Lease
from headgate.gate.slot import Slot

__all__ = ["Gate", "Lease", "Slot"]
