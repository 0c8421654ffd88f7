"""`python make_certificates.py HOST…` makes the certificates of one tap.

It prints a certificate authority's certificate, then a certificate for the hosts with its key. The
authority's own key signs that one certificate and is forgotten: nobody can ever make another. A
process of its own does this, since the library takes 11 MB, which neither a runner nor a wire then
carries for its life.
"""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAYS = 90
"""Longer than a run takes. The certificates are worth nothing once it has ended."""


def main(hosts: Sequence[str]) -> None:
    """Print the authority, the certificate and the key."""
    now = datetime.now(UTC)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _authority(authority_key, hosts, now)
    certificate = _certificate(authority, authority_key, key.public_key(), hosts, now)
    for made in (authority, certificate):
        sys.stdout.buffer.write(made.public_bytes(Encoding.PEM))
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    sys.stdout.buffer.write(pem)


def _authority(
    key: ec.EllipticCurvePrivateKey, hosts: Sequence[str], now: datetime
) -> x509.Certificate:
    """An authority for these hosts and no others."""
    name = _name("headgate, for one run")
    names = x509.NameConstraints([x509.DNSName(host) for host in hosts], None)
    return (
        _begun(name, name, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(names, critical=True)
        .sign(key, SHA256())
    )


def _certificate(
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    key: ec.EllipticCurvePublicKey,
    hosts: Sequence[str],
    now: datetime,
) -> x509.Certificate:
    """One certificate for all the hosts."""
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
    server = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    return (
        _begun(_name("headgate tap"), authority.subject, key, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(server, critical=False)
        .add_extension(names, critical=False)
        .add_extension(issuer, critical=False)
        .sign(authority_key, SHA256())
    )


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks differ
        .not_valid_after(now + timedelta(days=_DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


if __name__ == "__main__":
    main(sys.argv[1:])
