"""Find out how many are too many: copies of a command on this machine, or requests of an account.

With a command, runs 1, 2, 4, ... copies of it at once and recommends a limit for host. With
--upstream, sends one more small request at a time until the account refuses one.
"""

import os
import signal
import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from types import FrameType
from typing import TYPE_CHECKING, Any

from headgate.cli.shared import terminal
from headgate.cli.shared.open_gate import open_gate, print_json, say
from headgate.core.display import json_shapes, old_json_names
from headgate.core.key_patterns import HOST, parse_key, parse_pattern
from headgate.core.quantities import parse_duration, shown
from headgate.core.times import Seconds, seconds
from headgate.errors import UsageError

if TYPE_CHECKING:
    from headgate.probe import account, machine

_MOST_COPIES = 256
_MOST_REQUESTS = 64


def arguments(parser: ArgumentParser) -> None:
    """What `probe` takes."""
    parser.usage = (
        "headgate probe [--most N] [--timeout DUR] [--rounds N] [--set] [--json] -- CMD...\n"
        "       headgate probe --upstream URL -m KEY [--api API] [--key-env NAME] [--most N] "
        "[--set POOL] [--json]"
    )
    add = parser.add_argument
    add("--most", metavar="N", help="try at most so many at once (16 copies, or 8 requests)")
    add("--timeout", metavar="DUR", help="end a copy (10m) or a request (1m) after so long")
    add("--rounds", metavar="N", help="run at most so many rounds of copies (12)")
    does = "set the limit that was found: of host for copies, of POOL (KEY) for requests"
    add("--set", nargs="?", const="", metavar="POOL", help=does)
    add("--json", action="store_true", help="print it as JSON")
    add("--upstream", metavar="URL", help="probe the account behind this API, and not the machine")
    add("-m", "--model", metavar="KEY", help="the model to ask, as in anthropic/claude-opus-4-6")
    add("--api", choices=("anthropic", "openai", "gemini"), help="which API it is (told by KEY)")
    add(
        "--key-env",
        metavar="NAME",
        help="the variable with the key (ANTHROPIC_API_KEY or the like)",
    )
    add("--rest", metavar="DUR", help="wait so long before trying more at once (3s)")
    add("command", nargs=REMAINDER, metavar="CMD", help="the program and its arguments")


def run(args: Namespace) -> int:
    """Probe the one or the other."""
    argv = args.command[1:] if args.command[:1] == ["--"] else args.command
    if args.upstream is None:
        for name in ("model", "api", "key_env", "rest"):
            if getattr(args, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} goes with --upstream URL only")
        if not argv:
            raise UsageError("nothing to try: headgate probe -- CMD..., or --upstream URL")
        return _machine(args, argv)
    if argv:
        raise UsageError("either --upstream URL or a command, not both")
    if args.rounds is not None:
        raise UsageError("--rounds goes with a command only")
    return _account(args)


def _machine(args: Namespace, argv: list[str]) -> int:
    from headgate.gate.host.memory_and_load import read
    from headgate.probe import machine
    from headgate.runner.child import describe, find_program

    if args.set not in {None, "", HOST}:
        raise UsageError(f"bad --set {args.set!r}: a command finds a limit for host; leave it out")
    name = describe(argv[0])
    if name == "headgate":
        raise UsageError("the copies must not wait in line: give the program without headgate run")
    try:
        find_program(argv[0])
    except OSError as error:
        say(f"cannot start {name}: {error.strerror}")
        return 127 if isinstance(error, FileNotFoundError) else 126
    defaults = machine.MachineProbeOptions()
    options = defaults._replace(
        most=_whole(args.most, "--most", defaults.most, _MOST_COPIES),
        rounds=_whole(args.rounds, "--rounds", defaults.rounds, 100),
        timeout=_seconds(args.timeout, "--timeout", defaults.timeout),
    )
    with open_gate(args) as gate:
        pressure_limits = gate.pressure_limits
        options = options._replace(floor=pressure_limits.memory_floor if pressure_limits else 0)
        say(f"runs up to {options.most} of {name} at once; each is a real run (Ctrl-C ends all)")
        with _Ending():
            found = machine.probe_machine(argv, options, look=read, say=say)
        if args.set is not None:
            gate.set_limit(HOST, found.recommended)
    _show_machine(args, name, found)
    return 0


