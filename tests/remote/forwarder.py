"""A tiny TCP forwarder: a network between clients and their server that can be cut."""

import select
import socket
import threading
from contextlib import suppress


class Forwarder:
    """Forwards what it is sent, until it is cut: then it loses all, and says nothing."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._lock = threading.Lock()
        self._links: set[socket.socket] = set()
        self._cut = threading.Event()
        self._over = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        """Lose whatever comes from now on; connections stay open, and say nothing."""
        self._cut.set()

    def mend(self) -> None:
        """Forward again, on new connections: what was lost stays lost."""
        self._cut.clear()
        self.reset()

    def reset(self) -> None:
        """Break every connection off."""
        with self._lock:
            links, self._links = self._links, set()
        for one in links:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Be gone."""
        self._over = True
        self._listener.close()
        self.reset()

    def _accept(self) -> None:
        while not self._over:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        server = None
        with suppress(OSError), client:
            with self._lock:
                self._links.add(client)
            if not self._cut.is_set():
                server = socket.create_connection(("127.0.0.1", self._to), timeout=5)
                server.settimeout(None)
            with server or socket.socket() as other:
                self._pass_on(client, other if server else None)
        with self._lock:
            self._links.discard(client)

    def _pass_on(self, client: socket.socket, server: socket.socket | None) -> None:
        ends = [client] if server is None else [client, server]
        while True:
            ready, _, _ = select.select(ends, [], [], 5)
            for one in ready:
                data = one.recv(65_536)
                lost = self._cut.is_set() or server is None
                if not data and not lost:
                    return
                if not data:
                    ends.remove(one)
                    if not ends:
                        return
                if lost:
                    continue
                other = server if one is client else client
                assert other is not None
                other.sendall(data)
