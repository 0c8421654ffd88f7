"""The limits of a `run`, kept: by the clock, and by what is seen on the wire beside it."""

import time
from typing import TYPE_CHECKING

from headgate.core.agents.agent_watch import AgentWatch
from headgate.core.agents.profile import Profile
from headgate.core.agents.run_limits import RunLimits
from headgate.core.times import Ms, Seconds, seconds
from headgate.wire.hear_wire import hear_wire

if TYPE_CHECKING:
    from headgate.wire.supervise import Wire

_LOOK = Seconds(0.25)


class LimitsWatch:
    """The watch over a program whose output nobody reads."""

    def __init__(self, profile: Profile, limits: RunLimits, key: str, wire: "Wire | None") -> None:
        self._wire = wire
        self._watch = AgentWatch(
            profile=profile,
            limits=limits,
            rules=(),
            provider=key.partition("/")[0],
            started_ms=_now(),
            own_key=key,
        )

    def why_over(self) -> str:
        """Why the program has to be ended now; empty if it may go on."""
        hear_wire(self._wire, self._watch, _now())
        verdict = self._watch.verdict(_now())
        return verdict.text if verdict is not None else ""

    def pause(self) -> Seconds | None:
        """After how long to look again, if nothing happens; None if there is no need to."""
        if self._wire is not None:
            return _LOOK
        now = _now()
        due = self._watch.due(now)
        return None if due is None else seconds(Ms(due - now))


def _now() -> Ms:
    return Ms(time.monotonic_ns() // 1_000_000)
