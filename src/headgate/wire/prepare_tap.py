"""The runner's side of a tap: whether there can be one, and what its agent finds around it."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from headgate.core.agents.meters import WireWay
from headgate.core.named_tuple import NamedTuple
from headgate.http_client.client import goes_without_proxy
from headgate.http_client.errors import Unusable
from headgate.wire.tap import outbound_proxy, own_proxies
from headgate.wire.tap_secret import TapSecret, keep_secret, make_certificates
from headgate.wire.trust import own_authorities, trusting, write_private

_PROXY = ("https_proxy", "HTTPS_PROXY")


class PreparedTap(NamedTuple):
    """What a tap needs before its agent is started."""

    environment: dict[str, str]
    """What the agent finds."""
    authorities: list[str]
    proxies: dict[str, str]
    """The user's own proxy, without the password: that is not written down."""
    secret: int
    """A descriptor."""


def why_no_tap(way: WireWay, known: Mapping[str, str], command_sets: Mapping[str, str]) -> str:
    """What stands against a tap; empty if nothing does."""
    if find_spec("cryptography") is None:
        return "the package `cryptography` is not installed"
    proxies = own_proxies(known)
    for host in way.hosts:
        if goes_without_proxy(proxies, host):
            return f"NO_PROXY keeps {host} away from any proxy"
        try:
            outbound_proxy(proxies, host)
        except Unusable as error:
            return str(error)
    for name in (*_PROXY, *way.environment):
        if name in command_sets:
            return f"the command itself sets {name}"
    return ""


def prepare_tap(way: WireWay, known: Mapping[str, str], url: str, folder: Path) -> PreparedTap:
    """Make the certificates, and lay out whom the agent trusts; OSError if that cannot be."""
    made = make_certificates(way.hosts)
    proxies = own_proxies(known)
    environment = {
        **trusting(way, known, made.authority, folder),
        **dict.fromkeys(_PROXY, url),
    }
    write_private(folder / "authority.pem", [made.authority])
    return PreparedTap(
        environment,
        own_authorities(way, known),
        {name: value.rpartition("@")[2] for name, value in proxies.items()},
        keep_secret(TapSecret(made.identity.decode("ascii"), proxies)),
    )
