"""What the command line can do, over HTTP."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from headgate.api import problems, schemas
from headgate.api.routes.job_said import JobSaid
from headgate.core.display import json_shapes
from headgate.work.job_fields import FIELDS
from tests.api.support import FOREIGN, Server
from tests.support import HEADGATE, Box, until


def test_a_job_from_its_submit_to_its_end(server: Server, box: Box) -> None:
    """It is handed in, waited for, shown with its attempt, and its output is read."""
    box.start(HEADGATE, "worker", "-q")
    said = {"command": ["sh", "-c", "echo one; echo two; exit 3"], "name": "n", "task": "t"}
    made = server.post("/v1/jobs", said)
    assert made.status == 201
    id = made.json["id"]
    assert made.headers["location"] == f"/v1/jobs/{id}"
    ended = until(lambda: _ended(server.get(f"/v1/jobs/{id}/wait?timeout=20").json))
    assert ended is not None
    assert (ended["state"], ended["exit"], ended["name"], ended["task"]) == (
        "failed",
        "3:0",
        "n",
        "t",
    )
    shown = server.get(f"/v1/jobs/{id}").json
    assert shown["attempt_list"][0]["exit"] == "3:0"
    assert server.get(f"/v1/jobs/{id}/log").body == b"one\ntwo\n"
    assert server.get(f"/v1/jobs/{id}/log?lines=1").body == b"two\n"
    assert server.get(f"/v1/jobs/{id}/log?follow=true").body == b"one\ntwo\n"
    assert server.get(f"/v1/jobs/{id}/log?attempt=2").code == "not_found"
    assert server.post(f"/v1/jobs/{id}/retry").json["id"] == id


def _ended(found: dict[str, Any]) -> dict[str, Any] | None:
    return found if found["ended"] else None


def test_output_is_followed_until_the_job_ends(server: Server, box: Box) -> None:
    """It comes as it is written; cancel ends the job, and so the answer."""
    box.start(HEADGATE, "worker", "-q")
    id = server.post("/v1/jobs", {"command": ["sh", "-c", "echo up; sleep 100"]}).json["id"]
    with server.connect() as sock:
        head = f"GET /v1/jobs/{id}/log?follow=true HTTP/1.1\r\nHost: localhost\r\n\r\n"
        sock.sendall(head.encode())
        text = b""
        while b"up\n" not in text:
            text += sock.recv(4096)
        assert server.post(f"/v1/jobs/{id}/cancel", {"grace": 0}).json["outcome"] == "ended"
        while not text.endswith(b"0\r\n\r\n"):
            text += sock.recv(4096)


def test_jobs_are_held_moved_and_let_go(shared: Server) -> None:
    """Each verb shows the job as it is then, or says as a problem why it cannot be."""
    one = shared.post("/v1/jobs", {"command": ["true"]}).json["id"]
    assert shared.post(f"/v1/jobs/{one}/hold").json["state"] == "held"
    assert shared.post(f"/v1/jobs/{one}/release").json["state"] == "queued"
    moved = shared.post(f"/v1/jobs/{one}/move", {"priority": "interactive"}).json
    assert moved["priority"] == 10
    said = shared.post(f"/v1/jobs/{one}/retry")
    assert (said.status, said.code, said.json["exit_code"]) == (409, "refused", 2)
    assert shared.post(f"/v1/jobs/{one}/cancel", {}).json["outcome"] == "withdrawn"
    for verb in ("hold", "release", "retry"):
        assert shared.post(f"/v1/jobs/999999/{verb}").status == 404


def test_a_batch_is_handed_in_whole_or_not_at_all(shared: Server) -> None:
    """A later job may come after an earlier one, by its name; one mistake keeps all."""
    first = {"command": ["true"], "name": "first", "task": "batch"}
    second = {"command": ["true"], "after": ["first"], "task": "batch"}
    made = shared.post("/v1/batch", {"jobs": [first, second]})
    assert made.status == 201
    assert [job["code"] for job in made.json["jobs"]][1] == "after"
    third = {"command": ["true"], "after": ["nobody"], "task": "batch"}
    said = shared.post("/v1/batch", {"jobs": [first, third]})
    assert (said.status, said.code) == (409, "refused")
    assert "job 2: " in said.json["detail"]
    assert len(shared.get("/v1/jobs?task=batch").json["jobs"]) == 2
    done = shared.post("/v1/cancel", {"task": "batch"}).json["outcomes"]
    assert [one["outcome"] for one in done] == ["withdrawn", "withdrawn"]


def test_lists_are_filtered_and_come_in_pages(shared: Server) -> None:
    """Page after page all jobs come once, and those only that fit."""
    said = [{"command": ["true"], "hold": n % 2 == 0, "task": f"page-{n}"} for n in range(7)]
    ids = [job["id"] for job in shared.post("/v1/batch", {"jobs": said}).json["jobs"]]
    found: list[int] = []
    following: int | None = ids[0] - 1
    while following is not None:
        page = shared.get(f"/v1/jobs?size=2&after={following}").json
        assert len(page["jobs"]) <= 2
        found += [job["id"] for job in page["jobs"]]
        following = page["next"]
    assert found == ids
    held = shared.get(f"/v1/jobs?state=held&after={ids[0]}").json["jobs"]
    assert [job["id"] for job in held] == ids[2::2]
    assert [job["id"] for job in shared.get("/v1/jobs?task=page-3").json["jobs"]] == [ids[3]]
    waiting = shared.get("/v1/queue?state=queued&size=2").json
    assert len(waiting["waiting"]) == 2
    assert waiting["total_waiting"] >= 3
    shared.post("/v1/cancel", {"ids": ids})


def test_a_key_has_a_job_handed_in_once(server: Server) -> None:
    """Many at a time, again after a restart; another body under it is refused."""
    job = {"command": ["true"], "hold": True}

    def submit(_: int) -> Any:  # noqa: ANN401 - JSON
        return server.post("/v1/jobs", job, Idempotency_Key="k-1").json["id"]

    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(submit, range(8)))
    assert len(ids) == 1
    server.program.kill()
    again = Server(server.box)
    assert again.post("/v1/jobs", job, Idempotency_Key="k-1").json["id"] in ids
    said = again.post("/v1/jobs", {**job, "weight": 2}, Idempotency_Key="k-1")
    assert (said.status, said.code) == (409, "refused")
    other = again.post("/v1/jobs", job, token=again.token("submit"), Idempotency_Key="k-1")
    assert other.json["id"] not in ids  # the key is its maker's
    assert len(again.get("/v1/jobs").json["jobs"]) == 2
    again.close()


def test_pools_are_set_and_shown(shared: Server) -> None:
    """Limits, cooldowns, pauses, signals; and what there is not is not found."""
    pool = "set%2Fmodel-*"
    assert shared.get(f"/v1/pools/{pool}").code == "not_found"
    assert shared.put(f"/v1/limits/{pool}", {"limit": 2}).json["limit"] == 2
    assert shared.put(f"/v1/cooldowns/{pool}", {"cooldown_ms": 350}).json["cooldown_ms"] == 350
    assert shared.put(f"/v1/pauses/{pool}", {"seconds": 60, "note": "why"}).json["paused"] is True
    capacity = shared.get("/v1/capacity?key=set/model-1").json
    assert (capacity["state"], capacity["code"]) == ("paused", "pool_paused")
    paused = [one["pool"] for one in shared.get("/v1/pauses").json["pools"]]
    assert paused == ["set/model-*"]
    assert shared.ask("DELETE", f"/v1/pauses/{pool}").status == 204
    assert shared.ask("DELETE", f"/v1/pauses/{pool}").code == "not_found"
    cut = shared.post(f"/v1/signals/{pool}", {"signal": "concurrency-limited"}).json
    assert (cut["limit"], cut["auto_reduced"]) == (1, True)
    verdicts = shared.post("/v1/plan", {"candidates": [{"key": "set/model-1", "id": 7}]}).json
    assert (verdicts["defer"], verdicts["candidates"][0]["id"]) == (1, 7)
    assert shared.post(f"/v1/restores/{pool}").status == 204
    assert shared.ask("DELETE", f"/v1/limits/{pool}").status == 204
    assert shared.get(f"/v1/limits/{pool}").json["limit"] is None


def test_status_says_what_the_command_line_says(shared: Server) -> None:
    """The shapes are those of --json."""
    told = json.loads(shared.box.headgate("status", "--json"))
    found = shared.get("/v1/status").json
    assert {**found, "at": "", "pools": []} == {**told, "at": "", "pools": []}
    for one, other in zip(found["pools"], told["pools"], strict=True):
        assert list(one) == list(other)
        assert all(one[name] == other[name] for name in ("pool", "limit", "source", "in_use"))
    assert list(found) == list(told)


def test_events_come_as_they_happen_and_go_on_where_they_ended(shared: Server) -> None:
    """Each has its seq for an id; with Last-Event-ID the next one comes, none twice, none lost."""
    stream = shared.stream("/v1/events/stream?kind=cooldown_set")
    for n in (1, 2, 3):
        shared.put("/v1/cooldowns/streamed", {"cooldown_ms": n})
    first = stream.next()
    assert first["event"] == "cooldown_set"
    shown = json.loads(first["data"])
    assert (shown["pool"], shown["text"], str(shown["seq"])) == ("streamed", "1ms", first["id"])
    stream.close()
    again = shared.stream("/v1/events/stream", Last_Event_ID=first["id"])
    assert [json.loads(again.next()["data"])["text"] for _ in (2, 3)] == ["2ms", "3ms"]
    shared.put("/v1/cooldowns/streamed", {"cooldown_ms": 4})
    assert json.loads(again.next()["data"])["text"] == "4ms"
    again.close()


def test_many_watchers_see_every_event(shared: Server) -> None:
    """Fifty streams, and a hundred events: each stream has all of them in order."""
    streams = [shared.stream("/v1/events/stream?kind=cooldown_set") for _ in range(50)]
    for n in range(100):
        shared.put("/v1/cooldowns/many", {"cooldown_ms": n})
    for stream in streams:
        texts = [json.loads(stream.next()["data"])["text"] for _ in range(100)]
        assert texts == [f"{n}ms" if n else "0ms" for n in range(100)]
        stream.close()


@pytest.mark.parametrize(
    "body, status, code",
    [
        (b"", 422, "invalid_request"),
        (b"{", 400, "invalid_json"),
        (b"[]", 422, "invalid_request"),
        (b'{"command": []}', 422, "invalid_request"),
        (b'{"command": ["true"], "commnad": 1}', 422, "invalid_request"),
        (b'{"command": ["true\\u0000"]}', 422, "invalid_request"),
        (b'{"command": ["\\ud800"]}', 409, "refused"),
        (b'{"command": ["true"], "weight": "1"}', 422, "invalid_request"),
        (b'{"command": ["true"], "key": "host/x"}', 422, "invalid_request"),
        (b'{"command": [""]}', 409, "refused"),
        (b'{"command": ["true"], "template": "x"}', 409, "refused"),
        (b'{"command": ["true"], "after": [999999]}', 409, "refused"),
        (b'{"command": ["true"], "cwd": "/nonexistent"}', 409, "refused"),
        (b'{"command": ["true"], "weight": 1000}', 409, "too_heavy"),
    ],
)
def test_what_cannot_be_submitted_is_told(
    shared: Server, body: bytes, status: int, code: str
) -> None:
    """As RFC 9457 has it, with a code, and the exit code of the command line."""
    said = shared.post("/v1/jobs", body, Content_Type="application/json")
    assert (said.status, said.code) == (status, code)
    assert {"type", "title", "status", "detail", "code", "exit_code"} <= set(said.json)
    assert said.json["type"] == f"urn:headgate:problem:{code}"


def test_paths_and_methods_that_are_not_there(shared: Server) -> None:
    """404, and 405 with what is allowed; anybody else hears of neither."""
    assert shared.get("/v1/nope").code == "not_found"
    said = shared.ask("PATCH", "/v1/limits/a", {})
    assert (said.status, said.code) == (405, "method_not_allowed")
    assert said.headers["allow"] == "DELETE, GET, PUT"
    assert shared.get("/v1/nope", **FOREIGN).status == 401


def test_the_shapes_are_those_of_the_page_on_json() -> None:
    """Every name is in the OpenAPI, in the same order."""
    for shape, names in (
        (schemas.EventShape, json_shapes.EVENT),
        (schemas.WorkShape, json_shapes.WORK),
        (schemas.PoolShape, json_shapes.POOL),
        (schemas.SettingsShape, json_shapes.SETTINGS),
        (schemas.CapacityDocument, json_shapes.CAPACITY),
        (schemas.VerdictShape, json_shapes.VERDICT),
        (schemas.QueueDocument, json_shapes.QUEUE),
        (schemas.StatusDocument, json_shapes.STATUS),
        (schemas.PlanDocument, json_shapes.PLAN),
        (schemas.AttemptShape, json_shapes.ATTEMPT),
        (schemas.MeteredShape, json_shapes.METERED),
        (schemas.RequestShape, json_shapes.REQUEST),
        (schemas.OutcomeShape, json_shapes.OUTCOME),
    ):
        assert [name for name in shape.model_fields if name != "schema_"] == list(names)


def test_every_field_of_a_job_can_be_said() -> None:
    """All that a batch can say, but what would come from the server's own environment."""
    here = {"env_from", "path"}
    twice = {"role": "roles", "model": "key"}
    said = set(JobSaid.model_fields) - {"template", "arguments", "check_command"}
    assert said == set(FIELDS) - here - set(twice)


def test_every_problem_is_on_the_page() -> None:
    """docs/api.md lists each code with its status."""
    from tests.test_source import ROOT

    page = (ROOT / "docs" / "api.md").read_text()
    for code, kind in problems.KINDS.items():
        assert f"| `{code}` | {kind.status} | {kind.title} |" in page
