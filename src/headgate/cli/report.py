"""Tell a pool what upstream said: a refusal pauses it, and one for concurrency lowers its limit."""

import os
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from headgate.cli.limits import is_new
from headgate.cli.shared.open_gate import open_gate, parse_note, print_json, say
from headgate.core.answers.signals import (
    ACCEPTED,
    CONCURRENCY,
    KINDS,
    LONGEST_PAUSE,
    REFUSALS,
    USAGE,
    parse_signal,
)
from headgate.core.display import json_shapes, old_json_names
from headgate.core.display.snapshots import Event, PoolStatus
from headgate.core.key_patterns import parse_pattern
from headgate.core.quantities import MOST, parse_duration, parse_limit, show_seconds, shown
from headgate.core.times import Seconds, seconds
from headgate.errors import UsageError
from headgate.gate.liveness.process_marks import MARK


def arguments(parser: ArgumentParser) -> None:
    """What `report` takes."""
    parser.add_argument("pool", metavar="POOL", help="as shown by headgate limits")
    parser.add_argument("signal", metavar="SIGNAL", help=f"what it said: {', '.join(KINDS)}")
    parser.add_argument(
        "--retry-after",
        metavar="DUR",
        help="how long upstream asks to be left alone, as in 30 (seconds) or 2m; at most a day",
    )
    parser.add_argument("--in-use", metavar="N", help="with usage: how many upstream counts")
    parser.add_argument("--limit", metavar="N", help="with usage: how many upstream allows")
    parser.add_argument(
        "--note", default="", metavar="TEXT", help="why; those who wait are shown it"
    )
    parser.add_argument("--json", action="store_true", help="then print the pool as JSON")


def run(args: Namespace) -> int:
    """Tell it, and say what came of it."""
    pool, signal = parse_pattern(args.pool), _signal(args.signal)
    _check_options(args, signal)
    retry_after = None
    if args.retry_after is not None:
        retry_after = parse_duration(args.retry_after, "--retry-after", bounded=False)
    in_use = None if args.in_use is None else _number(args.in_use)
    limit = None if args.limit is None else parse_limit(args.limit, "--limit")
    note = parse_note(args.note)
    with open_gate(args) as gate:
        before = gate.status()
        new = is_new(before, pool)
        if new and signal not in REFUSALS:
            raise UsageError(f"there is no pool {pool}; headgate limits lists them")
        last = max((event.seq for event in gate.events(most=1)), default=0)
        gate.report(
            pool,
            signal,
            retry_after=None if retry_after is None else seconds(retry_after),
            in_use=in_use,
            limit=limit,
            note=note,
        )
        status = gate.status()
        events = [event for event in gate.events(after=last) if event.pool == pool]
    after = next((found for found in status.pools if found.pool == pool), None)
    most = ", a day is the most" if (retry_after or 0) > LONGEST_PAUSE else ""
    did = outcome(signal, after, events, status.at)
    say(f"{pool}: {did}{most}{new if after else ''}")
    if args.json:
        if after is None:
            print_json(None)  # a refusal of a pool that nobody knows has left no trace
        else:
            print_json(json_shapes.document(json_shapes.pool(after)), old_json_names.POOL)
    return 0


def _signal(text: str) -> str:
    try:
        return parse_signal(text)
    except UsageError as error:
        from difflib import get_close_matches

        close = get_close_matches(text[:40].lower().replace("_", "-"), KINDS, 1, 0.5)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise UsageError(f"{error}{hint}") from None


def _check_options(args: Namespace, signal: str) -> None:
    """Each option goes with some signals only; one that would be ignored is a slip."""
    if signal == USAGE and args.in_use is None:
        raise UsageError("bad signal 'usage': it needs --in-use N, how much upstream counts")
    if signal != USAGE and (args.in_use is not None or args.limit is not None):
        option = "--limit" if args.in_use is None else "--in-use"
        raise UsageError(f"bad {option}: it goes with the signal usage, not with {signal}")
    if signal not in REFUSALS and args.retry_after is not None:
        raise UsageError(f"bad --retry-after: it goes with a refusal, not with {signal}")


def _number(text: str) -> float:
    """A count, which may be a fraction where a provider counts cost."""
    if re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,9})?", text.strip()) and float(text) <= MOST:
        return float(text)
    raise UsageError(f"bad --in-use {shown(text)}: expected a number from 0 to {MOST}")


def outcome(signal: str, after: PoolStatus | None, events: Sequence[Event], at: Seconds) -> str:
    """What came of a signal, for people: from what happened in the pool, and what it is now."""
    if signal == ACCEPTED:
        if os.environ.get(MARK):
            return "noted for the lease that this program runs under"
        return "nothing changes, for an acceptance counts only with the lease that it belongs to"
    if signal == USAGE:
        if after is not None and after.upstream is not None:
            return "taken as the provider's own count"
        return "nothing changes, for the configuration names no usage for this pool"
    if signal != CONCURRENCY:
        return _pause(after, events, at)
    return f"{_cut(after, events)} and {_pause(after, events, at)}"


def _cut(after: PoolStatus | None, events: Sequence[Event]) -> str:
    for event in reversed(events):
        if event.event == "limit_reduced":
            return f"limit {event.text.partition(':')[0]}"
        if _is_echo(event):
            return "counted as an echo of the same incident"
    if after is None or after.limit is None:
        return "no limit to reduce"
    return f"the limit stays {after.limit}"


def _is_echo(event: Event) -> bool:
    return event.event == "refused" and event.text.startswith("an echo")


def _pause(after: PoolStatus | None, events: Sequence[Event], at: Seconds) -> str:
    if after is None or not after.paused:
        return "not paused"
    if after.paused_until is None:
        return "already paused until it is resumed"
    for event in reversed(events):
        if event.event == "paused":
            return f"paused {event.text.partition(':')[0]}"
    left = show_seconds(after.paused_until - at)
    echo = any(map(_is_echo, events))
    return f"still paused for {left}" if echo else f"already paused for longer ({left})"
