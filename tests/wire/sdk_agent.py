"""A program on the real SDKs: many requests at once, of all kinds; prints how each went.

None of them is tried again by the SDK, so whatever a client could see of a refusal is seen.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable

import anthropic
import openai

MODEL = "opus"
PROMPT = "hi"


async def stream_of_messages(client: anthropic.AsyncAnthropic) -> str:
    async with client.messages.stream(
        model=MODEL, max_tokens=100, messages=[{"role": "user", "content": PROMPT}]
    ) as stream:
        text = "".join([part async for part in stream.text_stream])
        whole = await stream.get_final_message()
    return "ok" if text and whole.stop_reason else "empty"


async def messages(client: anthropic.AsyncAnthropic) -> str:
    whole = await client.messages.create(
        model=MODEL, max_tokens=100, messages=[{"role": "user", "content": PROMPT}]
    )
    return "ok" if whole.content and whole.usage.output_tokens else "empty"


async def stream_of_chat(client: openai.AsyncOpenAI) -> str:
    stream = await client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": PROMPT}], stream=True
    )
    parts = [chunk.choices[0].delta.content async for chunk in stream if chunk.choices]
    return "ok" if any(parts) else "empty"


async def chat(client: openai.AsyncOpenAI) -> str:
    whole = await client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": PROMPT}]
    )
    return "ok" if whole.choices[0].message.content else "empty"


async def responses(client: openai.AsyncOpenAI) -> str:
    whole = await client.responses.create(model=MODEL, input=PROMPT)
    return "ok" if whole.output_text else "empty"


async def stream_of_responses(client: openai.AsyncOpenAI) -> str:
    stream = await client.responses.create(model=MODEL, input=PROMPT, stream=True)
    kinds = [event.type async for event in stream]
    return "ok" if kinds[-1] == "response.completed" else kinds[-1]


async def wrong(client: anthropic.AsyncAnthropic) -> str:
    """A request that upstream finds fault with."""
    try:
        await client.messages.create(model=MODEL, max_tokens=100, messages=[])
    except anthropic.BadRequestError as error:
        return "ok" if error.type == "invalid_request_error" else str(error)
    return "taken"


async def tool(client: anthropic.AsyncAnthropic) -> str:
    """A turn with a tool in it: it is called, its result is sent, and the answer ends the turn."""
    schema: dict[str, object] = {
        "type": "object",
        "properties": {"command": {"type": "string"}},
    }
    messages: list[anthropic.types.MessageParam] = [{"role": "user", "content": "[[tool]]"}]
    for step in ("tool_use", "end_turn"):
        async with client.messages.stream(
            model=MODEL,
            max_tokens=100,
            messages=messages,
            tools=[{"name": "bash", "input_schema": schema}],
        ) as stream:
            whole = await stream.get_final_message()
        if whole.stop_reason != step:
            return f"{whole.stop_reason} instead of {step}"
        calls = [block for block in whole.content if block.type == "tool_use"]
        if calls:
            messages.append({"role": "assistant", "content": whole.content})
            result = anthropic.types.ToolResultBlockParam(
                type="tool_result", tool_use_id=calls[0].id, content="ran"
            )
            messages.append({"role": "user", "content": [result]})
    return "ok"


async def plain_messages(_: anthropic.AsyncAnthropic) -> str:
    """The SDK without asyncio, in a thread."""

    def ask() -> str:
        with anthropic.Anthropic(api_key="k", max_retries=0) as client:
            said = client.messages.create(
                model=MODEL, max_tokens=100, messages=[{"role": "user", "content": PROMPT}]
            )
        return "ok" if said.content else "empty"

    return await asyncio.to_thread(ask)


async def plain_stream_of_chat(_: openai.AsyncOpenAI) -> str:
    """The same of the other one, streaming."""

    def ask() -> str:
        with openai.OpenAI(api_key="k", max_retries=0) as client:
            stream = client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": PROMPT}], stream=True
            )
            parts = [chunk.choices[0].delta.content for chunk in stream if chunk.choices]
        return "ok" if any(parts) else "empty"

    return await asyncio.to_thread(ask)


async def impatient_messages(client: anthropic.AsyncAnthropic) -> str:
    """A client that does not wait for as long as the answer takes."""
    try:
        await client.with_options(timeout=0.5).messages.create(
            model=MODEL, max_tokens=9, messages=[{"role": "user", "content": "[[sim duration=9]]"}]
        )
    except anthropic.APITimeoutError:
        return "ok"
    return "waited"


async def impatient_chat(client: openai.AsyncOpenAI) -> str:
    """The same of the other one."""
    try:
        await client.with_options(timeout=0.5).chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "[[sim duration=9]]"}]
        )
    except openai.APITimeoutError:
        return "ok"
    return "waited"


async def told(name: str, going: Awaitable[str]) -> None:
    try:
        said = await going
    except (anthropic.APIError, openai.APIError) as error:
        said = f"{type(error).__name__}: {error}"
    sys.stdout.write(json.dumps([name, said]) + "\n")


_CLAUDE = (messages, stream_of_messages, wrong, plain_messages)
_GPT = (chat, stream_of_chat, responses, stream_of_responses, plain_stream_of_chat)
_MORE = {"tool": (tool,), "impatient": (impatient_messages,)}


async def main(rounds: int, *more: str) -> None:
    claude = anthropic.AsyncAnthropic(api_key="k", max_retries=0)
    gpt = openai.AsyncOpenAI(api_key="k", max_retries=0)
    going = []
    for _ in range(rounds):
        going += [told(one.__name__, one(claude)) for one in _CLAUDE]
        going += [told(one.__name__, one(gpt)) for one in _GPT]
    for word in more:
        going += [told(one.__name__, one(claude)) for one in _MORE[word]]
        if word == "impatient":
            going.append(told("impatient_chat", impatient_chat(gpt)))
    await asyncio.gather(*going)


asyncio.run(main(int(sys.argv[1]), *sys.argv[2:]))
