"""The watch over one agent's output: is it refused, does it go on, must it be ended.

    a line ─┬─ a refusal ───── it is told, and progress must follow within `patience`
            ├─ a suspicion ─── it counts if the agent gives up with it as its last words
            ├─ progress ────── the refusal, or the suspicion, is over
            └─ anything else ─ a sign of life, no more

A line is a refusal only where it cannot be content: an event of the agent's own errors, if it was
started to write events; text where its profile says that text is its error channel; and whatever a
rule of the user's describes. The same words elsewhere (in an answer, in what a tool printed) are a
suspicion. A suspicion closes no pool and ends nothing. It becomes a refusal when the agent exits
with a failure; an exit with 0 is success. Of a program that no profile knows nothing is suspected.

A line of text right after a refusal is part of it (a stack trace, a hint), not progress. Once an
agent has written events, only events are progress. Where an agent's text shows nothing of its work,
silence after a refusal proves little: it is ended if it is refused again after `patience`, or
silent for several times as long.

Once a request of the agent's was seen on the wire, requests decide, and nothing that it prints is
a refusal. It is not stale then while something passes on the wire, nor while a tool runs that it
was told to call; but it is if it only asks, and asks in vain. Tool calls are counted from answers.

How long it has sent no message and called no tool is measured beside that, whatever else is
printed: while a tool runs, too. Of an agent that writes text, each line of its work is a message.

No clock of its own: `now` is in milliseconds on any clock, `wall` in seconds since the epoch.
Whatever is fed, nothing here raises.
"""

import re
from collections.abc import Sequence

from headgate.core.agents.output_lines import look
from headgate.core.agents.profile import OutputLine, Profile
from headgate.core.agents.run_limits import RunLimits
from headgate.core.agents.watch_verdict import RequestEnd, WatchVerdict
from headgate.core.answers.answer_rules import Rule
from headgate.core.answers.builtin_rules import LINES
from headgate.core.answers.classify import LineVerdict, judge_line
from headgate.core.answers.signals import QUOTA, REFUSALS, Signal
from headgate.core.named_tuple import NamedTuple
from headgate.core.printable_text import printable, without_sequences
from headgate.core.quantities import show_duration
from headgate.core.times import NO_TIME, Ms, Seconds

__all__ = ["AgentWatch", "RequestEnd", "RunLimits", "WatchVerdict"]

_BURST = Ms(250)
"""For how many milliseconds text after a refusal belongs to it."""
_SILENCE = 4
"""How many times its patience a silent agent may be quiet after a refusal."""
_MOST_HINTS = 10
"""How many lines of text after a suspicion may be a hint or a stack trace, and no answer."""
_ENDED_BY_OTHERS = (130, 137, 143)
"""Exit codes of a program that was told to end: with these it has not given up by itself."""
_FEW_FAILURES = 3
"""So many requests in a row have to fail before an agent is said to ask in vain."""
_MOST_ASKED = 100
"""How many requests at once, as of an agent with sub-agents, are told from one another."""
_LONG_WAIT = Ms(60_000)
"""From how many milliseconds on it is known that a quota is gone, and not only for a moment."""
_LONGEST = 8 * 1024
_SHOWN = 200
_SECRET = re.compile(
    r"(?<![A-Za-z0-9])(?:sk[-_][\w.-]{8,}|(?:AIza|AKIA|eyJ)[\w.-]{12,}|gh[a-z]_\w{16,}|"
    r"xox[a-z]-[\w-]{8,})|(?<=Bearer )\S+|(?<=://)[^\s/@]{1,200}(?=@)"
)


class _Suspicion(NamedTuple):
    """What would be a refusal if it were the agent's own word."""

    signal: Signal
    at: Ms
    hints: int = 0
    """The lines of text since then."""


