"""Asking a provider, with sockets only: importing an HTTP client takes longer than the request."""

import json
import socket
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
CUT = 0
"""The status of a stream that was broken off."""


class Failure(Exception):
    """An answer that was none."""

    def __init__(self, status: int, body: str, headers: dict[str, str]) -> None:
        super().__init__(body)
        self.status, self.body, self.headers = status, body, headers
        self.request = headers.get("request-id") or headers.get("x-request-id") or "none"

    @property
    def message(self) -> str:
        try:
            return str(json.loads(self.body)["error"]["message"])
        except (ValueError, LookupError, TypeError):
            return self.body or "terminated"

    @property
    def retry_after(self) -> float | None:
        try:
            return float(self.headers["retry-after-ms"]) / 1_000
        except (KeyError, ValueError):
            pass
        try:
            return float(self.headers["retry-after"])
        except (KeyError, ValueError):
            return None


def post(url: str, headers: dict[str, str], body: Json) -> Iterator[Json]:
    """The events of the answer's stream as they come; Failure if it is no good one."""
    host, _, path = url.partition("://")[2].partition("/")
    name, _, port = host.rpartition(":")
    data = json.dumps(body).encode()
    lines = [f"POST /{path} HTTP/1.0", f"Host: {host}", f"Content-Length: {len(data)}"]
    lines += ["Content-Type: application/json", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
    try:
        with socket.create_connection((name or host, int(port or 80))) as connection:
            connection.sendall("\r\n".join(lines).encode() + data)
            with connection.makefile("rb") as file:
                status = int(file.readline().split()[1])
                found: dict[str, str] = {}
                while line := file.readline().strip():
                    key, _, value = line.decode("latin-1").partition(":")
                    found[key.lower()] = value.strip()
                if status != 200:
                    raise Failure(status, file.read().decode(errors="replace"), found)
                for line in file:
                    if line.startswith(b"data:"):
                        yield json.loads(line[5:])
    except (OSError, IndexError, ValueError) as error:
        raise Failure(CUT, f"terminated: {error}", {}) from None


def delta(event: Json) -> tuple[str, bool]:
    """The text in an event of any API's, and whether it is the last event."""
    match event:
        case {"type": "content_block_delta", "delta": {"text": str(text)}}:
            return text, False
        case {"type": "response.output_text.delta", "delta": str(text)}:
            return text, False
        case {"candidates": [{"content": {"parts": [{"text": str(text)}, *_]}, **more}, *_]}:
            return text, "finishReason" in more
        case {"candidates": [{"finishReason": _}, *_]}:
            return "", True
        case {"type": "message_stop" | "response.completed"}:
            return "", True
        case _:
            return "", False
