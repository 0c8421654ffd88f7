"""Rounds of real copies, on a machine whose memory the test decides on."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from headgate.core.host.pressure import GIB, Host
from headgate.core.times import Seconds
from headgate.errors import HeadgateError
from headgate.gate.liveness.process_marks import family
from headgate.probe.machine import MachineProbeOptions, MachineProbeResult, probe_machine
from headgate.probe.run_copies import Bounds, run_round
from tests.support import gone, until

MIB = 2**20
BIG = [sys.executable, "-c", "x = bytearray(64 << 20); import time; time.sleep(0.5)"]
ROOMY = Host(16 * GIB, 12 * GIB, 8)


def probe(
    argv: list[str],
    host: Host | None,
    **options: Any,  # noqa: ANN401 - those of `MachineProbeOptions`
) -> tuple[MachineProbeResult, list[str]]:
    said: list[str] = []
    found = probe_machine(argv, MachineProbeOptions(**options), look=lambda: host, say=said.append)
    return found, said


def test_what_a_copy_takes_is_measured() -> None:
    """Memory with all it has started, time, and processor time."""
    inner = f"{sys.executable} -c 'x = bytearray(48 << 20); import time; time.sleep(0.6)'"
    found = run_round(["sh", "-c", f"{inner} & {inner} & wait"], 2, Bounds(Seconds(60)))
    assert found.size == 2
    assert not found.failed
    for copy in found.copies:
        assert 96 * MIB < copy.memory < 200 * MIB
        assert copy.seconds >= 0.6
        assert copy.cpu > 0
    assert found.peak > 150 * MIB


def test_what_memory_would_not_suffice_for_is_not_tried() -> None:
    """Two copies of some 70 MiB fit beside what has to stay free, and four do not."""
    host = Host(4 * GIB, 250 * MIB, 8)
    found, said = probe(BIG, host, floor=50 * MIB, most=4)
    assert found.recommended == 2
    by_count = {it.copies: it for it in found.tried}
    assert by_count[4].round is None
    assert "4 would take" in by_count[4].verdict
    assert any("not tried" in line for line in said)
    assert "too many" in found.reasons[1]


def test_a_round_that_fills_the_machine_is_broken_off() -> None:
    """Memory is looked at while copies run; what is left of them is ended."""
    figures = iter([ROOMY, ROOMY])
    before = family(os.getpid())

    def look() -> Host:
        return next(figures, ROOMY._replace(free=10 * MIB))

    with pytest.raises(HeadgateError, match="broken off, for only 10 MiB were free"):
        probe_machine(["sleep", "60"], MachineProbeOptions(), look=look, say=lambda _: None)
    assert family(os.getpid()) == before


def test_nothing_is_left_of_a_round(tmp_path: Path) -> None:
    """Not even what has a session of its own and ignores being asked to end."""
    pids = tmp_path / "pids"
    stubborn = f"trap '' TERM; echo $$ >> {pids}; while :; do sleep 1; done"
    found = run_round(
        ["sh", "-c", f'setsid sh -c "{stubborn}" & sleep 0.3'], 2, Bounds(Seconds(60))
    )
    assert not found.failed
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 2
    until(lambda: all(gone(pid) for pid in started))


def test_copies_that_take_too_long_are_ended() -> None:
    """They have failed; those that were done in time have not."""
    found = run_round(["sleep", "60"], 3, Bounds(Seconds(0.3)))
    assert [copy.code for copy in found.copies] == [None] * 3
    assert found.failed == 3


def test_output_of_any_kind_is_read_and_forgotten() -> None:
    """More of it than a pipe holds, without an end of line; only a refusal is remembered."""
    noise = "import os; [os.write(1, b'x' * 65536) for _ in range(200)]"
    found = run_round([sys.executable, "-c", noise], 1, Bounds(Seconds(60)))
    assert not found.failed
    said = "echo fine; echo 'API Error: Request rejected (429)' >&2"
    found = run_round(["sh", "-c", f"{said}; exit 1"], 1, Bounds(Seconds(60)))
    assert found.copies[0].refused
    assert found.failed == 1
    found = run_round(["sh", "-c", said], 1, Bounds(Seconds(60)))
    assert found.copies[0].code == 0
    assert not found.copies[0].refused  # it may have talked of one
    assert not found.failed


def test_without_figures_it_goes_on() -> None:
    """Where nobody can tell how much memory there is, the rest still counts."""
    found, _ = probe(["sleep", "0.05"], None, most=2)
    assert found.recommended == 2
    assert "more than 2 were not tried (--most)" in found.reasons


def test_rounds_are_bounded() -> None:
    """A probe that is cut short says so, and recommends what it has seen to work."""
    found, _ = probe(["sleep", "0.05"], ROOMY, most=16, rounds=2)
    assert found.recommended == 2
    assert "it was cut short after 2 rounds (--rounds)" in found.reasons
