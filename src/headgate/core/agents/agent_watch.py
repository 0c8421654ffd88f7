"""The watch over one agent's output: is it refused, does it go on, must it be ended.

    a line ─┬─ a refusal ───── suspicion: from here on it must show progress within `patience`
            ├─ progress ────── the suspicion is over
            └─ anything else ─ a sign of life, no more

A line of text right after a refusal is part of it (a stack trace, a hint), not progress. Once an
agent has written events, only events are progress. Where an agent's text shows nothing of its work,
silence after a refusal proves little: it is ended if it is refused again after `patience`, or
silent for several times as long.

No clock of its own: `now` is in milliseconds on any clock, `wall` in seconds since the epoch.
Whatever is fed, nothing here raises.
"""

import re
from collections.abc import Sequence

from headgate.core.agents.output_lines import look
from headgate.core.agents.profile import Profile
from headgate.core.agents.run_limits import RunLimits
from headgate.core.answers.answer_rules import Rule
from headgate.core.answers.classify import classify_line
from headgate.core.answers.signals import REFUSALS, Signal
from headgate.core.named_tuple import NamedTuple
from headgate.core.printable_text import printable, without_sequences
from headgate.core.quantities import show_duration
from headgate.core.times import NO_TIME, Ms, Seconds

__all__ = ["AgentWatch", "RunLimits", "WatchVerdict"]

_BURST = Ms(250)
"""For how many milliseconds text after a refusal belongs to it."""
_SILENCE = 4
"""How many times its patience a silent agent may be quiet after a refusal."""
_LONGEST = 8 * 1024
_SHOWN = 200
_SECRET = re.compile(
    r"(?<![A-Za-z0-9])(?:sk[-_][\w.-]{8,}|(?:AIza|AKIA|eyJ)[\w.-]{12,}|gh[a-z]_\w{16,}|"
    r"xox[a-z]-[\w-]{8,})|(?<=Bearer )\S+|(?<=://)[^\s/@]{1,200}(?=@)"
)


class WatchVerdict(NamedTuple):
    """Why an agent must be ended, or how its end is to be judged."""

    code: str
    text: str
    park: bool = False


