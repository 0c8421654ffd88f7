"""When an agent is ended, and what then happens to its job. Times are in ms."""

from collections.abc import Iterator

from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import show_duration
from headgate.core.times import Ms

CALL = Ms(2_700)
"""How long a tool call takes, thinking included: 200 of them are about nine minutes."""


class RunLimits(NamedTuple):
    """When an agent is ended, whatever it does. None is never."""

    patience: Ms = Ms(90_000)
    """How long an agent may go on without progress after a refusal."""
    stale_after: Ms | None = None
    """How long it may write nothing at all."""
    max_runtime: Ms | None = None
    max_tool_calls: int | None = None
    same_tool_calls: int | None = 100
    """How many times in a row it may make the same tool call."""
    park: bool = True
    """Whether a refused agent is ended and its job parked."""
    message_stale_after: Ms | None = None
    """How long it may send no message and call no tool, whatever else it writes."""


class JobPolicy(NamedTuple):
    """What becomes of a job. None is never."""

    limits: RunLimits = RunLimits()
    attempts: int = 10
    backoff: Ms = Ms(5_000)
    """How long a job stays out of the line after its first attempt in vain."""
    longest_backoff: Ms = Ms(600_000)
    expires: Ms | None = Ms(86_400_000)
    """How long it may wait to be started."""
    keep: Ms | None = Ms(604_800_000)
    """How long a finished job is remembered."""
    log_size: int = 64 * 2**20
    """Bytes of output that are kept."""
    fallback_after: Ms = Ms(300_000)
    """How long it waits for its model before it takes another one, if it has one."""
    relieve: bool = False
    """Whether the youngest job of the lowest priority is parked when memory is nearly gone."""


def warnings(given: RunLimits | JobPolicy) -> list[str]:
    """What these settings would do to healthy agents, a sentence for each."""
    return [f"{name}: {text}" for name, text in harmful_settings(given)]


def harmful_settings(given: RunLimits | JobPolicy) -> Iterator[tuple[str, str]]:
    """The settings that would end healthy agents, each with what is wrong with it."""
    limits = given.limits if isinstance(given, JobPolicy) else given
    patience, stale, mute = limits.patience, limits.stale_after, limits.message_stale_after
    runtime, calls, same = limits.max_runtime, limits.max_tool_calls, limits.same_tool_calls
    if patience < 30_000:
        text = f"refusals often ask for a longer wait than {show_duration(patience)}"
        yield "patience", f"{text}, and an agent that obeys is ended; 90s is usual"
    if stale is not None and stale < 600_000:
        text = f"a working agent may be silent for longer than {show_duration(stale)}"
        yield "stale_after", f"{text} (claude writes no text before its end); 45m is safer"
    if mute is not None and mute < 600_000:
        text = f"a tool, or a long thought, may take longer than {show_duration(mute)}"
        yield "message_stale_after", f"{text}; 60m is safer"
    if runtime is not None and runtime <= 1_800_000:
        text = f"agents run for hours, and are ended after {show_duration(runtime)}"
        yield "max_runtime", f"{text}; 12h is safer"
    if calls is not None and calls < 1_000:
        text = f"{_calls(calls)} about {show_duration(calls * CALL)} of work"
        yield "max_tool_calls", f"{text}; 4000 is safer"
    if same is not None and same < 10:
        text = f"{_calls(same)} soon made by an agent that waits for something"
        yield "same_tool_calls", f"{text}; 100 is usual"


def _calls(number: int) -> str:
    return f"{number} tool call is" if number == 1 else f"{number} tool calls are"
