"""Whom an agent under a tap trusts, and whom the tap trusts in its place.

A variable of the agent's names a file with certificate authorities. It gets one of ours: with all
that the user's own file has in it, and the authority of the tap.
"""

import os
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from headgate.core.agents.meters import WireWay, filled

ADDED, ALL = "{added_authorities}", "{all_authorities}"
"""In a profile: a file that adds to what the agent trusts already, or one that replaces it."""
_INSTEAD = {"CODEX_CA_CERTIFICATE": "SSL_CERT_FILE"}
"""A variable that, once it is set, has the other one ignored."""
_ADDING = ("NODE_EXTRA_CA_CERTS", "CODEX_CA_CERTIFICATE", "REQUESTS_CA_BUNDLE")
_SYSTEM = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_LARGEST = 16 * 2**20


def trusting(
    way: WireWay, known: Mapping[str, str], authority: bytes, folder: Path
) -> dict[str, str]:
    """The variables of a tap's profile, with the files that they name."""
    found = {}
    for variable, text in way.environment.items():
        if text in {ADDED, ALL}:
            file = folder / f"{variable}.pem"
            own = _own_files(variable, known)
            if text == ALL and not own:
                own = list(_system_files())[:1]
            write_private(file, [*map(_read, own), authority])
            found[variable] = str(file)
        elif not known.get(variable):  # the user has chosen, and may have a reason
            found[variable] = filled(text, known)
    return found


def own_authorities(way: WireWay, known: Mapping[str, str]) -> list[str]:
    """The user's own files that the agent would have trusted."""
    variables = [name for name, text in way.environment.items() if text in {ADDED, ALL}]
    return [file for variable in variables for file in _own_files(variable, known)]


def trusted_beside(environment: Mapping[str, str]) -> list[str]:
    """The files by which an agent trusts more authorities than its machine does."""
    return [environment[name] for name in _ADDING if environment.get(name)]


def upstream_context(own: Sequence[str]) -> ssl.SSLContext:
    """Who is trusted upstream: whom this machine trusts, and whom the user trusts beside them."""
    context = ssl.create_default_context()
    for file in own:
        with suppress(OSError):  # one that is gone, or has no certificate in it
            context.load_verify_locations(file)
    return context


def _own_files(variable: str, known: Mapping[str, str]) -> list[str]:
    named = known.get(variable) or known.get(_INSTEAD.get(variable, ""), "")
    return [os.path.abspath(named)] if named and os.path.isfile(named) else []  # noqa: PTH100, PTH113 - any text


def _system_files() -> Iterator[str]:
    usual = ssl.get_default_verify_paths().cafile
    for file in (usual, *_SYSTEM):
        if file and Path(file).is_file():
            yield file


def _read(file: str) -> bytes:
    with Path(file).open("rb") as opened:
        return opened.read(_LARGEST)


def write_private(file: Path, parts: Sequence[bytes]) -> None:
    """Write a file that nobody but its owner can read."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as to:
        to.write(b"\n".join(part.strip() for part in parts) + b"\n")
