"""Jobs that ask before they start, and jobs that were handed in before there was a worker."""

import json
import time

from tests.support import until
from tests.work.conftest import JobBox

ONE = "[pools.host]\nlimit = 1\n"


def texts(box: JobBox, event: str, id: int) -> list[str]:
    """What was told of a job by events of one kind."""
    lines = map(json.loads, box.headgate("events", "--json", "-n", "1000").splitlines())
    return [one["text"] for one in lines if one["event"] == event and one["work"] == id]


def test_a_job_asks_when_there_is_room_and_starts_with_a_yes(box: JobBox) -> None:
    """It asks once, others take its place, and with a yes it is before those who came later."""
    box.config(ONE)
    asking = box.submit("--name", "careful", "--confirm", "--", "true")
    box.worker()
    until(lambda: texts(box, "confirm", asking))
    (told,) = texts(box, "confirm", asking)
    assert f"headgate release {asking}, within 1h" in told
    job = box.job(asking)
    assert (job["state"], job["code"], job["attempts"]) == ("held", "confirm", 0)
    assert not box.rows("lease")
    gate = box.folder / "go"
    wait = f"until [ -e {gate} ]; do sleep 0.05; done"
    first = box.submit("--", "sh", "-c", wait)  # yields its place
    box.until_state(first, "running")
    later = box.submit("--", "true")
    said = box.ask("release", "careful")
    assert said.code == 0
    assert box.job(asking)["position"] == 1
    gate.touch()
    box.headgate("wait", str(asking), str(later))
    assert box.job(asking)["started"] <= box.job(later)["started"]
    assert len(texts(box, "confirm", asking)) == 1


def test_several_that_ask_keep_nobody_waiting(box: JobBox) -> None:
    """Those behind them start in the same moment."""
    box.config(ONE)
    asking = [box.submit("--confirm", "--", "true") for _ in range(5)]
    plain = box.submit("--", "true")
    box.worker()
    box.until_state(plain, "done")
    assert {box.job(id)["code"] for id in asking} == {"confirm"}
    listed = json.loads(box.headgate("queue", "--json", "--state", "held"))
    assert [job["id"] for job in listed["aside"]] == asking


def test_without_a_yes_it_expires(box: JobBox) -> None:
    """The time begins when it asks, and can be had again with retry, which asks again."""
    id = box.submit("--confirm-within", "300ms", "--", "true")
    time.sleep(0.4)
    assert box.state(id) == "queued"
    worker = box.worker()
    box.until_state(id, "expired")
    assert box.job(id)["reason"] == "nobody said yes within 300ms"
    box.headgate("retry", str(id))
    until(lambda: len(texts(box, "confirm", id)) == 2)
    assert worker.process.poll() is None


def test_a_yes_outlives_everything_until_it_has_started(box: JobBox) -> None:
    """Held and let go again, after a restart of the worker, with retries: it does not ask twice."""
    worker = box.worker()
    id = box.submit(
        "--confirm", "--retries", "1", "--", "sh", "-c", 'exit "$((2 - HEADGATE_ATTEMPT))"'
    )
    until(lambda: texts(box, "confirm", id))
    worker.process.terminate()
    worker.wait()
    box.headgate("release", str(id))
    box.headgate("hold", str(id))
    box.headgate("release", str(id))
    box.config("[jobs]\nbackoff = '50ms'\n")
    box.worker()
    box.until_state(id, "done")
    assert box.job(id)["attempts"] == 2
    assert len(texts(box, "confirm", id)) == 1


def test_while_it_asks_it_can_be_held_moved_and_cancelled(box: JobBox) -> None:
    """What people do to waiting jobs works; a held one that asks later does so anew."""
    box.worker()
    first, second = (box.submit("--confirm", "--", "true") for _ in range(2))
    until(lambda: texts(box, "confirm", first) and texts(box, "confirm", second))
    box.headgate("hold", str(first))
    assert box.job(first)["code"] == "held"
    box.headgate("move", str(first), "-p", "interactive")
    box.headgate("release", str(first))
    until(lambda: len(texts(box, "confirm", first)) == 2)
    box.headgate("cancel", str(second))
    assert box.state(second) == "cancelled"
    assert box.ask("release", str(second)).code == 2


def test_a_batch_can_ask(box: JobBox) -> None:
    """As fields of a line."""
    ids = box.batch(
        {"command": ["true"], "confirm": True}, {"command": ["true"], "confirm_within": "5m"}
    )
    box.worker()
    for id, within in zip(ids, ("1h", "5m"), strict=True):
        until(lambda id=id: texts(box, "confirm", id))  # type: ignore[misc]
        assert texts(box, "confirm", id)[0].endswith(f"within {within}")
    refused = box.ask("submit", "--confirm-within", "soon", "--", "true")
    assert refused.code == 2
    assert "confirm_within" in refused.err


def test_who_came_before_the_first_worker_is_told_its_place(box: JobBox) -> None:
    """At first that no worker runs; with the worker the place, once, if it is not let in."""
    box.config(ONE)
    gate = box.folder / "go"
    wait = f"until [ -e {gate} ]; do sleep 0.05; done"
    first = box.submit("--", "sh", "-c", wait)
    others = [box.submit("--", "true") for _ in range(2)]
    for id in (first, *others):
        (told,) = texts(box, "queued", id)
        assert told.endswith("no worker is there to start it (headgate worker)")
    worker = box.worker()
    until(lambda: texts(box, "queued", others[1])[1:])
    assert texts(box, "queued", first)[1:] == []
    assert texts(box, "queued", others[0])[1].startswith("position 1: ")
    assert texts(box, "queued", others[1])[1].startswith("position 2: ")
    worker.process.terminate()
    worker.wait()
    box.worker()
    assert [len(texts(box, "queued", id)) for id in (first, *others)] == [1, 2, 2]
    gate.touch()
    box.headgate("wait", *map(str, others))
