"""What a subscription's headers say of a quota, seen on the wire: a warning, and a lower limit."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from tests.support import until
from tests.wire.stage import KEY, Asker
from tests.work.conftest import JobBox

ANSWER = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
HEAD = "anthropic-ratelimit-unified"


class Subscription(BaseHTTPRequestHandler):
    """Answers every request, and says how much of the quota is left."""

    protocol_version = "HTTP/1.1"
    status: ClassVar[str] = "allowed_warning"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        for name, value in {
            "content-type": "text/event-stream",
            "content-length": str(len(ANSWER)),
            f"{HEAD}-status": self.status,
            f"{HEAD}-representative-claim": "five_hour",
            f"{HEAD}-reset": str(int(time.time()) + 7_200),
            f"{HEAD}-5h-utilization": "0.93" if self.status != "allowed" else "0.2",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def subscription() -> Iterator[tuple[type[Subscription], str]]:
    handler = type("Handler", (Subscription,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield handler, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_warning_lowers_the_limit_until_there_is_enough_again(
    box: JobBox, subscription: tuple[type[Subscription], str]
) -> None:
    """One event, the limit that is configured for it, and the old one when upstream says so."""
    upstream, box.env["ANTHROPIC_BASE_URL"] = subscription
    box.config(f'[pools.host]\nlimit = 9\n[pools."{KEY}"]\nlimit = 4\nwarned_limit = 1\n')
    agents = [Asker(box, "--meter", "wire") for _ in range(2)]
    assert [agent.ask()["status"] for agent in agents] == [200, 200]
    (warned,) = until(lambda: box.events("quota_warned"))
    assert "the quota of 5h is nearly gone (93% used)" in warned[-1]
    assert f"the limit of {KEY} is 1 until then" in warned[-1]
    assert limit_of(box) == 1
    assert box.ask("run", "-m", KEY, "--no-wait", "--", "true").code == 75
    upstream.status = "allowed"
    until(lambda: agents[0].ask()["status"] == 200 and limit_of(box) == 4)
    assert box.ask("run", "-m", KEY, "--no-wait", "--", "true").code == 0
    assert len(box.events("quota_warned")) == 1


def limit_of(box: JobBox) -> int:
    (pool,) = [one for one in box.asked("status")["pools"] if one["pool"] == KEY]
    limit: int = pool["limit"]
    return limit
