"""Acquire and release on SQLite with durable commits: alone, and sixty-four tasks at once."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
from common import Figure, folder, micro, ratio

from headgate import Gate

KEY = "anthropic/claude-opus-4-6"
LIMITS = {"anthropic/claude-opus-*": 64, "*/claude-opus-*": 64, "host": 100}
TASKS = 64


def measure(*, tiny: bool = False) -> Iterator[Figure]:
    """One task against two bare transactions; many tasks against a commit for each operation."""
    alone, one_each, grouped_each, rounds = (3, 1, 1, 1) if tiny else (300, 10, 40, 5)
    with folder() as here:
        numbers = iter(range(10_000))

        def fresh() -> Path:
            return here / f"{next(numbers)}.db"

        mine, bare, times = ratio(
            lambda: _sync(fresh(), alone), lambda: _bare(fresh(), alone), rounds
        )
        yield (
            f"sqlite: one thread alone {micro(mine)}, two bare transactions {micro(bare)}",
            f"{times:.2f}x",
            "<= 1.5x",
        )
        mine, bare, times = ratio(
            lambda: asyncio.run(_tasks(fresh(), 1, alone)), lambda: _bare(fresh(), alone), rounds
        )
        yield (
            f"sqlite: one asyncio task alone {micro(mine)}, two bare transactions {micro(bare)}",
            f"{times:.2f}x",
            "<= 1.5x",
        )
        single, grouped, times = ratio(
            lambda: asyncio.run(_tasks(fresh(), TASKS, one_each, batch=1)),
            lambda: asyncio.run(_tasks(fresh(), TASKS, grouped_each)),
            rounds,
        )
        yield (
            f"sqlite: {TASKS} tasks {micro(grouped)}, a commit per operation {micro(single)}",
            f"{times:.1f}x faster",
            ">= 10x",
        )
        bare, grouped, times = ratio(
            lambda: _bare(fresh(), alone),
            lambda: asyncio.run(_tasks(fresh(), TASKS, grouped_each)),
            rounds,
        )
        yield (
            f"sqlite: {TASKS} tasks {micro(grouped)}, two bare transactions {micro(bare)}",
            f"{times:.1f}x faster",
            "",
        )


def _bare(path: Path, pairs: int) -> float:
    db = apsw.Connection(str(path))
    run = db.cursor().execute
    run("PRAGMA journal_mode=WAL").fetchall()
    run("PRAGMA synchronous=FULL").fetchall()
    run("CREATE TABLE lease (id INTEGER PRIMARY KEY, key TEXT, holder TEXT)")
    start = time.perf_counter()
    for id in range(pairs):
        run("BEGIN IMMEDIATE")
        run("INSERT INTO lease VALUES (?, ?, ?)", (id, KEY, "me"))
        run("COMMIT")
        run("BEGIN IMMEDIATE")
        run("DELETE FROM lease WHERE id = ?", (id,))
        run("COMMIT")
    took = time.perf_counter() - start
    db.close()
    return took / pairs


def _sync(path: Path, pairs: int) -> float:
    with Gate.open(f"sqlite://{path}", limits=LIMITS) as gate:
        with gate.slot(KEY):
            pass
        start = time.perf_counter()
        for _ in range(pairs):
            with gate.slot(KEY):
                pass
        return (time.perf_counter() - start) / pairs


async def _tasks(path: Path, tasks: int, each: int, batch: int | None = None) -> float:
    gate = Gate.open(f"sqlite://{path}", limits=LIMITS)
    if batch is not None:
        gate._runtime.transactor.batch = batch  # noqa: SLF001 - not for anyone else
    async with gate.slot(KEY):
        pass

    async def work() -> None:
        for _ in range(each):
            async with gate.slot(KEY):
                pass

    start = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(tasks)))
    gate.status()  # the last releases too
    took = time.perf_counter() - start
    await asyncio.to_thread(gate.close)
    return took / (tasks * each)
