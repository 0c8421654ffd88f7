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


async def told(name: str, going: Awaitable[str]) -> None:
    try:
        said = await going
    except (anthropic.APIError, openai.APIError) as error:
        said = f"{type(error).__name__}: {error}"
    sys.stdout.write(json.dumps([name, said]) + "\n")


async def main(rounds: int) -> None:
    claude = anthropic.AsyncAnthropic(api_key="k", max_retries=0)
    gpt = openai.AsyncOpenAI(api_key="k", max_retries=0)
    going = []
    for _ in range(rounds):
        going += [told(one.__name__, one(claude)) for one in (messages, stream_of_messages, wrong)]
        several = (chat, stream_of_chat, responses, stream_of_responses)
        going += [told(one.__name__, one(gpt)) for one in several]
    await asyncio.gather(*going)


asyncio.run(main(int(sys.argv[1])))
