"""How a mistake in a file is put into words: where it is, and what was found there."""

import re
from pathlib import Path

Place = tuple[str, ...]
"""The keys that lead to a value."""


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
        place = tuple(path) if match[1] else (*table, *path)
        table = place if match[1] else table
        for depth in range(1, min(len(place), 4) + 1):
            found.setdefault(place[:depth], number)
    return found


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
    quoted = repr(clip(value, 60))
    return quoted if '"' in quoted else f'"{quoted[1:-1]}"'


def dotted(place: Place) -> str:
    """A place as one would write it in the file."""
    bare = re.compile(r"[A-Za-z0-9_-]{1,60}")
    return ".".join(name if bare.fullmatch(name) else shown(name) for name in place)


def label(name: str | Path) -> str:
    """A file's name, fit for a terminal."""
    text = str(name)
    return text if text.isprintable() else repr(text)


def clip(text: str, most: int) -> str:
    """A text without its middle, if it is too long."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 2 :]}"
