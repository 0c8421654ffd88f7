"""What somebody may try who wants more than is theirs: each with what comes of it."""

import json
import os
import socket
import ssl
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.api.support import FOREIGN, Server, chunks
from tests.other_user import NOBODY, needs_root
from tests.support import HEADGATE, LONG, Box, until

POST = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\n"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def tokens(shared: Server) -> dict[str, str]:
    """A token of each scope."""
    return {scope: shared.token(scope, "--name", scope) for scope in ("read", "submit", "admin")}


def test_nothing_is_told_without_a_token(shared: Server) -> None:
    """Whoever is not the owner gets 401 everywhere but for health, and is told what to do."""
    for path in ("/v1/status", "/v1/jobs", "/v1/events/stream", "/concurrency/status", "/nope"):
        said = shared.get(path, **FOREIGN)
        assert (said.status, said.code) == (401, "no_token")
        assert said.headers["www-authenticate"] == "Bearer"
    assert shared.get("/v1/health", **FOREIGN).status == 200


@pytest.mark.parametrize(
    "shown",
    [
        "Bearer hg_00000000_" + "A" * 43,
        "Bearer hg_{id}_" + "A" * 43,
        "Bearer x",
        "Bearer",
        "Basic aGc6aGc=",
        "Bearer ' OR 1=1 --",
    ],
)
def test_a_wrong_token_is_refused(shared: Server, tokens: dict[str, str], shown: str) -> None:
    """Unknown, with another's id, or none at all; also where no token would have been needed."""
    header = shown.replace("{id}", tokens["admin"].split("_")[1])
    for more in ({}, FOREIGN):
        said = shared.get("/v1/status", Authorization=header, **more)
        assert (said.status, said.code) == (401, "bad_token")
        assert header not in said.body.decode()


def test_a_scope_that_is_too_small_is_refused(shared: Server, tokens: dict[str, str]) -> None:
    """Read looks, submit submits, admin does the rest; a wrong body is not even looked at."""
    job = {"command": ["true"], "hold": True}
    assert shared.get("/v1/status", token=tokens["read"]).status == 200
    said = shared.post("/v1/jobs", b"{", token=tokens["read"])
    assert (said.status, said.code) == (403, "small_scope")
    made = shared.post("/v1/jobs", job, token=tokens["submit"])
    assert made.status == 201
    for token in (tokens["read"], tokens["submit"]):
        for method, path in (
            ("PUT", "/v1/limits/a"),
            ("DELETE", "/v1/limits/a"),
            ("PUT", "/v1/pauses/a"),
            ("PUT", "/concurrency/limits/a"),
        ):
            said = shared.ask(method, path, {}, token=token)
            assert (said.status, said.code) == (403, "small_scope")
    cancel = f"/v1/jobs/{made.json['id']}/cancel"
    assert shared.post(cancel, {}, token=tokens["read"]).code == "small_scope"
    assert shared.post(cancel, {}, token=tokens["submit"]).status == 200


def test_a_revoked_token_is_refused_at_once_and_its_streams_end(server: Server) -> None:
    """The next request gets 401."""
    token = server.token("read", "--name", "gone")
    assert server.get("/v1/status", token=token).status == 200
    server.box.headgate("token", "revoke", "gone")
    assert server.get("/v1/status", token=token).code == "bad_token"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.nip.io", "", "a b"],
)
def test_a_foreign_host_is_refused(shared: Server, host: str) -> None:
    """A name of somebody else's may lead here (DNS rebinding); addresses and localhost pass."""
    answer = shared.raw(
        f"GET /v1/status HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
    )
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"bad_host" in answer


def test_a_request_with_no_host_or_two_is_refused(shared: Server) -> None:
    """Neither can be checked."""
    for head in ("", "Host: localhost\r\nHost: evil.example\r\n"):
        answer = shared.raw(f"GET /v1/status HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:7433"])
