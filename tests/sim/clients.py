"""One process of agents: each asks the gate for a seat, sends a request, tells the gate the answer.

    clients.py URL KEY AGENTS REQUESTS [PROMPT]

It is up when it says so, and begins at the end of its input. Each agent sends until so many
requests were served, then the process says in one line of JSON what it was told; a refused agent
asks again at once, so only the gate keeps it from hammering.
"""

import asyncio
import json
import os
import sys
from collections import Counter

import aiohttp

from headgate import Gate

ENV = "PROVIDER_KEY"


async def agent(
    gate: Gate, session: aiohttp.ClientSession, *, key: str, task: str, requests: int, prompt: str
) -> Counter[str]:
    told: Counter[str] = Counter()
    model = key.partition("/")[2]
    messages = [{"role": "user", "content": prompt}]
    body = {"model": model, "max_tokens": 1_000, "messages": messages, "stream": True}
    async with session.get("/v1/models") as answer:  # whoever is let in sends without delay
        await answer.read()
    while told["accepted"] < requests:
        async with (
            gate.slot(key, task=task) as lease,
            session.post("/v1/messages", json=body) as answer,
        ):
            said = b"" if answer.status == 200 else await answer.read()
            told[lease.answered(answer.status, answer.headers, said) or "nothing"] += 1
            await answer.read()
    return told


async def main(url: str, key: str, agents: str, requests: str, prompt: str = "hi") -> None:
    headers = {"x-api-key": os.environ[ENV]}
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        Gate.open() as gate,
        aiohttp.ClientSession(url, headers=headers, connector=connector) as session,
    ):
        sys.stdout.write("up\n")
        sys.stdout.flush()
        sys.stdin.read()  # until the others are up
        crew = (
            agent(
                *(gate, session),
                key=key,
                task=f"{os.getpid()}-{n}",
                requests=int(requests),
                prompt=prompt,
            )
            for n in range(int(agents))
        )
        told = sum(await asyncio.gather(*crew), Counter[str]())
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
