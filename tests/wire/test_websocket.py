"""Requests inside a WebSocket, as codex makes them: the bytes pass, and a refusal is learned."""

import json
import socket
import sys
import threading
from collections.abc import Iterator

import pytest

from tests.core.wire.test_websocket_frames import TEXT, frame
from tests.support import HEADGATE, until
from tests.work.conftest import JobBox

KEY = "openai/gpt-5.2"
REFUSED = {
    "type": "error",
    "status": 429,
    "error": {"type": "usage_limit_reached", "message": "You've hit your usage limit."},
    "headers": {"retry-after": "600"},
}
AGENT = """
import os, socket, sys, urllib.parse
url = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
ask = socket.create_connection((url.hostname, url.port))
ask.sendall((
    f"GET {url.path}/responses HTTP/1.1\\r\\nHost: x\\r\\nConnection: Upgrade\\r\\n"
    "Upgrade: websocket\\r\\nSec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: x\\r\\n\\r\\n"
).encode())
head = b""
while b"\\r\\n\\r\\n" not in head:
    head += ask.recv(4096)
print(head.split(b"\\r\\n")[0].decode(), flush=True)
ask.sendall(bytes.fromhex(sys.argv[1]))
print(ask.recv(65536).hex(), flush=True)
sys.stdin.read()
"""


class WebSocketUpstream:
    """Takes one WebSocket, and answers its first message with a refusal."""

    def __init__(self) -> None:
        self.got = b""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        client, _ = self._listening.accept()
        with client:
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(4096)
            switch = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
            client.sendall(switch + b"Connection: Upgrade\r\n\r\n")
            self.got = client.recv(65536)
            client.sendall(frame(TEXT, json.dumps(REFUSED).encode()))
            client.recv(1)

    def close(self) -> None:
        self._listening.close()
        self._thread.join(20)


@pytest.fixture
def upstream() -> Iterator[WebSocketUpstream]:
    it = WebSocketUpstream()
    yield it
    it.close()


def test_a_refusal_in_a_websocket_is_learned(box: JobBox, upstream: WebSocketUpstream) -> None:
    """Every byte passes, both ways; the model's pool is closed for as long as upstream says."""
    box.env["OPENAI_BASE_URL"] = f"http://127.0.0.1:{upstream.port}/v1"
    request = json.dumps({"type": "response.create", "model": "gpt-5.2", "input": []}).encode()
    sent = frame(TEXT, request, mask=b"abcd")
    words = (HEADGATE, "run", "-q", "-m", KEY, "--meter", "wire", "--")
    agent = box.start(*words, sys.executable, "-c", AGENT, sent.hex())
    assert agent.line() == "HTTP/1.1 101 Switching Protocols"
    assert bytes.fromhex(agent.line()) == frame(TEXT, json.dumps(REFUSED).encode())
    assert upstream.got == sent
    until(lambda: box.events("paused"))
    assert agent.end() == 0
