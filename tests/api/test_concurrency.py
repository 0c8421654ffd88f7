"""The contract under /concurrency: what a front end that was written for it relies on."""

from datetime import datetime
from typing import Any

import pytest

from tests.api.support import Server
from tests.support import Box, until

UNKNOWN = {"error": "No concurrency configuration for this provider"}
INVALID = {"error": "Invalid JSON body"}
BAD_COOLDOWN = {"error": "Body must be { cooldownMs: <non-negative integer> }"}


def test_limits_are_set_listed_read_and_removed(shared: Server) -> None:
    """PUT tells what it has set, GET finds it, DELETE says ok; then there is none."""
    assert shared.get("/concurrency/limits/umans").json == UNKNOWN
    said = shared.put("/concurrency/limits/umans", {"limit": 4})
    assert (said.status, said.json) == (200, {"providerId": "umans", "limit": 4})
    assert shared.get("/concurrency/limits/umans").json == {"providerId": "umans", "limit": 4}
    assert {"providerId": "umans", "limit": 4} in shared.get("/concurrency/limits").json["limits"]
    gone = shared.ask("DELETE", "/concurrency/limits/umans")
    assert (gone.status, gone.json) == (200, {"ok": True, "providerId": "umans"})
    assert shared.get("/concurrency/limits/umans").status == 404
    assert shared.get("/concurrency/limits").json == {"limits": []}


def test_status_has_the_exact_names(shared: Server) -> None:
    """What does not apply is absent, never null; only providers with a limit are in it."""
    shared.put("/concurrency/limits/exact", {"limit": 2})
    shared.put("/concurrency/cooldown/exact", {"cooldownMs": 0})
    shared.put("/concurrency/cooldown/limitless", {"cooldownMs": 100})
    shared.put("/v1/limits/exact%2Fmodel", {"limit": 1})
    found = {one["providerId"]: one for one in providers(shared)}
    assert set(found) == {"exact"}
    assert found["exact"] == {
        "providerId": "exact",
        "limit": 2,
        "inFlight": 0,
        "queued": 0,
        "paused": False,
        "cooldownMs": 0,
        "autoReduced": False,
    }
    shared.ask("DELETE", "/concurrency/limits/exact")


def test_a_cooldown_is_kept_and_makes_no_limit(shared: Server) -> None:
    """Without a limit it is told, and nothing is limited; a limit that comes later has it."""
    assert shared.get("/concurrency/cooldown/rests").json == UNKNOWN
    said = shared.put("/concurrency/cooldown/rests", {"cooldownMs": 500})
    assert (said.status, said.json) == (200, {"providerId": "rests", "cooldownMs": 500})
    assert shared.get("/concurrency/cooldown/rests").json == said.json
    assert shared.get("/concurrency/limits/rests").status == 404
    assert "rests" not in [one["providerId"] for one in providers(shared)]
    shared.put("/concurrency/limits/rests", {"limit": 4})
    (found,) = [one for one in providers(shared) if one["providerId"] == "rests"]
    assert found["cooldownMs"] == 500
    shared.ask("DELETE", "/concurrency/limits/rests")


def test_a_limit_without_a_cooldown_shows_the_one_that_counts(shared: Server) -> None:
    """GET cooldown of a provider that only has a limit tells the default."""
    shared.put("/concurrency/limits/plain", {"limit": 1})
    (found,) = [one for one in providers(shared) if one["providerId"] == "plain"]
    said = shared.get("/concurrency/cooldown/plain").json
    assert said == {"providerId": "plain", "cooldownMs": found["cooldownMs"]}
    assert found["cooldownMs"] > 0
    shared.ask("DELETE", "/concurrency/limits/plain")


@pytest.mark.parametrize(
    "body, expected",
    [
        (b"", INVALID),
        (b"{", INVALID),
        (b'{"cooldownMs": NaN}', INVALID),
        (b"[" * 100_000, INVALID),
        (b"null", BAD_COOLDOWN),
        (b"[]", BAD_COOLDOWN),
        (b"7", BAD_COOLDOWN),
        (b"{}", BAD_COOLDOWN),
        (b'{"cooldownMs": "7"}', BAD_COOLDOWN),
        (b'{"cooldownMs": true}', BAD_COOLDOWN),
        (b'{"cooldownMs": null}', BAD_COOLDOWN),
        (b'{"cooldownMs": 0.5}', BAD_COOLDOWN),
        (b'{"cooldownMs": -1}', BAD_COOLDOWN),
        (b'{"cooldownMs": ' + b"9" * 5_000 + b"}", BAD_COOLDOWN),
    ],
)
def test_bad_bodies_are_refused_in_the_contracts_words(
    shared: Server, body: bytes, expected: dict[str, str]
) -> None:
    """No JSON, or no whole number that is not negative: 400, and the same sentence each time."""
    said = shared.put("/concurrency/cooldown/bad", body)
    assert (said.status, said.json) == (400, expected)
    assert said.headers["content-type"] == "application/json"


@pytest.mark.parametrize("body", [b'{"cooldownMs": 7.0}', b'\xef\xbb\xbf{"cooldownMs": 7, "x": 1}'])
def test_what_javascript_takes_is_taken(shared: Server, body: bytes) -> None:
    """A whole number with a point, a byte order mark, names that mean nothing; and any type."""
    said = shared.put("/concurrency/cooldown/js", body, Content_Type="text/plain;charset=UTF-8")
    assert (said.status, said.json) == (200, {"providerId": "js", "cooldownMs": 7})


