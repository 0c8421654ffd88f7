"""Asks the server. What it says went wrong is raised as the error that it would be here."""

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from headgate.core.times import Seconds
from headgate.core.urls import Url, split_url
from headgate.errors import (
    CancelledWorkError,
    ConfigError,
    FencedError,
    HeadgateError,
    HoldExpiredError,
    NoRoomError,
    ServerError,
    StoreError,
    TooHeavyError,
    UsageError,
    WaitTimeoutError,
)

TOKEN = "HEADGATE_TOKEN"  # noqa: S105 - where it is
TOKEN_FILE = "HEADGATE_TOKEN_FILE"  # noqa: S105 - as above
PATIENCE = Seconds(10)
_AT_MOST = 64 * 1024 * 1024
_LONGEST_TOKEN = 4_096
_ERRORS: Mapping[str, type[HeadgateError]] = {
    "too_heavy": TooHeavyError,
    "config": ConfigError,
    "refused": UsageError,
    "invalid_request": UsageError,
    "only_templates": UsageError,
    "no_room": NoRoomError,
    "wait_timeout": WaitTimeoutError,
    "cancelled": CancelledWorkError,
    "hold_expired": HoldExpiredError,
    "fenced": FencedError,
    "store": StoreError,
    "store_full": StoreError,
}
"""What each code of a problem is here; all others are a ServerError."""


class UnreachableError(ServerError):
    """The server did not answer, so nobody knows whether it has done what it was asked for."""


def is_server(url: str) -> bool:
    """Whether the URL of a store is that of a server."""
    return url.startswith(("http://", "https://"))


class Server:
    """One server, asked by several threads: each request has a connection of its own."""

    def __init__(self, url: str, token: str | None = None) -> None:
        parts = split_url(url)
        if parts is None or parts.user or parts.query or parts.path != "/":
            raise UsageError(
                "bad store: expected http://HOST:PORT or https://HOST:PORT, with the token in "
                f"{TOKEN} or a file that {TOKEN_FILE} names"
            )
        self._url = parts
        self._token = _token() if token is None else token.strip()
        if not self._token.isascii() or not self._token.isprintable() or " " in self._token:
            raise UsageError("bad token: it is none that headgate token create has shown")

    @property
    def name(self) -> str:
        """The server, for people."""
        return f"{self._url.scheme}://{self._url.authority}"

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        key: str = "",
        patience: Seconds = PATIENCE,
    ) -> Any:  # noqa: ANN401 - any JSON
        """Ask, and wait for the answer; None if it is empty."""
        from headgate import http_client

        target, _, query = path.partition("?")
        url: Url = self._url._replace(path=target, query=query)
        said = {"Accept": "application/json"}
        if body is not None:
            said["Content-Type"] = "application/json"
        if key:
            said["Idempotency-Key"] = key
        connection = http_client.Connection(patience, at_most=_AT_MOST)
        try:
            http_client.connect(connection, url, os.environ)
            response = http_client.send(
                connection,
                method,
                url,
                said,
                body=None if body is None else json.dumps(body).encode(),
                authorization=f"Bearer {self._token}" if self._token else "",
            )
            found = b"".join(response.pieces())
        except (OSError, http_client.Trouble, ValueError) as error:
            text = http_client.explain(f"the server {self.name}", error, patience)
            raise UnreachableError(text) from None
        finally:
            connection.close()
        return self._read(response.status, found)

    def _read(self, status: int, found: bytes) -> Any:  # noqa: ANN401 - any JSON
        try:
            document = json.loads(found) if found else None
        except ValueError:
            document = found if status < 300 else None
        if 200 <= status < 300:
            if isinstance(document, bytes):
                raise ServerError(f"{self.name} is no headgate server: it does not answer in JSON")
            return document
        problem = document if isinstance(document, dict) else {}
        code, detail = str(problem.get("code", "")), str(problem.get("detail", ""))
        if code in {"draining", "too_many_connections"} or (status >= 502 and not code):
            raise UnreachableError(f"the server {self.name} is being stopped, or is busy")
        if code in _ERRORS:
            raise _ERRORS[code](detail)
        if code in {"no_token", "bad_token", "small_scope"}:
            detail = f"{detail}; the client finds it in {TOKEN}, or in a file: {TOKEN_FILE}"
        if not code:
            detail = f"it answered {status}, and is no headgate server of this version"
        raise ServerError(f"the server {self.name}: {detail}")

    def ask_until(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        key: str = "",
        deadline: float,
    ) -> Any:  # noqa: ANN401 - any JSON
        """The same, again and again while the server cannot be reached, until a time."""
        pause = 0.05
        while True:
            left = Seconds(deadline - time.monotonic())
            try:
                return self.ask(
                    method, path, body, key=key, patience=max(Seconds(0.1), min(PATIENCE, left))
                )
            except UnreachableError:
                if time.monotonic() + pause >= deadline:
                    raise
            time.sleep(pause)
            pause = min(1.0, pause * 2)


def _token() -> str:
    """The token that the environment names; empty if it names none."""
    if told := os.environ.get(TOKEN, "").strip():
        return told
    path = os.environ.get(TOKEN_FILE, "")
    if not path:
        return ""
    with suppress(UnicodeDecodeError):
        try:
            with Path(path).open() as file:
                return file.read(_LONGEST_TOKEN).strip()
        except OSError as error:
            raise UsageError(f"cannot read {TOKEN_FILE}={path}: {error.strerror}") from None
    raise UsageError(f"cannot read {TOKEN_FILE}={path}: it holds no text")
