"""Which proxy gives a tunnel to a host."""

from collections.abc import Mapping

from headgate.core.urls import Url, is_loopback, split_url
from headgate.http_client.errors import Unusable

_NAMES = ("https_proxy", "HTTPS_PROXY")


def proxy_for(environ: Mapping[str, str], host: str) -> Url | None:
    """The proxy that the environment names for a host; None to go without."""
    name = next((name for name in _NAMES if environ.get(name)), "")
    if not name or is_loopback(host) or _exempt(environ, host):
        return None
    said = environ[name]
    url = split_url(said if "://" in said else f"http://{said}")
    if url is None or url.scheme != "http":
        raise Unusable(f"{name} is not a proxy that can be used; expected http://HOST:PORT")
    return url


def _exempt(environ: Mapping[str, str], host: str) -> bool:
    said = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    names = [name.strip().lower() for name in said.split(",")]
    if "*" in names:
        return True
    domains = [name.removeprefix("*").lstrip(".") for name in names]
    return any(name and (host == name or host.endswith(f".{name}")) for name in domains)
