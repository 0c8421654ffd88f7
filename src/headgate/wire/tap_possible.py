"""Whether an agent can have a tap, in its surroundings."""

from collections.abc import Mapping

from headgate.core.agents.meters import WireWay
from headgate.core.proxy_settings import PROXY, UnusableProxyError, goes_without_proxy, proxy_for


def why_no_tap(way: WireWay, known: Mapping[str, str], command_sets: Mapping[str, str]) -> str:
    """What stands against a tap; empty if nothing does."""
    from importlib.util import find_spec

    if find_spec("cryptography") is None:
        return "the package `cryptography` is not installed"
    proxies = own_proxies(known)
    for host in way.hosts:
        if goes_without_proxy(proxies, host):
            return f"NO_PROXY keeps {host} away from any proxy"
        try:
            proxy_for(proxies, host)
        except UnusableProxyError as error:
            return str(error)
    for name in (*PROXY, *way.environment):
        if name in command_sets:
            return f"the command itself sets {name}"
    return ""


def own_proxies(known: Mapping[str, str]) -> dict[str, str]:
    """The user's own proxy for https, as two variables."""
    names = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
    proxy = next((known[name] for name in names if known.get(name)), "")
    without = known.get("no_proxy") or known.get("NO_PROXY") or ""
    return {name: value for name, value in (("https_proxy", proxy), ("no_proxy", without)) if value}
