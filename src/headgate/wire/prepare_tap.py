"""The runner's side of a tap: its certificates, and what its agent finds around it."""

from collections.abc import Mapping
from pathlib import Path

from headgate.core.agents.meters import WireWay
from headgate.core.named_tuple import NamedTuple
from headgate.core.proxy_settings import PROXY
from headgate.wire.tap_possible import own_proxies
from headgate.wire.tap_secret import TapSecret, keep_secret, make_certificates
from headgate.wire.trust import own_authorities, trusting, write_private


class PreparedTap(NamedTuple):
    """What a tap needs before its agent is started."""

    environment: dict[str, str]
    """What the agent finds."""
    authorities: list[str]
    proxies: dict[str, str]
    """The user's own proxy, without the password: that is not written down."""
    secret: int
    """A descriptor."""


def prepare_tap(way: WireWay, known: Mapping[str, str], url: str, folder: Path) -> PreparedTap:
    """Make the certificates, and lay out whom the agent trusts; OSError if that cannot be."""
    made = make_certificates(way.hosts)
    proxies = own_proxies(known)
    environment = {
        **trusting(way, known, made.authority, folder),
        **dict.fromkeys(PROXY, url),
    }
    write_private(folder / "authority.pem", [made.authority])
    return PreparedTap(
        environment,
        own_authorities(way, known),
        {name: value.rpartition("@")[2] for name, value in proxies.items()},
        keep_secret(TapSecret(made.identity.decode("ascii"), proxies)),
    )
