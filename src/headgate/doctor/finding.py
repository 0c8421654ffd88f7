"""What a check says."""

from headgate.core.named_tuple import NamedTuple

OK, NOTE, WARNING, PROBLEM = "ok", "note", "warning", "problem"
LEVELS = (OK, NOTE, WARNING, PROBLEM)
"""As it should be; worth knowing; looks harmful; has to be mended."""


class Finding(NamedTuple):
    """One thing that was looked at. `code` is stable, the words are for people."""

    level: str
    code: str
    text: str
    advice: str = ""
    """What to do about it."""


def ok(code: str, text: str) -> Finding:
    """Something that is as it should be."""
    return Finding(OK, code, text)


def note(code: str, text: str, advice: str = "") -> Finding:
    """Something worth knowing."""
    return Finding(NOTE, code, text, advice)


def warning(code: str, text: str, advice: str = "") -> Finding:
    """Something that looks harmful."""
    return Finding(WARNING, code, text, advice)


def problem(code: str, text: str, advice: str = "") -> Finding:
    """Something that has to be mended."""
    return Finding(PROBLEM, code, text, advice)
