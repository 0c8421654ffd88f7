"""What a job is told to be, field by field: on a command line, in a batch, over HTTP."""

import os
import time
from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any

from headgate.core.agents.meters import METERS, Meter
from headgate.core.quantities import parse_duration, parse_priority, parse_weight, shown
from headgate.core.roles import parse_roles
from headgate.core.table_fields import (
    FLAG,
    Field,
    FieldRefused,
    Fields,
    choice,
    flag,
    listed,
    read_options,
)
from headgate.core.times import Ms, Seconds, seconds
from headgate.errors import UsageError
from headgate.gate import Gate
from headgate.gate.submit_jobs import draft
from headgate.ledger.jobs.lifecycle import Draft
from headgate.wire.plan_meter import QUEUE_TIMEOUT, find_asked, plan_for
from headgate.wire.point_agent import VARIABLE

_CONFIRM_WITHIN = Ms(3_600_000)


def read(said: Mapping[str, Any], gate: Gate, names: Mapping[str, int]) -> Draft:
    """A job from what is said about it."""
    if not isinstance(said, dict):
        raise UsageError(f"found {shown(said)}, expected an object with a command")
    wrong: list[str] = []
    given = {name: found for name, found in said.items() if found is not None}
    found = read_options(given, FIELDS, wrong)
    if not (wrong or found.get("command")):
        wrong.append(f"bad command None: expected {FIELDS['command'].allowed}")
    if wrong:
        raise UsageError("\n".join(wrong))
    policy = gate.job_policy
    argv = found["command"]
    env: Mapping[str, str] = {**_from_here(found), **found.get("env", {})}
    if "queue_timeout" in found:
        env = {**env, QUEUE_TIMEOUT: found["queue_timeout"]}
    if "meter" in found:
        env = {**env, VARIABLE: found["meter"]}
    keys = found.get("models") or found.get("key") or found.get("model") or []
    if not keys:
        key = gate.key_of(argv, _surroundings(env))
        keys = [key] if key else []
    keys, env = _own_keys(gate, argv, keys, env, found.get("cwd") or "")
    expires = "never" if policy.expires is None else seconds(policy.expires)
    retries = found.get("retries", 0)
    return draft(
        argv,
        key=keys[0] if keys else None,
        models=keys if len(keys) > 1 else (),
        task=found.get("task") or os.environ.get("HEADGATE_TASK"),
        name=found.get("name"),
        priority=found.get("priority"),
        since=gate.moment(found.get("since")),
        weight=found.get("weight", 1),
        cwd=found.get("cwd"),
        env=env,
        after=_after(given.get("after", ()), names, gate),
        hold=found.get("hold", False),
        roles=[*found.get("role", "").split(), *found.get("roles", "").split()],
        expires=found.get("expires", expires),
        retries=retries,
        escalate=found.get("escalate", False),
        fallback_after=found.get("fallback_after", policy.fallback_after),
        attempts=found.get("attempts", max(policy.attempts, retries + 1)),
        backoff=policy.backoff,
        longest_backoff=policy.longest_backoff,
        grace=found.get("grace"),
        confirm=_confirm(found),
        stdin=found.get("stdin"),
        terms={name: found[name] for name in RUN_LIMITS if name in found},
    )


def _confirm(found: Mapping[str, Any]) -> Ms | None:
    """For how long it waits for a person's yes; None if it asks nobody."""
    if "confirm_within" not in found and not found.get("confirm"):
        return None
    within: Ms = found.get("confirm_within", _CONFIRM_WITHIN)
    return max(within, Ms(1))


def _surroundings(env: Mapping[str, str]) -> Mapping[str, str]:
    """The variables a job will find; not copied, because a batch may have thousands of jobs."""
    return ChainMap({**env}, os.environ)


def _own_keys(
    gate: Gate, argv: list[str], keys: list[str], env: Mapping[str, str], cwd: str
) -> tuple[list[str], Mapping[str, str]]:
    """What a job holds seats of while it runs: of no model if each of its requests takes its own.

    Which it is must be known when it stands in line, so its meter is settled now. With a choice of
    models, the job itself waits for one of them.
    """
    surroundings = _surroundings(env)
    asked = find_asked(gate, argv, keys[0] if keys else None, surroundings)
    if asked is None or asked.meter is not Meter.REQUESTS:
        return keys, env
    if len(keys) > 1:
        return keys, {**env, VARIABLE: Meter.WIRE.value}
    plan = plan_for(gate, argv, keys[0] if keys else None, environment=surroundings, cwd=cwd)
    if plan.meter is not Meter.REQUESTS:
        return keys, env
    return [], {**env, VARIABLE: Meter.REQUESTS.value}


def _command(found: object) -> list[str]:
    if isinstance(found, str) and found.strip():
        return ["/bin/sh", "-c", found]
    if isinstance(found, list) and found and all(isinstance(word, str) for word in found):
        return found
    raise UsageError("no command")


