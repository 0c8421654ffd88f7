"""One request over a connection that is open, and the answer to it. h11 knows the protocol."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from headgate.http_client.deadline_socket import BODY, HEAD, Connection
from headgate.http_client.errors import Trouble

if TYPE_CHECKING:
    import h11


class Response:
    """The answer to a request that was sent: its head, and a body that is yet to be read."""

    def __init__(self, connection: Connection, protocol: "h11.Connection") -> None:
        import h11

        self._connection = connection
        self._protocol = protocol
        self._in_body = False
        while not isinstance(event := self._next(), h11.Response):
            pass  # 100 Continue and the like come before the answer
        self._in_body = True
        self.status = event.status_code
        self.headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
        """By their names in lower case."""

    def pieces(self) -> Iterator[bytes]:
        """The body as it comes in; raises if it ends before its end."""
        import h11

        while isinstance(event := self._next(), h11.Data):
            yield bytes(event.data)

    def read(self, *, whole: bool = True) -> bytes:
        """The body. More than 256 KiB are refused if the whole is wanted, else left unread."""
        found = b""
        for piece in self.pieces():
            found += piece
            if len(found) > BODY:
                if whole:
                    raise Trouble(f"sent more than {BODY // 1024} KiB")
                break
        return found[:BODY]

    def _next(self) -> object:
        """The next event of the protocol, when it is there."""
        import h11

        try:
            while (event := self._protocol.next_event()) is h11.NEED_DATA:
                self._protocol.receive_data(self._connection.receive())
        except h11.RemoteProtocolError:
            rest, closed = self._protocol.trailing_data
            if closed and (self._in_body or not rest):
                raise Trouble("closed the connection too early") from None
            raise Trouble("sent something that is not HTTP") from None
        return event


def exchange(
    connection: Connection, method: str, target: str, headers: Mapping[str, str], body: bytes = b""
) -> Response:
    """Send a request, and take in the head of its answer."""
    import h11

    protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD)
    request = h11.Request(method=method, target=target, headers=list(headers.items()))
    parts = (request, h11.Data(data=body), h11.EndOfMessage())
    connection.send(b"".join(protocol.send(part) for part in parts))
    return Response(connection, protocol)


def events(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each server-sent event in a body; one that is cut off does not count."""
    rest = b""
    data: list[bytes] = []
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            text = line.removesuffix(b"\r").removeprefix(b"\xef\xbb\xbf")
            name, _, value = text.partition(b":")
            if text and name == b"data":
                data.append(value.removeprefix(b" "))
            elif not text and data:
                yield b"\n".join(data)
                data = []