def test_our_own_hosts_pass(shared: Server, host: str) -> None:
    """Nobody can have an address lead elsewhere."""
    assert shared.get("/v1/status", Host=host).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Origin": "http://127.0.0.1.evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_pages_of_others_are_refused(shared: Server, headers: dict[str, str]) -> None:
    """A browser on this machine runs as its owner, so only pages of ours may ask."""
    for method in ("GET", "POST", "PUT", "OPTIONS"):
        said = shared.ask(method, "/v1/limits/a", {}, **headers)
        assert (said.status, said.code) == (403, "foreign_origin")
        assert "access-control-allow-origin" not in said.headers


def test_pages_that_are_listed_may_ask(server: Server) -> None:
    """`origins` names them: preflights are answered, and so are they."""
    page = "http://localhost:5173"
    assert server.get("/v1/status", Origin=page).status == 403
    server.box.config(f'[server]\norigins = ["{page}"]\n')
    until(lambda: server.get("/v1/status", Origin=page).status == 200)
    said = server.ask("OPTIONS", "/v1/limits/a", Origin=page, Access_Control_Request_Method="PUT")
    assert said.status == 204
    assert said.headers["access-control-allow-origin"] == page
    assert "PUT" in said.headers["access-control-allow-methods"]
    own = f"http://{server.host}:{server.port}"
    assert server.get("/v1/status", Origin=own, Sec_Fetch_Site="same-origin").status == 200


def test_forms_of_pages_are_not_read(shared: Server) -> None:
    """What a page can send without being asked for leave is no JSON."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        said = shared.post("/v1/jobs", b'{"command": ["true"]}', Content_Type=kind)
        assert (said.status, said.code) == (415, "unsupported_media_type")


def test_no_get_changes_anything(shared: Server) -> None:
    """Every GET of the API leaves the store as it was."""
    paths = shared.get("/v1/openapi.json").json["paths"]
    job = shared.post("/v1/jobs", {"command": ["true"], "hold": True}).json["id"]
    before = shared.get("/v1/events").json["last"]
    for path in paths:
        if "get" in paths[path] and path != "/v1/events/stream":
            asked = (
                path.replace("{id}", str(job)).replace("{pool}", "a").replace("{providerId}", "a")
            )
            shared.get(f"{asked}?timeout=0" if path.endswith("/wait") else asked)
    assert shared.get("/v1/events").json["last"] == before


def test_a_body_that_is_too_large_is_refused_unread(shared: Server) -> None:
    """By what it says of itself, before it comes; and by what comes, if it says nothing."""
    head = "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    answer = shared.raw(f"{head}Content-Length: 99999999999\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 413")
    with shared.connect() as sock:
        sock.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        part = b"10000\r\n" + b" " * 65536 + b"\r\n"
        answer = b""
        try:
            for _ in range(1_000):
                sock.sendall(part)
        except OSError:
            pass
        else:
            raise AssertionError("a body of 64 MiB was read")
        try:
            answer = b"".join(chunks(sock))
        except OSError:
            return  # it was cut off while we wrote, and its words with it
    assert not answer or answer.startswith(b"HTTP/1.1 413")


def test_a_body_that_never_ends_is_cut_off(box: Box) -> None:
    """So is a head that never ends, and a connection that never asks; others are answered."""
    with closing(Impatient(box)) as server:
        head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        slow = {
            "body": head + b"Content-Length: 100\r\n\r\n{",
            "head": head,
            "nothing": b"",
            "blank": b"\r\n",
        }
        socks = {name: server.connect() for name in slow}
        for name, data in slow.items():
            socks[name].sendall(data)
        assert server.get("/v1/status").status == 200
        for name, sock in socks.items():
            with sock:
                assert b"too_slow" in b"".join(chunks(sock)), name


def test_somebody_who_reads_nothing_is_cut_off(box: Box) -> None:
    """An answer that nobody takes does not stay for ever."""
    with closing(Impatient(box)) as server, server.connect() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        asked = b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        sock.settimeout(0.5)
        try:
            for _ in range(20_000):
                sock.sendall(asked)
        except OSError:  # its answers have filled all buffers: it reads no more of us
            pass
        process, ours = psutil.Process(server.program.pid), sock.getsockname()
        until(lambda: ours not in [tuple(one.raddr) for one in process.net_connections()])
        assert server.get("/v1/status").status == 200


class Impatient(Server):
    """A server that waits for nothing as long as usual."""

    SCRIPT = """
