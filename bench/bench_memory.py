"""Acquire and release on the memory store, one task, against anyio.CapacityLimiter."""

import asyncio
import time
from collections.abc import Iterator

import anyio
from common import Figure, folder, micro, ratio

from headgate import Gate


def measure(*, tiny: bool = False) -> Iterator[Figure]:
    """The cost of a pair, ours and theirs."""
    pairs, rounds = (20, 1) if tiny else (3_000, 7)
    with folder():

        async def ours() -> float:
            gate = Gate.open("memory://", limits={"anthropic/claude-opus-*": 4})
            start = time.perf_counter()
            for _ in range(pairs):
                async with gate.slot("anthropic/claude-opus-4-6"):
                    pass
            return (time.perf_counter() - start) / pairs

        async def theirs() -> float:
            limiter = anyio.CapacityLimiter(4)
            start = time.perf_counter()
            for _ in range(pairs):
                async with limiter:
                    pass
            return (time.perf_counter() - start) / pairs

        mine, other, times = ratio(
            lambda: asyncio.run(ours()), lambda: asyncio.run(theirs()), rounds
        )
    yield (
        f"memory: acquire+release {micro(mine)}, anyio.CapacityLimiter {micro(other)}",
        f"{times:.1f}x",
        "<= 10x",
    )
