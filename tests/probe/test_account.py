"""A probe of an account, against servers that answer as the test says."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from headgate.core.answers.signals import CONCURRENCY
from headgate.core.times import Seconds
from headgate.errors import HeadgateError, UsageError
from headgate.probe.account import AccountProbeOptions, AccountProbeResult, probe_account
from headgate.probe.ask import ApiEndpoint

SECRET = "sk-test-4f1c0ffee5ba5eba11"
ENVIRON = {"ANTHROPIC_API_KEY": SECRET, "OPENAI_API_KEY": SECRET, "GEMINI_API_KEY": SECRET}
FULL = {"error": {"type": "rate_limit_error", "message": "Too many concurrent requests"}}
Reply = tuple[int, dict[str, str], object]
YES: Reply = (200, {}, {"type": "message"})
NO: Reply = (429, {"retry-after": "7"}, FULL)


class Scripted:
    """A server that answers its nth request as a function says, when all of a level are there."""

    def __init__(self, reply: Callable[[int], Reply]) -> None:
        self.seen: list[tuple[str, dict[str, str], Any]] = []
        self._arrived = threading.Condition()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer._arrived:
                    outer.seen.append((self.path, dict(self.headers), body))
                    number = len(outer.seen)
                    outer._arrived.notify_all()
                    outer._arrived.wait(0.15)  # so that those of one level overlap
                status, headers, said = reply(number)
                data = said if isinstance(said, bytes) else json.dumps(said).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@contextmanager
def scripted(reply: Callable[[int], Reply]) -> Iterator[Scripted]:
    it = Scripted(reply)
    thread = threading.Thread(target=it.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield it
    finally:
        it.server.shutdown()
        thread.join()
        it.server.server_close()


def probed(
    server: Scripted, most: int = 4, key: str = "anthropic/m"
) -> tuple[AccountProbeResult, list[float]]:
    """What is found, and for how long the probe rested each time."""
    rests: list[float] = []
    target = ApiEndpoint(server.url, key, ENVIRON)
    found = probe_account(
        target,
        AccountProbeOptions(most, Seconds(3.0), Seconds(10.0)),
        say=lambda _: None,
        sleep=rests.append,
    )
    return found, rests


def test_a_second_refusal_is_the_last() -> None:
    """When one below is refused too, others are at it: less is recommended, and not as sure."""
    with scripted(lambda number: NO if number in {6, 8} else YES) as server:
        found, rests = probed(server)
    assert (found.limit, found.works, found.confirmed) == (1, 1, False)
    assert found.refused == 2
    assert found.kind == CONCURRENCY
    assert rests == [3.0, 3.0, 7.0]
    assert "others use the account as well" in found.reasons[1]


def test_a_long_retry_after_is_not_waited_for() -> None:
    """An hour of peace is given, not waited out: the limit is told as not confirmed."""
    no = (429, {"retry-after": "3600"}, FULL)
    with scripted(lambda number: no if number == 3 else YES) as server:
        found, rests = probed(server)
    assert (found.limit, found.confirmed, found.spent) == (1, False, 3)
    assert rests == [3.0]


def test_no_redirect_is_followed() -> None:
    """Nobody but the host that was named gets the key."""
    with scripted(lambda _: YES) as other:
        away: Reply = (307, {"location": f"{other.url}/v1/messages"}, {})
        with (
            scripted(lambda _: away) as server,
            pytest.raises(HeadgateError, match="answered 307"),
        ):
            probed(server)
        assert other.seen == []


@pytest.mark.parametrize(
    "reply,said",
    [
        ((401, {}, {"error": f"bad key {SECRET}"}), "answered 401; is ANTHROPIC_API_KEY right?"),
        ((529, {}, {"error": {"type": "overloaded_error"}}), "is overloaded (529)"),
        ((500, {}, b"\xff\0"), "answered 500"),
        ((404, {}, {}), "are the URL, --api and the model right?"),
    ],
)
def test_other_answers_end_it_at_once(reply: Reply, said: str) -> None:
    """With a sentence, after one request, and without a word of the answer."""
    with scripted(lambda _: reply) as server, pytest.raises(HeadgateError) as error:
        probed(server)
    assert said in str(error.value)
    assert SECRET not in str(error.value)
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "key,path,header,most",
    [
        ("anthropic/m", "/v1/messages", ("x-api-key", SECRET), "max_tokens"),
        (
            "openai/m",
            "/v1/chat/completions",
            ("Authorization", f"Bearer {SECRET}"),
            "max_completion_tokens",
        ),
        ("corp/m", "/v1/chat/completions", ("Authorization", f"Bearer {SECRET}"), "max_tokens"),
        (
            "google/m",
            "/v1beta/models/m:streamGenerateContent?alt=sse",
            ("x-goog-api-key", SECRET),
            "generationConfig",
        ),
    ],
)
def test_requests_are_the_smallest(key: str, path: str, header: tuple[str, str], most: str) -> None:
    """Two letters in, a few tokens out, as a stream, in the language of the provider."""
    with scripted(lambda _: YES) as server:
        probed(server, 1, key)
    [(asked, headers, body)] = server.seen
    assert asked == path
    assert headers[header[0]] == header[1]
    assert body[most] == ({"maxOutputTokens": 16} if key == "google/m" else 16)
    assert len(json.dumps(body)) < 200


@pytest.mark.parametrize(
    "base,path",
    [
        ("", "/v1/messages"),
        ("/", "/v1/messages"),
        ("/v1", "/v1/messages"),
        ("/v1/", "/v1/messages"),
        ("/proxy", "/proxy/v1/messages"),
        ("/proxy/v1/messages", "/proxy/v1/messages"),
    ],
)
def test_the_url_may_have_any_part_of_the_path(base: str, path: str) -> None:
    """What is missing is added."""
    with scripted(lambda _: YES) as server:
        target = ApiEndpoint(server.url + base, "anthropic/m", ENVIRON)
        probe_account(target, AccountProbeOptions(1), say=lambda _: None)
    assert server.seen[0][0] == path


@pytest.mark.parametrize("key", ["", "m", "a/", "a/\x1b[31m"])
def test_a_model_is_needed(key: str) -> None:
    """There is no request without one."""
    with pytest.raises(UsageError, match="bad -m"):
        ApiEndpoint("http://x", key, ENVIRON)


def test_a_target_does_not_show_its_key() -> None:
    """Not in a traceback, nor in a log."""
    assert SECRET not in repr(ApiEndpoint("http://x", "a/b", ENVIRON))


def test_the_budget_is_never_exceeded() -> None:
    """As many requests as were announced, at most."""
    with scripted(lambda _: YES) as server:
        found, _ = probed(server, 4)
    assert found.spent == len(server.seen) <= AccountProbeOptions(4).budget
    assert found.works <= 4
