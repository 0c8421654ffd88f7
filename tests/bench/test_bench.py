"""Every benchmark runs to its end: figures in the docs can be had from the repository."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
PARTS = sorted(path.stem.removeprefix("bench_") for path in BENCH.glob("bench_*.py"))


@pytest.mark.parametrize("part", PARTS)
def test_a_part_runs_to_its_end(part: str) -> None:
    """At a tiny size, with the settings that a real run has, and with a figure to show."""
    ran = subprocess.run(
        [sys.executable, BENCH / "run.py", "--tiny", part],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    figures = ran.stdout.splitlines()[1:]
    assert figures
    assert all(any(character.isdigit() for character in line) for line in figures)


def test_a_part_that_is_not_there_is_named() -> None:
    """A typo lists the parts there are."""
    ran = subprocess.run(
        [sys.executable, BENCH / "run.py", "memroy"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert "memroy" in ran.stderr
    assert "memory" in ran.stderr
