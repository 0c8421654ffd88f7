"""What is wrong upstream when it is not a matter of capacity: a wrong key, no such model.

Such a failure ends an attempt, and people must hear of it. Only what a status, a code or an agent's
own sentence stands for gets into the text, never its words, which may hold names or parts of keys.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from headgate.core.named_tuple import NamedTuple

_LOGIN = "upstream did not accept its key or its login"
_MODEL = "upstream knows no such model"
_NOT_ALLOWED = "upstream does not allow it that"
_BY_CODE = {
    "authentication_error": _LOGIN,
    "authentication_failed": _LOGIN,
    "invalid_api_key": _LOGIN,
    "unauthenticated": _LOGIN,
    "permission_error": _NOT_ALLOWED,
    "permission_denied": _NOT_ALLOWED,
    "model_not_found": _MODEL,
    "providermodelnotfounderror": _MODEL,
    "not_found_error": "upstream knows no such model or address",
    "request_too_large": "its request was too large for upstream",
    "context_length_exceeded": "its request was too large for upstream",
    "invalid_request_error": "upstream did not accept its request",
    "invalid_argument": "upstream did not accept its request",
}
_BY_STATUS = {
    401: _LOGIN,
    403: _NOT_ALLOWED,
    404: "upstream knows no such model or address",
    413: "its request was too large for upstream",
}


class _Sentence(NamedTuple):
    """How a kind of agent says in its own words what is wrong."""

    profile: str
    line: str
    meaning: str = ""
    """What it means, unless it has a `status` that says so."""


_SENTENCES = (
    _Sentence("claude", r"(?:Invalid API key|Please run /login|Not logged in)\b", _LOGIN),
    _Sentence("claude", r"(?:OAuth token (?:has expired|revoked)|Failed to authenticate)", _LOGIN),
    _Sentence("claude", r"API Error:? \(?(?P<status>[45]\d\d)\b"),
    _Sentence("claude", r"There's an issue with the selected model \(", _MODEL),
    _Sentence("codex", r"(?:ERROR: |Error: )*Not logged in\b", _LOGIN),
    _Sentence("codex", r"(?:ERROR: |Error: )*The '[^']{1,100}' model is not supported ", _MODEL),
    _Sentence("gemini", r"\[API Error: API key not valid", _LOGIN),
    _Sentence("gemini", r"\[API Error: models/\S{1,100} is not found ", _MODEL),
    _Sentence("gemini", r"\[API Error: .{0,400}?\"code\": ?(?P<status>4\d\d)\b"),
    _Sentence("opencode", r"Error: (?:Unauthorized|[Ii]nvalid (?:x-api-key|API key))", _LOGIN),
    _Sentence("opencode", r"Error: (?:Model not found\b|ProviderModelNotFoundError)", _MODEL),
    *(
        _Sentence(profile, rf"(?:.{{0,120}} - )?litellm\.{kind}: ", meaning)
        for profile in ("aider", "sdk")
        for kind, meaning in (("AuthenticationError", _LOGIN), ("NotFoundError", _MODEL))
    ),
    _Sentence("sdk", r"(?:openai|anthropic)\.AuthenticationError: Error code: 401\b", _LOGIN),
    _Sentence("sdk", r"(?:openai|anthropic)\.NotFoundError: Error code: 404\b", _MODEL),
)
_FINAL = range(400, 500)
_PASSING = (408, 409, 425, 429)


class Failure(NamedTuple):
    """What is wrong, in words of ours, and whether to ask again would bring the same."""

    text: str = ""
    final: bool = False


NO_FAILURE = Failure()


def failure(status: int | None, codes: Sequence[str]) -> Failure:
    """What a status and the codes beside it stand for."""
    known = next((code for code in codes if code in _BY_CODE), "")
    if status is None:
        return Failure(f"{_BY_CODE[known]} ({known})", final=True) if known else NO_FAILURE
    if status < 400:
        return NO_FAILURE
    shown = f"{status}, {known}" if known else f"{status}"
    if status not in _FINAL or status in _PASSING:
        return Failure(f"upstream failed ({shown})")
    meaning = _BY_STATUS.get(status) or _BY_CODE.get(known, "upstream did not accept its request")
    return Failure(f"{meaning} ({shown})", final=True)


def told_failure(text: str, profile: str) -> Failure:
    """What an agent's own sentence on a failure stands for."""
    for sentence in _SENTENCES:
        found = sentence.profile == profile and _compiled(sentence.line).match(text)
        if found and sentence.meaning:
            return Failure(sentence.meaning, final=True)
        if found:
            return failure(int(found["status"]), ())
    return NO_FAILURE


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
