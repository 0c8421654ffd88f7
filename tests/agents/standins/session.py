"""What an agent remembers from one start to the next."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress

from tests.agents.standins.wire import Json


class Session:
    """What was done so far, in a file that is only ever added to."""

    def __init__(self, folder: str, id_: str) -> None:
        self.id = id_
        self.path = f"{folder}/{id_}.jsonl" if folder else ""
        self.lines: list[Json] = []
        with suppress(FileNotFoundError), open(self.path or os.devnull) as file:  # noqa: PTH123
            self.lines = [json.loads(line) for line in file]

    @property
    def steps(self) -> int:
        return sum(line["event"] == "step" for line in self.lines)

    def add(self, event: str, **more: object) -> None:
        line = {"event": event, "pid": os.getpid(), **more}
        self.lines.append(line)
        if self.path:
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(file, json.dumps(line).encode() + b"\n")
            os.close(file)

    def talk(self) -> Iterator[tuple[str, str]]:
        """The conversation up to here: who, and what."""
        for line in self.lines:
            if line["event"] == "start" and line["prompt"]:
                yield "user", line["prompt"]
            elif line["event"] == "step":
                yield "assistant", line["text"]
                yield "user", f"result of tool {line['step']}"


def latest(folder: str) -> str:
    if not folder:
        return ""
    found = [entry for entry in os.scandir(folder) if entry.name.endswith(".jsonl")]
    found.sort(key=lambda entry: entry.stat().st_mtime_ns)
    return found[-1].name.removesuffix(".jsonl") if found else ""


def new_id() -> str:
    found = os.urandom(16).hex()
    return f"{found[:8]}-{found[8:12]}-4{found[13:16]}-a{found[17:20]}-{found[20:]}"