class AgentWatch:
    """The watch over one run of an agent."""

    def __init__(
        self,
        profile: Profile,
        limits: RunLimits,
        rules: Sequence[Rule],
        provider: str,
        started_ms: Ms,
    ) -> None:
        mine = {"", profile.name, profile.speaks}
        self._rules = tuple(r for r in rules if not r.line or not profile.name or r.profile in mine)
        self._profile = profile
        self._limits = limits
        self._provider = provider
        self._started = started_ms
        self._heard = started_ms
        self._last = ""
        self._events = False
        self._tool = ""
        self._same = 0
        self._since: Ms | None = None
        self._refusal = ""
        self._by_event = False
        self._told: WatchVerdict | None = None
        self.session = ""
        self.tool_calls = 0
        self.refused_at: Ms | None = None
        """When it was refused last, if it has shown no progress since."""
        self.retry_after: Ms | None = None
        """For how many milliseconds that refusal asks to be left alone, if it says."""

    @property
    def last_line(self) -> str:
        """The last line that was not blank, fit to be shown."""
        return fit_to_show(self._last)

    def feed(self, line: str, now: Ms, wall: Seconds) -> Signal | None:
        """Take note of a line; the signal it is, if it is one."""
        self._heard = now
        if not line or line.isspace():
            return None
        head = line[:_LONGEST]
        if head.isprintable() or _plain(head):
            self._last = head
        is_event, seen = look(self._profile, line)
        self._events = self._events or is_event
        self.session = self.session or seen.session
        if seen.tool:
            self._count(seen.tool)
        signal = classify_line(head, "", self._rules, provider=self._provider, now=wall)
        if signal and signal.kind in REFUSALS:
            self._refused(signal, now, by_event=is_event)
        elif (
            seen.progress
            and self._since is not None
            and self._is_real_progress(now, is_event=is_event)
        ):
            self._since = self.refused_at = self.retry_after = None
        return signal

    def verdict(self, now: Ms) -> WatchVerdict | None:
        """Why the agent must be ended now; None if it may go on."""
        self._told = self._judge(now)
        return self._told

    def due(self, now: Ms) -> Ms | None:
        """When the verdict may change, even if the agent writes nothing; None if never."""
        if self.verdict(now):
            return now
        limits = self._limits
        times = []
        if limits.stale_after is not None:
            times.append(self._heard + limits.stale_after)
        if limits.max_runtime is not None:
            times.append(self._started + limits.max_runtime)
        if limits.park and self._since is not None:
            times.append(self._given_up())
        return max(now, min(times)) if times else None

    def outcome(self, code: int, signal: int) -> WatchVerdict | None:
        """How its end is to be judged: by the last verdict, as a refusal, or (None) by its code."""
        told = self._told  # some agents exit with 0 when they are ended
        if told and (not told.park or self._since is not None):
            return told
        if self._since is None:
            return None
        well = code == 0 and signal == 0
        if well and not (self._by_event or self._profile.exit_lies):
            return None
        if not self._limits.park and not well:
            return None
        verdict = self._parked("it ended without progress")
        return verdict._replace(park=self._limits.park)

    def _judge(self, now: Ms) -> WatchVerdict | None:
        limits = self._limits
        stale = limits.stale_after is not None and now >= self._heard + limits.stale_after
        if limits.park and self._since is not None and (stale or now >= self._given_up()):
            return self._parked(f"no progress for {show_duration(now - self._since)}")
        if limits.same_tool_calls is not None and self._same >= limits.same_tool_calls:
            name = self._tool.partition("#")[0]
            text = f"it made the same call of {name} {self._same} times in a row"
            return WatchVerdict("tool_loop", f"{text}; same_tool_calls is {limits.same_tool_calls}")
        if limits.max_tool_calls is not None and self.tool_calls > limits.max_tool_calls:
            text = f"it made {self.tool_calls} tool calls"
            return WatchVerdict("tool_calls", f"{text}; max_tool_calls is {limits.max_tool_calls}")
        if limits.stale_after is not None and stale:
            text = f"it wrote nothing for {show_duration(now - self._heard)}"
            return WatchVerdict(
                "stale", f"{text}; stale_after is {show_duration(limits.stale_after)}"
            )
        if limits.max_runtime is not None and now >= self._started + limits.max_runtime:
            text = f"it ran for {show_duration(now - self._started)}"
            shown = show_duration(limits.max_runtime)
            return WatchVerdict("max_runtime", f"{text}; max_runtime is {shown}")
        return None

    def _parked(self, what: str) -> WatchVerdict:
        text = f"upstream refused it ({self._refusal}), and {what}"
        return WatchVerdict("rate_limited", text, park=True)

    def _given_up(self) -> Ms:
        """From when on a suspect that shows no progress is taken to do nothing but retry."""
        since, last = self._since or NO_TIME, self.refused_at or NO_TIME
        patience = self._limits.patience
        if self._events or not self._profile.silent:
            return since + patience
        return last if last - since >= patience else last + _SILENCE * patience

    def _refused(self, signal: Signal, now: Ms, *, by_event: bool) -> None:
        if self._since is None:
            self._since = now
        self._refusal = signal.kind
        self._by_event = by_event
        self.refused_at = now
        self.retry_after = signal.retry_after

    def _is_real_progress(self, now: Ms, *, is_event: bool) -> bool:
        """Whether progress is no echo of the refusal before it."""
        if is_event:
            return True
        return not self._events and now - (self.refused_at or NO_TIME) >= _BURST

    def _count(self, tools: str) -> None:
        for tool in tools.split(" "):
            self.tool_calls += 1
            polls = tool.partition("#")[0] in self._profile.polls
            self._same = self._same + 1 if tool == self._tool and not polls else 1
            self._tool = tool


def fit_to_show(line: str) -> str:
    """A line of output, short and plain, without what looks like a key."""
    return _SECRET.sub("(hidden)", _plain(line[:_LONGEST]))[:_SHOWN]


def _plain(text: str) -> str:
    """A text on one line, without what a terminal would obey."""
    return printable(without_sequences(text)).strip()
