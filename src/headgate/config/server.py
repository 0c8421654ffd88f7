"""Checks the table `[server]`, and the command templates of jobs that are handed in from elsewhere.

The fields of a template beside its command are those of a job; they are checked when a job is made.
"""

import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from headgate.config.error_text import shown
from headgate.config.problems import Notes, read_table
from headgate.core.server_settings import LISTEN, OPENABLE, ServerSettings, Template
from headgate.core.table_fields import FLAG, Field, FieldRefused, Fields, flag, whole
from headgate.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}\Z")
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z")
_MOST = 100
_MOST_WORDS = 1_000


def read_server(notes: Notes, document: Mapping[str, object]) -> ServerSettings:
    """What the two tables say; what is wrong or odd in them goes into the notes."""
    table = notes.table((), document, "server")
    said = read_table(notes, ("server",), table, FIELDS)
    settings = ServerSettings(**said)
    if bool(settings.certificate) != bool(settings.key):
        notes.wrong(("server",), "certificate and key go together; give both, or neither")
    if settings.plaintext:
        text = "tokens and prompts can be read on the way; certificate and key hide them"
        notes.warn(("server", "plaintext"), text)
    return settings._replace(templates=_read_templates(notes, document))


def _read_templates(notes: Notes, document: Mapping[str, object]) -> dict[str, Template]:
    found = {}
    tables = notes.table((), document, "templates")
    for name in tables:
        place = ("templates", name)
        table = notes.table(("templates",), tables, name)
        if not _NAME.match(name):
            notes.wrong(place, "expected a name of letters, digits and . _ -, at most 40 of them")
            continue
        if "command" not in table:
            notes.wrong(place, f"command: missing, expected {TEMPLATE['command'].allowed}")
            continue
        said = read_table(notes, place, {"command": table["command"]}, TEMPLATE)
        if "command" in said:
            rest = {field: value for field, value in table.items() if field != "command"}
            found[name] = Template(said["command"], rest)
    return found


def is_listen(text: str) -> bool:
    """Whether a text says where to listen: HOST:PORT or unix:PATH."""
    if text.startswith("unix:"):
        return len(text) > len("unix:") and "\0" not in text
    host, colon, port = text.rpartition(":")
    good = bool(colon and re.fullmatch(r"\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+", host))
    return good and port.isascii() and port.isdigit() and int(port) < 65_536


def _listen(value: object) -> str:
    if not isinstance(value, str) or len(value) > 1_000 or not is_listen(value):
        raise UsageError("not a place to listen at")
    return value


def _texts(good: Callable[[str], bool]) -> Callable[[object], tuple[str, ...]]:
    def read(value: object) -> tuple[str, ...]:
        found = [text for text in _list(value) if isinstance(text, str) and good(text)]
        if len(found) != len(_list(value)) or len(found) > _MOST:
            raise UsageError("not such texts")
        return tuple(found)

    return read


def _is_origin(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and text == f"{parts.scheme}://{parts.netloc}"
    except ValueError:
        return False


def _path(value: object) -> str:
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
        raise UsageError("not a path")
    return value


def _words(value: object) -> tuple[str, ...]:
    words = [word for word in _list(value) if isinstance(word, str) and "\0" not in word]
    if not isinstance(value, list) or len(words) != len(value) or len(words) > _MOST_WORDS:
        raise FieldRefused(f"found {shown(value)}")
    if not words or not words[0]:
        raise FieldRefused("found no program")
    return tuple(words)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


FIELDS: Fields = {
    "listen": Field(
        _listen,
        'HOST:PORT, or unix: and a path, as in "unix:/run/headgate.sock"',
        f'"{LISTEN}"',
        "Where the server listens.",
    ),
    "open": Field(
        _texts(lambda text: text in OPENABLE),
        f"a list of paths, which can be: {', '.join(OPENABLE)}",
        "[]",
        "Paths that all programs of this machine may use without a token, if the server "
        "listens on this machine only.",
    ),
    "hosts": Field(
        _texts(lambda text: bool(_HOST.match(text))),
        'a list of names, as in ["build.example.com"]',
        "[]",
        "Names by which the server may be called, beside localhost and addresses.",
    ),
    "origins": Field(
        _texts(_is_origin),
        'a list of origins, as in ["http://localhost:5173"]',
        "[]",
        "Whose pages may ask the server from a browser, beside its own.",
    ),
    "certificate": Field(
        _path, "the absolute path of a file", text="The certificate for TLS, with its chain."
    ),
    "key": Field(_path, "the absolute path of a file", text="The key of that certificate."),
    "plaintext": Field(
        flag, FLAG, "false", "Whether it may listen beyond this machine without TLS."
    ),
    "only_templates": Field(
        flag, FLAG, "false", "Whether everybody but the owner can make jobs of templates only."
    ),
    "connections": Field(
        whole(10, 100_000),
        "a whole number from 10 to 100000",
        "4000",
        "How many connections it holds at once.",
    ),
}
TEMPLATE: Fields = {
    "command": Field(
        _words,
        'a list such as ["claude", "-p", "{prompt}"]',
        text="The program and its arguments, with a place for each argument of a job.",
        required=True,
    ),
}
