"""The endpoints for clients on other machines, as a client in another language uses them."""

import json
import socket
import threading
import time
from typing import Any

import pytest

from headgate.core.server_settings import Scope
from headgate.core.times import Seconds
from headgate.errors import FencedError, HeadgateError, NoRoomError, ServerError, UsageError
from headgate.remote.server import Server
from tests.remote.conftest import RemoteBox
from tests.support import LONG, until

pytestmark = pytest.mark.timeout(60)


class Client:
    """A member, and what it asks."""

    def __init__(self, box: RemoteBox, **more: object) -> None:
        self.server = Server(box.url)
        self.id = self.server.ask("POST", "/v1/members", {"name": "c", **more})["member"]

    def ask(self, request: str = "", **more: object) -> Any:  # noqa: ANN401 - any JSON
        body = {"member": self.id, "key": "a/b", **more}
        patience = Seconds(LONG)
        return self.server.ask("POST", "/v1/tickets", body, key=request, patience=patience)

    def renew(self, **more: object) -> Any:  # noqa: ANN401 - any JSON
        return self.server.ask("POST", f"/v1/members/{self.id}/renewal", more)

    def release(self, id: int) -> None:
        self.server.ask("DELETE", f"/v1/leases/{id}?member={self.id}")

    def look(self, id: int, wait: float = 0) -> Any:  # noqa: ANN401 - any JSON
        return self.server.ask("GET", f"/v1/tickets/{id}?member={self.id}&wait={wait}")


@pytest.fixture
def client(box: RemoteBox) -> Client:
    box.local().set_limit("a/b", 1)
    return Client(box)


def test_a_lease_from_its_ticket_to_its_end(client: Client) -> None:
    """Granted, shown with its program, given back; a second time there is none."""
    found = client.ask(task="t", marked=True)
    assert (found["state"], found["ticket"]) == ("granted", None)
    lease = found["lease"]
    assert lease["task"] == "t"
    assert lease["mark"].endswith(f".{found['id']}")
    body = {"member": client.id, "pid": 4711}
    client.server.ask("PUT", f"/v1/leases/{found['id']}/program", body)
    signal = {"member": client.id, "signal": "accepted", "tokens": 5}
    client.server.ask("POST", f"/v1/leases/{found['id']}/signals", signal)
    client.release(found["id"])
    with pytest.raises(ServerError, match="holds nothing"):
        client.release(found["id"])
    assert client.renew()["leases"] == []


def test_the_same_key_is_the_same_request(client: Client) -> None:
    """Of a lease, of a place in the line; but not for something else."""
    first, second = client.ask("k"), client.ask("l")
    assert [client.ask("k")["id"], client.ask("l")["id"]] == [first["id"], second["id"]]
    assert client.ask("k")["lease"] == first["lease"]
    with pytest.raises(UsageError, match="another request"):
        client.ask("k", weight=2)
    assert [one["request"] for one in client.renew()["tickets"]] == ["l"]


def test_a_long_poll_is_answered_at_once(client: Client, box: RemoteBox) -> None:
    """When the seat comes free, by whomever: of the ticket, of a new request, of the member."""
    holder = box.local().slot("a/b").acquire()
    waits = client.ask()
    seen = client.renew()["seen"]
    answers: list[float] = []

    def wait(ask: Any) -> None:  # noqa: ANN401 - a function
        ask()
        answers.append(time.monotonic())

    polls = [lambda: client.look(waits["id"], 30), lambda: client.renew(seen=seen, wait=30)]
    threads = [threading.Thread(target=wait, args=(one,)) for one in polls]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    began = time.monotonic()
    holder.release()
    for thread in threads:
        thread.join(LONG)
    assert all(at - began < 2 for at in answers)
    assert client.look(waits["id"])["state"] == "granted"


def test_a_poll_that_is_answered_in_time_says_where_it_stands(client: Client) -> None:
    """With the place, and why."""
    client.ask()
    waits = client.ask(wait=0.2)
    assert waits["ticket"]["position"] == 1
    assert waits["ticket"]["code"] == "pool_full"
    assert client.look(waits["id"], 0.1)["ticket"]["position"] == 1
    (ticket,) = client.renew(places=True)["tickets"]
    assert (ticket["id"], ticket["position"]) == (waits["id"], 1)


def test_who_does_not_wait_leaves_nothing(client: Client) -> None:
    """No room is said as on the command line."""
    client.ask()
    with pytest.raises(NoRoomError, match=r"a/b .*1/1"):
        client.ask(patient=False)
    assert client.renew()["tickets"] == []


