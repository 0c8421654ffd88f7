"""The URL of a store, fit to be shown: those of databases may hold a password."""

import re

_FILES = ("sqlite:///", "memory://")
_USER = re.compile(
    r"://([^:/@?#]*):.*@", re.DOTALL
)  # to the last @: better too much than too little
_OPTION = re.compile(r"(?i)([?&][^=&]*(?:pass|secret|token|key)[^=&]*=)[^&]*")


def show_url(url: str) -> str:
    """A store's URL without its password, on one line."""
    if not url.startswith(_FILES):
        url = _OPTION.sub(r"\1(hidden)", _USER.sub(r"://\1:(hidden)@", url))
    return url if url.isprintable() else repr(url)


def has_password(url: str) -> bool:
    """Whether a store's URL holds what must not be shown."""
    return not url.startswith(_FILES) and bool(_USER.search(url) or _OPTION.search(url))