def _show_machine(args: Namespace, name: str, found: "machine.MachineProbeResult") -> None:
    if args.json:
        said = {
            "command": name,
            "recommended": found.recommended,
            "reasons": found.reasons,
            "rounds": [_round_json(it) for it in found.tried],
            "set": HOST if args.set is not None else None,
        }
        print_json(json_shapes.document(said), old_json_names.COPIES)
        return
    done = "host has a limit of" if args.set is not None else "recommended limit for host:"
    lines = [f"{done} {found.recommended}", *(f"  {reason}" for reason in found.reasons)]
    if args.set is None:
        lines.append(f"  to set it: headgate limits set host {found.recommended}")
    terminal.show(lines)


def _round_json(it: "machine.Tried") -> dict[str, Any]:
    ran = it.round
    return {
        "copies": it.copies,
        "tried": ran is not None,
        "good": not it.verdict,
        "reason": it.verdict or None,
        "seconds": round(ran.seconds, 3) if ran else None,
        "wall": round(ran.wall, 3) if ran else None,
        "cpu": round(ran.cpu, 3) if ran else None,
        "memory": ran.memory if ran else None,
        "peak": ran.peak if ran else None,
        "failed": ran.failed if ran else None,
        "timed_out": sum(copy.code is None for copy in ran.copies) if ran else None,
        "refused": sum(bool(copy.refused) for copy in ran.copies) if ran else None,
    }


def _account(args: Namespace) -> int:
    from headgate.probe import account, ask

    if args.model is None:
        raise UsageError("--upstream needs the model to ask: -m PROVIDER/MODEL")
    key = parse_key(args.model)
    pool = parse_pattern(args.set) if args.set else key
    if pool == HOST:
        raise UsageError("bad --set 'host': an account's limit is no machine's")
    target = ask.ApiEndpoint(
        args.upstream, args.model, os.environ, api=args.api or "", key_env=args.key_env or ""
    )
    defaults = account.AccountProbeOptions()
    options = account.AccountProbeOptions(
        _whole(args.most, "--most", defaults.most, _MOST_REQUESTS),
        _seconds(args.rest, "--rest", defaults.rest, least=0),
        _seconds(args.timeout, "--timeout", defaults.timeout),
    )
    say(
        f"asks {target.host} for a few tokens, 1 to {options.most} at once, in {options.budget} "
        "requests at most; stops at the first refusal"
    )
    if args.set is None:
        found = account.probe_account(target, options, say=say)
    else:
        with open_gate(args) as gate:
            found = account.probe_account(target, options, say=say)
            if found.confirmed:
                gate.set_limit(pool, found.works)
    _show_account(args, pool, found)
    return 0


def _show_account(args: Namespace, pool: str, found: "account.AccountProbeResult") -> None:
    was_set = pool if args.set is not None and found.confirmed else None
    if args.json:
        said = {**found._asdict(), "set": was_set}
        said["signal"] = said.pop("kind") or None
        print_json(json_shapes.document(said), old_json_names.REQUESTS)
        return
    lines = [
        f"limit: {found.limit}" if found.limit is not None else f"{found.works} at once worked",
        *(f"  {reason}" for reason in found.reasons),
        f"  {found.spent} requests were sent, {found.refused} refused",
    ]
    if was_set:
        lines.append(f"  {was_set} has a limit of {found.works} now")
    elif args.set is not None:
        lines.append(f"  {pool} was left as it is, for this is not sure")
    else:
        lines.append(f"  to set it: headgate limits set '{pool}' {found.works}")
    terminal.show(lines)


def _whole(text: str | None, what: str, default: int, most: int) -> int:
    if text is None:
        return default
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    if not 1 <= number <= most:
        raise UsageError(f"bad {what} {shown(text)}: expected a whole number from 1 to {most}")
    return number


def _seconds(text: str | None, what: str, default: Seconds, least: int = 1) -> Seconds:
    if text is None:
        return default
    found = parse_duration(text, what)
    if found < least:
        raise UsageError(f"bad {what} {shown(text)}: expected more than no time")
    return seconds(found)


class _Ending:
    """SIGTERM and SIGHUP end a probe as Ctrl-C does: with all of its copies."""

    def __enter__(self) -> None:
        def leave(number: int, _: FrameType | None) -> None:
            sys.exit(128 + number)

        self._before = {
            number: signal.signal(number, leave)
            for number in (signal.SIGTERM, signal.SIGHUP)
            if signal.getsignal(number) is not signal.SIG_IGN
        }

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
