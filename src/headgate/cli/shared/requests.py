"""What people are shown of an agent's meter and its requests."""

from headgate.cli.shared import terminal
from headgate.core.display.snapshots import Metered, RequestStatus, Running
from headgate.core.quantities import show_seconds
from headgate.core.times import Seconds

_TABLE = (
    ("ended", ""),
    ("request", ""),
    ("status", "right"),
    ("waited", "right"),
    ("first byte", "right"),
    ("took", "right"),
    ("tokens in", "right"),
    ("cached", "right"),
    ("out", "right"),
    ("tries", "right"),
    ("key", "shrinks"),
    ("task", "shrinks"),
)


def facts(found: Metered | None) -> list[tuple[str, str]]:
    """The meter and why, and what the requests come to."""
    if found is None:
        return []
    because = f" ({found.reason})" if found.reason else ""
    return [
        ("meter", f"{found.meter}{because}"),
        ("hint", found.hint),
        ("requests", _sums(found) if found.requests else ""),
        ("tokens", _tokens(found)),
    ]


def _sums(found: Metered) -> str:
    words = [str(found.requests)]
    if found.refused:
        words.append(f"{found.refused} refused")
    if found.waited:
        words.append(f"{show_seconds(found.waited)} waited")
    return ", ".join([*words, f"{show_seconds(found.took)} in all"])


def _tokens(found: Metered) -> str:
    if not (found.input_tokens or found.output_tokens):
        return ""
    cached = f" ({found.cached_tokens:,} cached)" if found.cached_tokens else ""
    return f"{found.input_tokens:,} in{cached}, {found.output_tokens:,} out"


def in_flight(work: Running, now: Seconds) -> str:
    """How many requests of an agent are on their way, and for how long the oldest has been."""
    if not work.in_flight:
        return ""
    if work.oldest_request is None:
        return str(work.in_flight)
    return f"{work.in_flight} for {show_seconds(max(Seconds(0), now - work.oldest_request))}"


def table(found: Metered | None, pen: terminal.Pen) -> list[str]:
    """The last requests, one on each line."""
    if found is None or not found.last_requests:
        return []
    return ["", *terminal.table(_TABLE, [_row(one) for one in found.last_requests], pen)]


def _row(one: RequestStatus) -> tuple[terminal.Cell, ...]:
    well = one.outcome == "complete"
    return (
        terminal.clock(one.at),
        one.outcome if well else ((one.outcome.replace("_", " "), "yellow"),),
        one.status or "",
        show_seconds(one.waited) if one.waited else "",
        "" if one.first_byte is None else show_seconds(one.first_byte),
        show_seconds(one.took),
        "" if one.input_tokens is None else f"{one.input_tokens:,}",
        f"{one.cached_tokens:,}" if one.cached_tokens else "",
        "" if one.output_tokens is None else f"{one.output_tokens:,}",
        one.tries if one.tries > 1 else "",
        one.key,
        one.task,
    )
