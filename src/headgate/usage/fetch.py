"""One GET: where to and with which key, and which answers are refused."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from headgate.core.admission.pools import UsageSource
from headgate.usage.failed import Trouble, Unusable
from headgate.usage.wire import BODY, Wire

if TYPE_CHECKING:
    from http.client import HTTPResponse

USUAL = {
    "umans": ("https://api.code.umans.ai/v1/usage", "UMANS_API_KEY"),
    "featherless": (
        "https://api.featherless.ai/account/concurrency/stream",
        "FEATHERLESS_API_KEY",
    ),
}
"""Where the known kinds are asked, and with which key, unless the source says otherwise."""
_PORTS = {"http": 80, "https": 443}
_MOVED = (301, 302, 303, 307, 308)
_NO_URL = "the usage source's url cannot be asked; expected http://… or https://…"


class Target:
    """Where to ask, and as whom. Shows neither its path nor its key."""

    def __init__(self, url: str, key: str, key_env: str, environ: Mapping[str, str]) -> None:
        self.scheme, self.host, self.port, self.path, user = split_url(url)
        self.key_env = key_env
        self.environ = environ
        self._authorization = f"Bearer {key}" if key else user

    def __repr__(self) -> str:
        """Show the host only."""
        return f"<Target {self.host}>"

    def moved(self, location: str) -> "Target":
        """The same host's other path; no redirect leads anywhere else."""
        from copy import copy
        from urllib.parse import urljoin

        try:
            scheme, host, port, path, _ = split_url(urljoin(self._url(), location))
        except (Unusable, ValueError):
            raise Trouble("redirects to nowhere") from None
        if (scheme, host, port) != (self.scheme, self.host, self.port):
            raise Trouble("redirects elsewhere, and nothing is sent there")
        other = copy(self)
        other.path = path
        return other

    def request(self, accept: str) -> bytes:
        """What to send."""
        lines = [
            f"GET {self.path} HTTP/1.1",
            f"Host: {self._place()}",
            f"Accept: {accept}",
            "Accept-Encoding: identity",
            "User-Agent: headgate",
            "Connection: close",
        ]
        if self._authorization:
            lines.append(f"Authorization: {self._authorization}")
        return "\r\n".join([*lines, "", ""]).encode("ascii")

    def _place(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def _url(self) -> str:
        return f"{self.scheme}://{self._place()}{self.path}"


def aim(source: UsageSource, environ: Mapping[str, str]) -> Target:
    """Where a source is asked, with the key that the environment has for it."""
    url, key_env = USUAL.get(source.kind, ("", ""))
    name = source.key_env or key_env
    key = environ.get(name, "") if name else ""
    if name and not key:
        raise Unusable(f"{name} is not set")
    if not all("!" <= letter <= "~" for letter in key):
        raise Unusable(f"{name} has characters that no key has: a space, a line's end or the like")
    return Target(source.url or url, key, name, environ)


def host_of(source: UsageSource) -> str:
    """The name of the host that a source asks, for people."""
    try:
        return split_url(source.url or USUAL.get(source.kind, ("", ""))[0])[1][:80]
    except Unusable:
        return "the usage source"


def get(target: Target, wire: Wire, accept: str) -> "HTTPResponse":
    """The answer, whose body is yet to be read. One redirect within the host is followed."""
    for _ in range(2):
        response = _ask(target, wire, accept)
        if response.status not in _MOVED:
            break
        target = target.moved(response.getheader("Location") or "")
    else:
        raise Trouble("redirects more than once")
    if response.status in {401, 403} and target.key_env:
        raise Trouble(f"answered {response.status}; is {target.key_env} right?")
    if response.status != 200:
        raise Trouble(f"answered {response.status}")
    if (response.getheader("Content-Encoding") or "identity").strip().lower() != "identity":
        raise Trouble("sent something compressed, which was not asked for")
    return response


def body(response: "HTTPResponse") -> bytes:
    """All of an answer, if it is all there and not too much."""
    found = response.read(BODY + 1)
    if len(found) > BODY:
        raise Trouble(f"sent more than {BODY // 1024} KiB")
    if response.length:
        raise Trouble("closed the connection too early")
    return found


def _ask(target: Target, wire: Wire, accept: str) -> "HTTPResponse":
    from http.client import HTTPResponse

    wire.connect(target.scheme, target.host, target.port, target.environ)
    wire.send(target.request(accept))
    response = HTTPResponse(cast("Any", wire), method="GET")
    response.begin()
    return response


def split_url(url: str) -> tuple[str, str, int, str, str]:
    """A URL's scheme, host, port and path, and an authorization if it names a user."""
    from base64 import b64encode
    from urllib.parse import quote, unquote, urlsplit

    if not url.isprintable() or " " in url:
        raise Unusable(_NO_URL)
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode("ascii")
        port = parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        raise Unusable(_NO_URL) from None
    if not host or not all("!" <= letter <= "~" for letter in host):
        raise Unusable(_NO_URL)
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    if parts.query:
        path += "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~?[]")
    user = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        user = f"Basic {b64encode(pair.encode()).decode()}"
    return parts.scheme, host, port, path, user
