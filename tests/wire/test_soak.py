"""Many slow streams through one wire: memory stays flat, every stream is whole.

`make soak` runs it with 1,000 streams for ten minutes, and prints how late chunks were: a time is
no test on a busy machine. HEADGATE_SOAK_STREAMS and HEADGATE_SOAK_SECONDS say otherwise.
"""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from tests.support import HEADGATE
from tests.wire.stage import KEY, wires
from tests.work.conftest import JobBox

PARTS = str(Path(__file__).with_name("soak_parts.py"))
STREAMS = int(os.environ.get("HEADGATE_SOAK_STREAMS", "200"))
SECONDS = float(os.environ.get("HEADGATE_SOAK_SECONDS", "6"))
PER_STREAM = 60
"""Kilobytes that one stream may take."""


def resident(pid: int) -> int:
    """Kilobytes of memory that a process has."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0])


@pytest.mark.soak
@pytest.mark.timeout(SECONDS + 120)
def test_many_slow_streams(box: JobBox, capsys: pytest.CaptureFixture[str]) -> None:
    """All of them come to their end, and what they take does not grow."""
    upstream = box.start(sys.executable, PARTS, "upstream", "2")
    box.env["ANTHROPIC_BASE_URL"] = f"http://127.0.0.1:{upstream.line()}"
    go = box.folder / "go"
    words = (sys.executable, PARTS, "agent", str(STREAMS), str(SECONDS), str(go))
    agent = box.start(HEADGATE, "run", "-q", "-m", KEY, "--meter", "wire", "--", *words)
    assert agent.line() == "warm"
    seen = [resident(pid) for pid in wires(box)]
    go.touch()
    while agent.alive():
        for pid in wires(box):
            try:
                seen.append(resident(pid))
            except (OSError, IndexError):
                continue
        time.sleep(min(1.0, SECONDS / 20))
    told = json.loads(agent.line())
    assert told["whole"] == STREAMS
    assert told["events"] >= STREAMS * (SECONDS / 2 - 2)
    peak, middle = max(seen), sorted(seen)[len(seen) // 2]
    with capsys.disabled():
        each = (peak - seen[0]) / STREAMS
        print(  # noqa: T201 - figures for people
            f"\nsoak: {STREAMS} streams, {SECONDS:g} s, {told['events']} events: {each:.1f} KB "
            f"each, {seen[0]} KB at first, {middle} KB in the middle, {peak} KB at most; "
            f"late by {told['p99']:.1f} ms p99, {told['worst']:.0f} ms at worst"
        )
    assert peak - seen[0] <= STREAMS * PER_STREAM
    assert seen[-2] <= middle * 1.1  # it does not grow while they go on
