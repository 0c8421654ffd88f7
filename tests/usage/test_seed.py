"""The tests of the third seed's getUsage, in this project's words and against a real server."""

import socket
from collections.abc import Callable

import pytest

from headgate.core.admission.pools import UsageSource
from headgate.core.answers.signals import Reading
from headgate.usage import Failed, read
from tests.usage.server import Script, Server, says

KEY = "sk-test-1234567890abcdef"
ENVIRON = {"UMANS_API_KEY": KEY}

Serve = Callable[..., Server]


def ask(url: str) -> Reading | Failed:
    return read(UsageSource("umans", url, "UMANS_API_KEY"), environ=ENVIRON)


def test_extracts_the_sessions_from_umans(serve: Serve) -> None:
    """One GET of the URL with the key as a bearer token gives sessions and limits."""
    shape = {
        "usage": {"concurrent_sessions": 3},
        "limits": {"concurrency": {"limit": 4, "hard_cap": 5}},
    }
    server = serve(says(shape))
    assert ask(server.url) == Reading(3.0, limit=4, hard_cap=5)
    (head,) = server.heads
    assert head.startswith("GET /v1/usage HTTP/1.1\r\n")
    assert f"\r\nAuthorization: Bearer {KEY}\r\n" in head


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(says({"error": "not found"}, "404 Not Found"), id="an endpoint unsupported"),
        pytest.param(says({"unexpected": True}), id="an unexpected shape"),
        pytest.param(says({"usage": {"concurrent_sessions": "three"}}), id="not a number"),
    ],
)
def test_no_reading(serve: Serve, script: Script) -> None:
    """An answer that is none fails, and raises nothing."""
    assert isinstance(ask(serve(script).url), Failed)


def test_no_reading_without_a_network() -> None:
    """Nobody listens: it fails, and raises nothing."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    found = ask(f"http://127.0.0.1:{port}/v1/usage")
    assert found == Failed("127.0.0.1 refused the connection")


def test_a_fraction_is_kept(serve: Serve) -> None:
    """2.9 stays 2.9. The seed truncates to 2; here the gate rounds up, and must not be misled."""
    assert ask(serve(says({"usage": {"concurrent_sessions": 2.9}})).url) == Reading(2.9)
