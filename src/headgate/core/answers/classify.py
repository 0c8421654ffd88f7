"""What an answer of upstream, or a line of an agent's output, says about capacity.

    answer ─┐                                         ┌─ a rule applies: its signal
            ├─ status, headers, codes, words ── rules ┼─ none, and the status is 2xx: accepted
    line ───┘                                         ├─ none, and it is 429: what the meters say
                                                      └─ none: nothing

What a provider means by what it says is in the table, `builtin_rules`. Here is only how to find
the codes and the words in an answer, and how to read the many ways to say when to come back.

Whatever comes in, nothing here raises. No words of an answer get into a signal, only codes: words
may hold names of accounts or parts of keys.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice

from headgate.core.answers.answer_rules import NONE, QUOTED, Rule
from headgate.core.answers.builtin_rules import BUILTIN, STATUSES
from headgate.core.answers.failures import NO_FAILURE, failure, told_failure
from headgate.core.answers.retry_after import allowances, lowered, retry_after
from headgate.core.answers.signals import ACCEPTED, CONCURRENCY, QUOTA, RATE, REFUSALS, Signal
from headgate.core.key_patterns import matches
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Ms, Seconds
from headgate.core.user_patterns import Pattern, user_pattern

_LONGEST_BODY = 64 * 1024
_LONGEST_LINE = 8 * 1024
_LONGEST_EVENT = 64 * 1024
_MOST_LEAVES = 1_000
_DEEPEST = 12
_NOT_CAPACITY = (401, 403)
"""Who one is, or what one may do: never read as a limit unless a rule names the status."""

_CODE_KEYS = {"code", "type", "status", "reason", "error", "error_type", "__type"}
_WAIT_KEYS = {"retrydelay", "retry_after", "retry_delay_ms", "resets_in_seconds", "resets_at"}
_JSON = re.compile(r"\[\s*\{|\{")
_LOOSE_CODE = re.compile(
    r"""["'](?:code|type|status|reason)["']\s?:\s?["']?([\w.-]{1,64})|\[(\d{4})\]\["""
)
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_ORNAMENT = " \t\r\n⎿■⚠✕✖✗❌●│|\ufe0f"


class Response(NamedTuple):
    """An answer of upstream."""

    status: int
    headers: Mapping[str, str]
    body: str | bytes = ""
    provider: str = ""
    """As in a key; empty if nobody knows."""


class _Answer(NamedTuple):
    """An answer, taken apart. Without a status it is an error inside a stream that gives none."""

    status: int | None
    provider: str
    headers: Mapping[str, str]
    codes: tuple[str, ...] = ()
    words: str = ""
    waits: tuple[tuple[str, str], ...] = ()
    zone: str = ""


class _Quote(NamedTuple):
    """What a line tells of an answer: a message in words, or parts of the answer itself."""

    text: str = ""
    status: int | None = None
    headers: object = None
    found: object = None


class LineVerdict(NamedTuple):
    """What a line says."""

    signal: Signal | None = None
    rule: Rule | None = None
    """The rule for lines that applies to it, if one does."""
    failure: str = ""
    """What else is wrong upstream: a wrong key, no such model."""
    final: bool = False
    """Whether to ask again would bring the same failure."""


def classify(response: Response, now: Seconds, rules: Sequence[Rule] = BUILTIN) -> Signal | None:
    """What an answer says, at this many seconds since the epoch; None if nothing on capacity."""
    status, headers, body, provider = response
    if 200 <= status < 300:
        # What is in it is somebody's work, unless it is an error; of a stream that is the end.
        error = _error_within(_latest(body))
        if error is None:
            return _judge(_Answer(status, provider, lowered(headers)), now, rules)
        return _judge(_take_apart(None, provider, headers, error), now, rules)
    found, rest = _find_json(_text(body[:_LONGEST_BODY]))
    return _judge(_take_apart(status, provider, headers, found, rest), now, rules)


def classify_line(
    line: str,
    profile: str = "",
    rules: Sequence[Rule] = BUILTIN,
    *,
    provider: str = "",
    now: Seconds | None = None,
) -> Signal | None:
    """What a line of an agent's output says on capacity; None if nothing, as nearly all of them."""
    return judge_line(line, profile, rules, provider=provider, now=now).signal


def judge_line(
    line: str,
    profile: str = "",
    rules: Sequence[Rule] = BUILTIN,
    *,
    provider: str = "",
    now: Seconds | None = None,
    speaks: str = "",
    zone: str = "",
) -> LineVerdict:
    """What a line of an agent's output says.

    `profile` is the kind of agent whose rules count, `speaks` the one whose sentences on failures
    do if it is another, `provider` whom it asks; all may be unknown. Without `now` a moment at
    which a limit ends is left out. `zone` is where the agent believes to be, if not here.
    """
    longest = _LONGEST_EVENT if line[:200].lstrip()[:1] == "{" else _LONGEST_LINE
    text = _ANSI.sub("", line[:longest]).strip(_ORNAMENT)
    quote = _event(_find_json(text)[0]) if text.startswith("{") else _Quote(text)
    rule, groups = _find_line(quote.text, profile, rules)
    if rule and rule.signal != QUOTED:
        waits = (("resets_at", groups.get("reset", "")),)
        answer = _Answer(
            status=None, provider=provider, headers={}, words=quote.text, waits=waits, zone=zone
        )
        return LineVerdict(_signal(rule, answer, now), rule)
    if rule:
        found, rest = _find_json(groups.get("body", ""))
        quote = _Quote(rest, _status(groups.get("status", "")), found=found)
    status = quote.status if (quote.status or 0) >= 400 else None
    if status is None and quote.found is None:
        told = told_failure(quote.text, speaks or profile)
        return LineVerdict(failure=told.text, final=told.final)
    answer = _take_apart(status, provider, *quote[2:], quote.text)
    signal = _judge(answer, now, rules)
    known = failure(answer.status, answer.codes) if signal is None else NO_FAILURE
    return LineVerdict(signal, rule, known.text, known.final)


def _judge(answer: _Answer, now: Seconds | None, rules: Sequence[Rule]) -> Signal | None:
    accepted = answer.status is not None and 200 <= answer.status < 300
    for rule in rules:
        if accepted and rule is BUILTIN[0]:
            break  # no built-in rule is about what was accepted, and most answers are
        if not rule.line and _applies(rule, answer):
            return _signal(rule, answer, now)
    if answer.status == 429:
        return _undecided(answer, now)
    return Signal(ACCEPTED) if accepted else None


def _applies(rule: Rule, answer: _Answer) -> bool:
    if answer.status is None:
        known = bool(rule.code)
    elif rule.status:
        known = any(answer.status in ((s,) if isinstance(s, int) else s) for s in rule.status)
    else:
        known = answer.status >= 400 and answer.status not in _NOT_CAPACITY
    if not known or (rule.code and not set(rule.code) & set(answer.codes)):
        return False
    if rule.provider and not any(matches(p, f"{answer.provider.lower()}/-") for p in rule.provider):
        return False
    for name, pattern in rule.header.items():
        if name not in answer.headers or not _words(pattern).search(answer.headers[name]):
            return False
    return not rule.body or bool(_words(rule.body).search(answer.words))


def _signal(rule: Rule, answer: _Answer, now: Seconds | None) -> Signal | None:
    if rule.signal == NONE:
        return None
    found = [str(answer.status)] if answer.status else []
    found += [code for code in answer.codes if code in rule.code][:1]
    note = f"{rule.name} ({', '.join(found)})" if found else rule.name
    refused = rule.signal in REFUSALS and rule.retry
    wait = _retry_after(rule.signal, answer, now) if refused else None
    return Signal(rule.signal, wait, account=rule.account, note=note)


def _retry_after(kind: str, answer: _Answer, now: Seconds | None) -> Ms | None:
    ends = kind in {RATE, QUOTA}
    return retry_after(
        answer.headers, answer.waits, answer.words, now, until_reset=ends, zone=answer.zone
    )


def _undecided(answer: _Answer, now: Seconds | None) -> Signal:
    """A 429 that no rule knows. Without a meter that binds, the gate takes it for a cap."""
    left = [meter for meter in allowances(answer.headers, now) if meter]
    if any(meter.remaining == 0 or meter.reset_ms is not None for meter in left):
        note = "429, and a meter is empty or says when it resets"
        return Signal(RATE, _retry_after(RATE, answer, now), note=note)
    codes = [code for code in answer.codes if re.fullmatch(r"[a-z_]{2,40}|\d{3,5}", code)][:3]
    why = f"only {', '.join(codes)}" if codes else "no code that is known"
    note = f"undecided: 429 with {why} and no meter at 0, taken for too many at once"
    return Signal(CONCURRENCY, _retry_after(CONCURRENCY, answer, now), note=note)


def _find_line(
    text: str, profile: str, rules: Sequence[Rule]
) -> tuple[Rule | None, dict[str, str]]:
    plain = text[:_LONGEST_LINE].strip(_ORNAMENT).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    for rule in rules:
        if rule.line and (not profile or rule.profile in {"", profile}):
            found = _line(rule.line).match(plain)
            if found:
                return rule, found.groupdict("")
    return None, {}


def _event(found: object) -> _Quote:
    """What an agent reports of upstream in an event of its JSON output, if it is of that kind."""
    match found:
        case {"type": "system", "subtype": "api_retry", "error_status": int(status), **more}:
            return _Quote(status=status, found=_as_told(more))
        case {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", **info}}:
            claim, reset = info.get("rateLimitType"), info.get("resetsAt")
            unified = {"status": "rejected", "representative-claim": claim, "reset": reset}
            headers = {f"anthropic-ratelimit-unified-{k}": v for k, v in unified.items()}
            return _Quote(status=429, headers=headers)
        case {"type": "result", "is_error": True, "result": str(text), **others}:
            known = others.get("api_error_status")
            return _Quote(text, known if isinstance(known, int) else None)
        case {"type": "error", "error": {"data": {"statusCode": int(status), **data}}}:
            return _Quote(status=status, headers=data.get("responseHeaders"), found=data)
        case {"type": "error", "error": {"type": str(), "message": str()} as error}:
            return _Quote(found=error)
        case {"type": "error", "message": str(text)} | {
            "type": "error" | "turn.failed" | "result",
            "error": {"message": str(text)},
        }:
            return _Quote(text)
        case _:
            return _Quote()


def _as_told(event: Mapping[object, object]) -> Mapping[object, object]:
    """An event without the agent's own wait: one that upstream asked for is of whole seconds."""
    delay = event.get("retry_delay_ms")
    if isinstance(delay, (int, float)) and delay % 1_000:
        return {**event, "retry_delay_ms": None}
    return event


# Taking an answer apart.


def _take_apart(
    status: int | None, provider: str, headers: object, found: object, rest: str = ""
) -> _Answer:
    low = lowered(headers)
    leaves = list(islice(_leaves(found), _MOST_LEAVES))
    codes = [low.get("x-amzn-errortype", "").partition(":")[0]]
    codes += [value for key, value in leaves if key in _CODE_KEYS]
    codes += [value for pair in _LOOSE_CODE.findall(rest) for value in pair]
    known = tuple(dict.fromkeys(code.lower() for code in codes if 0 < len(code) <= 64))
    quoted = {key: value for key, value in leaves if key.startswith("x-ratelimit-")}
    return _Answer(
        status=_status_of(known) if status is None else status,
        provider=provider,
        headers={**quoted, **low},
        codes=known,
        words="\n".join([*(value for _, value in leaves), rest.strip()]),
        waits=tuple((key, value) for key, value in leaves if key in _WAIT_KEYS),
    )


def _status(quoted: str) -> int:
    """The status that a line quotes; a rule of a user's may take anything for one."""
    return int(quoted) if re.fullmatch(r"[0-9]{3}", quoted, re.ASCII) else 429


def _status_of(codes: tuple[str, ...]) -> int | None:
    said = (int(code) for code in codes if re.fullmatch(r"[45][0-9][0-9]", code))
    meant = (STATUSES[code] for code in codes if code in STATUSES)
    return next(said, None) or next(meant, None)


def _error_within(text: str) -> object:
    """The error that the body of a 2xx carries, whole or as an event of a stream; else None."""
    if _JSON.match(text.lstrip()):
        return _error_of(_find_json(text)[0])
    for line in text.splitlines():
        if line.startswith("data:") and '"error"' in line:
            error = _error_of(_find_json(line)[0])
            if error is not None:
                return error
    return None


def _error_of(found: object) -> object:
    match found:
        case list():
            return next((e for e in map(_error_of, found[:_MOST_LEAVES]) if e is not None), None)
        case {"error": dict() | str() as error} | {"response": {"error": dict() as error}} if error:
            return error if isinstance(error, dict) else {"message": error}
        case {"type": "error"}:
            return found
        case _:
            return None


def _leaves(value: object, key: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Each text and number in a JSON value with its name, also in JSON that is quoted in it."""
    if depth > _DEEPEST:
        return
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, str(name).lower(), depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, key, depth + 1)
    elif isinstance(value, str) and _JSON.match(value.lstrip()):
        found, rest = _find_json(value)
        yield from _leaves(found, key, depth + 1)
        yield key, rest
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield key, str(value)


def _find_json(text: str) -> tuple[object, str]:
    """The first JSON object or list of them in a text, and the text around it."""
    start = _JSON.search(text)
    if start:
        try:
            found, end = json.JSONDecoder().raw_decode(text, start.start())
        except (ValueError, RecursionError):
            return None, text
        return found, text[: start.start()] + text[end:]
    return None, text


def _latest(body: str | bytes) -> str:
    """The end of a body, from its first whole line on: what is left of one line is no answer."""
    text = _text(body[-_LONGEST_BODY:])
    return text if len(body) <= _LONGEST_BODY else text.partition("\n")[2]


def _text(body: str | bytes) -> str:
    return body.decode("utf-8", "replace") if isinstance(body, bytes) else body


_OURS = frozenset(
    pattern for rule in BUILTIN for pattern in (rule.line, rule.body, *rule.header.values())
)
"""Known to be harmless on any text. All others are somebody else's."""


@lru_cache(maxsize=512)
def _words(pattern: str) -> Pattern:
    if pattern in _OURS:
        return re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    return user_pattern(pattern, "im")


@lru_cache(maxsize=512)
def _line(pattern: str) -> Pattern:
    return re.compile(pattern) if pattern in _OURS else user_pattern(pattern)
