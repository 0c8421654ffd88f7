"""One GET: where to and with which key, and which answers are refused."""

from collections.abc import Mapping

from headgate.core.admission.pools import UsageSource
from headgate.core.urls import Url, split_url
from headgate.http_client import Connection, Response, Trouble, Unusable
from headgate.http_client import get as http_get

USUAL = {
    "umans": ("https://api.code.umans.ai/v1/usage", "UMANS_API_KEY"),
    "featherless": (
        "https://api.featherless.ai/account/concurrency/stream",
        "FEATHERLESS_API_KEY",
    ),
}
"""Where the known kinds are asked, and with which key, unless the source says otherwise."""
_NO_URL = "the usage source's url cannot be asked; expected http://… or https://…"


class UsageEndpoint:
    """Where to ask, and as whom. Shows neither its path nor its key."""

    def __init__(self, url: Url, key: str, key_env: str, environ: Mapping[str, str]) -> None:
        self.url = url
        self.key_env = key_env
        self.environ = environ
        self.authorization = f"Bearer {key}" if key else ""

    def __repr__(self) -> str:
        """Show the host only."""
        return f"<UsageEndpoint {self.url.host}>"


def aim(source: UsageSource, environ: Mapping[str, str]) -> UsageEndpoint:
    """Where a source is asked, with the key that the environment has for it."""
    name = source.key_env or USUAL.get(source.kind, ("", ""))[1]
    key = environ.get(name, "") if name else ""
    if name and not key:
        raise Unusable(f"{name} is not set")
    if not all("!" <= letter <= "~" for letter in key):
        raise Unusable(f"{name} has characters that no key has: a space, a line's end or the like")
    url = _url(source)
    if url is None:
        raise Unusable(_NO_URL)
    return UsageEndpoint(url, key, name, environ)


def host_of(source: UsageSource) -> str:
    """The name of the host that a source asks, for people."""
    url = _url(source)
    return "the usage source" if url is None else url.host[:80]


def get(target: UsageEndpoint, connection: Connection, accept: str) -> Response:
    """The answer, whose body is yet to be read."""
    response = http_get(
        connection,
        target.url,
        {"Accept": accept},
        authorization=target.authorization,
        environ=target.environ,
    )
    if response.status in {401, 403} and target.key_env:
        raise Trouble(f"answered {response.status}; is {target.key_env} right?")
    if response.status != 200:
        raise Trouble(f"answered {response.status}")
    if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise Trouble("sent something compressed, which was not asked for")
    return response


def _url(source: UsageSource) -> Url | None:
    return split_url(source.url or USUAL.get(source.kind, ("", ""))[0])
