"""Text that a terminal cannot take for a command."""

import re

_SEQUENCE = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])"
"""What begins with an escape: colours, moves of the cursor, a window's title."""
_LINE_END = r"\r\n?"


def printable(text: str, instead: str = " ") -> str:
    """A text with something else in place of every character that cannot be printed."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else instead for letter in text)


def without_sequences(text: str) -> str:
    """A text without the sequences of characters by which programs steer a terminal."""
    return re.sub(_SEQUENCE, "", text) if "\x1b" in text else text


def plain(text: str) -> str:
    """A text as a terminal may show it: its lines and tabs stay, all else that steers is gone."""
    if text.isprintable():
        return text
    text = re.sub(_LINE_END, "\n", without_sequences(text))
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else " " if letter.isspace() else ""
        for letter in text
    )
