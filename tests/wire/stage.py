"""An agent of the tests: it asks a provider when it is told to, and prints what came of it."""

import json
import sys
from pathlib import Path
from typing import Any

from headgate.wire import watchdog
from tests.agents.stage import Provider
from tests.support import HEADGATE, Box, Program
from tests.work.conftest import JobBox

KEY = "anthropic/claude-opus-4-6"
MODEL = "claude-opus-4-6"
AGENT = r"""
import http.client, json, os, sys, urllib.parse

def ask(model, stream):
    url = urllib.parse.urlsplit(os.environ["ANTHROPIC_BASE_URL"])
    body = {"model": model, "max_tokens": 9, "stream": stream}
    body["messages"] = [{"role": "user", "content": "hello"}]
    headers = {"x-api-key": "sk-secret-0123456789", "content-type": "application/json"}
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    try:
        connection.request("POST", url.path + "/v1/messages", json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        return {"status": answer.status, "text": text}
    except (OSError, http.client.HTTPException) as error:
        return {"status": 0, "text": type(error).__name__}
    finally:
        connection.close()

print(json.dumps({"pid": os.getpid(), "url": os.environ["ANTHROPIC_BASE_URL"]}), flush=True)
for line in sys.stdin:
    words = line.split()
    if not words:
        break
    print(json.dumps(ask(words[0], "plain" not in words)), flush=True)
"""


class Asker:
    """The agent, under `headgate run`."""

    def __init__(self, box: JobBox, *words: str) -> None:
        script = box.folder / "agent.py"
        script.write_text(AGENT)
        self.program: Program = box.start(
            HEADGATE, "run", "-m", KEY, *words, "--", sys.executable, str(script)
        )
        told = self.read()
        self.pid: int = told["pid"]
        self.url: str = told["url"]

    def read(self) -> dict[str, Any]:
        """What it printed next."""
        line = self.program.line(within=60)
        assert line, self.program.process.stderr and self.program.process.stderr.read()
        found: dict[str, Any] = json.loads(line)
        return found

    def start(self, model: str = MODEL, *words: str) -> None:
        """Have it ask."""
        pipe = self.program.process.stdin
        assert pipe is not None
        pipe.write(f"{model} {' '.join(words)}\n".encode())
        pipe.flush()

    def ask(self, model: str = MODEL, *words: str) -> dict[str, Any]:
        """Have it ask, and tell what came of it."""
        self.start(model, *words)
        return self.read()


def metered(box: JobBox, *words: str) -> tuple[Provider, Asker]:
    """A provider, and an agent whose requests to it are seen."""
    provider = Provider(
        box, "--duration", "50ms", "--headers", "5ms", "--first-token", "10ms", *words
    )
    box.env |= provider.env
    return provider, Asker(box, "--meter", "wire")


def wires(box: JobBox) -> dict[int, list[str]]:
    """The processes that are wires of this box's store."""
    return _processes(box, "headgate.wire")


def watchdogs(box: Box) -> dict[int, list[str]]:
    """The processes that would start them again."""
    return _processes(box, str(Path(watchdog.__file__)))


def _processes(box: Box, name: str) -> dict[int, list[str]]:
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if name in words and str(box.folder) in words[words.index(name) + 1]:
                found[int(folder.name)] = words
    return found
