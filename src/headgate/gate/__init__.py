"""The runtime of one process: it opens a store, takes part in the line, and holds leases.

Those further down use those further up.

transactions       operations, gathered by a background thread and committed together
liveness           who is alive, told by the kernel, and how to wake one another
host               memory, load, and agents that headgate did not start
lease              the seats a program holds, and how they are given back
acquisition        a request for seats, from asking to its end
waiting_and_held   what this process waits for and what it holds
live_settings      the configuration, followed while it changes
remote_clients     clients on other machines, for the process that serves them
usage_poller       asks providers for their own count
process_runtime    all of these, put together
slot_context       what `with` and `async with` do with a lease
slot               the wait for seats: `async with gate.slot(…)`, or plain `with`
wait_for_jobs      the wait for jobs, to which a lease lends its seats meanwhile
submit_jobs        for those who hand in jobs
worker_jobs        for workers and runners, who take jobs over and tell how they ended
tokens             for those who hand out tokens, and look at what they are shown
plan_ahead         what would become of some work if it were all started now
cancel             ends work, whatever state it is in: one piece of it, or many side by side
notification_feed  events on their way to those who want to be told of them
project_here       the project that work is started in
views              what a gate shows, and changes nothing
pool_settings      what people set of pools
known_agents       what is known about the programs that are started
upstream_reports   what is told of upstream, and of requests
gate               the face for programs
"""

from headgate.gate.gate import Gate
from headgate.gate.lease import Lease
from headgate.gate.slot import Slot

__all__ = ["Gate", "Lease", "Slot"]
