"""HTTP URLs: which are taken, and their parts. A path, a query and a user may be secret."""

import re

from headgate.core.named_tuple import NamedTuple

_PORTS = {"http": 80, "https": 443}
_URL = re.compile(
    r"(https?)://(?:([^/?#]*)@)?(\[[0-9a-f:.]{2,45}\]|[^\s/?#@:\\\[\]%]{1,253})"
    r"(?::0*([1-9][0-9]{0,4}))?(/[^?#]*)?(?:\?([^#]*))?(?:#.*)?",
    re.IGNORECASE,
)
_LABELS = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?")
_SAFE = "/%:@!$&'()*+,;=~"


class Url(NamedTuple):
    """The parts of a URL. Shows its host only."""

    scheme: str
    host: str
    """In ASCII and lower case; an IPv6 address is without its brackets."""
    port: int
    path: str
    query: str
    user: str
    """`NAME:PASSWORD` as it stands in the URL; empty if there is none."""

    def __repr__(self) -> str:
        return f"<Url {self.host}>"

    @property
    def authority(self) -> str:
        """The host as a `Host` header has it: its port is left out if it is the usual one."""
        usual = self.port == _PORTS[self.scheme]
        return self.host_and_port.rpartition(":")[0] if usual else self.host_and_port

    @property
    def host_and_port(self) -> str:
        """The host and its port, whichever it is."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def target(self) -> str:
        """The path and the query, as a request has them."""
        from urllib.parse import quote

        path = quote(self.path, safe=_SAFE)
        return f"{path}?{quote(self.query, safe=f'{_SAFE}?[]')}" if self.query else path


def split_url(text: str) -> Url | None:
    """The parts of an http or https URL; None if it is none that can be asked."""
    found = _URL.fullmatch(text)
    if not found or not text.isprintable() or " " in text:
        return None
    scheme, user, name, digits, path, query = found.groups(default="")
    host = _host(name.lower())
    port = int(digits or _PORTS[scheme.lower()])
    if not host or port > 65_535:
        return None
    return Url(
        scheme=scheme.lower(), host=host, port=port, path=path or "/", query=query, user=user
    )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine itself."""
    name = host.rstrip(".")
    return name == "localhost" or name.endswith(".localhost") or _is_own_address(host) is True


def _host(name: str) -> str:
    """The name in ASCII, or the address; empty if it is neither."""
    if name.startswith("["):
        return name[1:-1] if _is_own_address(name[1:-1]) is not None else ""
    try:
        host = name if name.isascii() else name.encode("idna").decode("ascii")
    except UnicodeError:
        return ""
    return host if _LABELS.fullmatch(host) else ""


def _is_own_address(host: str) -> bool | None:
    """Whether an address is this machine's own; None if it is no address."""
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return None
