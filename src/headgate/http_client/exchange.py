"""One request over a connection that is open, and the answer to it. h11 knows the protocol."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headgate.http_client.connection import BODY, HEAD, Connection
from headgate.http_client.errors import Trouble

if TYPE_CHECKING:
    import h11


class Response:
    """An answer whose body is yet to be read."""

    def __init__(self, status: int, headers: Mapping[str, str], incoming: "_Incoming") -> None:
        self.status = status
        self.headers = headers
        """By their names in lower case."""
        self._incoming = incoming

    @property
    def rest(self) -> bytes:
        """What has come and belongs to no body."""
        return self._incoming.protocol.trailing_data[0]

    def pieces(self) -> Iterator[bytes]:
        """The body as it comes in; raises if it ends before its end."""
        import h11

        while isinstance(event := self._incoming.next(), h11.Data):
            yield bytes(event.data)

    def read(self, *, whole: bool = True) -> bytes:
        """The body. More than 256 KiB are refused if the whole is wanted, else left unread."""
        found = b""
        for piece in self.pieces():
            found += piece
            if len(found) > BODY and whole:
                raise Trouble(f"sent more than {BODY // 1024} KiB")
            if len(found) >= BODY and not whole:
                break
        return found[:BODY]


def exchange(
    connection: Connection, method: str, target: str, headers: Mapping[str, str], body: bytes = b""
) -> Response:
    """Send a request, and take in the head of its answer."""
    import h11

    protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD)
    said = list(headers.items())
    request = protocol.send(h11.Request(method=method, target=target, headers=said))
    request += protocol.send(h11.Data(data=body))
    request += protocol.send(h11.EndOfMessage())
    connection.send(request)
    incoming = _Incoming(connection, protocol)
    while not isinstance(event := incoming.next(), h11.Response):
        pass  # 100 Continue and the like come before the answer
    incoming.in_body = True
    found = {name.decode("ascii"): value.decode("latin-1") for name, value in event.headers}
    return Response(event.status_code, found, incoming)


class _Incoming:
    """What comes in, as events of the protocol."""

    def __init__(self, connection: Connection, protocol: "h11.Connection") -> None:
        self.protocol = protocol
        self.in_body = False
        self._connection = connection

    def next(self) -> object:
        """The next event, when it is there."""
        import h11

        try:
            while (event := self.protocol.next_event()) is h11.NEED_DATA:
                self.protocol.receive_data(self._connection.receive())
        except h11.RemoteProtocolError:
            rest, closed = self.protocol.trailing_data
            if closed and (self.in_body or not rest):
                raise Trouble("closed the connection too early") from None
            raise Trouble("sent something that is not HTTP") from None
        return event
