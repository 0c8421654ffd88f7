"""The wire: the requests of one agent pass through a process beside it, which learns from them.

agent_settings     what an agent's own settings say about where its requests go
plan_meter         which meter a program gets, before it stands in line
point_agent        how an agent is started so that its requests come here
order              what the process is told, and the folder in which it is found again
beside             a wire for a program that is about to be started
supervise          the runner's side: start it, start it again, hear from it, end it
hear_wire          what it tells, told to the watch over the agent
spawn              how the process and its watchdog are started
process            the process: it listens, and goes on until nothing of its agent is left
watchdog           starts it again if it is killed and no runner does
guarded            its own side of its watchdog
connection_owner   whose connection it is, by the kernel's word
policy             who may ask, and where each request goes
exchange           one request: what its answer means, what is kept of it
exchange_owner     what exchanges tell, and what they ask for
websocket          the requests inside a WebSocket
tap                a CONNECT proxy that opens the provider's hosts, and passes on all others
tap_possible       whether an agent can have a tap
prepare_tap        the certificates of a tap, and what its agent finds around it
own_program        which processes are the agent itself, and which are its tools
make_certificates  makes the certificates of a tap, in a process of its own
tap_secret         what a tap must not leave on a disk, in memory and handed on
trust              whom an agent under a tap trusts, and whom the tap trusts in its place
late_calls         calls that are made after a while, unless they are taken back
keep_waiting       what a client hears while its request waits
admission          seats for the requests of an agent
admitted_exchange  one request that has to wait for a seat of its model
turns              when the current prompt of each task began
pools              what upstream says, told to the pools
records            what is kept of requests, written once a second

It outlives its runner, as the agent does, and what is asked while it is started again waits.
"""
