"""All HTTP that headgate sends: GET, POST, and answers that go on as server-sent events.

deadline_socket  one connection with a deadline and a bound on what it takes in
exchange         one request over it, the answer, and the events in one that goes on, by way of h11
client           where to connect and through which proxy, and which redirect is followed
errors           what went wrong, in words

Callers are plain threads. Another thread may break a request off at any moment. What is refused is
the same for everyone: a peer that takes too long, sends too much, stops too early, or is no HTTP.
Texts of errors have no key in them, nor any part of a URL but its host.
"""

from headgate.http_client.client import connect, get, send
from headgate.http_client.deadline_socket import Connection
from headgate.http_client.errors import Trouble, Unusable, explain
from headgate.http_client.exchange import Response, events

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
