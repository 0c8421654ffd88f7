"""Where to connect, what every request says, and which redirect is followed.

Proxies: `https_proxy` is asked for a tunnel, so it sees neither key nor answer; `no_proxy` and
loopback addresses go without. `http_proxy` is not used: the key would be shown to it.
"""

from collections.abc import Mapping

from headgate.core.proxy_settings import UnusableProxyError, proxy_for
from headgate.core.urls import Url, split_url
from headgate.http_client.deadline_socket import Connection
from headgate.http_client.errors import Trouble, Unusable
from headgate.http_client.exchange import Response, exchange

_MOVED = (301, 302, 303, 307, 308)


def connect(connection: Connection, url: Url, environ: Mapping[str, str]) -> None:
    """Connect to a URL's host, through a tunnel if the environment asks for one."""
    try:
        proxy = proxy_for(environ, url.host) if url.scheme == "https" else None
    except UnusableProxyError as error:
        raise Unusable(str(error)) from None
    if proxy is None:
        connection.open(url.host, url.port)
    else:
        connection.open(proxy.host, proxy.port)
        _tunnel(connection, url, proxy)
    if url.scheme == "https":
        connection.start_tls(url.host)


def send(
    connection: Connection,
    method: str,
    url: Url,
    headers: Mapping[str, str],
    *,
    body: bytes | None = None,
    authorization: str = "",
) -> Response:
    """Send a request over a connection to its host. A user in the URL is the authorization."""
    said = {"Host": url.authority, **headers}
    if body is not None:
        said["Content-Length"] = str(len(body))
    said |= {"Accept-Encoding": "identity", "User-Agent": "headgate", "Connection": "close"}
    if authorization or url.user:
        said["Authorization"] = authorization or basic(url.user)
    return exchange(connection, method, url.target, said, body or b"")


def get(
    connection: Connection,
    url: Url,
    headers: Mapping[str, str],
    *,
    authorization: str,
    environ: Mapping[str, str],
) -> Response:
    """Connect and ask. One redirect within the host is followed, and none to anywhere else."""
    for _ in range(2):
        connect(connection, url, environ)
        response = send(connection, "GET", url, headers, authorization=authorization)
        if response.status not in _MOVED:
            return response
        url = _moved(url, response.headers.get("location", ""))
    raise Trouble("redirects more than once")


def _moved(url: Url, location: str) -> Url:
    from urllib.parse import urljoin

    try:
        other = split_url(urljoin(f"{url.scheme}://{url.authority}{url.target}", location))
    except ValueError:
        other = None
    if other is None:
        raise Trouble("redirects to nowhere")
    if (other.scheme, other.host, other.port) != (url.scheme, url.host, url.port):
        raise Trouble("redirects elsewhere, and nothing is sent there")
    return other._replace(user=url.user)


def _tunnel(connection: Connection, url: Url, proxy: Url) -> None:
    place = url.host_and_port
    said = {"Host": place}
    if proxy.user:
        said["Proxy-Authorization"] = basic(proxy.user)
    try:
        response = exchange(connection, "CONNECT", place, said)
    except Trouble:
        raise Trouble("cannot be reached through the proxy") from None
    if response.status != 200:
        raise Trouble("cannot be reached: the proxy refused")


def basic(user: str) -> str:
    """The authorization of `NAME:PASSWORD` in a URL."""
    from base64 import b64encode
    from urllib.parse import unquote

    name, _, password = user.partition(":")
    pair = f"{unquote(name)}:{unquote(password)}"
    return f"Basic {b64encode(pair.encode()).decode('ascii')}"
