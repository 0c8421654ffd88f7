"""The transactions: rules applied to rows, whatever the store.

transaction           an open transaction: its rows, its pools, its count of seats
learning              what upstream answered, applied to pools
release               gives seats back, takes tickets out of the line
cancel                takes work out of the line, asks what runs to end
dead_members          frees what ended processes held
idle_leases           takes back what stopped processes have not begun to use
watch_duty            which waiting process watches for its machine
jobs                  what becomes of a job
unplaced              jobs that are told their place in the line
job_timers            what time does to jobs
admission             seats asked for, the line settled; the same as a dry run
remote_members        clients on other machines: they join, are heard of, ask, and go
limits_by_hand        limits, cooldowns and pauses set by people
queries               status, capacity, queue, why, positions and ETAs. Nothing there writes
tokens                tokens of those who come from elsewhere, submissions made once
notification_cursors  how far each target was notified

Nothing here waits, sleeps or looks at a clock: a transaction begins with the time it is given.
"""
