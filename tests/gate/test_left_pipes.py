"""Pipes that are left in the members' folder: nobody who is killed leaves any there for good."""

import os
import random
import sys
import time
from pathlib import Path

import pytest

from headgate.gate.liveness.member_pipes import PipeRegistry
from tests.support import Box

FORGET = """
from pathlib import Path
from headgate.gate.liveness.member_pipes import PipeRegistry
folder = Path(sys.argv[1])
registry, ids = PipeRegistry(folder), sys.argv[2].split()
print("up")
for id in ids:
    registry.forget(id)
time.sleep(1000)
"""
LONG_AGO = 7200


def pipe(folder: Path, name: str) -> Path:
    path = folder / name
    os.mkfifo(path)
    return path


def age(folder: Path) -> None:
    """Have all of it be two hours old."""
    for path in folder.iterdir():
        os.utime(path, (time.time() - LONG_AGO, time.time() - LONG_AGO))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.timeout(240)  # 40,000 pipes are made, which takes two seconds on an idle machine
def test_a_kill_between_two_removals_leaves_nothing_for_good(box: Box) -> None:
    """Of the dead whose pipes were being removed, what is left goes with age, like all pipes."""
    dice = random.Random(12)  # noqa: S311 - it must be repeatable
    for turn in range(20):
        folder = box.folder / f"members-{turn}"
        folder.mkdir()
        ids = [os.urandom(6).hex() for _ in range(1_000)]
        for id in ids:
            pipe(folder, f"{id}.life")
            pipe(folder, f"{id}.wake")
        program = box.start(
            sys.executable, "-uc", f"import sys, time\n{FORGET}", str(folder), " ".join(ids)
        )
        assert program.line() == "up"
        time.sleep(dice.uniform(0.001, 0.02))
        program.kill()
        left = {name.partition(".")[0] for name in names(folder)}
        lives = {name.partition(".")[0] for name in names(folder) if name.endswith(".life")}
        assert left == lives


def test_what_is_left_of_a_member_goes_with_age(tmp_path: Path) -> None:
    """A lone `wake` too, as versions before this one left it; what somebody reads stays."""
    for name in ("a.wake", "b.life", "b.wake", "c.wake.new", "d.wake"):
        pipe(tmp_path, name)
    reads = os.open(tmp_path / "d.wake", os.O_RDWR | os.O_NONBLOCK)
    other = os.open(pipe(tmp_path, "e.life"), os.O_RDONLY | os.O_NONBLOCK)
    pipe(tmp_path, "e.wake")  # of an owner that was killed, whose program lives on
    young = PipeRegistry(tmp_path)
    young.join()
    young.leave(remove=True)
    assert len(names(tmp_path)) == 7
    age(tmp_path)
    registry = PipeRegistry(tmp_path)
    registry.join()
    registry.leave(remove=True)
    assert names(tmp_path) == ["d.wake", "e.life", "e.wake"]
    os.close(reads)
    os.close(other)
