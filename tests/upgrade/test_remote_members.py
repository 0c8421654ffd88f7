"""A client on another machine, of which processes of the version before know nothing."""

import signal

import apsw
import pytest

from tests.upgrade.conftest import Version, marked
from tests.work.conftest import JobBox

pytestmark = pytest.mark.timeout(90)

_SERVER = """
import asyncio
from headgate.core.times import NO_TIME
from headgate.gate.remote_clients import RemoteClients
from headgate.ledger.admission.admit import Request
from headgate.ledger.transaction.remote_rows import RemoteMember

async def serve():
    clients = RemoteClients(gate._transactor, gate._runtime.registry)
    await clients.join(RemoteMember("remote-1", "laptop", "", "", NO_TIME))
    for key in sys.argv[1:]:
        await clients.ask(Request("a/b", "remote-1", "far"), key, "", 0, patient=True)

asyncio.run(serve())
print("up", flush=True)
sys.stdin.readline()
"""


def write(box: JobBox, change: str) -> None:
    db = apsw.Connection(str(box.path))
    db.set_busy_timeout(10_000)
    db.execute(change)
    db.close()


def test_the_version_before_counts_it_as_alive(box: JobBox, old: Version, new: Version) -> None:
    """With its server killed: its lease is held and its ticket waits, whoever looks or watches."""
    new.do("status")
    old.do("limits", "set", "a/b", "1")
    server = new.python(_SERVER, "k", "l")
    assert server.line() == "up"
    server.send(signal.SIGKILL)
    server.wait()
    waiters = [old.waiter(), new.waiter()]
    for version in (old, new):
        assert [row["task"] for row in version.asked("queue")["running"]] == [""]
        assert len(version.asked("queue")["waiting"]) == 3
        assert version.ask("run", "-m", "a/b", "--no-wait", "--", "true").code == 75
    write(box, "UPDATE remote_member SET heard = heard - 40000")
    (held,) = box.rows("lease")
    assert [row["state"] for row in new.asked("queue")["running"]] == ["suspect"]
    assert len(old.asked("queue")["running"]) == 1
    new.do("release", str(held[0]))  # its own ticket stands aside, being suspect
    assert waiters[0].line() == "up"
    assert waiters[0].end() == 0
    assert [row[0] for row in box.rows("lease")] == [held[0] + 1]  # the old one takes it for alive
    write(box, "UPDATE remote_member SET heard = heard - 700000")
    assert waiters[1].line() == "up"
    assert waiters[1].end() == 0
    new.do("status")
    assert box.left_over() == {}


def test_it_is_not_put_on_watch_by_the_version_before(
    box: JobBox, old: Version, new: Version
) -> None:
    """Who is of this version takes over, and finds a death."""
    new.do("status")
    assert marked(box)
    old.do("limits", "set", "c/d", "1")
    server = new.python(_SERVER, "k")
    assert server.line() == "up"
    here = "SELECT 'watchman:' || machine, 'remote-1' FROM member WHERE id <> 'remote-1'"
    write(box, f"INSERT OR REPLACE INTO note {here}")
    holder = new.holder("c/d")
    waiter = new.waiter("c/d")
    holder.kill()
    holder.go()
    assert waiter.line() == "up"
    assert waiter.end() == 0
    server.end()
