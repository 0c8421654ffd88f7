"""A tap: the provider's hosts are opened for the agent, and everything else passes closed."""

import http.client
import json
import os
import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from headgate.wire.beside import put_beside
from headgate.wire.plan_meter import plan_for
from headgate.wire.supervise import Wire, take_over
from tests.support import HEADGATE, Box, until
from tests.wire.outside import Outside
from tests.wire.stage import watchdogs
from tests.wire.tapped import ASK, ELSEWHERE, KEY, Told, files, prepare, wire_process

pytestmark = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="a tap needs Linux, which tells whose a connection is"
)
OURS = "headgate, for one run"


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    with Outside(tmp_path) as it:
        yield it


@pytest.fixture
def agent(box: Box, outside: Outside) -> str:
    return prepare(box, outside)


@pytest.fixture
def told(box: Box, agent: str) -> Told:
    return Told(box.run("--meter", "wire", "-m", KEY, "--", agent))


def serial(outside: Outside) -> str:
    """The serial number of the certificate that the provider itself shows."""
    context = ssl.create_default_context(cafile=str(outside.authority))
    with (
        socket.create_connection(("127.0.0.1", outside.port)) as connection,
        context.wrap_socket(connection, server_hostname="example.test") as shown,
    ):
        found = shown.getpeercert()
    assert found is not None
    return str(found["serialNumber"])


def test_the_agent_is_seen_and_a_refusal_reaches_the_pool(
    box: Box, outside: Outside, told: Told
) -> None:
    """A 429 to a request inside TLS pauses the pool of its model, and the agent gets it whole."""
    assert told.ask(ASK)["status"] == 200
    outside.status, outside.headers = 429, {"retry-after": "300"}
    outside.answer = b'{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}'
    answer = told.ask(ASK)
    assert (answer["status"], answer["answer"].encode()) == (429, outside.answer)
    assert "rate-limited" in until(lambda: _why(box))
    assert told.program.end() == 0


def _why(box: Box) -> str:
    pools = json.loads(box.headgate("status", "--json"))["pools"]
    (found,) = (pool for pool in pools if pool["pool"] == "*/claude-opus-*")
    return json.dumps(found) if "rate-limited" in json.dumps(found) else ""


def test_the_same_bytes_pass_with_and_without(box: Box, outside: Outside, agent: str) -> None:
    """Path, headers in their order, and both bodies are those of a run without a tap."""
    body = json.dumps({"model": "claude-opus-5-5", "x": "ä" * 300_000, "y": os.urandom(9).hex()})
    headers = json.dumps({"X-Api-Key": "k", "x-b": "1", "Content-Encoding": "identity"})
    outside.answer = json.dumps({"model": "m", "content": "\u2028ü" * 100_000}).encode()
    said = []
    for meter in ("agent", "wire"):
        told = Told(box.run("--meter", meter, "-m", KEY, "--", agent))
        wish = {**ASK, "path": "/v1/messages?beta=true", "body": body, "headers": headers}
        said.append(told.ask(wish))
        assert told.program.end() == 0
    assert [one["answer"].encode() for one in said] == [outside.answer] * 2
    assert said[0]["serial"] != said[1]["serial"]
    assert outside.asked[0] == outside.asked[1]
    assert outside.asked[0].body == body.encode()


def test_another_host_is_not_opened(outside: Outside, told: Told) -> None:
    """The agent is shown the certificate of the host itself, and nothing is read on the way."""
    assert told.ask(ELSEWHERE)["serial"] == serial(outside)
    assert told.ask(ASK)["serial"] != serial(outside)
    assert told.ask({**ASK, "host": "API.Anthropic.COM"})["signed"] == OURS


def test_another_port_is_not_opened(outside: Outside, told: Told) -> None:
    """An opened host is opened at port 443 only."""
    assert told.ask({**ASK, "port": 8443})["serial"] == serial(outside)


def test_the_users_own_proxy_is_asked_for_all(outside: Outside, told: Told) -> None:
    """What is opened and what is not goes on through the user's proxy, with the user's login."""
    told.ask(ASK)
    told.ask(ELSEWHERE)
    login = "Proxy-Authorization: Basic dXNlcjp3b3Jk"
    assert outside.connected == [
        f"CONNECT api.anthropic.com:443 {login}",
        f"CONNECT example.test:443 {login}",
    ]


