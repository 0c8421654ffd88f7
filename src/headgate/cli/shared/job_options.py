"""What `submit` can be told about a job: as options, or as fields of a line of JSON."""

import json
import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from typing import Any

from headgate.cli.shared.options import add_grace
from headgate.core.quantities import parse_duration, shown
from headgate.core.times import Ms, Seconds, seconds
from headgate.errors import UsageError
from headgate.gate import Gate
from headgate.gate.submit_jobs import draft
from headgate.ledger.jobs.lifecycle import Draft

_FIELDS = (
    "command",
    "key",
    "model",
    "models",
    "task",
    "name",
    "priority",
    "weight",
    "since",
    "cwd",
    "env",
    "after",
    "hold",
    "expires",
    "retries",
    "escalate",
    "fallback_after",
    "attempts",
    "grace",
    "park",
    "patience",
    "stale_after",
    "max_runtime",
    "max_tool_calls",
    "same_tool_calls",
)
_TIMES = ("patience", "stale_after", "max_runtime")
_COUNTS = ("max_tool_calls", "same_tool_calls")
_MOST_MISTAKES = 20
_MOST_JOBS = 100_000


def add_options(parser: ArgumentParser) -> None:
    """The options that say how a job is to be run and watched."""
    parser.add_argument(
        "--after",
        action="append",
        metavar="ID",
        help="start only when that job is done; ID,ID for several",
    )
    parser.add_argument(
        "--hold", action="store_true", help="keep it out of the line until headgate release ID"
    )
    parser.add_argument(
        "--expires",
        metavar="DUR",
        help="give up if it was not started within this time (24h), or never",
    )
    parser.add_argument("--name", help="a name for it that lists show")
    parser.add_argument("--cwd", metavar="DIR", help="the folder to run it in (this one)")
    parser.add_argument(
        "--env", action="append", metavar="K=V", help="set a variable for it; may be given again"
    )
    parser.add_argument("--retries", metavar="N", help="try it again so often if it fails (0)")
    parser.add_argument(
        "--escalate",
        action="store_true",
        help="after a failure, try it again with the next of its models",
    )
    parser.add_argument(
        "--fallback-after",
        metavar="DUR",
        help="take another of its models when it has waited so long for the first (5m)",
    )
    parser.add_argument(
        "--attempts", metavar="N", help="start it at most so often, whatever ended it (10)"
    )
    add_grace(parser)
    parser.add_argument(
        "--no-park",
        action="store_true",
        help="when upstream refuses it, let it retry by itself: do not end and park it",
    )
    parser.add_argument(
        "--patience",
        metavar="DUR",
        help="how long it may go on without progress after a refusal, before it is parked (90s)",
    )
    parser.add_argument(
        "--stale-after", metavar="DUR", help="end it after so long without output (off)"
    )
    parser.add_argument("--max-runtime", metavar="DUR", help="end it after so long (off)")
    parser.add_argument(
        "--max-tool-calls", metavar="N", help="end it after so many tool calls (off)"
    )
    parser.add_argument(
        "--same-tool-calls",
        metavar="N",
        help="end it after so many equal tool calls in a row (100)",
    )


def from_options(args: Namespace, argv: list[str], gate: Gate) -> Draft:
    """The job that a command line describes."""
    said: dict[str, object] = {
        "command": argv,
        "model": args.model,
        "task": args.task,
        "name": args.name,
        "priority": args.priority,
        "weight": args.weight,
        "since": args.since,
        "cwd": args.cwd,
        "env": dict(_pair(text) for text in args.env or ()),
        "after": [word for text in args.after or () for word in text.split(",")],
        "hold": args.hold,
        "expires": args.expires,
        "retries": args.retries,
        "escalate": args.escalate,
        "fallback_after": args.fallback_after,
        "attempts": args.attempts,
        "grace": args.grace,
        "park": False if args.no_park else None,
    }
    said |= {name: getattr(args, name) for name in (*_TIMES, *_COUNTS)}
    return read({name: value for name, value in said.items() if value is not None}, gate, {})


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"bad --env {shown(name)}: expected NAME=VALUE")
    return name, value


def from_lines(lines: Iterable[str], gate: Gate) -> list[Draft]:
    """The jobs of a batch, a line of JSON each; all that is wrong with it is said at once."""
    drafts: list[Draft] = []
    wrong: list[str] = []
    names: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = _json(line)
            drafts.append(read(entry, gate, names))
            if entry.get("name"):
                names[str(entry["name"])] = -len(drafts)
        except UsageError as error:
            wrong.append(f"line {number}: {error}")
            drafts.append(draft(["?"]))
        if len(drafts) > _MOST_JOBS:
            raise UsageError(f"more than {_MOST_JOBS} jobs in one batch; split it")
    if wrong:
        more = len(wrong) - _MOST_MISTAKES
        tail = [f"and {more} more like these"] if more > 0 else []
        raise UsageError("\n".join(["nothing was submitted:", *wrong[:_MOST_MISTAKES], *tail]))
    return drafts


