"""The URL of a store: what it says, and how it is shown. Those of databases may hold a password."""

import re
from pathlib import Path

from headgate.errors import UsageError

SHARED = "?shared=true"
"""What ends the URL of a store that users share who trust each other."""

_FILES = ("sqlite:///", "memory://")
_USER = r"(?s)://([^:/@?#]*):.*@"  # to the last @: better too much than too little
_SETTING = r"(?s)(.*)\?([A-Za-z_]+)=(.*)\Z"
_OPTION = r"(?i)([?&][^=&]*(?:pass|secret|token|key)[^=&]*=)[^&]*"


def show_url(url: str) -> str:
    """A store's URL without its password, on one line."""
    if not url.startswith(_FILES):
        url = re.sub(_OPTION, r"\1(hidden)", re.sub(_USER, r"://\1:(hidden)@", url))
    return url if url.isprintable() else repr(url)


def has_password(url: str) -> bool:
    """Whether a store's URL holds what must not be shown."""
    return not url.startswith(_FILES) and bool(re.search(_USER, url) or re.search(_OPTION, url))


def file_of(url: str) -> tuple[Path, bool] | None:
    """The file of a store that has one, and whether it is shared with other users."""
    scheme, _, rest = url.partition("://")
    if scheme != "sqlite":
        return None
    setting = re.match(_SETTING, rest) if "?" in rest else None
    path, name, value = setting.groups() if setting else (rest, "shared", "false")
    if name != "shared" or value not in {"true", "false"}:
        raise UsageError(
            f"bad store {show_url(url)}: after the ? only shared=true is known, which trusts "
            "everybody who can write the file"
        )
    if not path.startswith("/"):
        raise UsageError(f"bad store {show_url(url)}: expected an absolute path, sqlite:///path")
    if not Path(path).name:
        raise UsageError(f"bad store {show_url(url)}: expected the path of a file, sqlite:///path")
    if "\0" in path or not _is_utf8(path):
        raise UsageError(
            f"bad store {show_url(url)}: SQLite opens only files whose path is UTF-8 without NUL; "
            "name another"
        )
    return Path(path), value == "true"


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
