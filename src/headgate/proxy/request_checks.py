"""Which requests are taken. httptools is strict already; this is what it leaves open.

Two readers of one message must not disagree on where it ends or whom it is for. So whatever could
be read in two ways is refused: nothing of it is forwarded.
"""

import re

from headgate.core.named_tuple import NamedTuple
from headgate.proxy.heads import (
    IN_CHUNKS,
    NO_BODY,
    Framing,
    Headers,
    RequestHead,
    connection_tokens,
)

_TARGET = re.compile(rb"/[!-\"$-~]*|https?://[!-\"$-.0-~]+(?:/[!-\"$-~]*)?|\*", re.IGNORECASE)
_AUTHORITY = re.compile(rb"(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")
_HOST = re.compile(rb"[A-Za-z0-9._~:%\[\]-]*")


class BadRequest(Exception):
    """A request that is not taken: a status, and a sentence that says why."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


class CheckedRequest(NamedTuple):
    """A request's head and what it means for its connection."""

    head: RequestHead
    framing: Framing
    named: frozenset[bytes]
    """What its `Connection` header names."""
    keep: bool
    """Whether another request may follow."""
    expects_continue: bool
    may_switch: bool
    """Whether it asks to go on as WebSocket."""


def check(method: bytes, target: bytes, version: str, headers: Headers) -> CheckedRequest:
    """What a request means; raises `BadRequest`."""
    if version not in {"1.0", "1.1"}:
        raise BadRequest(505, "Only HTTP/1.1 is spoken here.")
    _check_target(method, target)
    hosts, lengths, codings, expects, upgrade = _special(headers)
    if len(hosts) > 1 or (not hosts and version == "1.1"):
        raise BadRequest(400, "A request needs exactly one Host header.")
    if hosts and not _HOST.fullmatch(hosts[0]):
        raise BadRequest(400, "The Host header is no host.")
    framing = _framing(lengths, codings, version)
    named = connection_tokens(headers)
    upgrades = method == b"CONNECT" or b"upgrade" in named
    if upgrades and not framing.empty:
        raise BadRequest(400, "A request that changes the protocol cannot have a body.")
    if expects and expects[0].lower() != b"100-continue":
        raise BadRequest(417, "This expectation cannot be met.")
    return CheckedRequest(
        head=RequestHead(method, target, version, headers),
        framing=framing,
        named=named,
        keep=version == "1.1" and b"close" not in named,
        expects_continue=bool(expects) and version == "1.1",
        may_switch=method == b"GET" and version == "1.1" and upgrades and _is_websocket(upgrade),
    )


def _is_websocket(upgrade: bytes) -> bool:
    return upgrade.lower() == b"websocket"


def authority(target: bytes) -> tuple[str, int]:
    """The host and the port of a CONNECT request, which has been checked."""
    host, _, port = target.decode("ascii").rpartition(":")
    return host.strip("[]").lower(), int(port)


def _check_target(method: bytes, target: bytes) -> None:
    if method == b"CONNECT":
        found = _AUTHORITY.fullmatch(target)
        good = found is not None and 0 < int(found[1]) < 65_536
    else:
        good = _TARGET.fullmatch(target) is not None and (target != b"*" or method == b"OPTIONS")
    if not good:
        raise BadRequest(400, "The request's target is no path and no URL.")


def _special(
    headers: Headers,
) -> tuple[list[bytes], list[bytes], list[bytes], list[bytes], bytes]:
    hosts: list[bytes] = []
    lengths: list[bytes] = []
    codings: list[bytes] = []
    expects: list[bytes] = []
    upgrades: list[bytes] = []
    lists = {
        b"host": hosts,
        b"content-length": lengths,
        b"transfer-encoding": codings,
        b"expect": expects,
        b"upgrade": upgrades,
    }
    for name, value in headers:
        found = lists.get(name.lower())
        if found is not None:
            found.append(value)
    return hosts, lengths, codings, expects, b",".join(upgrades)


def _framing(lengths: list[bytes], codings: list[bytes], version: str) -> Framing:
    if codings:
        if lengths or len(codings) > 1 or codings[0].lower() != b"chunked" or version != "1.1":
            raise BadRequest(400, "The request's body has no clear length.")
        return IN_CHUNKS
    if not lengths:
        return NO_BODY
    if len(lengths) > 1 or not lengths[0].isdigit():
        raise BadRequest(400, "The request's body has no clear length.")
    return Framing(length=int(lengths[0]))