import sys
from headgate.api import guard, protocol
protocol.BoundedProtocol.head_time = protocol.BoundedProtocol.stall = guard.BODY_TIME = 1.0
from headgate.cli import main
sys.exit(main(sys.argv[1:]))
"""

    def __init__(self, box: Box) -> None:
        self.box = box
        words = ("serve", "--listen", "127.0.0.1:0")
        self.program = box.start(sys.executable, "-c", self.SCRIPT, *words)
        self.url = self.program.line()
        self.host, _, port = self.url.removeprefix("http://").rpartition(":")
        self.port = int(port)


def test_a_head_that_is_too_large_is_refused(shared: Server) -> None:
    """One long header, many headers, a long target."""
    lines = [b"A: " + b"a" * 40_000, b"\r\n".join(b"A%d: a" % n for n in range(10_000))]
    for line in lines:
        answer = shared.raw(b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n" + line + b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 431"), answer[:100]
    answer = shared.raw(b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET /v1/status HTTP/9.9\r\nHost: localhost\r\n\r\n",
        POST + b"Content-Length: -1\r\n\r\n",
        POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /v1/status HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nA: a\x00b\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused(shared: Server, data: bytes) -> None:
    """Smuggled lengths, null bytes, other protocols: 400, and the connection is closed."""
    answer = shared.raw(data)
    assert answer.startswith(b"HTTP/1.1 4")
    assert b"HTTP/1.1 2" not in answer


@pytest.mark.parametrize(
    "path",
    [
        "/docs/../../../../etc/passwd",
        "/docs/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/docs/..%5c..%5cserve.py",
        "/docs/docs.js%00.css",
        "//etc/passwd",
        "/v1//status",
        "/v1/status/",
        "/v1/jobs/../status",
        "/V1/STATUS",
        "/v1/jobs/1%2f..%2f2",
        "/docs/%ff%fe",
    ],
)
def test_tricks_with_paths_lead_nowhere(shared: Server, path: str) -> None:
    """Nothing is taken for another path, and no file is read but our own."""
    assert shared.get(path).status in {400, 404, 422}


def test_headers_cannot_be_put_into_an_answer(shared: Server) -> None:
    """What is echoed has no line break that counts."""
    for path in ("/v1/pools/a%0d%0aSet-Cookie:%20x=1", "/concurrency/limits/a%0d%0aX-Y:%20z"):
        said = shared.get(path)
        assert said.status in {404, 422}
        assert not {"set-cookie", "x-y"} & set(said.headers)
    said = shared.get("/v1/status", Authorization="Bearer a")
    assert "set-cookie" not in said.headers


def test_script_in_a_text_stays_text(shared: Server) -> None:
    """In every text field it comes back as JSON, under a type that no browser runs."""
    said = {"command": ["true", SCRIPT], "name": SCRIPT, "task": SCRIPT, "hold": True}
    job = shared.post("/v1/jobs", said)
    shared.put("/v1/limits/scripted", {"limit": 1})
    shared.put("/v1/pauses/scripted", {"note": SCRIPT})
    id = job.json["id"]
    for path in (f"/v1/jobs/{id}", "/v1/jobs", "/v1/queue", "/v1/pools", "/v1/events", "/v1/nope"):
        answer = shared.get(path)
        assert answer.headers["content-type"].startswith("application/")
        assert answer.headers["x-content-type-options"] == "nosniff"
    page = shared.get("/docs")
    assert SCRIPT not in page.body.decode()
    assert "script-src 'self'" in page.headers["content-security-policy"]
    script = shared.get("/docs/docs.js").body.decode()
    assert "innerHTML" not in script
    assert "eval(" not in script


def test_a_page_of_a_million_rows_is_refused(shared: Server) -> None:
    """Pages are bounded, whatever is asked for."""
    for path in ("/v1/jobs?size=1000000", "/v1/queue?size=1000001", "/v1/events?size=99999999"):
        assert shared.get(path).status == 422
    many = {"jobs": [{"command": ["true"]}] * 10_001}
    assert shared.post("/v1/batch", many).status == 422


def test_secrets_are_in_no_answer_and_no_log(box: Box) -> None:
    """Neither a token nor the environment or the command of a job is shown or logged."""
    server = Server(box, "--log", "json")
    token = server.token("admin")
    said = {"command": ["true", "prompt-5417"], "env": {"API_KEY": "sk-5417"}, "hold": True}
    job = server.post("/v1/jobs?key=query-5417", said, token=token).json["id"]
    bad = server.post("/v1/jobs", {"command": 1, "env": {"A": ["sk-5417"]}}, token=token)
    assert bad.status == 422
    answers = [server.get(path).body for path in (f"/v1/jobs/{job}", "/v1/events", "/v1/queue")]
    server.program.process.terminate()
    server.program.wait()
    stderr = server.program.process.stderr
    assert stderr is not None
    log = stderr.read()
    lines = [json.loads(line) for line in log.splitlines() if line.startswith(b"{")]
    assert {"POST", "GET"} <= {line["method"] for line in lines}
    assert all(line["request"] and "caller" in line for line in lines)
    for text in (log, bad.body, *answers):
        assert b"5417" not in text
        assert token.encode() not in text
    server.close()


def test_a_restricted_token_makes_jobs_of_its_templates_only(shared: Server) -> None:
    """No command of its own, no other field, no argument that becomes an option."""
    token = shared.token("submit", "--template", "review")
    for said in (
        {"command": ["id"]},
        {"template": "review", "arguments": {"what": "a"}, "env": {"PATH": "/"}},
        {"template": "review", "arguments": {"what": "a"}, "cwd": "/"},
        {"template": "other"},
    ):
        answer = shared.post("/v1/jobs", said, token=token)
        assert (answer.status, answer.code) == (403, "only_templates")
    for arguments in ({}, {"what": "a", "more": "b"}, {"what": "--delete"}):
        answer = shared.post(
            "/v1/jobs", {"template": "review", "arguments": arguments}, token=token
        )
        assert (answer.status, answer.code) == (409, "refused")
    made = {"template": "review", "arguments": {"what": "a; $(id)"}, "hold": True}
    assert shared.post("/v1/jobs", made, token=token).status == 201
    for path in ("/v1/cancel", "/v1/signals/a", "/v1/jobs/1/hold", "/v1/calls/jobs.hold"):
        answer = shared.post(path, {"args": [1]} if "calls" in path else {}, token=token)
        assert (answer.status, answer.code) == (403, "only_templates")
    found = shared.get("/v1/templates", token=token).json["templates"]
    assert found == [{"name": "review", "arguments": ["what"]}]


def test_what_a_job_was_told_to_do_is_told_to_nobody(server: Server) -> None:
    """Not to an admin's token either: a command may hold a prompt, or a key."""
    token = server.token("admin")
    made = {"command": ["true", "a-secret-prompt"], "hold": True}
    assert server.post("/v1/jobs", made, token=token).status == 201
    answer = server.post("/v1/calls/jobs.command", {"args": [1]}, token=token)
    assert (answer.status, answer.code) == (404, "not_found")
    for path in ("/v1/jobs/1", "/v1/jobs", "/v1/queue", "/v1/work/1", "/v1/events"):
        assert "a-secret-prompt" not in str(server.get(path, token=token).json)


