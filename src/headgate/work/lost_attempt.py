"""What the output of an attempt tells of its end, if nobody was there to see it.

An agent that writes events tells in its last one that its work is done. If its runner was killed,
its exit code is not known, but that is: it must not be asked to go on.
"""

import time
from contextlib import suppress
from pathlib import Path

from headgate.core.agents.agent_watch import AgentWatch
from headgate.core.jobs.job import AttemptOutcome, End
from headgate.core.times import Ms, Seconds
from headgate.work.log_file import Tail

LOST = {"lost", "stopped", "runner_error"}
"""The codes of attempts of which nobody saw the end."""


def read_again(path: Path, watch: AgentWatch) -> None:
    """Let a watch see all that an attempt has written, if its log is still there."""
    with suppress(OSError):
        tail = Tail(path)
        try:
            for line in tail.lines(to_end=True):
                watch.feed(line, Ms(time.monotonic_ns() // 1_000_000), Seconds(time.time()))
        finally:
            tail.close()


def had_finished(who: str, session: str) -> End:
    """The end of a job whose output says that its work was done."""
    text = f"its runner was killed; by its last event {who} finished"
    return End(AttemptOutcome.DONE, "finished", text, session=session)