def test_a_tool_is_not_opened(outside: Outside, told: Told) -> None:
    """A tool of another executable that asks an opened host sees that host's own certificate."""
    trusts = ["--cacert", str(outside.authority), "--max-time", "20"]
    said = told.ask({"run": ["curl", "-sS", *trusts, "https://api.anthropic.com/tool"]})
    assert (said["err"], said["out"].encode()) == ("", outside.answer)
    assert outside.asked[-1].path == "/tool"


def test_a_run_within_the_run_is_passed_on(outside: Outside, told: Told) -> None:
    """A program of another lease that was started in here has its connections, all closed."""
    curl = ["curl", "-sS", "--cacert", str(outside.authority), "--max-time", "20"]
    said = told.ask({"run": [HEADGATE, "run", "-q", "--", *curl, "https://api.anthropic.com/in"]})
    assert (said["err"], said["out"].encode()) == ("", outside.answer)


def test_nobody_else_may_use_it(outside: Outside, told: Told) -> None:
    """A process that is none of the agent's is refused, for any host, and nothing goes out."""
    at = urlsplit(told.env["HTTPS_PROXY"])
    for host in ("api.anthropic.com", "example.test"):
        foreign = http.client.HTTPSConnection(at.hostname or "", at.port, timeout=20)
        foreign.set_tunnel(host, 443)
        with pytest.raises(OSError, match="403"):
            foreign.connect()
        foreign.close()
    assert outside.connected == []


def test_it_goes_on_after_its_process_was_killed(box: Box, outside: Outside, told: Told) -> None:
    """A process that takes over shows the same certificate, which the agent trusts."""
    first = told.ask(ASK)
    killed = wire_process(box)
    os.kill(killed, signal.SIGKILL)
    wire_process(box, but=killed)
    again = told.ask(ASK)
    assert (again["status"], again["serial"]) == (200, first["serial"])


def test_its_watchdog_has_the_key_too(box: Box, outside: Outside, told: Told) -> None:
    """If its runner and its process are killed together, the same certificate is shown."""
    first = told.ask(ASK)
    until(lambda: watchdogs(box))
    killed = wire_process(box)
    os.kill(killed, signal.SIGKILL)
    told.program.kill()
    wire_process(box, but=killed)
    again = told.ask(ASK)
    assert (again["status"], again["serial"]) == (200, first["serial"])


@pytest.mark.parametrize("meter", ["wire", "requests"])
def test_a_runner_that_takes_over_is_handed_the_key(
    box: Box, outside: Outside, agent: str, meter: str
) -> None:
    """It can start the process again. If all are gone, what needs no seat passes closed."""
    told, wire = _started(box, outside, agent, meter)
    first = told.ask(ASK)
    other = take_over(wire.folder)
    assert other is not None
    wire.leave()
    os.kill(wire.pid, signal.SIGKILL)
    os.waitpid(wire.pid, 0)
    other.news()
    assert told.ask(ASK)["serial"] == first["serial"]
    other.leave()
    until(lambda: watchdogs(box))
    for pid in (*watchdogs(box), other.pid):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(other.pid, 0)
    third = take_over(wire.folder)
    assert third is not None
    blind = told.ask({**ASK, "trusts": str(outside.authority)})
    if meter == "wire":
        assert blind["serial"] == serial(outside)
    else:
        assert "502" in blind["error"]
    assert told.ask(ELSEWHERE)["serial"] == serial(outside)
    third.end()
    os.waitpid(third.pid, 0)


def _started(box: Box, outside: Outside, agent: str, meter: str) -> tuple[Told, Wire]:
    """A stand-in and its wire, of which this process is the runner."""
    gate = box.gate()
    lease = gate.slot(KEY, marked=True).acquire()
    env = {**box.env, "HTTPS_PROXY": outside.proxy.replace("user:word@", "")}
    plan = plan_for(gate, [agent], KEY, said=meter, environment=env)
    wired = put_beside(gate, lease, plan, [agent], key=KEY)
    assert wired.wire is not None
    told = Told(box.start(*wired.argv, env={**env, **wired.environment, **lease.environment}))
    return told, wired.wire


