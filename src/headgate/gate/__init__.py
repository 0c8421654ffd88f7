"""The runtime of one process: it opens a store, takes part in the line, and holds leases.

roll        who is alive, told by the kernel; how to wake one another
strays      programs that carry a lease's mark, wherever they ended up
errand      what a program wants done inside a transaction
clerk       group commit: everybody's errands in as few transactions as possible
lookout     the one thread: runs errands, hears wake-ups, keeps timers and the watch
telling     how outcomes reach whoever asked
lease       the seats a program holds, and how they are given back
slot        the wait for them: `async with gate.slot(…)`, or plain `with`
gate        the face for programs
jobs        the face for those who hand in work, and crew, for those who do it
"""

from headgate.gate.gate import Gate
from headgate.gate.lease import Lease
from headgate.gate.slot import Slot

__all__ = ["Gate", "Lease", "Slot"]