def _json(line: str) -> Any:  # noqa: ANN401 - whatever it is
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise UsageError(f"no JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError):
        raise UsageError("no JSON: a number is too long, or it is nested too deeply") from None


def read(said: Mapping[str, Any], gate: Gate, names: Mapping[str, int]) -> Draft:
    """A job from what is said about it."""
    if not isinstance(said, dict):
        raise UsageError(f"found {shown(said)}, expected an object with a command")
    for name in said:
        if name not in _FIELDS:
            raise UsageError(f"unknown field {shown(name)}; allowed: {', '.join(_FIELDS)}")
    terms = gate.job_policy
    argv = _command(said.get("command"))
    keys = _keys(said)
    env = _env(said.get("env"))
    if not keys:
        found = gate.key_of(argv, {**os.environ, **env})
        keys = [found] if found else []
    expires = said.get("expires")
    if expires is None:
        expires = "never" if terms.expires is None else seconds(terms.expires)
    retries = _whole(said, "retries", 0, 0, 999)
    return draft(
        argv,
        key=keys[0] if keys else None,
        models=keys if len(keys) > 1 else (),
        task=_text(said, "task") or os.environ.get("HEADGATE_TASK"),
        name=_text(said, "name"),
        priority=said.get("priority"),
        since=gate.moment(_since(said.get("since"))),
        weight=said.get("weight", 1),
        cwd=_text(said, "cwd"),
        env=env,
        after=_after(said.get("after", ()), names),
        hold=_flag(said, "hold") or False,
        expires=expires,
        retries=retries,
        escalate=_flag(said, "escalate") or False,
        fallback_after=_time(said, "fallback_after", terms.fallback_after),
        attempts=_whole(said, "attempts", max(terms.attempts, retries + 1), 1, 1000),
        backoff=terms.backoff,
        longest_backoff=terms.longest_backoff,
        grace=_time(said, "grace", None),
        terms=_terms(said),
    )


def _terms(said: Mapping[str, Any]) -> dict[str, int | bool | None]:
    found: dict[str, int | bool | None] = {}
    if (park := _flag(said, "park")) is not None:
        found["park"] = park
    for name in _TIMES:
        if said.get(name) is not None:
            found[name] = _time(said, name, None)
    for name in _COUNTS:
        if said.get(name) is not None:
            found[name] = None if said[name] == "off" else _whole(said, name, 0, 1, 10**9)
    if found.get("patience", 1) is None:
        raise UsageError("bad patience 'off': to leave rate limits alone, use --no-park")
    return found


def _command(found: object) -> list[str]:
    if isinstance(found, str) and found.strip():
        return ["/bin/sh", "-c", found]
    if isinstance(found, list) and found and all(isinstance(word, str) for word in found):
        return found
    raise UsageError(f"bad command {shown(found)}: expected a list of words, or a line for sh")


def _keys(said: Mapping[str, Any]) -> list[str]:
    found = said.get("models") or said.get("key") or said.get("model") or []
    words = found.split(",") if isinstance(found, str) else found
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise UsageError(f"bad models {shown(found)}: expected PROVIDER/MODEL, or a list of them")
    return [word.strip() for word in words]


def _text(said: Mapping[str, Any], name: str) -> str | None:
    found = said.get(name)
    if found is not None and not isinstance(found, str):
        raise UsageError(f"bad {name} {shown(found)}: expected text")
    return found


def _env(found: object) -> dict[str, str]:
    if not found:
        return {}
    if not isinstance(found, dict):
        raise UsageError(f"bad env {shown(found)}: expected an object of texts")
    for name, value in found.items():
        if not isinstance(value, str):  # the others may be secrets
            raise UsageError(f"bad env {shown(name)}: {shown(value)} is no text")
    return found


def _flag(said: Mapping[str, Any], name: str) -> bool | None:
    found = said.get(name)
    if found is not None and not isinstance(found, bool):
        raise UsageError(f"bad {name} {shown(found)}: expected true or false")
    return found


def _after(found: object, names: Mapping[str, int]) -> list[int]:
    words = found if isinstance(found, (list, tuple)) else [found]
    ids = []
    for word in words:
        text = str(word).strip()
        if text in names:
            ids.append(names[text])
        elif text.isascii() and text.isdigit() and 0 < len(text) < 19 and int(text):
            ids.append(int(text))
        else:
            raise UsageError(
                f"bad --after {shown(word)}: expected the id of a job"
                + (", or the name of an earlier one of this batch" if names else "")
            )
    return ids


def _since(found: object) -> Seconds | None:
    if found is None:
        return None
    try:
        moment = Seconds(str(found))
    except ValueError:
        return Seconds(time.time()) - seconds(parse_duration(found, "since"))
    if moment < 100_000_000:
        raise UsageError(
            f"bad since {shown(found)}: expected seconds since the epoch, or a time ago such as 5m"
        )
    return moment


def _time(said: Mapping[str, Any], name: str, usual: Ms | None) -> Ms | None:
    found = said.get(name)
    if found is None:
        return usual
    return None if found in ("off", "never") else parse_duration(found, name)


def _whole(said: Mapping[str, Any], name: str, usual: int, least: int, most: int) -> int:
    found = said.get(name)
    if found is None:
        return usual
    text = str(found)
    if text.isascii() and text.isdigit() and len(text) < 12 and least <= int(text) <= most:
        return int(text)
    raise UsageError(f"bad {name} {shown(found)}: expected a whole number from {least} to {most}")