def test_whom_the_user_trusts_is_trusted_still(box: Box, outside: Outside, agent: str) -> None:
    """The user's own file is in ours, for the agent, and the tap trusts it on its way upstream."""
    del box.env["SSL_CERT_FILE"]
    box.env["NODE_EXTRA_CA_CERTS"] = str(outside.authority)
    told = Told(box.run("--meter", "wire", "-m", KEY, "--", agent))
    file = told.env["NODE_EXTRA_CA_CERTS"]
    assert told.ask({**ASK, "trusts": file})["signed"] == OURS
    assert told.ask({**ELSEWHERE, "trusts": file})["serial"] == serial(outside)
    context = ssl.create_default_context(cafile=told.env["SSL_CERT_FILE"])
    system = ssl.create_default_context()
    assert context.cert_store_stats()["x509_ca"] == system.cert_store_stats()["x509_ca"] + 1
    assert outside.authority.read_bytes().count(b"BEGIN") == 1


def test_no_secret_is_on_the_disk(box: Box, outside: Outside, told: Told) -> None:
    """Neither a key nor the password of the user's proxy is in any file; all are private."""
    assert told.ask(ASK)["status"] == 200
    found = files(box)
    folder = Path(told.env["SSL_CERT_FILE"]).parent
    assert {path.stat().st_mode & 0o777 for path in found if folder in path.parents} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    for path, content in found.items():
        assert b"PRIVATE KEY" not in content, path
        assert b"user:word" not in content, path
    assert told.program.end() == 0
    until(lambda: not folder.exists())


def test_only_the_hosts_of_the_profile_can_be_signed_for(told: Told) -> None:
    """The authority that the agent trusts is for the opened hosts and no others, for 90 days."""
    from cryptography import x509

    text = (Path(told.env["SSL_CERT_FILE"]).parent / "authority.pem").read_bytes()
    made = x509.load_pem_x509_certificate(text)
    names = made.extensions.get_extension_for_class(x509.NameConstraints)
    assert names.critical
    assert names.value.permitted_subtrees == [x509.DNSName("api.anthropic.com")]
    assert (made.not_valid_after_utc - made.not_valid_before_utc).days == 91


@pytest.mark.parametrize(
    "variables, why",
    [
        ({"NO_PROXY": "anthropic.com"}, "NO_PROXY keeps api.anthropic.com away from any proxy"),
        ({"HTTPS_PROXY": "socks5://127.0.0.1:9"}, "https_proxy is not a proxy that can be used"),
    ],
)
def test_where_it_cannot_be_it_is_not_tried(
    box: Box, outside: Outside, agent: str, variables: dict[str, str], why: str
) -> None:
    """Surroundings in which a tap would see nothing, or break the way out: the agent is metered."""
    plan = plan_for(box.gate(), [agent], KEY, said="wire", environment={**box.env, **variables})
    assert plan.meter == "agent"
    assert why in plan.choice.why


def test_a_command_that_sets_the_variables_itself_has_no_tap(box: Box, agent: str) -> None:
    """`env` in the command would undo what the agent is given."""
    argv = ["env", "HTTPS_PROXY=http://127.0.0.1:9", agent]
    plan = plan_for(box.gate(), argv, KEY, said="wire", environment=box.env)
    assert plan.choice.why.endswith("the command itself sets HTTPS_PROXY")


def test_a_worker_that_is_started_in_there_has_the_way_out_of_before(
    box: Box, outside: Outside, told: Told
) -> None:
    """It outlives the agent, and its jobs ask the user's own proxy."""
    said = box.folder / "said"
    box.headgate("submit", "--", "sh", "-c", f'echo "$HTTPS_PROXY $SSL_CERT_FILE" >{said}')
    assert told.env["HTTPS_PROXY"] != outside.proxy
    told.ask({"run": ["sh", "-c", f"{HEADGATE} worker -q >/dev/null 2>&1 </dev/null &"]})
    found = until(lambda: said.read_text() if said.exists() else "")
    assert found.split() == [outside.proxy, str(outside.authority)]
