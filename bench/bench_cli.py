"""How long the commands take that agents call often, against `python -c pass`."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from common import Figure, folder, ratio


def measure(*, tiny: bool = False) -> Iterator[Figure]:
    """Wall time of whole commands."""
    headgate = str(Path(sys.executable).with_name("headgate"))
    sources = str(Path(__file__).parent.parent / "src")
    subprocess.run([sys.executable, "-m", "compileall", "-q", sources], check=True)
    with folder():
        subprocess.run([headgate, "status"], check=True, stdout=subprocess.DEVNULL)
        for words, aim in ((["status"], "<= 6x"), (["--help"], "<= 4x"), (["capacity"], "")):
            mine, other, times = ratio(
                lambda words=words: _time([headgate, *words]),  # type: ignore[misc]
                lambda: _time([sys.executable, "-c", "pass"]),
                1 if tiny else 21,
            )
            yield (
                f"headgate {words[0]} {mine * 1000:.0f} ms, python -c pass {other * 1000:.0f} ms",
                f"{times:.1f}x",
                aim,
            )


def _time(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start
