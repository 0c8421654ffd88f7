"""Which proxy the environment names for a host: `https_proxy`, `no_proxy` and their like."""

from collections.abc import Mapping, Sequence

from headgate.core.urls import Url, is_loopback, split_url

PROXY = ("https_proxy", "HTTPS_PROXY")


class UnusableProxyError(ValueError):
    """What is wrong with the proxy that is named, as a sentence."""


def proxy_for(environ: Mapping[str, str], host: str, names: Sequence[str] = PROXY) -> Url | None:
    """The proxy that the environment names for a host; None to go without."""
    name = next((name for name in names if environ.get(name)), "")
    if not name or is_loopback(host) or goes_without_proxy(environ, host):
        return None
    said = environ[name]
    url = split_url(said if "://" in said else f"http://{said}")
    if url is None or url.scheme != "http":
        raise UnusableProxyError(
            f"{name} is not a proxy that can be used; expected http://HOST:PORT"
        )
    return url


def goes_without_proxy(environ: Mapping[str, str], host: str) -> bool:
    """Whether the environment says that no proxy is to be asked for a host."""
    said = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    names = [name.strip().lower() for name in said.split(",")]
    if "*" in names:
        return True
    domains = [name.removeprefix("*").lstrip(".") for name in names]
    return any(name and (host == name or host.endswith(f".{name}")) for name in domains)
