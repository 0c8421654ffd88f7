"""What the watch over an agent is told of its requests, and what it says of the agent."""

from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Ms


class WatchVerdict(NamedTuple):
    """Why an agent must be ended, or how its end is to be judged."""

    code: str
    text: str
    park: bool = False
    awaits_quota: bool = False
    """Whether upstream has said until when its quota is gone."""
    not_before: Ms | None = None
    """For how many milliseconds upstream wants to be left alone, if it said so."""
    resumes: bool = False
    """Whether another try may go on with its session: it had used up what it may, no more."""


class RequestEnd(NamedTuple):
    """How a request that was seen on the wire ended."""

    key: str
    status: int
    """Of HTTP; 0 if there was no answer."""
    served: bool
    """Whether upstream did what it was asked for, to the end."""
    tools: tuple[str, ...] = ()
    """What identifies each tool call that its answer asked for."""