def test_a_stream_tells_each_step(client: Client, box: RemoteBox) -> None:
    """`waiting` with the place, then `granted`, and then it ends."""
    held, waits = client.ask(), client.ask()
    with socket.create_connection(("127.0.0.1", box.port), timeout=LONG) as stream:
        path = f"/v1/tickets/{waits['id']}?member={client.id}"
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
        stream.sendall(f"{head}Connection: close\r\n\r\n".encode())
        found = b""
        while b"event: waiting" not in found:
            found += stream.recv(65_536)
        client.release(held["id"])
        while more := stream.recv(65_536):
            found += more
    told = [line for line in found.decode().splitlines() if line.startswith(("event", "data"))]
    assert told[0::2] == ["event: waiting", "event: granted"]
    assert json.loads(told[3].removeprefix("data: "))["lease"]["id"] == waits["id"]


def test_nobody_touches_what_is_anothers(client: Client, box: RemoteBox) -> None:
    """Neither looks at it nor ends it."""
    other = Client(box)
    held, waits = client.ask(), client.ask()
    for id in (held["id"], waits["id"]):
        with pytest.raises(ServerError, match="nothing"):
            other.look(id)
        with pytest.raises(ServerError, match="nothing"):
            other.release(id)
    assert client.renew()["leases"][0]["id"] == held["id"]


def test_who_comes_too_late_is_told(client: Client, box: RemoteBox) -> None:
    """By its renewal and by its next request; what it had is gone."""
    late = Client(box, fence=1)
    assert late.ask()["state"] == "granted"
    time.sleep(3.2)
    for ask in (late.renew, late.ask):
        with pytest.raises(FencedError, match="does not know this client"):
            ask()
    until(lambda: not box.rows("lease"))


def test_who_leaves_gives_all_back(client: Client, box: RemoteBox) -> None:
    """And can leave twice."""
    client.ask()
    client.ask()
    for _ in range(2):
        client.server.ask("DELETE", f"/v1/members/{client.id}")
    assert box.rows("lease") == box.rows("ticket") == []


@pytest.mark.parametrize(
    "words",
    [
        {"key": "opus"},
        {"weight": 0},
        {"priority": "urgent"},
        {"task": "two\nlines"},
        {"limits": "a/b=x"},
        {"wait": 61},
        {"member": "remote-1"},
        {"unknown": 1},
        {"machine": "a b"},
        {"weight": 99},
    ],
)
def test_words_that_are_none(client: Client, words: dict[str, object]) -> None:
    """They are refused, and nothing is written."""
    with pytest.raises(HeadgateError):
        client.ask("k", **words)
    assert client.renew()["tickets"] == client.renew()["leases"] == []


def test_a_token_that_only_reads_gets_no_seat(box: RemoteBox) -> None:
    """It can look, and call what only looks."""
    _, token = box.local().tokens.create(Scope.READ)
    server = Server(box.url, token)
    assert server.ask("POST", "/v1/calls/status", {})["value"]["$"] == "Status"
    for path, body in (
        ("/v1/members", {}),
        ("/v1/calls/jobs.submit", {"args": []}),
        ("/v1/calls/set_limit", {"args": ["a/b", 1]}),
    ):
        with pytest.raises(ServerError, match="scope"):
            server.ask("POST", path, body)


@pytest.mark.parametrize("name", ["close", "_call", "slot", "tokens.create", "__class__", "x"])
def test_not_every_method_can_be_called(box: RemoteBox, name: str) -> None:
    """Only those that are listed."""
    with pytest.raises(ServerError, match="cannot call"):
        Server(box.url).ask("POST", f"/v1/calls/{name}", {})


@pytest.mark.parametrize(
    "body",
    [
        {"args": [1, 2, 3, 4, 5, 6, 7]},
        {"named": {"self": 1}},
        {"args": [{"$": "Status", "is": {}}]},
        {"args": [{"$": "Popen", "is": {}}]},
        {"args": [{"$": "map", "is": 7}]},
    ],
)
def test_calls_that_make_no_sense_are_refused(box: RemoteBox, body: object) -> None:
    """As requests that make none; the server goes on."""
    with pytest.raises(HeadgateError):
        Server(box.url).ask("POST", "/v1/calls/capacity", body)
    assert Server(box.url).ask("GET", "/v1/health")["ok"]