def test_everybody_but_the_owner_can_be_kept_to_templates(server: Server) -> None:
    """`only_templates` counts for every token, and not for the owner's own processes."""
    token = server.token("admin")
    server.box.config("[server]\nonly_templates = true\n[templates.t]\ncommand = ['true']\n")
    job = {"command": ["true"], "hold": True}
    until(lambda: server.post("/v1/jobs", job, token=token).status == 403)
    assert server.post("/v1/jobs", {"template": "t", "hold": True}, token=token).status == 201
    assert server.post("/v1/jobs", job).status == 201


_ASK = """
import os, socket, sys
port, path = int(sys.argv[1]), sys.argv[2]
os.setgroups([]), os.setgid(65534), os.setuid(65534)
if path.startswith("/v1") or path.startswith("/conc"):
    sock = socket.socket()
    sock.connect(("127.0.0.1", port))
    rest = "HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n"
    sock.sendall(f"GET {path} {rest}".encode())
else:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
print(sock.recv(12).decode())
"""


def as_nobody(port: int, path: str) -> subprocess.CompletedProcess[str]:
    """Ask as another user of this machine."""
    return subprocess.run(
        [sys.executable, "-c", _ASK, str(port), path],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )


@needs_root
def test_another_local_user_needs_a_token(server: Server) -> None:
    """The kernel says whose a connection is; what is open is open to them, and nothing else."""
    assert os.geteuid() != NOBODY
    assert as_nobody(server.port, "/v1/status").stdout.startswith("HTTP/1.1 401")
    assert as_nobody(server.port, "/concurrency/status").stdout.startswith("HTTP/1.1 401")
    server.box.config('[server]\nopen = ["/concurrency"]\n')
    until(lambda: "200" in as_nobody(server.port, "/concurrency/status").stdout)
    assert as_nobody(server.port, "/v1/status").stdout.startswith("HTTP/1.1 401")


