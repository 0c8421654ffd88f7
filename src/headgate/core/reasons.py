"""Every reason code: why something waits, what a job is at, or how it ended.

Codes are stable: scripts rely on them. `docs/reference.md` shows these tables (`make reference`
writes it). A test looks through the code and fails if it uses a code that is not here, or if one
is here that nothing uses.
"""

WAITING = {
    "pool_full": "All seats of the pool are taken. It starts when one is given back.",
    "task_full": "Its task holds as many seats of the pool as one task may (`per_task`). "
    "It starts when the task gives one back.",
    "pool_paused": "The pool is paused, by a refusal of the provider or by `headgate pause`. "
    "Nothing starts in it until the pause is over.",
    "cooling": "Seats were given back a moment ago and rest (`cooldown`), "
    "since the provider may still count them.",
    "reserved": "The free seats are kept for another priority class (`reserve`).",
    "kept": "The free seats are kept for older work that needs several pools "
    "and was overtaken in all of them.",
    "too_heavy": "It needs more seats than the pool can ever give it. "
    "It starts only if somebody raises the limit.",
    "outgrown": "It needs more seats than are left after the limit was lowered by a refusal. "
    "It starts when the limit is higher again.",
    "confirming": "The limit was lowered a moment ago. "
    "Work is let in one by one, each after the provider has accepted the one before.",
    "upstream_full": "The provider's own count says that all is in use, perhaps by others.",
    "no_reading": "The provider's own count has to be read first. That takes a moment.",
    "rate": "The pool has used up its requests (`rpm`) or tokens (`tpm`) of this minute.",
    "spacing": "The pool keeps its starts apart (`spacing`). It starts in a moment.",
    "memory_low": "The machine has less free memory than its floor. Nothing starts there now.",
    "load_high": "The load of the machine is above its ceiling. Nothing starts there now.",
    "process_stopped": "It could start, but its process is stopped (Ctrl-Z, a paused container). "
    "It keeps its place, and starts when the process goes on.",
    "client_silent": "It could start, but its client on another machine was not heard of for a "
    "while. It keeps its place, and starts when the client is heard of again.",
    "no_worker": "No worker runs that could start the job. Start one with `headgate worker`.",
    "behind": "There is room, but others in the line come first.",
    "next": "Nothing keeps it any more. It is about to start.",
}
"""Of whatever stands in the line."""

AT = {
    "held": "The job is out of the line until `headgate release`.",
    "confirm": "There is room for the job, and it waits for a person to say yes (`--confirm`) with "
    "`headgate release`. Others take the room meanwhile.",
    "after": "The job waits for the jobs that it comes after (`--after`).",
    "starting": "The job has its seats. A worker is about to start its program.",
    "adopted": "The job's runner was killed while its program ran on. "
    "Another runner looks after the program.",
    "cancelling": "The job was told to end, and is still at it.",
    "unknown": "The job waits for its next try, and nobody wrote down why.",
}
"""Of jobs that wait for something else, or run."""

ENDS = {
    "exit": "The program ended by itself. `exit` has its exit code, and 0 is success.",
    "signal": "A signal killed the program, and headgate did not send it. `exit` has its number.",
    "cannot_start": "The program could not be started: it is not there, or not executable, "
    "or its folder is not there.",
    "damaged": "What the job was submitted with cannot be read in the store any more, "
    "so it was not started.",
    "no_log": "The file for the program's output could not be written, so it was not started.",
    "rate_limited": "The provider refused the program, and it got no further. "
    "The job is parked, and tried again while it has attempts left. "
    "If the provider said until when a quota is gone, the attempt is not counted.",
    "relieved": "Memory was nearly gone, so the program was ended to make room (`relieve`). "
    "The job is parked, and tried again while it has attempts left.",
    "stale": "The program was ended: it wrote nothing for `stale_after`.",
    "message_stale": "The program was ended: it sent no message and called no tool for "
    "`message_stale_after`.",
    "max_runtime": "The program was ended: it ran for longer than `max_runtime`.",
    "max_hold": "The program was ended: it held its seats for longer than a pool's `max_hold`.",
    "tool_calls": "The program was ended: it made more tool calls than `max_tool_calls`.",
    "tool_loop": "The program was ended: it made the same tool call `same_tool_calls` times "
    "in a row.",
    "dependency": "A job that it comes after was not done, so it was never started.",
    "expired": "It was not started within `--expires`.",
    "cancelled": "Somebody cancelled it.",
    "stopped": "The runner was told to stop, by a shutdown for example, and ended the program. "
    "The job is tried again while it has attempts left.",
    "finished": "The runner was killed, so nobody knows the exit code of the program. "
    "But its output says that its work was done, and the job is done.",
    "lost": "The runner was killed, so nobody knows how the program ended. "
    "The job is tried again while it has attempts left.",
    "runner_error": "headgate itself failed while it looked after the program. "
    "The job is tried again while it has attempts left. Please report this.",
}
"""Of jobs that have ended, of attempts, and of jobs that wait for their next try."""

REASONS = {"What work in the line waits for": WAITING, "What a job is at": AT, "How it ended": ENDS}
