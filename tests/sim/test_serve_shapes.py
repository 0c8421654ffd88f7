"""What goes over the wire: each API's answers, streams, refusals and headers."""

import asyncio
import json
from typing import Any

import pytest

from headgate.core.admission.pools import UsageSource
from headgate.core.answers.signals import Reading
from headgate.sim.server import play as playing
from headgate.sim.server.behaviour import fixed
from headgate.sim.server.serve import running
from headgate.sim.upstream import ProviderPlan
from headgate.usage import read
from tests.sim.serve_client import PROMPT, QUICK, ask, client, events, happened, play, post

APIS = ("/v1/messages", "/v1/chat/completions", "/v1/responses")
GEMINI = "/v1beta/models/gem:generateContent"
CONTENTS = {"contents": [{"parts": [{"text": "hi"}]}]}


def text_of(path: str, answer: Any) -> str:  # noqa: ANN401
    match path.rsplit("/", 1)[1]:
        case "messages":
            found = answer["content"][0]["text"]
        case "completions":
            found = answer["choices"][0]["message"]["content"]
        case "responses":
            found = answer["output"][0]["content"][0]["text"]
        case _:
            found = answer["candidates"][0]["content"]["parts"][0]["text"]
    return str(found)


@pytest.mark.parametrize("path", [*APIS, GEMINI])
def test_an_answer_has_the_tokens_asked_for(path: str) -> None:
    """In one piece, with the usage, and cut short where the request allows no more."""

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, client(server) as session:
            body = {**ask("[[sim tokens=4]]"), **CONTENTS}
            body["contents"] = [{"parts": [{"text": "[[sim tokens=4]]"}]}]
            status, _, answer = await post(session, body, path)
            assert status == 200
            assert text_of(path, answer) == "0 1 2 3"
            short = {
                **body,
                **dict.fromkeys(("max_tokens", "max_output_tokens"), 2),
                "generationConfig": {"maxOutputTokens": 2},
            }
            _, _, answer = await post(session, short, path)
            assert text_of(path, answer) == "0 1"
            assert any(
                word in json.dumps(answer)
                for word in ('"max_tokens"', '"length"', '"incomplete"', '"MAX_TOKENS"')
            )

    play(test)


def test_a_stream_of_messages() -> None:
    """Anthropic's events, in their order."""

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, client(server) as session:
            _, headers, text = await post(
                session, ask("[[sim tokens=3 duration=0.3]]", stream=True)
            )
            assert headers["content-type"].startswith("text/event-stream")
            found = events(text)
            assert [name for name, _ in found] == [
                "message_start",
                "content_block_start",
                "ping",
                *["content_block_delta"] * 3,
                "content_block_stop",
                "message_delta",
                "message_stop",
            ]
            assert all(data["type"] == name for name, data in found)
            assert "".join(data["delta"]["text"] for _, data in found[3:6]) == "0 1 2"
            assert found[-2][1]["usage"] == {"output_tokens": 3}

    play(test)


def test_a_stream_of_chat_completions() -> None:
    """OpenAI's chunks, with the usage only if it is asked for, and `[DONE]`."""

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, client(server) as session:
            body = ask("[[sim tokens=3]]", stream=True)
            _, _, text = await post(session, body, APIS[1])
            found = events(text)
            assert found.pop() == ("", "[DONE]")
            assert all(data["object"] == "chat.completion.chunk" for _, data in found)
            parts = [data["choices"][0]["delta"].get("content", "") for _, data in found]
            assert "".join(parts) == "0 1 2"
            assert found[-1][1]["choices"][0]["finish_reason"] == "stop"
            _, _, text = await post(
                session, {**body, "stream_options": {"include_usage": True}}, APIS[1]
            )
            last = events(text)[-2][1]
            assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 3)

    play(test)


def test_a_stream_of_a_response() -> None:
    """OpenAI's typed events, numbered without a gap."""

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, client(server) as session:
            _, _, text = await post(session, ask("[[sim tokens=3]]", stream=True), APIS[2])
            found = events(text)
            names = [name.removeprefix("response.") for name, _ in found]
            assert names[:4] == [
                "created",
                "in_progress",
                "output_item.added",
                "content_part.added",
            ]
            assert set(names[4:-4]) == {"output_text.delta"}
            assert names[-4:] == [
                "output_text.done",
                "content_part.done",
                "output_item.done",
                "completed",
            ]
            assert [data["sequence_number"] for _, data in found] == list(range(len(found)))
            assert "".join(data["delta"] for _, data in found[4:-4]) == "0 1 2"
            assert found[-1][1]["response"]["usage"]["output_tokens"] == 3

    play(test)


def test_a_stream_of_content() -> None:
    """Gemini's, where the last chunk says why it ends."""

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, client(server) as session:
            path = "/v1beta/models/gem:streamGenerateContent?alt=sse"
            _, _, text = await post(session, CONTENTS, path)
            last = events(text)[-1][1]
            assert last["candidates"][0]["finishReason"] == "STOP"
            assert server.journal.lines()[0].model == "gem"

    play(test)


