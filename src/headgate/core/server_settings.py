"""What the configuration says of the server: where it listens, and who may ask it what."""

from collections.abc import Mapping
from enum import Enum

from headgate.core.named_tuple import NamedTuple

LISTEN = "127.0.0.1:7433"
OPENABLE = ("/concurrency",)
"""Paths that can be opened to programs that send no token."""


class Scope(Enum):
    """What a caller may do. Each may do what those before it may."""

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"

    def covers(self, other: "Scope") -> bool:
        """Whether it is enough where the other one is needed."""
        order = list(Scope)
        return order.index(self) >= order.index(other)


class Template(NamedTuple):
    """A command that jobs can be made of, with a place for each argument, as in `{prompt}`."""

    command: tuple[str, ...]
    fields: Mapping[str, object] = {}
    """What else is said of each job, as `submit` takes it."""


class ServerSettings(NamedTuple):
    """The table `[server]`, and the templates."""

    listen: str = LISTEN
    open: tuple[str, ...] = ()
    """Paths that programs of this machine may use without a token."""
    hosts: tuple[str, ...] = ()
    """Names by which the server is called, beside localhost and addresses."""
    origins: tuple[str, ...] = ()
    """Pages that may ask it from a browser, beside its own."""
    certificate: str = ""
    key: str = ""
    plaintext: bool = False
    """Whether it may listen beyond this machine without TLS."""
    only_templates: bool = False
    """Whether jobs can only be made of templates, by everybody but the owner."""
    connections: int = 4_000
    templates: Mapping[str, Template] = {}
