"""The forwarding engine: HTTP/1.1 from clients to upstream, byte by byte, by somebody's policy.

policy             what the engine asks of those who decide
server             accepts clients, until it is drained
runtime            what all connections of one proxy share
client_connection  one connection of a client: its requests, in order
client_side        what a request needs of the connection that it came on
request_checks     which requests are taken
forwarding         one request from its head to its end
policy_call        a question to the policy, which may take its time
attempt            one try at upstream
upload             a request's body on its way
download           an answer on its way
upstream           one connection to upstream: its answers
pool               connections to upstream: opened, kept, used again
connect_socket     a connected socket, whichever of a host's addresses answers
through_proxy      CONNECT through an outbound proxy
tls_client         TLS with upstream, whose last words are read even if sending has failed
open_tls           TLS as a server, inside a CONNECT
splice             raw bytes both ways
heads              heads of messages, and how they are written out again
failures           what went wrong upstream, in words
sockets            what transports do not say

It knows nothing of pools, seats or providers. Bodies pass as they were sent; of headers only those
stay out that belong to one connection. An answer that upstream did not end is never ended here: the
client's connection is reset.
"""

from headgate.proxy.heads import Headers, RequestHead, ResponseHead
from headgate.proxy.policy import (
    PASS_ON,
    TRY_AGAIN,
    Client,
    Decision,
    End,
    Exchange,
    Failure,
    Open,
    Origin,
    OutboundProxy,
    PassingExchange,
    PassOn,
    Peer,
    Policy,
    Remedy,
    Reply,
    Route,
    TryAgain,
    Tunnel,
    Verdict,
)
from headgate.proxy.runtime import Timeouts
from headgate.proxy.server import ProxyServer

__all__ = [
    "PASS_ON",
    "TRY_AGAIN",
    "Client",
    "Decision",
    "End",
    "Exchange",
    "Failure",
    "Headers",
    "Open",
    "Origin",
    "OutboundProxy",
    "PassOn",
    "PassingExchange",
    "Peer",
    "Policy",
    "ProxyServer",
    "Remedy",
    "Reply",
    "RequestHead",
    "ResponseHead",
    "Route",
    "Timeouts",
    "TryAgain",
    "Tunnel",
    "Verdict",
]