def test_a_stream_comes_bit_by_bit() -> None:
    """The first token when it is due, the rest paced over the whole duration."""

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, client(server) as session:
            loop = asyncio.get_running_loop()
            text = "[[sim duration=0.5 first_token=0.2 tokens=6]]"
            began, seen = loop.time(), []
            async with session.post(APIS[0], json=ask(text, stream=True)) as answer:
                async for chunk in answer.content.iter_any():
                    seen += [loop.time() - began] * chunk.count(b"text_delta")
            assert len(seen) == 6
            assert seen[0] >= 0.19
            assert seen[-1] >= seen[0] + 0.15

    play(test)


def test_a_silent_stream_says_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anthropic's pings; OpenAI's streams are silent."""
    monkeypatch.setattr(playing, "PING", 50)

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, client(server) as session:
            body = ask("[[sim duration=0.4 first_token=0.4]]", stream=True)
            _, _, text = await post(session, body)
            assert text.count("event: ping") >= 5
            _, _, text = await post(session, body, APIS[1])
            assert "ping" not in text

    play(test)


REFUSED = {
    "concurrency": (429, "rate_limit_error", 429, "concurrency_limit_exceeded"),
    "rate": (429, "rate_limit_error", 429, "rate_limit_exceeded"),
    "tokens": (429, "rate_limit_error", 429, "rate_limit_exceeded"),
    "quota": (429, "rate_limit_error", 429, "insufficient_quota"),
    "overloaded": (529, "overloaded_error", 503, "server_is_overloaded"),
    "error": (500, "api_error", 500, None),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refusal_is_in_the_words_of_its_api(kind: str) -> None:
    """The status, the type and the code that each provider uses."""

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, client(server) as session:
            body = ask(f"[[sim refuse={kind}]]")
            status, name, other, code = REFUSED[kind]
            found, headers, answer = await post(session, body)
            assert (found, answer["type"], answer["error"]["type"]) == (status, "error", name)
            assert headers["request-id"] == answer["request_id"]
            assert "retry-after" not in headers
            for path in APIS[1:]:
                found, headers, answer = await post(session, body, path)
                assert (found, answer["error"]["code"]) == (other, code)
                assert set(answer["error"]) == {"message", "type", "param", "code"}
            content = {"contents": [{"parts": [{"text": f"[[sim refuse={kind}]]"}]}]}
            found, _, answer = await post(session, content, GEMINI)
            assert found == answer["error"]["code"] == other
            lines = server.journal.lines()
            assert [line.status for line in lines] == [status, other, other, other]
            assert {line.kind for line in lines} == {kind}

    play(test)


def test_retry_after_is_as_planned() -> None:
    """None unless the plan says so; whole seconds in the header."""

    async def test() -> None:
        plan = PROMPT._replace(cap=((0, 0),))
        async with running(plan, QUICK) as server, client(server) as session:
            _, headers, _ = await post(session, ask())
            assert "retry-after" not in headers
            server.change(retry_after=2_500)
            _, headers, _ = await post(session, ask())
            assert headers["retry-after"] == "3"
            assert "retry-after-ms" not in headers
            _, headers, _ = await post(session, ask(), APIS[1])
            assert (headers["retry-after"], headers["retry-after-ms"]) == ("3", "2500")
            _, _, answer = await post(session, CONTENTS, GEMINI)
            assert answer["error"]["details"][-1]["retryDelay"] == "2.5s"

    play(test)


def test_rates_are_told_in_the_headers() -> None:
    """Limit, what is left and when all of it is back: on successes and on refusals."""

    async def test() -> None:
        plan = PROMPT._replace(rpm=2, tpm=100_000)
        async with running(plan, QUICK) as server, client(server) as session:
            _, headers, _ = await post(session, ask())
            assert headers["anthropic-ratelimit-requests-limit"] == "2"
            assert headers["anthropic-ratelimit-requests-remaining"] == "1"
            assert headers["anthropic-ratelimit-requests-reset"].endswith("Z")
            assert 99_000 < int(headers["anthropic-ratelimit-tokens-remaining"]) < 100_000
            _, headers, _ = await post(session, ask(stream=True), APIS[1])
            assert headers["x-ratelimit-limit-requests"] == "2"
            assert headers["x-ratelimit-remaining-requests"] == "0"
            assert headers["x-ratelimit-reset-requests"].endswith("s")
            status, headers, answer = await post(session, ask(), APIS[1])
            assert (status, answer["error"]["type"]) == (429, "requests")
            assert 55 <= int(headers["retry-after"]) <= 60
            status, headers, _ = await post(session, ask())
            assert (status, headers["anthropic-ratelimit-requests-remaining"]) == (429, "0")
            server.change(rpm=0, tpm=50)
            status, headers, answer = await post(session, ask(), APIS[2])
            assert (status, answer["error"]["type"]) == (429, "tokens")
            assert [line.kind for line in server.journal.lines() if line.kind] == [
                "rate",
                "rate",
                "tokens",
            ]

    play(test)


def test_a_quota_that_is_gone_says_until_when() -> None:
    """Anthropic's unified headers say `rejected` and when it is back; before, `allowed`."""

    async def test() -> None:
        plan = PROMPT._replace(quota=((300_000, 600_000),))
        head = "anthropic-ratelimit-unified"
        async with running(plan, QUICK) as server, client(server) as session:
            _, headers, _ = await post(session, ask())
            assert headers[f"{head}-status"] == "allowed"
            server.change(quota=60_000)
            status, headers, _ = await post(session, ask())
            assert (status, headers[f"{head}-status"]) == (429, "rejected")
            assert headers[f"{head}-representative-claim"] == "five_hour"
            assert 55 <= int(headers["retry-after"]) <= 60
            _, headers, _ = await post(session, ask(), APIS[1])
            assert "retry-after" not in headers
            async with session.get("/v1/usage") as answer:
                priority = (await answer.json())["usage"]["priority"]
            assert (priority["low"], priority["reason"]) == (True, "quota_exceeded")
            server.change(quota=0)
            assert (await post(session, ask()))[0] == 200

    play(test)


