"""What a tap must not leave on a disk: its key, and passwords of the user's own proxy.

It is in a file that exists in memory only. The runner has it open and hands it to each process that
it starts; the process has it open and hands it to a runner that takes over. When both are gone, so
is the secret.
"""

import errno
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from headgate.core.named_tuple import NamedTuple

_MAKER = str(Path(__file__).with_name("make_certificates.py"))
"""By its path: an agent waits for it, and to import packages around it takes 20 ms."""
_WITHIN = 20.0
_END = b"-----END CERTIFICATE-----\n"
_LARGEST = 1 << 20


class TapSecret(NamedTuple):
    """What the process of a tap has to know beside its order."""

    identity: str
    """The certificate for the opened hosts, and its key."""
    proxies: Mapping[str, str] = {}
    """The user's own proxy: `https_proxy` and `no_proxy`."""

    def __repr__(self) -> str:
        return "<TapSecret>"


class MadeCertificates(NamedTuple):
    """The certificates of one tap."""

    authority: bytes
    """What the agent has to trust; it is no secret."""
    identity: bytes

    def __repr__(self) -> str:
        return "<MadeCertificates>"


def make_certificates(hosts: Sequence[str]) -> MadeCertificates:
    """Make an authority and a certificate for these hosts; OSError if that cannot be."""
    argv = [sys.executable, "-P", _MAKER, *hosts]
    try:
        made = subprocess.run(argv, capture_output=True, timeout=_WITHIN, check=False)
    except subprocess.TimeoutExpired:
        raise OSError(errno.ETIMEDOUT, "the certificates of its tap took too long") from None
    authority, end, identity = made.stdout.partition(_END)
    if made.returncode or not identity:
        words = made.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise OSError(errno.ENOTSUP, f"no certificates could be made for its tap: {words}")
    return MadeCertificates(authority + end, identity)


def keep_secret(secret: TapSecret) -> int:
    """Write it into a file in memory; its descriptor, which no program inherits."""
    return _in_memory(json.dumps(secret._asdict()).encode())


def read_secret(fd: int | None) -> TapSecret | None:
    """What is in such a file; None if that is nothing."""
    if fd is None:
        return None
    try:
        said = json.loads(os.pread(fd, _LARGEST, 0))
        return TapSecret(said["identity"], said["proxies"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def server_context(secret: TapSecret) -> ssl.SSLContext:
    """With this the agent is spoken to in place of the opened hosts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])  # some offer HTTP/2 as well
    fd = _in_memory(secret.identity.encode())
    try:
        context.load_cert_chain(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)
    return context


def _in_memory(data: bytes) -> int:
    fd = os.memfd_create("headgate", os.MFD_CLOEXEC)
    try:
        os.write(fd, data)
    except BaseException:
        os.close(fd)
        raise
    return fd
