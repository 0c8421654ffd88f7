"""All HTTP that headgate sends: GET, POST, and answers that go on as server-sent events.

connection  one connection with a deadline and a bound on what it takes in
exchange    one request over it and the answer, by way of h11
client      where to connect, what every request says, and which redirect is followed
proxy       which proxy gives a tunnel to a host
events      the events in an answer that goes on
errors      what went wrong, in words

Callers are plain threads. Another thread may break a request off at any moment. What is refused is
the same for everyone: a peer that takes too long, sends too much, stops too early, or is no HTTP.
Texts of errors have no key in them, nor any part of a URL but its host.

Proxies: `https_proxy` is asked for a tunnel, so it sees neither key nor answer; `no_proxy` and
loopback addresses go without. `http_proxy` is not used: the key would be shown to it.
"""

from headgate.http_client.client import connect, get, send
from headgate.http_client.connection import Connection
from headgate.http_client.errors import Trouble, Unusable, explain
from headgate.http_client.events import events
from headgate.http_client.exchange import Response

__all__ = [
    "Connection",
    "Response",
    "Trouble",
    "Unusable",
    "connect",
    "events",
    "explain",
    "get",
    "send",
]
