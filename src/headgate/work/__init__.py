"""Jobs, done: a worker is given them, and starts a detached runner for each.

worker        the loop: what was given to it is started, what lost its runner is adopted
fork_server   a small process without threads from which runners are forked in milliseconds
attempt       one runner, one attempt: start the program, watch it, end it, tell how it ended
start_program  starts the program of a job, and hears from the wire beside it
agent_version  which version of an agent a command starts
lost_attempt  what its output tells of an attempt's end that nobody saw
end_causes    why a program is ended, and how its attempt has ended then
standard_streams  what a runner and its program read and write
refusal_news  which refusals of a job are worth telling: agents tell of every retry
job_fields    what a job is told to be, field by field
check_command  what can be checked of a command before its job is handed in
read_output   the output of a job, for those who want to see it
history       all that is known of one piece of work
queue_page    one page of the queue
log_file      the log that a program writes to by itself: read as it grows, kept within its size

A worker may be killed at any moment: runners hold their leases and tell of their ends by
themselves. A runner may be killed too: its program goes on, and another runner looks after it.
"""
