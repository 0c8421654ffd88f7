"""Asking over the network: what is sent, how long it may take, and what is refused."""

import base64
import gzip
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.core.admission.pools import UsageSource
from headgate.core.answers.signals import Reading
from headgate.core.proxy_settings import proxy_for
from headgate.core.times import Seconds
from headgate.http_client import deadline_socket
from headgate.usage import Failed, read
from headgate.usage.failed import explain
from headgate.usage.fetch import aim
from tests.support import until
from tests.usage.server import STREAM, Peer, Script, Server, answer, event, says

KEY = "sk-secret-0123456789"
ENVIRON = {"THE_KEY": KEY}
GOOD = {"n": 2, "limit": 4}
HOST = "127.0.0.1"
SLACK = 3.0
"""Seconds that a busy machine may need for milliseconds of work."""

Serve = Callable[..., Server]


def source(url: str, kind: str = "json") -> UsageSource:
    return UsageSource(kind, url, "THE_KEY", used="n", limit="limit")


def ask(url: str, kind: str = "json", timeout: float = 10.0) -> Reading | Failed:
    return read(source(url, kind), environ=ENVIRON, timeout=Seconds(timeout))


def chunked(*pieces: bytes, head: str = "", end: bytes = b"0\r\n\r\n") -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + end
    return f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{head}\r\n".encode() + body


@pytest.mark.parametrize(
    "data",
    [
        answer(GOOD),
        answer(GOOD, head="Content-Encoding: identity\r\n"),
        b'HTTP/1.1 200 OK\r\n\r\n{"n": 2, "limit": 4}',
        b'HTTP/1.0 200 OK\r\n\r\n\xef\xbb\xbf{"n": 2, "limit": 4}\n',
        chunked(b'{"n": 2, ', b'"limit": 4}'),
        b"HTTP/1.1 100 Continue\r\n\r\n" + answer(GOOD),
    ],
)
def test_good_answers(serve: Serve, data: bytes) -> None:
    """With a length, without one, in chunks, after a 100."""
    assert ask(serve(lambda peer: peer.send(data)).url) == Reading(2.0, 4)


