"""Every kind of event: what happened, and what that means for whoever reads of it.

`docs/reference.md` shows these tables (`make reference` writes it). A test looks through the code
and fails if it tells of a kind that is not here, or if a kind is here that nothing tells of.
"""

EVENTS = {
    "Jobs": {
        "queued": "It was submitted and waits: in the line, at the position told, "
        "or for the jobs that it comes after.",
        "confirm": "There is room for it, and it was submitted with `--confirm`: it starts when "
        "somebody says `headgate release ID`, within the time told. Others take the room until "
        "then.",
        "held": "It is kept out of the line until `headgate release`.",
        "started": "A worker has started its program.",
        "parked": "The provider refused it, or its machine needed the memory. "
        "It gave its seats back, keeps its place, and is tried again by itself.",
        "readmitted": "Its program was started again, after an attempt that came to nothing.",
        "retried": "It failed and will be tried again after a while, or somebody used "
        "`headgate retry`.",
        "requeued": "Nobody knows how its attempt ended, since its runner was stopped or killed. "
        "It is back in the line at once.",
        "adopted": "Its runner was killed while its program ran on. "
        "Another runner looks after the program.",
        "fallback": "Its model was full for too long, so it takes another of its models.",
        "moved": "Somebody changed its priority or its place with `headgate move`.",
        "let_go": "Somebody let it into the line with `headgate release`.",
        "done": "Its program ended well.",
        "failed": "It has ended without success, and is not tried again. The text says why.",
        "expired": "It was not started within `--expires`, so it will not be.",
    },
    "Jobs and other work": {
        "cancelled": "Somebody cancelled it, and it has ended or left the line.",
        "lost": "A job: nobody knows how its last attempt ended, and it is not tried again. "
        "Other work: its process ended without giving its seats back, so they were taken back.",
        "cancelling": "Somebody cancelled it while it ran. It is being ended.",
        "deadlock": "It waits for work that waits for it, perhaps by way of others. "
        "None of them goes on by itself. The text names them, and says what to do.",
        "overdue": "It held its seats for longer than `max_hold` of its pool. It is being ended.",
    },
    "Work that is no job: `headgate run`, and programs that ask for seats themselves": {
        "granted": "It was let in, and holds its seats.",
        "released": "It has ended and given its seats back.",
        "withdrawn": "It left the line without having used a seat: it waited too long, "
        "or was no longer wanted.",
        "returned": "It was let in, but its process was stopped before it began, "
        "so its seats went to others. It asks again, at its old place, when the process goes on.",
        "deferred": "A candidate of `headgate plan --log` would have to wait. The text says for "
        "what, with the reason's code.",
        "turned_away": "There was no room, and it had said that it would not wait.",
    },
    "Pools": {
        "paused": "Nothing starts in it for the time told, because the provider refused something "
        "or somebody used `headgate pause`. What runs goes on.",
        "resumed": "Somebody ended its pause with `headgate resume`.",
        "limit_reduced": "The provider refused a request because too many ran at once. "
        "From now on fewer are let in.",
        "limit_raised": "The provider takes more than was known. From now on more are let in.",
        "limit_set": "Somebody set its limit with `headgate limits set`.",
        "limit_unset": "Somebody lifted its limit with `headgate limits unset`.",
        "per_task_set": "Somebody set the most that one task may hold, "
        "with `headgate limits per-task`.",
        "order_set": "Somebody set who is next, with `headgate limits order`.",
        "cooldown_set": "Somebody set how long its seats rest, with `headgate limits cooldown`.",
        "restored": "Somebody used `headgate limits restore`: what was set by hand and what was "
        "learned is forgotten, and the configuration counts.",
        "probed": "One more than its limit was let in, to find out whether the provider takes "
        "more by now.",
        "refused": "The provider refused a request because too many ran at once, "
        "and the limit stays as it is. The text says why.",
        "quota_warned": "The provider says that a quota is nearly gone. The text says which, and "
        "when it is back if that is known.",
        "usage_failed": "The provider's own count could not be read. "
        "Until it can, headgate goes by its own count and the last reading.",
        "usage_again": "The provider's own count can be read again.",
    },
    "headgate itself": {
        "token_created": "Somebody made a token with `headgate token create`. The text has its "
        "name and what it is for.",
        "token_revoked": "Somebody took a token back with `headgate token revoke`.",
        "unreadable": "Something in the store cannot be read. A careful value counts in its place, "
        "and the text says which.",
        "clock_doubted": "The machine was off for long, by a clock that may be wrong. Until it "
        "is known, no job expires, none is forgotten, and pauses hold.",
        "clock_corrected": "The clock was put back. Jobs become younger by the time that has not "
        "passed, and those that had expired by it are put back into the line.",
        "config_refused": "The configuration file was changed and has mistakes. "
        "The settings from before go on counting.",
        "notify_failed": "A notification could not be delivered. The text says to whom, and why.",
    },
}
"""By what they are about; each kind with a sentence for people."""

KINDS = tuple(kind for kinds in EVENTS.values() for kind in kinds)
"""All that targets of notifications can ask for."""

ONLY_TOLD = {
    "missed": "So many events were forgotten before this target could be told of them.",
    "test": "Sent by `headgate notify test`, to see that it arrives.",
    "store": "A worker cannot use the store. It says so in its output, and tries again.",
}
"""What is told to targets of notifications, or said by a worker, and is not kept."""