class AgentWatch:
    """The watch over one run of an agent.

    `writes_events` is whether it was started to write events; else what looks like one is content.
    `zone` is the time zone that it was given, if not the machine's. `own_key` is the model that
    its work is for: a helper's model that is refused does not hold that up.
    """

    def __init__(
        self,
        profile: Profile,
        limits: RunLimits,
        rules: Sequence[Rule],
        provider: str,
        started_ms: Ms,
        *,
        writes_events: bool = True,
        zone: str = "",
        own_key: str = "",
    ) -> None:
        self._own_key = own_key
        self._own_seen = False
        self._wired = False
        self._in_tool = False
        self._long_refusal = False
        self._vain = self._vain_status = 0
        self._vain_since = NO_TIME
        self._rules = tuple(r for r in rules if not r.line or _counts(r, profile))
        self._profile = profile
        self._writes_events = writes_events
        self._zone = zone
        self._limits = limits
        self._provider = provider
        self._started = started_ms
        self._heard = self._spoke = started_ms
        self._last = ""
        self._events = False
        self._tool = ""
        self._same = 0
        self._since: Ms | None = None
        self._refusal = ""
        self._by_event = False
        self._told: WatchVerdict | None = None
        self._suspicion: _Suspicion | None = None
        self._failed_at = NO_TIME
        self._asked: list[str] = []
        """Of the requests that it was seen to send, what their refusals have in them too."""
        self._last_refusal: Signal | None = None
        self._waiting: list[str] = []
        """The refusals of requests that it will send again, as it was told."""
        self.session = ""
        self.finished = False
        """Whether its last event said that its work is done."""
        self.tool_calls = 0
        self.refused_at: Ms | None = None
        """When it was refused last, if it has shown no progress since."""
        self.retry_after: Ms | None = None
        """For how many milliseconds that refusal asks to be left alone, if it says."""
        self.confirmed: Signal | None = None
        """The refusal that only its end has shown to be one."""
        self.failure = ""
        """What else it said is wrong upstream, if it said so since its last progress."""

    @property
    def waiting(self) -> Signal | None:
        """The refusal after which it waits, if only its next try shows for how long; else None."""
        return self._last_refusal if self._waiting and self.refused_at is not None else None

    @property
    def last_line(self) -> str:
        """The last line that was not blank, fit to be shown."""
        return fit_to_show(self._last)

    def feed(self, line: str, now: Ms, wall: Seconds, *, stderr: bool = False) -> Signal | None:
        """Take note of a line; the signal it is, if it is one. `stderr`: it surely came there."""
        self._heard = now
        if not line or line.isspace():
            return None
        head = line[:_LONGEST]
        if head.isprintable() or _plain(head):
            self._last = head
        looks_so, seen = look(self._profile, line)
        is_event = looks_so and self._writes_events
        if looks_so and not is_event:  # an answer, or a tool, that shows an event of somebody's
            seen, stderr = OutputLine(progress=True, error=seen.error), False
        self._events = self._events or is_event
        self.session = self.session or seen.session
        if seen.message or (seen.tool and not self._wired):
            self._spoke = now
        self._count(seen)
        said = self._read(line, wall, is_event=looks_so, own=seen.error)
        own_word = self._is_own_word(said, is_event=is_event, stderr=stderr)
        refused = said.signal is not None and said.signal.kind in REFUSALS
        if is_event and (refused or seen.progress or seen.finished):
            self.finished = seen.finished and not refused
        if said.signal and refused:
            if not own_word:
                self._suspicion = _Suspicion(said.signal, now)
                return None
            return self._refused(said.signal, now, by_event=is_event, line=head)
        if said.failure:
            self._failed(said, now, certain=own_word)
        elif seen.progress:
            self._progress(now, is_event=is_event)
        return said.signal

    def _read(self, line: str, wall: Seconds, *, is_event: bool, own: bool) -> LineVerdict:
        """What a line says, unless it is content by its shape."""
        if not (own if is_event else line[:200].lstrip()[:1] != "{"):
            return LineVerdict()
        speaks = self._profile.speaks or self._profile.name
        said = judge_line(
            line,
            rules=self._rules,
            provider=self._provider,
            now=wall,
            speaks=speaks,
            zone=self._zone,
        )
        # What it says of its requests they tell themselves, if they are seen.
        return said._replace(signal=None) if self._wired else said

    def _is_own_word(self, said: LineVerdict, *, is_event: bool, stderr: bool) -> bool:
        """Whether it came through the agent's own error channel, or a user's rule knows it."""
        if said.rule is not None and said.rule not in LINES:
            return True
        if is_event:
            return True
        where = self._profile.error_text
        if self._writes_events:
            return where in {"beside-events", "stderr"}
        return where == "stderr" and stderr

    def _failed(self, said: LineVerdict, now: Ms, *, certain: bool) -> None:
        """Another failure: whatever was refused before is not what it will end with."""
        self.failure, self._failed_at = said.failure, now
        if said.final:
            self._suspicion = None
            if certain:
                self._since = self.refused_at = self.retry_after = None

    def _progress(self, now: Ms, *, is_event: bool) -> None:
        seen = not self._wired and self._is_real_progress(now, is_event=is_event)
        if self._since is not None and seen:
            self._since = self.refused_at = self.retry_after = None
            self._waiting = []
        if self._suspicion is not None:
            signal, at, hints = self._suspicion
            over = is_event or now - at >= _BURST or hints >= _MOST_HINTS
            self._suspicion = None if over else _Suspicion(signal, at, hints + 1)
        if is_event or now - self._failed_at >= _BURST:
            self.failure = ""

    def request_begun(self, now: Ms, *, in_tool: bool = False) -> None:
        """A request of the agent's is on the wire, or a part of it or of its answer.

        `in_tool`: an answer had it call a tool, and it has not asked on since.
        """
        self._heard = now
        self._wired = True
        self._in_tool = in_tool

    def request_accepted(self, now: Ms, key: str = "") -> None:
        """Upstream has accepted a request: the agent makes progress."""
        self._heard = now
        if self._of_helper(key):
            return
        self._since = self.refused_at = self.retry_after = None
        self._long_refusal = False

    def request_refused(self, signal: Signal, now: Ms, key: str = "") -> None:
        """The agent was told that upstream refuses a request."""
        if self._of_helper(key):
            return
        self._refused(signal, now, by_event=False)
        self._long_refusal = (signal.retry_after or NO_TIME) > self._limits.patience

    def _of_helper(self, key: str) -> bool:
        """Whether a request was for another model than the agent's own, which was seen as well."""
        self._own_seen = self._own_seen or (bool(key) and key == self._own_key)
        return self._own_seen and key != self._own_key

    def request_ended(self, now: Ms, ended: RequestEnd, *, in_tool: bool) -> None:
        """An answer is over; perhaps the agent was told to call tools, and does."""
        self._heard = now
        self._in_tool = in_tool
        if ended.served:
            self._spoke = now
        for tool in ended.tools:
            self._count_tool(tool)
        if self._of_helper(ended.key):
            return
        if ended.served:
            self._vain = 0
            return
        self._vain += 1
        self._vain_since = now if self._vain == 1 else self._vain_since
        self._vain_status = ended.status

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
        if limits.stale_after is not None and not self._in_tool:
            times.append(self._heard + limits.stale_after)
        if limits.stale_after is not None and self._vain >= _FEW_FAILURES:
            times.append(self._vain_since + limits.stale_after)
        if limits.message_stale_after is not None:
            times.append(self._spoke + limits.message_stale_after)
        if limits.max_runtime is not None:
            times.append(self._started + limits.max_runtime)
        if limits.park and self._since is not None:
            times.append(self._given_up())
        return max(now, min(times)) if times else None

    def outcome(self, code: int | None, signal: int) -> WatchVerdict | None:
        """How its end is to be judged: by the last verdict, as a refusal, or (None) by its code.

        A `code` of None is one that nobody knows. What is a refusal only now is in `confirmed`.
        """
        told = self._told  # some agents exit with 0 when they are ended
        if told and (not told.park or self._since is not None):
            return told
        well = code == 0 and signal == 0
        if self._since is None:
            self._confirm(code, signal)
        elif well and not (self._by_event or self._profile.exit_lies):
            return None
        if self._since is None or (not self._limits.park and not well):
            return None
        verdict = self._parked("it ended without progress")
        return verdict._replace(park=self._limits.park)

    def _confirm(self, code: int | None, signal: int) -> None:
        """Take a suspicion for a refusal if the agent gave up with it as its last words."""
        if self._suspicion is None or code is None or signal or code in _ENDED_BY_OTHERS:
            return
        found, at, hints = self._suspicion
        if code or (self._profile.exit_lies and not hints):
            self.confirmed = found
            self._refused(found, at, by_event=False)

    def _judge(self, now: Ms) -> WatchVerdict | None:
        limits = self._limits
        stale = limits.stale_after is not None and now >= self._heard + limits.stale_after
        stale = stale and not self._in_tool
        given_up = stale or self._long_refusal
        if limits.park and self._since is not None and (given_up or now >= self._given_up()):
            if self._long_refusal:
                return self._parked(f"for {show_duration(self.retry_after or NO_TIME)}")
            return self._parked(f"no progress for {show_duration(now - self._since)}")
        if limits.same_tool_calls is not None and self._same >= limits.same_tool_calls:
            name = self._tool.partition("#")[0]
            text = f"it made the same call of {name} {self._same} times in a row"
            return WatchVerdict("tool_loop", f"{text}; same_tool_calls is {limits.same_tool_calls}")
        if limits.max_tool_calls is not None and self.tool_calls > limits.max_tool_calls:
            text = f"it made {self.tool_calls} tool calls"
            text = f"{text}; max_tool_calls is {limits.max_tool_calls}"
            return WatchVerdict("tool_calls", text, resumes=True)
        if limits.stale_after is not None and self._asks_in_vain(now):
            last = f", the last with {self._vain_status}" if self._vain_status >= 400 else ""
            text = f"it asked in vain for {show_duration(now - self._vain_since)}"
            text = f"{text}: {self._vain} requests failed{last}"
            text = f"{text}; stale_after is {show_duration(limits.stale_after)}"
            return WatchVerdict("stale", text, resumes=True)
        if limits.stale_after is not None and stale:
            nothing = "wrote and asked nothing" if self._wired else "wrote nothing"
            text = f"it {nothing} for {show_duration(now - self._heard)}"
            text = f"{text}; stale_after is {show_duration(limits.stale_after)}"
            return WatchVerdict("stale", text, resumes=True)
        mute = limits.message_stale_after
        if mute is not None and now >= self._spoke + mute:
            text = f"it sent no message and called no tool for {show_duration(now - self._spoke)}"
            text = f"{text}; message_stale_after is {show_duration(mute)}"
            return WatchVerdict("message_stale", text, resumes=True)
        if limits.max_runtime is not None and now >= self._started + limits.max_runtime:
            text = f"it ran for {show_duration(now - self._started)}"
            shown = show_duration(limits.max_runtime)
            return WatchVerdict("max_runtime", f"{text}; max_runtime is {shown}", resumes=True)
        return None

    def _asks_in_vain(self, now: Ms) -> bool:
        """Whether all that it does is to ask, and upstream has served none of it for long."""
        after = self._limits.stale_after
        return after is not None and self._vain >= _FEW_FAILURES and now >= self._vain_since + after

    def _parked(self, what: str) -> WatchVerdict:
        text = f"upstream refused it ({self._refusal}), and {what}"
        known = self._refusal == QUOTA and (self.retry_after or NO_TIME) >= _LONG_WAIT
        return WatchVerdict(
            "rate_limited", text, park=True, awaits_quota=known, not_before=self.retry_after
        )

    def _given_up(self) -> Ms:
        """From when on a suspect that shows no progress is taken to do nothing but retry."""
        since, last = self._since or NO_TIME, self.refused_at or NO_TIME
        patience = self._limits.patience
        if self._events or self._wired or not self._profile.silent:
            return since + patience
        return last if last - since >= patience else last + _SILENCE * patience

    def _refused(self, signal: Signal, now: Ms, *, by_event: bool, line: str = "") -> Signal:
        """Take note of a refusal; the signal that it is."""
        if self._since is None:
            self._since = now
        self._refusal = signal.kind
        self._by_event = by_event
        self.refused_at = now
        self.retry_after = signal.retry_after
        waits = not by_event and signal.retry_after is None and signal.kind != QUOTA
        waits = waits and any(asked in line for asked in self._asked)
        self._waiting = [*self._waiting, line][-_MOST_ASKED:] if waits else []
        self._last_refusal = signal._replace(waits=waits)
        return self._last_refusal

    def _is_real_progress(self, now: Ms, *, is_event: bool) -> bool:
        """Whether progress is no echo of the refusal before it."""
        if is_event:
            return True
        return not self._events and now - (self.refused_at or NO_TIME) >= _BURST

    def _count(self, seen: OutputLine) -> None:
        """Take note of the tools that a line calls, or of the request that it begins."""
        if not self._wired:  # else the answers tell, whatever is printed of them
            for tool in filter(None, seen.tool.split(" ")):
                self._count_tool(tool)
        if seen.asks:
            self._asked = [*(a for a in self._asked if a != seen.asks), seen.asks][-_MOST_ASKED:]
            self._waiting = [refusal for refusal in self._waiting if seen.asks not in refusal]

    def _count_tool(self, tool: str) -> None:
        self.tool_calls += 1
        polls = tool.partition("#")[0] in self._profile.polls
        self._same = self._same + 1 if tool == self._tool and not polls else 1
        self._tool = tool


def _counts(rule: Rule, profile: Profile) -> bool:
    """Whether a rule for lines is for this kind of agent: built-in ones only for a known one."""
    if rule in LINES:
        return bool(profile.name) and rule.profile in {profile.name, profile.speaks}
    return not profile.name or rule.profile in {"", profile.name, profile.speaks}


def fit_to_show(line: str) -> str:
    """A line of output, short and plain, without what looks like a key."""
    return _SECRET.sub("(hidden)", _plain(line[:_LONGEST]))[:_SHOWN]


def _plain(text: str) -> str:
    """A text on one line, without what a terminal would obey."""
    return printable(without_sequences(text)).strip()
