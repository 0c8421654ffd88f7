"""A certificate for localhost and example.test, which nobody but these tests trusts.

Made with `openssl req -x509 -newkey ec`, valid for a hundred years.
"""

import ssl
import tempfile
from pathlib import Path

CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBrjCCAVOgAwIBAgIUMtEtQ90cMK8KE7AXDPJdH1M8SBswCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwOaGVhZGdhdGUgdGVzdHMwIBcNMjYxMTE4MDk1MzMyWhgPMjEy
NjEwMjUwOTUzMzJaMBkxFzAVBgNVBAMMDmhlYWRnYXRlIHRlc3RzMFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAEM+ngPgt+peO9G0kQsYxaNMnQxd7D2ZmmLKm6XWoQ
reU4iq8xT9Bu4mxeaB9ANULvSbTXKyw/YVuRF+532w4nFaN3MHUwHQYDVR0OBBYE
FKhD+F+05IajW3iKutFH53n3x5pCMB8GA1UdIwQYMBaAFKhD+F+05IajW3iKutFH
53n3x5pCMA8GA1UdEwEB/wQFMAMBAf8wIgYDVR0RBBswGYIJbG9jYWxob3N0ggxl
eGFtcGxlLnRlc3QwCgYIKoZIzj0EAwIDSQAwRgIhANkf0VefRKkXdhseCwthY0KM
IJCw5JJbiI78dGWAO1e2AiEAyE1cmWZ1rTOWOD3K01kK26yHqyNUO8+vxJtIeB+3
e8w=
-----END CERTIFICATE-----
"""
KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgw4joVbUXNgHaOw7G
67rjrYnh4gK7Ann/tJIqfPjANHKhRANCAAQz6eA+C36l470bSRCxjFo0ydDF3sPZ
maYsqbpdahCt5TiKrzFP0G7ibF5oH0A1Qu9JtNcrLD9hW5EX7nfbDicV
-----END PRIVATE KEY-----
"""


def server_context() -> ssl.SSLContext:
    """Who has the key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as name:
        both = Path(name) / "both.pem"
        both.write_text(CERTIFICATE + KEY)
        context.load_cert_chain(both)
    return context


def client_context() -> ssl.SSLContext:
    """Who trusts the certificate."""
    return ssl.create_default_context(cadata=CERTIFICATE)
