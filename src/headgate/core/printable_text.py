"""Text that a terminal cannot take for a command."""


def printable(text: str, instead: str = " ") -> str:
    """A text with something else in place of every character that cannot be printed."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else instead for letter in text)
