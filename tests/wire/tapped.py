"""A stand-in agent under a tap, told step by step what to ask for."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.support import Box, Program, until
from tests.wire.outside import Outside

KEY = "anthropic/claude-opus-5-5"
STANDIN = Path(__file__).with_name("standin_agent.py")
ASK = {"host": "api.anthropic.com", "path": "/v1/messages", "body": '{"model":"claude-opus-5-5"}'}
ELSEWHERE = {"host": "example.test", "path": "/"}
CONFIG = """
[profiles.fake-agent]
provider = "anthropic"
default = "claude-opus-5-5"
[[profiles.fake-agent.wire]]
way = "tap"
hosts = ["api.anthropic.com"]
environment = { SSL_CERT_FILE = "{all_authorities}", NODE_EXTRA_CA_CERTS = "{added_authorities}" }
"""
UNSET = ("SSL_CERT_DIR", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "NO_PROXY", "no_proxy")


def prepare(box: Box, outside: Outside) -> str:
    """Have a box in which the stand-in is found and the outside is trusted; its command."""
    box.env = {name: value for name, value in box.env.items() if name not in UNSET}
    box.env |= {"HTTPS_PROXY": outside.proxy, "SSL_CERT_FILE": str(outside.authority)}
    box.config(CONFIG)
    program = box.folder / "fake-agent"
    program.write_text(f"#!{sys.executable}\n{STANDIN.read_text()}")
    program.chmod(0o755)
    return str(program)


class Told:
    """A stand-in that runs."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.env: dict[str, str] = json.loads(program.line())

    def ask(self, wish: object) -> dict[str, Any]:
        """Have it ask for something; what it says of the answer."""
        pipe = self.program.process.stdin
        assert pipe is not None
        pipe.write(json.dumps(wish).encode() + b"\n")
        pipe.flush()
        said: dict[str, Any] = json.loads(self.program.line())
        return said


def wire_process(box: Box, but: int = 0) -> int:
    """The process of the only wire in a box; another one than `but`."""

    def look() -> int:
        for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - numbers
            try:
                words = Path("/proc", name, "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            ours = any(word.startswith(f"{box.path}.wire/".encode()) for word in words)
            if ours and b"headgate.wire" in words and int(name) != but:
                return int(name)
        return 0

    return until(look)


def files(box: Box) -> dict[Path, bytes]:
    """All that is on the disk in a box."""
    found = {}
    for path in box.folder.rglob("*"):
        if path.is_file():
            found[path] = path.read_bytes()
    return found