@pytest.mark.parametrize("limit", ["0", "-1", "1.5", '"4"', "true", "null", "1000001"])
def test_bad_limits_are_refused(shared: Server, limit: str) -> None:
    """A limit is a whole number of at least one."""
    said = shared.put("/concurrency/limits/bad", f'{{"limit": {limit}}}'.encode())
    assert said.status == 400
    assert said.json == {"error": "Body must be { limit: <positive integer> }"}


@pytest.mark.parametrize("name", ["host", "HOST", "*", "open*", "a?b", "-x", "%20x"])
def test_only_plain_names_are_providers(shared: Server, name: str) -> None:
    """`host` and patterns are no providers: not found, and not set."""
    name = name.replace("*", "%2A").replace("?", "%3F")
    assert shared.get(f"/concurrency/limits/{name}").json == UNKNOWN
    assert shared.get(f"/concurrency/cooldown/{name}").json == UNKNOWN
    assert shared.put(f"/concurrency/limits/{name}", {"limit": 1}).status == 400
    assert shared.put(f"/concurrency/cooldown/{name}", {"cooldownMs": 1}).status == 400
    assert shared.ask("DELETE", f"/concurrency/limits/{name}").status == 400


def test_seats_in_use_and_resting_count_and_waiters_are_queued(server: Server, box: Box) -> None:
    """`inFlight` goes up with each seat, stays while it rests, and `queued` tells who waits."""
    server.put("/concurrency/limits/umans", {"limit": 1})
    server.put("/concurrency/cooldown/umans", {"cooldownMs": 60_000})
    first = box.holder("umans/m")
    assert one(server)["inFlight"] == 1
    second = box.waiter("umans/m")
    assert one(server)["queued"] == 1
    first.end()
    assert (one(server)["inFlight"], one(server)["queued"]) == (1, 1)
    gone = server.ask("DELETE", "/concurrency/limits/umans")
    assert gone.status == 200
    assert second.line() == "up"
    assert providers(server) == []


def test_a_higher_limit_lets_waiters_in(server: Server, box: Box) -> None:
    """PUT wakes the line."""
    server.put("/concurrency/limits/umans", {"limit": 1})
    box.holder("umans/m")
    waiter = box.waiter("umans/m")
    server.put("/concurrency/limits/umans", {"limit": 2})
    assert waiter.line() == "up"
    assert (one(server)["inFlight"], one(server)["queued"]) == (2, 0)


def test_a_429_reduces_pauses_and_gives_notice_until_a_limit_is_set(server: Server) -> None:
    """One cut for an incident, however many refusals; PUT clears it; it outlives a server."""
    server.box.config('[defaults]\nadapt = "step-down"\n')
    server.put("/concurrency/limits/umans", {"limit": 4})
    assert "notice" not in one(server)
    for _ in range(3):
        server.post("/v1/signals/umans", {"signal": "concurrency-limited", "retry_after": 600})
    found = one(server)
    assert found["limit"] == 3
    assert found["autoReduced"] is True
    assert found["autoReducedFrom"] == 4
    assert "auto-reduced to 3" in found["notice"]
    assert found["paused"] is True
    status = server.get("/v1/pools/umans").json
    assert abs(found["pausedUntil"] - epoch_ms(status["paused_until"])) <= 1
    server.program.kill()
    again = Server(server.box)
    assert near(one(again)) == near(found)
    again.put("/concurrency/limits/umans", {"limit": 4})
    found = one(again)
    assert (found["limit"], found["autoReduced"]) == (4, False)
    assert not {"autoReducedFrom", "notice"} & set(found)
    again.ask("DELETE", "/concurrency/limits/umans")
    again.put("/concurrency/limits/umans", {"limit": 2})
    assert one(again)["paused"] is False
    assert "pausedUntil" not in one(again)
    again.close()


def test_a_pause_by_hand_gives_no_notice(server: Server) -> None:
    """`notice` speaks of a reduction only; a pause without an end has no time."""
    server.put("/concurrency/limits/umans", {"limit": 4})
    server.put("/v1/pauses/umans", {"note": "not now"})
    found = one(server)
    assert found["paused"] is True
    assert not {"pausedUntil", "notice"} & set(found)


def test_front_ends_without_a_token_need_the_path_to_be_open(server: Server) -> None:
    """`open` lets programs of this machine in without a token, under that path only."""
    assert server.get("/concurrency/status", Via="x").status == 401
    server.box.config('[server]\nopen = ["/concurrency"]\n')
    peer = {"X-Forwarded-For": "127.0.0.1"}  # what was passed on is nobody's of this machine
    until(lambda: server.get("/concurrency/status").status == 200)
    assert server.get("/concurrency/status", **peer).status == 401


def test_without_a_store_status_is_empty_and_the_rest_unavailable(server: Server) -> None:
    """The store's file is gone: no providers, and 503 in the contract's words."""
    server.put("/concurrency/limits/umans", {"limit": 4})
    for name in ("", "-wal", "-shm"):
        server.box.path.with_name(server.box.path.name + name).unlink(missing_ok=True)
    assert server.get("/concurrency/status").json == {"providers": []}
    for path in ("/concurrency/limits", "/concurrency/limits/umans", "/concurrency/cooldown/umans"):
        said = server.get(path)
        assert (said.status, said.json) == (503, {"error": "Concurrency service not available"})


def providers(server: Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.get("/concurrency/status").json["providers"]
    return found


def near(found: dict[str, Any]) -> dict[str, Any]:
    """The same but for a millisecond, in which the clocks of two processes may differ."""
    return {**found, "pausedUntil": round(found["pausedUntil"] / 100)}


def one(server: Server) -> dict[str, Any]:
    (found,) = providers(server)
    return found


def epoch_ms(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() * 1_000