def _keys(found: object) -> list[str]:
    words = found.split(",") if isinstance(found, str) and found else found or []
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise UsageError("no keys")
    return [word.strip() for word in words]


def _text(found: object) -> str:
    if not isinstance(found, str):
        raise UsageError("no text")
    return found


def _env(found: object) -> dict[str, str]:
    if found and not isinstance(found, dict):
        raise UsageError("no object")
    env: dict[str, str] = found or {}  # type: ignore[assignment]  # checked above and below
    for name, value in env.items():
        if not isinstance(value, str):  # the others may be secrets
            raise FieldRefused(f"bad env {shown(name)}: {shown(value)} is no text")
    return env


def _from_here(found: Mapping[str, Any]) -> dict[str, str]:
    """The variables that a job takes over from its submitter, because that was asked for."""
    names = [*found.get("env_from", ()), *(["PATH"] if found.get("path") else ())]
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise UsageError(f"bad --env-from {shown(missing[0])}: there is no such variable here")
    return {name: os.environ[name] for name in names}


def _names(found: object) -> list[str]:
    words = found.split(",") if isinstance(found, str) else found
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise UsageError("no names")
    return [word.strip() for word in words]


def _after(found: object, names: Mapping[str, int], gate: Gate) -> list[int]:
    words = found if isinstance(found, (list, tuple)) else [found]
    ids = []
    for word in words:
        text = str(word).strip()
        if text in names:
            ids.append(names[text])
        elif text.isascii() and text.isdigit() and 0 < len(text) < 19 and int(text):
            ids.append(int(text))
        elif isinstance(word, str) and text and not text.isdigit():
            ids.append(gate.find_job(text, "--after"))
        else:
            raise UsageError(f"bad --after {shown(word)}: expected the id or the name of a job")
    return ids


def _since(found: object) -> Seconds:
    try:
        moment = Seconds(str(found))
    except ValueError:
        return Seconds(time.time()) - seconds(parse_duration(found, "since"))
    if moment < 100_000_000:
        raise UsageError(
            f"bad since {shown(found)}: expected seconds since the epoch, or a time ago such as 5m"
        )
    return moment


def _time(name: str) -> Field:
    """A time, or off; what is wrong with it is told by `parse_duration`."""
    return Field(
        lambda found: None if found in ("off", "never") else parse_duration(found, name), ""
    )


def _queue_timeout(found: object) -> str:
    """A time, as it is handed on."""
    parse_duration(found, "queue_timeout")
    return str(found)


def _patience(found: object) -> Ms:
    if found in ("off", "never"):
        raise UsageError("bad patience 'off': to leave rate limits alone, use --no-park")
    return parse_duration(found, "patience")


def _whole(least: int, most: int) -> Callable[[object], int]:
    """A reader of whole numbers, also as text, as options have them."""

    def read(found: object) -> int:
        text = str(found)
        if text.isascii() and text.isdigit() and len(text) < 12 and least <= int(text) <= most:
            return int(text)
        raise UsageError("no such number")

    return read


def _count(found: object) -> int | None:
    return None if found == "off" else _whole(1, 10**9)(found)


_KEYS = Field(_keys, "PROVIDER/MODEL, or a list of them")
_TEXT = Field(_text, "text")
_FLAG = Field(flag, FLAG)
_COUNT = Field(_count, f"a whole number from 1 to {10**9}")
RUN_LIMITS: Fields = {
    "park": _FLAG,
    "patience": Field(_patience, ""),
    "stale_after": _time("stale_after"),
    "message_stale_after": _time("message_stale_after"),
    "max_runtime": _time("max_runtime"),
    "max_tool_calls": _COUNT,
    "same_tool_calls": _COUNT,
}
FIELDS: Fields = {
    "command": Field(_command, "a list of words, or a line for sh"),
    "key": _KEYS,
    "model": _KEYS,
    "models": _KEYS,
    "task": _TEXT,
    "name": _TEXT,
    "priority": Field(parse_priority, ""),
    "weight": Field(parse_weight, ""),
    "since": Field(_since, ""),
    "cwd": _TEXT,
    "env": Field(_env, "an object of texts"),
    "env_from": Field(_names, "a list of names of variables"),
    "path": _FLAG,
    "role": Field(parse_roles, ""),
    "roles": Field(parse_roles, ""),
    "after": Field(None, ""),
    "hold": _FLAG,
    "confirm": _FLAG,
    "confirm_within": Field(lambda found: parse_duration(found, "confirm_within"), ""),
    "expires": Field(lambda found: found, ""),
    "retries": Field(_whole(0, 999), "a whole number from 0 to 999"),
    "escalate": _FLAG,
    "fallback_after": _time("fallback_after"),
    "attempts": Field(_whole(1, 1000), "a whole number from 1 to 1000"),
    "grace": _time("grace"),
    "stdin": _TEXT,
    "meter": Field(choice(*METERS), listed(METERS)),
    "queue_timeout": Field(_queue_timeout, ""),
    **RUN_LIMITS,
}
