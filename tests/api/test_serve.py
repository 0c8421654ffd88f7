"""The process: how it begins, how it ends, and that nothing depends on it."""

import json
import signal
import sys

from tests.api.support import Server
from tests.support import HEADGATE, Box, until


def test_all_goes_on_when_the_server_is_killed(server: Server, box: Box) -> None:
    """Runs, jobs and slots outlive it, and a new one knows all of them."""
    box.start(HEADGATE, "worker", "-q")
    holder = box.holder("a/b")
    id = server.post("/v1/jobs", {"command": ["sleep", "100"]}).json["id"]
    until(lambda: server.get(f"/v1/jobs/{id}").json["state"] == "running")
    server.program.kill()
    again = Server(box)
    assert again.get(f"/v1/jobs/{id}").json["state"] == "running"
    assert again.get("/v1/status").json["total_running"] == 2
    assert holder.alive()
    again.post(f"/v1/jobs/{id}/cancel", {"grace": 0})
    again.close()


def test_sigterm_drains(server: Server) -> None:
    """Streams are told to ask again, waits are answered, and it ends with 0."""
    stream = server.stream("/v1/events/stream")
    id = server.post("/v1/jobs", {"command": ["true"], "hold": True}).json["id"]
    assert stream.next()["event"] == "held"
    with server.connect() as sock:
        sock.sendall(f"GET /v1/jobs/{id}/wait HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert server.get("/v1/ready").status == 200
        server.program.send(signal.SIGTERM)
        text = b""
        while not text.endswith(b"}"):
            text += sock.recv(65536)
        assert b'"state": "held"' in text
    assert stream.next()["event"] == "draining"
    assert stream.next() == {}
    stream.close()
    assert server.program.wait() == 0


def test_it_does_not_outlive_its_parent(box: Box) -> None:
    """With --parent-fd it ends when the other end is closed."""
    program = box.start(HEADGATE, "serve", "--listen", "127.0.0.1:0", "--parent-fd", "0")
    assert program.line().startswith("http://127.0.0.1:")
    program.go()
    assert program.wait() == 0


def test_up_has_a_server_and_goes_on_without_one(box: Box) -> None:
    """Its server ends with it; a place that is taken does not keep it from its jobs."""
    up = box.start(HEADGATE, "up", "--listen", "127.0.0.1:0")
    said = ""
    while " answers at http://127.0.0.1:" not in said:
        said = up.line(stream="stderr")
        assert said
    port = said.rpartition(":")[2].strip()
    second = box.start(HEADGATE, "up", "--listen", f"127.0.0.1:{port}")
    until(lambda: "goes on without a server" in second.line(stream="stderr"))
    assert second.alive()
    for program in (up, second):
        program.send(signal.SIGTERM)
        assert program.wait() == 0


def test_a_configuration_that_changes_counts_at_once(server: Server) -> None:
    """Without a restart; one with mistakes is told of and changes nothing."""
    server.box.config('[pools."x"]\nlimit = 7\n')
    until(lambda: server.get("/v1/pools/x").status == 200)
    assert server.get("/v1/pools/x").json["limit"] == 7
    server.box.config("[server]\nhosts = 7\n")
    until(lambda: _after_a_change(server))
    assert server.get("/v1/pools/x").json["limit"] == 7


def test_a_missing_package_is_named(box: Box) -> None:
    """With what to install, and exit code 2."""
    script = (
        "import sys; sys.modules['fastapi'] = None; from headgate.cli import main; "
        "sys.exit(main(['serve']))"
    )
    program = box.start(sys.executable, "-c", script)
    assert program.wait() == 2
    text = program.line(stream="stderr")
    assert "fastapi is missing" in text
    assert "pip install 'fastapi>=0.115'" in text


def test_a_place_that_is_taken_is_named(server: Server) -> None:
    """With what to do about it."""
    program = server.box.start(HEADGATE, "serve", "--listen", f"127.0.0.1:{server.port}")
    assert program.wait() == 2
    assert f"cannot listen on 127.0.0.1:{server.port}: " in program.line(stream="stderr")


def test_tokens_are_shown_once_and_kept_hashed(box: Box) -> None:
    """Nothing in the store or in lists is the token; names are unique; revoked ones are gone."""
    made = json.loads(
        box.headgate("token", "create", "--scope", "submit", "--name", "ci", "--json")
    )
    secret = made["token"].rpartition("_")[2]
    listed = box.headgate("token", "list", "--json")
    assert [one["name"] for one in json.loads(listed)["tokens"]] == ["ci"]
    assert secret not in listed
    assert secret not in str(box.rows("token"))
    again = box.start(HEADGATE, "token", "create", "--scope", "read", "--name", "ci")
    assert again.wait() == 2
    box.headgate("token", "revoke", "ci")
    assert json.loads(box.headgate("token", "list", "--json"))["tokens"] == []


def test_a_token_that_can_run_anything_says_so_loudly(box: Box) -> None:
    """Whoever makes one is warned; not of one that only reads, or that has templates."""
    box.config("[templates.t]\ncommand = ['true']\n")
    for words, warned in (
        (("submit",), True),
        (("admin",), True),
        (("read",), False),
        (("submit", "--template", "t"), False),
    ):
        program = box.start(HEADGATE, "token", "create", "--scope", *words)
        assert program.wait() == 0
        stderr = program.process.stderr
        assert stderr is not None
        assert (b"ANY COMMAND" in stderr.read()) is warned


def _after_a_change(server: Server) -> bool:
    """Whether the mistake was told by now; who writes next tells it."""
    server.put("/v1/cooldowns/y", {"cooldown_ms": 1})
    return "config_refused" in server.get("/v1/events").body.decode()
