"""Regular expressions that users write, matched in a time that grows with the text alone.

Python's `re` tries again and again what has failed: `(a+)+$` on a line of forty letters takes
longer than anyone waits, and nothing can interrupt it. RE2 reads each letter once. It has no
backreferences, lookaround, atomic groups and possessive repetition, which need such tries.

RE2 is loaded when the first such pattern is met. Patterns of our own are compiled by `re`, which
is loaded in any case; a test tries them on hostile text.
"""

import re
from functools import lru_cache
from typing import Any

from headgate.errors import UsageError

_LARGEST = 10_000
"""Steps of a compiled pattern. Each letter may cost as many of them."""
_MEMORY = 2**20
"""Bytes that a pattern may take while it is matched."""
_LONGEST = 64 * 1024
"""Characters of a text that are looked at."""
_SHOWN = 20
_LEFT_OUT = "patterns are matched in linear time, without {}"
_REPEATED = "at most 1000 repetitions are allowed, nested ones multiplied"
_HUGE = re.compile(r"\{(?:[0-9]*,)?[0-9]{5}")
_HINTS = (
    (r"(?=", _LEFT_OUT.format("lookaround")),
    (r"(?!", _LEFT_OUT.format("lookaround")),
    (r"(?<=", _LEFT_OUT.format("lookaround")),
    (r"(?<!", _LEFT_OUT.format("lookaround")),
    (r"(?>", _LEFT_OUT.format("atomic groups")),
    (r"(?(", _LEFT_OUT.format("conditions")),
    (r"bad repetition operator", _LEFT_OUT.format("possessive repetition")),
    (r"escape sequence: \Z", r"the end of the text is \z or $"),
    (r"repetition size", _REPEATED),
)


class UserPattern:
    """A pattern that a user wrote. Raises re.error if it is none, or cannot be matched so."""

    def __init__(self, pattern: str, flags: str = "") -> None:
        if _HUGE.search(pattern):  # which RE2 would take for plain text
            raise re.error(f"repetition size; {_REPEATED}")
        re2 = _load()
        options = re2.Options()
        options.max_mem = _MEMORY
        options.log_errors = False
        try:
            self._compiled = re2.compile(f"(?{flags}:{pattern})" if flags else pattern, options)
        except re2.error as error:
            raise re.error(_explained(error)) from None
        except UnicodeEncodeError:
            raise re.error("not a text") from None
        if self._compiled.programsize > _LARGEST:
            raise re.error("it is too large: fewer or smaller repetitions are needed")
        self.groups: int = self._compiled.groups

    def match(self, text: str) -> re.Match[str] | None:
        """What is found at the beginning of a text."""
        found: re.Match[str] | None = self._compiled.match(_as_text(text))
        return found

    def search(self, text: str) -> re.Match[str] | None:
        """What is found anywhere in a text."""
        found: re.Match[str] | None = self._compiled.search(_as_text(text))
        return found


Pattern = re.Pattern[str] | UserPattern
"""One of ours, or a user's."""


@lru_cache(maxsize=1024)
def user_pattern(pattern: str, flags: str = "") -> UserPattern:
    """A user's pattern, compiled once; flags are letters, as in `(?ims)`."""
    return UserPattern(pattern, flags)


def _load() -> Any:  # noqa: ANN401 - it has no types
    try:
        import re2  # type: ignore[import-untyped]
    except ImportError:
        from headgate.core.install_hint import install

        raise UsageError(
            f"regular expressions in the configuration need RE2: {install('google-re2')}"
        ) from None
    return re2


def _explained(error: Exception) -> str:
    """What RE2 says of a pattern, and what it means to somebody who knows Python's."""
    said = error.args[0] if error.args else ""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    what, _, part = text.partition(": ")
    text = text if len(part) <= _SHOWN else what  # else it may be all of the pattern
    if re.search(r"escape sequence: \\[1-9]|operator: \(\?P\Z", text):
        return f"{text}; {_LEFT_OUT.format('backreferences')}"
    hint = next((hint for sign, hint in _HINTS if sign in text), "")
    return f"{text}; {hint}" if hint else text


def _as_text(text: str) -> str:
    """The beginning of a text, with ? for halves of characters, which no encoding knows."""
    text = text[:_LONGEST]
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()