REFUSED = {
    "another status": (answer(GOOD, "204 No Content"), "answered 204"),
    "a server error": (answer(GOOD, "503 Service Unavailable"), "answered 503"),
    "a wrong key": (answer({"sent": KEY}, "401 Unauthorized"), "answered 401; is THE_KEY right?"),
    "a page": (answer(b"<html>log in</html>"), "sent something that is not JSON"),
    "nothing": (answer(b""), "sent something that is not JSON"),
    "not UTF-8": (answer(b'{"n": "\xff"}'), "sent text that is not UTF-8"),
    "compressed": (
        answer(gzip.compress(b'{"n": 2}'), head="Content-Encoding: gzip\r\n"),
        "sent something compressed, which was not asked for",
    ),
    "a missing path": (answer({"m": 2}), "has no number from 0 to 1000000 at n"),
    "a text": (answer({"n": "2"}), "has no number from 0 to 1000000 at n"),
    "NaN": (answer(b'{"n": NaN}'), "has no number from 0 to 1000000 at n"),
    "deep": (answer(b"[" * 99_999), "sent something that is not JSON"),
    "too much": (answer(b'"' + b"x" * 300_000 + b'"'), "sent more than 256 KiB"),
    "too much in chunks": (chunked(b"x" * 200_000, b"x" * 200_000), "sent more than 256 KiB"),
    "too short": (answer(GOOD, length=500), "closed the connection too early"),
    "half a chunk": (chunked(b'{"n": 2}', end=b"5\r\n12"), "closed the connection too early"),
    "half a chunk's length": (chunked(b'{"n": 2}', end=b"5"), "closed the connection too early"),
    "half a head": (b"HTTP/1.1 200 OK\r\nX: y\r\n", "sent something that is not HTTP"),
    "nothing after a 100": (b"HTTP/1.1 100 Continue\r\n\r\n", "closed the connection too early"),
    "headers without end": (
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000,
        "sent something that is not HTTP",
    ),
    "no last chunk": (chunked(b'{"n": 2}', end=b""), "closed the connection too early"),
    "a bad chunk": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "sent something that is not HTTP",
    ),
    "a negative chunk": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n" + b"x" * 2_000_000,
        "sent something that is not HTTP",
    ),
    "not HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n", "sent something that is not HTTP"),
    "no answer": (b"", "closed the connection too early"),
    "endless headers": (
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1_000,
        "sent something that is not HTTP",
    ),
    "a long header": (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000, "sent something that is not HTTP"),
    "a redirect without a place": (answer(b"", "302 Found"), "redirects more than once"),
    "a redirect to a bad place": (
        answer(b"", "302 Found", "Location: http://[::1\r\n"),
        "redirects to nowhere",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_answers(serve: Serve, case: str) -> None:
    """Each is a failed reading with its own reason."""
    data, reason = REFUSED[case]
    assert ask(serve(lambda peer: peer.send(data)).url) == Failed(f"{HOST} {reason}")


def test_a_reset_connection(serve: Serve) -> None:
    """A connection that is aborted in the middle is closed too early."""

    def script(peer: Peer) -> None:
        peer.send(answer(GOOD, length=500))
        peer.reset()

    assert ask(serve(script).url) == Failed(f"{HOST} closed the connection too early")


def _drips(data: bytes, first: bytes = b"") -> Script:
    def script(peer: Peer) -> None:
        peer.send(first)
        peer.drip(data)

    return script


HELD = {
    "silence": Peer.hold,
    "a slow status": _drips(b"H"),
    "slow headers": _drips(b"X", b"HTTP/1.1 200 OK\r\nX: "),
    "endless continues": _drips(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a slow body": _drips(b" ", b"HTTP/1.1 200 OK\r\n\r\n"),
    "slow chunks": _drips(b"1\r\n \r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "a slow event": _drips(b":\n", STREAM),
}


@pytest.mark.parametrize("case", HELD)
def test_nobody_holds_it_past_its_deadline(serve: Serve, case: str) -> None:
    """A server that keeps sending a little gains no time by it."""
    server = serve(HELD[case])
    begun = time.monotonic()
    found = ask(server.url, "featherless" if "event" in case else "json", timeout=0.3)
    assert found == Failed(f"{HOST} did not answer within 0.3s")
    assert time.monotonic() - begun < 0.3 + SLACK


def test_a_host_that_takes_no_connection() -> None:
    """A full backlog answers nothing at all."""
    with socket.create_server((HOST, 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        fill = [socket.socket() for _ in range(4)]
        try:
            for one in fill:
                one.setblocking(False)
                one.connect_ex((HOST, port))
            begun = time.monotonic()
            found = ask(f"http://{HOST}:{port}/", timeout=0.3)
            assert found == Failed(f"{HOST} did not answer within 0.3s")
            assert time.monotonic() - begun < 0.3 + SLACK
        finally:
            for one in fill:
                one.close()


def test_a_slow_resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is never found costs no more than the time there is."""
    found = threading.Event()

    def slow(*_: object, **options: object) -> None:
        if not options.get("flags"):  # numbers need no looking up
            found.wait(20)
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    try:
        assert ask("http://slow.example/", timeout=0.2) == Failed(
            "slow.example did not answer within 0.2s"
        )
    finally:
        found.set()


def test_a_closed_connection_is_closed(serve: Serve) -> None:
    """The server is told so, although a forked process has the connection open too."""
    server = serve(Peer.hold)
    link = deadline_socket.Connection(Seconds(10))
    link.open(HOST, server.port)
    link.send(b"\r\n\r\n")
    until(lambda: server.heads)
    assert link._sock is not None
    with socket.socket(fileno=os.dup(link._sock.fileno())):
        link.close()
        until(lambda: server.open == 0)


def test_a_name_that_is_not_there() -> None:
    """`.invalid` resolves nowhere."""
    found = ask("http://nobody.invalid/", timeout=10)
    assert isinstance(found, Failed)
    assert found.reason.startswith("nobody.invalid ")


def test_one_redirect_within_the_host(serve: Serve) -> None:
    """It is followed once, with the key."""

    def script(peer: Peer) -> None:
        if peer.path == "/v1/usage":
            peer.send(answer(b"", "307 Temporary Redirect", "Location: ../v2/usage?a=b\r\n"))
        else:
            peer.send(answer(GOOD))

    server = serve(script)
    assert ask(server.url) == Reading(2.0, 4)
    assert [head.split(" ")[1] for head in server.heads] == ["/v1/usage", "/v2/usage?a=b"]
    assert all(f"Bearer {KEY}" in head for head in server.heads)


def test_two_redirects(serve: Serve) -> None:
    """The second is not followed."""
    server = serve(says(b"", "301 Moved", "Location: /round\r\n"))
    assert ask(server.url) == Failed(f"{HOST} redirects more than once")
    assert len(server.heads) == 2


@pytest.mark.parametrize(
    "place",
    ["http://127.0.0.1:{other}/", "http://localhost:{same}/", "//localhost:{same}/",
     "https://127.0.0.1:{same}/", "http://127.0.0.1/"],
)  # fmt: skip
def test_redirects_elsewhere(serve: Serve, place: str) -> None:
    """Another host, port or scheme is not asked, and gets no key."""
    other = serve(says(GOOD))

    def script(peer: Peer) -> None:
        there = place.format(other=other.port, same=peer.server.port)
        peer.send(answer(b"", "302 Found", f"Location: {there}\r\n"))

    server = serve(script)
    assert ask(server.url) == Failed(f"{HOST} redirects elsewhere, and nothing is sent there")
    assert other.heads == []
    assert len(server.heads) == 1


def test_what_is_sent(serve: Serve) -> None:
    """One plain GET; a query stays, a fragment and a user do not."""
    server = serve(says(GOOD))
    url = f"http://me:hush@127.0.0.1:{server.port}/a b/ü?q=1&r=[2]#part".replace(" ", "%20")
    assert ask(url) == Reading(2.0, 4)
    assert "".join(server.heads) == (
        "GET /a%20b/%C3%BC?q=1&r=[2] HTTP/1.1\r\n"
        f"Host: 127.0.0.1:{server.port}\r\n"
        "Accept: application/json\r\n"
        "Accept-Encoding: identity\r\n"
        "User-Agent: headgate\r\n"
        "Connection: close\r\n"
        f"Authorization: Bearer {KEY}\r\n\r\n"
    )


def test_without_a_key(serve: Serve) -> None:
    """A source that names no key is asked without one, or as the user that its URL names."""
    server = serve(says(GOOD))
    plain = UsageSource("json", server.url, used="n")
    assert read(plain, environ=ENVIRON) == Reading(2.0)
    named = plain._replace(url=server.url.replace("//", "//me:hu%20sh@"))
    assert read(named, environ=ENVIRON) == Reading(2.0)
    assert "Authorization" not in server.heads[0]
    assert f"Basic {base64.b64encode(b'me:hu sh').decode()}\r\n" in server.heads[1]


@pytest.mark.parametrize(
    "kind, key_env, said",
    [
        ("umans", "UMANS_API_KEY", "UMANS_API_KEY is not set"),
        ("umans", "", "UMANS_API_KEY is not set"),
        ("featherless", "", "FEATHERLESS_API_KEY is not set"),
        ("json", "MINE", "MINE is not set"),
    ],
)
def test_a_missing_key(kind: str, key_env: str, said: str) -> None:
    """Nobody is asked without the key that is needed."""
    for environ in ({}, {key_env or "X": ""}):
        assert read(UsageSource(kind, "", key_env), environ=environ) == Failed(said)


@pytest.mark.parametrize("key", ["a\r\nHost: evil", "a\n", "a b", "a\0", "ключ", "a\x7f"])
def test_a_key_that_is_none(serve: Serve, key: str) -> None:
    """A key cannot add a header, and is not shown."""
    server = serve(says(GOOD))
    found = read(source(server.url), environ={"THE_KEY": key})
    assert isinstance(found, Failed)
    assert found.reason.startswith("THE_KEY has characters that no key has")
    assert key not in found.reason
    assert server.heads == []


@pytest.mark.parametrize(
    "url",
    ["",  "ftp://h/", "http://", "http://h:x/", "http://h:99999/", "http://a b/",
     "http://h/\r\nX: y", "http://[::1/",  "http://" + "a" * 70 + "/",
     "http://a..b/", "http://u:s3cret@/"],
)  # fmt: skip
def test_a_url_that_is_none(url: str) -> None:
    """It is said to be wrong, and not repeated."""
    said = "the usage source's url cannot be asked; expected http://… or https://…"
    assert ask(url) == Failed(said)


def test_an_unknown_kind() -> None:
    """A kind that nobody knows is a failed reading too."""
    assert ask("http://h/", "telepathy") == Failed("a usage source of kind 'telepathy' is unknown")


SECRETS = (KEY, "hush", "q-token", base64.b64encode(b"me:hush").decode())


@pytest.mark.parametrize("case", [*REFUSED, *HELD])
def test_secrets_stay_secret(serve: Serve, case: str) -> None:
    """Whatever goes wrong, neither key nor user nor query is in the reason."""
    script = HELD.get(case) or (lambda peer: peer.send(REFUSED[case][0]))
    server = serve(script)
    url = f"http://me:hush@127.0.0.1:{server.port}/{KEY}?t=q-token"
    for kind in ("json", "featherless"):
        found = ask(url, kind, timeout=0.2)
        assert isinstance(found, Failed)
        assert not any(secret in found.reason for secret in SECRETS)


def test_secrets_stay_out_of_tracebacks(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """No error that is raised on the way has them in its text, even before it is put in words."""
    texts = []

    def spy(who: str, error: Exception, timeout: float) -> Failed:
        texts.append("".join(traceback.format_exception(error)))
        return explain(who, error, Seconds(timeout))

    monkeypatch.setattr("headgate.usage.sources.explain", spy)
    for data, _ in REFUSED.values():
        server = serve(lambda peer, data=data: peer.send(data))
        ask(f"http://me:hush@127.0.0.1:{server.port}/{KEY}?t=q-token", timeout=0.5)
    assert len(texts) == len(REFUSED)
    assert not any(secret in text for secret in SECRETS for text in texts)


def test_secrets_stay_out_of_what_is_shown() -> None:
    """A target shows its host; an error of unknown origin, only its kind."""
    assert repr(aim(source(f"http://me:hush@h/{KEY}?t=q-token"), ENVIRON)) == "<UsageEndpoint h>"
    error = RuntimeError(f"{KEY} was sent")
    assert explain("h", error, Seconds(5)) == Failed("h cannot be read: RuntimeError")


def test_the_first_event_of_a_stream(serve: Serve) -> None:
    """One event is enough, then it hangs up."""
    ended = []

    def script(peer: Peer) -> None:
        peer.send(STREAM + b": hello\n\n" + event({"limit": 8, "used_cost": 4}))
        peer.hold()
        ended.append(True)

    server = serve(script)
    assert ask(server.url, "featherless") == Reading(4.0, 8)
    server.close()
    assert ended
    assert "\r\nAccept: text/event-stream\r\n" in server.heads[0]


@pytest.mark.parametrize(
    "data, reason",
    [
        (answer(GOOD), "sent something that is no event stream"),
        (STREAM, "closed the connection too early"),
        (STREAM + b'data: {"used_cost": 4}\n', "closed the connection too early"),
        (STREAM + b"data: hello\n\n", "sent something that is not JSON"),
        (STREAM + event({"limit": 4}), "does not say how much is in use"),
        (STREAM + b": " + b"x" * 400_000, "sent more than 256 KiB"),
    ],
)
def test_streams_that_are_none(serve: Serve, data: bytes, reason: str) -> None:
    """A stream without a good first event is a failed reading."""
    server = serve(lambda peer: peer.send(data))
    assert ask(server.url, "featherless") == Failed(f"{HOST} {reason}")


@pytest.fixture
def certified(tmp_path: Path) -> ssl.SSLContext:
    """A server's certificate for 127.0.0.1 and usage.example that nobody has signed."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", "/CN=x",
         "-addext", "subjectAltName=IP:127.0.0.1,DNS:usage.example"],
        check=True, capture_output=True, timeout=20,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


@pytest.fixture
def trusting(
    tmp_path: Path, certified: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> ssl.SSLContext:
    """The same, on a machine that trusts it."""
    context = ssl.create_default_context(cafile=str(tmp_path / "certificate.pem"))
    monkeypatch.setattr(deadline_socket, "_context", lambda: context)
    return certified


def test_tls(serve: Serve, trusting: ssl.SSLContext) -> None:
    """A trusted server is read, as an answer and as a stream."""
    assert ask(serve(says(GOOD), tls=trusting).url) == Reading(2.0, 4)
    stream = serve(lambda peer: peer.send(STREAM + event({"used_cost": 1})), tls=trusting)
    assert ask(stream.url, "featherless") == Reading(1.0)


def test_tls_that_is_not_trusted(serve: Serve, certified: ssl.SSLContext) -> None:
    """An unknown certificate gets no request, so no key."""
    server = serve(says(GOOD), tls=certified)
    assert ask(server.url) == Failed(f"{HOST} has a certificate that is not trusted")
    server.close()
    assert not any(server.heads)


def test_tls_with_who_does_not_speak_it(serve: Serve) -> None:
    """Plain HTTP where TLS should be; silence in the handshake."""
    plain = serve(lambda peer: peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    plain_found = ask(plain.url.replace("http:", "https:"), timeout=0.3)
    assert isinstance(plain_found, Failed)
    assert ask(serve(Peer.hold).url.replace("http:", "https:"), timeout=0.3) == Failed(
        f"{HOST} did not answer within 0.3s"
    )


def _proxy_to(port: int) -> Script:
    def script(peer: Peer) -> None:
        """A tunnel to our server, whatever host was asked for."""
        peer.send(b"HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n")
        with socket.create_connection((HOST, port)) as server:

            def back() -> None:
                try:
                    while data := server.recv(4096):
                        peer.send(data)
                    peer.conn.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

            thread = threading.Thread(target=back, daemon=True)
            thread.start()
            try:
                while data := peer.conn.recv(4096):
                    server.sendall(data)
                server.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            thread.join(20)

    return script


def test_a_proxy_gives_a_tunnel(serve: Serve, trusting: ssl.SSLContext) -> None:
    """It is told the host, and sees neither key nor path."""
    server = serve(says(GOOD), tls=trusting)
    proxy = serve(_proxy_to(server.port))
    environ = {**ENVIRON, "https_proxy": f"http://me:hush@127.0.0.1:{proxy.port}"}
    found = read(source("https://usage.example/v1/usage"), environ=environ, timeout=Seconds(10))
    assert found == Reading(2.0, 4)
    assert "".join(proxy.heads) == (
        "CONNECT usage.example:443 HTTP/1.1\r\nHost: usage.example:443\r\n"
        f"Proxy-Authorization: Basic {base64.b64encode(b'me:hush').decode()}\r\n\r\n"
    )
    assert "GET /v1/usage HTTP/1.1\r\nHost: usage.example\r\n" in server.heads[0]


def test_a_proxy_that_refuses(serve: Serve) -> None:
    """The reading fails; nothing goes around the proxy."""
    proxy = serve(says({}, "407 Proxy Authentication Required"))
    environ = {**ENVIRON, "HTTPS_PROXY": f"127.0.0.1:{proxy.port}"}
    found = read(source("https://usage.example/"), environ=environ)
    assert found == Failed("usage.example cannot be reached: the proxy refused")
    for data in (b"", b"hello\r\n\r\n"):
        proxy = serve(lambda peer, data=data: peer.send(data))
        environ = {**ENVIRON, "HTTPS_PROXY": f"127.0.0.1:{proxy.port}"}
        found = read(source("https://usage.example/"), environ=environ)
        assert found == Failed("usage.example cannot be reached through the proxy")
    for odd in ("socks5://127.0.0.1:1", "http://", "http://h:x"):
        found = read(source("https://usage.example/"), environ={**ENVIRON, "https_proxy": odd})
        assert found == Failed(
            "https_proxy is not a proxy that can be used; expected http://HOST:PORT"
        )


def test_no_proxy_for_loopback_or_in_the_clear(serve: Serve, trusting: ssl.SSLContext) -> None:
    """Loopback goes without one; so does plain http, whose key a proxy would see."""
    proxy = serve(says({}, "502 Bad Gateway"))
    there = f"http://127.0.0.1:{proxy.port}"
    environ = {**ENVIRON, "https_proxy": there, "http_proxy": there, "HTTP_PROXY": there}
    assert read(source(serve(says(GOOD)).url), environ=environ) == Reading(2.0, 4)
    assert read(source(serve(says(GOOD), tls=trusting).url), environ=environ) == Reading(2.0, 4)
    assert proxy.heads == []


@pytest.mark.parametrize(
    "said, direct",
    [("*", True), ("usage.example", True), (".example", True), ("*.example", True),
     ("a.b, example", True), ("", False), ("sage.example", False), ("other", False)],
)  # fmt: skip
def test_no_proxy(said: str, direct: bool) -> None:  # noqa: FBT001
    """The hosts that `no_proxy` names, and those below them, are asked directly."""
    environ = {"https_proxy": "http://p:1", "no_proxy": said}
    assert (proxy_for(environ, "usage.example") is None) is direct


def test_importing_costs_nothing() -> None:
    """What asks is loaded when something is asked."""
    script = (
        "import sys, headgate.core.admission.pools, headgate.core.answers.signals\n"
        "before = set(sys.modules)\n"
        "import headgate.usage\n"
        "light = {'io', 'contextlib'}  # which some versions of Python have loaded already\n"
        "print({name for name in set(sys.modules) - before if 'headgate' not in name} - light)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout == "set()\n"
