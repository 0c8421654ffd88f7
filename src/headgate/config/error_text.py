"""How a mistake in a file is put into words: where it is, and what was found there."""

import re
from pathlib import Path

Place = tuple[str | int, ...]
"""The keys that lead to a value; a number is an entry of a list, the first being 1."""

_KEY = (
    r"(?<![A-Za-z0-9])(?:sk[-_][\w.…-]{4,}|(?:AIza|AKIA|eyJ)[\w.…-]{12,}"
    r"|(?:pk|rk|gsk|csk|hf|r8|fw|gh[a-z]|glpat|github_pat|xai|xox[a-z]|pplx|nvapi|tgp)"
    r"[-_][\w.…-]{16,})"
)
_RUN = r"[A-Za-z0-9]{20,}|[A-Za-z0-9]{8,}(?='?…)"  # whole, or cut short by somebody
_USER = r"(?<=://)[^\s/?#@…]{1,500}(?=@|'?…)"


def not_toml(text: str, name: str, said: str) -> str:
    """What is wrong with a file that is no TOML at all."""
    at = re.search(r"\(at line (\d+), column (\d+)\)", said)
    line = at[1] if at else str(text.count("\n") + 1)
    advice = 'put quotes around text ("2s") and names with . / * ?, as in [pools."openai/gpt-*"]'
    if said.startswith("Cannot"):
        advice = "give each table and each setting once"
    elif at:
        rest = text.replace("\r\n", "\n").split("\n")[int(at[1]) - 1][int(at[2]) - 1 :]
        said += f", found {shown(rest[0]) if rest else 'the end of the line'}"
    return f"{label(name)}:{line}: not valid TOML: {clip(said, 200)}; {advice}"


def line_numbers(text: str) -> dict[Place, int]:
    """Where each table and setting begins; inside values that span lines this may err."""
    import tomllib

    part = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
    start = re.compile(rf"(\[{{0,2}})\s*({part}(?:\s*\.\s*{part})*)\s*[\]=]")
    found: dict[Place, int] = {}
    lengths: dict[Place, int] = {}
    table: Place = ()
    for number, line in enumerate(text.split("\n"), 1):
        match = start.match(line.strip())
        if not match:
            continue
        try:
            step: object = tomllib.loads(f"{match[2]} = 0")
        except (ValueError, RecursionError):
            continue
        path: list[str] = []
        while isinstance(step, dict):
            [(name, step)] = step.items()
            path.append(name)
        place = _within(path, lengths) if match[1] else (*table, *path)
        if match[1] == "[[":
            lengths[place] = lengths.get(place, 0) + 1
            place = (*place, lengths[place])
        table = place if match[1] else table
        for depth in range(1, min(len(place), 6) + 1):
            found.setdefault(place[:depth], number)
    return found


def _within(path: list[str], lengths: dict[Place, int]) -> Place:
    """The place of a table; what is below a list belongs to the last entry so far."""
    place: Place = ()
    for name in path:
        place = (*place, lengths[place], name) if place in lengths else (*place, name)
    return place


def shown(value: object) -> str:
    """A value as TOML would write it: short, and on one line whatever is in it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and value.bit_length() > 63:
        return "a number beyond 64 bits"
    if not isinstance(value, str):
        return str(value)
    quoted = repr(clip(hide(value), 60))
    return quoted if '"' in quoted else f'"{quoted[1:-1]}"'


def dotted(place: Place) -> str:
    """A place as one would write it in the file, with its entries of lists counted from 1."""
    bare = re.compile(r"[A-Za-z0-9_-]{1,60}")
    groups: list[list[str]] = [[]]
    for step in place:
        if isinstance(step, int):
            groups += [[f"entry {step}"], []]
        else:
            groups[-1].append(step if bare.fullmatch(step) else shown(step))
    return ": ".join(".".join(group) for group in groups if group)


def key_like(text: str, *, by_prefix: bool = False) -> bool:
    """Whether a text has in it what may be an API key; by its prefix alone, or by its look too."""
    return bool(re.search(_KEY, text)) or (
        not by_prefix and any(map(_random, re.findall(_RUN, text)))
    )


def hide(text: str) -> str:
    """A text without what may be a key or a password."""
    text = re.sub(_USER, "(hidden)", re.sub(_KEY, "(hidden)", text))
    return re.sub(_RUN, lambda run: "(hidden)" if _random(run[0]) else run[0], text)


def _random(run: str) -> bool:
    """Whether letters and digits are mixed as in keys, and not as in names."""
    digits = sum(map(str.isdigit, run))
    return 2 <= digits < len(run)


def label(name: str | Path) -> str:
    """A file's name, fit for a terminal."""
    text = str(name)
    return text if text.isprintable() else repr(text)


def clip(text: str, most: int) -> str:
    """A text without its middle, if it is too long."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 2 :]}"
