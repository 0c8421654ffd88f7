"""The runtime of one process: it opens a store, takes part in the line, and holds leases.

A program sees `gate`, `slot` and `lease`; the command line also `submit_jobs`, `worker_jobs`,
`plan_ahead`, `cancel` and `notification_feed`. All of them use one `runtime`, which puts these
together. Each has one owner, and those further down use those further up.

    transactions       operations, gathered by a background thread and committed together
    liveness           who is alive, told by the kernel, and how to wake one another
    host               memory, load, and agents that headgate did not start
    acquisition        a request for seats, from asking to its end
    waiting_and_held   what this process waits for and what it holds
    live_settings      the configuration, followed while it changes
    usage_poller       asks providers for their own count
"""

from headgate.gate.gate import Gate
from headgate.gate.lease import Lease
from headgate.gate.slot import Slot

__all__ = ["Gate", "Lease", "Slot"]