def test_usage_in_every_shape() -> None:
    """What headgate's own readers make of it: the count, the limit, the cap, the punishment."""

    async def test() -> None:
        plan = PROMPT._replace(cap=((0, 4),), foreign=((0, 1),), soft_limit=3, penalty=60_000)
        behaviour = QUICK._replace(duration=fixed(30_000))
        async with running(plan, behaviour) as server, client(server) as session:
            tasks = [asyncio.create_task(post(session, ask())) for _ in range(3)]
            await happened(server, "enter", 3)
            assert (await post(session, ask()))[0] == 429

            async def reading(kind: str, path: str, **more: Any) -> Reading:  # noqa: ANN401
                source = UsageSource(kind=kind, url=server.url + path, key_env="KEY", **more)
                found = await asyncio.to_thread(read, source, environ={"KEY": "k1"})
                assert isinstance(found, Reading)
                return found

            found = await reading("umans", "/v1/usage")
            assert (found.in_use, found.limit, found.hard_cap) == (4, 3, 4)
            assert found.low_priority
            assert found.closed_for is None
            assert found.requests == 3
            found = await reading("featherless", "/account/concurrency/stream")
            assert (found.in_use, found.limit) == (4, 3)
            found = await reading("json", "/usage.json", used="in_flight", limit="limit")
            assert (found.in_use, found.limit) == (4, 3)
            told = [line for line in server.journal.lines() if line.event == "usage"]
            assert [line.kind for line in told] == ["umans", "featherless", "plain"]
            assert {(line.note, line.in_flight, line.counted) for line in told} == {("4/3", 3, 4)}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    play(test)


def test_a_usage_endpoint_may_fail_lie_and_repeat_itself() -> None:
    """As the plan says."""

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, client(server) as session:

            async def used() -> object:
                async with session.get("/usage.json") as answer:
                    return (await answer.json()).get("in_flight", answer.status)

            server.change(usage_bias=2)
            assert await used() == 2
            server.change(usage_stale=60_000, usage_bias=5)
            assert await used() == 2
            server.change(usage_stale=0)
            assert await used() == 5
            server.change(usage_error=1)
            assert await used() == 503
            async with session.get("/account/concurrency/stream") as answer:
                assert answer.status == 503
            assert server.journal.lines()[-1].status == 503

    play(test)


def test_a_stream_of_counts_tells_each_change() -> None:
    """Featherless' events, one for each."""

    async def test() -> None:
        plan = ProviderPlan(lag=((0, 0),), usage_lag=0, weights=(("big", 2),))
        async with running(plan, QUICK) as server, client(server) as session:
            async with session.get("/account/concurrency/stream") as answer:
                counts = [json.loads((await answer.content.readuntil(b"\n\n"))[6:])]
                text = "[[sim duration=0.4]]"
                _, more = await asyncio.gather(
                    post(session, ask(text, "big")), answer.content.readuntil(b"\n\n")
                )
                counts += [json.loads(more[6:])]
                counts += [json.loads((await answer.content.readuntil(b"\n\n"))[6:])]
            assert [count["used_cost"] for count in counts] == [0, 2, 0]
            assert [len(count["requests"]) for count in counts] == [0, 1, 0]

    play(test)


def test_small_questions() -> None:
    """Counting tokens, listing models, and asking whether anybody is there."""

    async def test() -> None:
        async with running(PROMPT, QUICK) as server, client(server) as session:
            for path in ("/", "/api/hello", "/t/task-1", "/t/task-1/api/hello"):
                async with session.head(path) as answer:
                    assert answer.status == 200
            _, _, answer_ = await post(session, ask(), "/v1/messages/count_tokens")
            assert answer_["input_tokens"] > 10
            async with session.get("/v1/models") as answer:
                assert (await answer.json())["data"][0]["type"] == "model"
            bearer = {"authorization": "Bearer k", "x-api-key": ""}
            del session.headers["x-api-key"]
            async with session.get("/v1/models/some", headers={**bearer}) as answer:
                assert (await answer.json())["id"] == "some"
            async with session.get("/v1beta/models?key=k") as answer:
                assert "models" in await answer.json()
            assert server.journal.lines() == []

    play(test)
