"""What a wire tells of an agent's requests, told to the watch over that agent."""

from headgate.core.agents.agent_watch import AgentWatch, RequestEnd
from headgate.core.answers.signals import Signal
from headgate.core.times import Ms
from headgate.wire.supervise import Wire


def hear_wire(wire: Wire | None, watch: AgentWatch, now: Ms) -> None:
    """Let the watch over an agent know what its wire has told since the last time."""
    for news in wire.news() if wire is not None else ():
        if "accepted" in news:
            watch.request_accepted(now, str(news["accepted"]))
        elif "refused" in news:
            retry_after = news.get("retry_after")
            wait = Ms(retry_after) if isinstance(retry_after, int) else None
            watch.request_refused(Signal(str(news["refused"]), wait), now, str(news.get("key", "")))
        elif "ended" in news:
            said = news["ended"]
            end = RequestEnd(said["key"], said["status"], said["served"], tuple(said["tools"]))
            watch.request_ended(now, end, in_tool=news["in_tool"])
        elif "heard" in news:
            watch.request_begun(now, in_tool=news["in_tool"])