@needs_root
def test_another_local_user_cannot_connect_to_a_socket_at_a_path(box: Box) -> None:
    """It is its owner's alone, whatever the umask."""
    box.folder.chmod(0o755)
    with closing(Server(box, listen=f"unix:{box.folder}/api.sock")) as server:
        assert server.url == f"unix:{box.folder}/api.sock"
        assert (box.folder / "api.sock").stat().st_mode & 0o777 == 0o600
        assert "200" in over_path(f"{box.folder}/api.sock", "/v1/status")
        assert as_nobody(0, f"{box.folder}/api.sock").returncode


def over_path(path: str, target: str) -> str:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
        head = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        sock.sendall(head.encode())
        return b"".join(chunks(sock)).decode()


@pytest.mark.parametrize("words", [[], ["--plaintext"]])
def test_it_listens_beyond_this_machine_only_with_care(box: Box, words: list[str]) -> None:
    """Without TLS, an explicit word, and a token it says why not, and what to do."""
    if not words:
        box.headgate("token", "create", "--scope", "read")
    done = box.start(HEADGATE, "serve", "--listen", "0.0.0.0:0", *words)
    assert done.wait() == 2
    stderr = done.process.stderr
    assert stderr is not None
    text = stderr.read().decode()
    assert "refused to listen on 0.0.0.0" in text
    assert ("token create" if words else "--certificate") in text


def test_over_tls_it_listens_anywhere_and_asks_for_a_token(box: Box) -> None:
    """From an address that is not loopback nobody is the owner."""
    chain, key = make_certificate(box.folder)
    token = box.headgate("token", "create", "--scope", "read").strip()
    words = ("--certificate", chain, "--key", key)
    with closing(Server(box, *words, listen="0.0.0.0:0")) as server:
        assert server.url.startswith("https://0.0.0.0:")
        for shown, status in (("", "401"), (f"Authorization: Bearer {token}\r\n", "200")):
            assert status in over_tls(server.port, shown)[:20]


def over_tls(port: int, header: str) -> str:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    plain = socket.create_connection((own_address(), port), timeout=LONG)
    with context.wrap_socket(plain) as sock:
        head = f"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n{header}Connection: close\r\n\r\n"
        sock.sendall(head.encode())
        return b"".join(chunks(sock)).decode()


def own_address() -> str:
    """An address of this machine's that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("NOT TESTED: this machine has no address but loopback")
        return str(sock.getsockname()[0])


def make_certificate(folder: Path) -> tuple[str, str]:
    """A certificate that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    begin = datetime.now(UTC) - timedelta(days=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=3))
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(
        encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    places = folder / "chain.pem", folder / "key.pem"
    for place, data in zip(places, (made.public_bytes(encoding), private), strict=True):
        place.write_bytes(data)
    return str(places[0]), str(places[1])
