"""A machine that is short of memory or overloaded takes no more, and says so."""

import json
import threading
from pathlib import Path

import pytest

from headgate import Gate, NoRoomError
from headgate.core.admission.seats import Reason
from headgate.core.host.pressure import GIB, Host, PressureLimits
from headgate.gate.host.memory_and_load import HostGauge, read, strained
from tests.gate.conftest import Opener
from tests.support import LONG, Box, pool_of, until

MIB = 2**20
SCARCE = '[pools.host]\nlimit = 50\nmemory_floor = "8000TiB"\n'
PLENTY = '[pools.host]\nlimit = 50\nmemory_floor = "1MiB"\n'


class Tree:
    """A root with files as the kernel has them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: object) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def memory(self, total: int, free: int) -> None:
        self.write(
            "proc/meminfo",
            f"MemTotal: {total // 1024} kB\nMemFree: 1 kB\nMemAvailable: {free // 1024} kB",
        )

    def group(self, folder: str, **files: object) -> None:
        for name, text in files.items():
            self.write(f"sys/fs/cgroup/{folder}/{name.replace('_', '.', 1)}", text)

    def read(self, cpus: int = 8) -> Host:
        found = read(self.root, cpus)
        assert found is not None
        return found


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    it = Tree(tmp_path / "root")
    it.memory(16 * GIB, 10 * GIB)
    it.write("proc/loadavg", "4.00 2.00 1.00 3/400 1234")
    return it


def test_a_machine_as_a_whole(tree: Tree) -> None:
    """Without control groups, all of it counts; the load is per core."""
    assert tree.read() == Host(16 * GIB, 10 * GIB, 8.0, 0.5)


def test_a_container_has_what_it_may_take(tree: Tree) -> None:
    """memory.max and cpu.max bound it; page cache that can be dropped is free."""
    tree.write("proc/self/cgroup", "0::/a/b")
    tree.group("a/b", memory_max=4 * GIB, memory_current=3 * GIB, cpu_max="150000 100000")
    tree.write("sys/fs/cgroup/a/b/memory.stat", f"anon {GIB}\ninactive_file {GIB}\nfile {9 * GIB}")
    assert tree.read() == Host(4 * GIB, 2 * GIB, 1.5, 0.5)


def test_a_parent_may_be_tighter(tree: Tree) -> None:
    """What is above a group bounds it too, each in its own way."""
    tree.write("proc/self/cgroup", "0::/a/b/c")
    tree.group("a", memory_max=8 * GIB, memory_current=7 * GIB, cpu_max="max 100000")
    tree.group("a/b", memory_max="max", memory_high=2 * GIB, cpu_max="50000 100000")
    tree.group("a/b/c", memory_max=4 * GIB, memory_current=GIB, cpu_max="400000 100000")
    assert tree.read() == Host(2 * GIB, GIB, 0.5, 0.5)


def test_a_group_without_bounds(tree: Tree) -> None:
    """`max` is no bound, and a bound above what there is bounds nothing."""
    tree.write("proc/self/cgroup", "0::/")
    tree.group("", memory_max="max", memory_high="max", cpu_max="max 100000")
    assert tree.read() == Host(16 * GIB, 10 * GIB, 8.0, 0.5)
    tree.group("", memory_max=64 * GIB, memory_current=GIB)
    assert tree.read() == Host(16 * GIB, 10 * GIB, 8.0, 0.5)


def test_control_groups_of_version_one(tree: Tree) -> None:
    """Their own names for the same; no limit is a very large number, or -1."""
    tree.write("proc/self/cgroup", "9:name=systemd:/x\n4:memory:/box\n1:cpu,cpuacct:/box\n0::/")
    tree.group("memory", memory_limit_in_bytes=9223372036854771712)
    tree.group("memory/box", memory_limit_in_bytes=2 * GIB, memory_usage_in_bytes=GIB)
    tree.write(
        "sys/fs/cgroup/memory/box/memory.stat",
        f"inactive_file 5\ntotal_inactive_file {GIB // 2}\ntotal_active_file {GIB // 4}",
    )
    tree.group("cpu,cpuacct", cpu_cfs_quota_us=-1, cpu_cfs_period_us=100_000)
    tree.group("cpu,cpuacct/box", cpu_cfs_quota_us=200_000, cpu_cfs_period_us=100_000)
    assert tree.read() == Host(2 * GIB, 2 * GIB - GIB // 4, 2.0, 0.5)


def test_a_path_that_is_only_valid_outside(tree: Tree) -> None:
    """Inside a container its own group is at the top, whatever path the kernel tells."""
    tree.write("proc/self/cgroup", "0::/../../docker/abc")
    tree.group("", memory_max=GIB, memory_current=0, cpu_max="100000 100000")
    assert tree.read() == Host(GIB, GIB, 1.0, 0.5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "-5",
        "9" * 40,
        "4 5 6",
        "\0\xff",
    ],
)
def test_odd_files_bound_nothing(tree: Tree, text: str) -> None:
    """A file that says nothing usable is as good as none."""
    tree.write("proc/self/cgroup", f"0::/a\n{text}\n::\n7:memory\n")
    tree.group("a", memory_max=text, memory_high=text, memory_current=text, cpu_max=text)
    tree.write("proc/loadavg", text)
    tree.write("sys/fs/cgroup/a/memory.stat", text)
    found = tree.read()
    assert (found.memory, found.free, found.cores) == (16 * GIB, 10 * GIB, 8.0)


def test_without_figures_there_are_none(tmp_path: Path) -> None:
    """Below a root without /proc nothing is made up."""
    assert read(tmp_path) is None
    assert HostGauge(tmp_path).look() is None
    assert strained(PressureLimits(GIB), None) is None


def test_this_machine_can_be_read() -> None:
    """The real files give figures that make sense."""
    found = read()
    assert found is not None
    assert 0 < found.free <= found.memory
    assert found.cores > 0


def test_who_asks_about_danger() -> None:
    """Below the floor nothing starts; below half of it what runs is in danger."""
    pressure_limits, low, least = (
        PressureLimits(GIB),
        Host(8 * GIB, 700 * MIB, 2),
        Host(8 * GIB, 100 * MIB, 2),
    )
    assert strained(pressure_limits, low) == Reason(
        "memory_low", "host", note="700 MiB free, below its floor of 1 GiB"
    )
    assert strained(pressure_limits, low, danger=True) is None
    assert strained(pressure_limits, least, danger=True) is not None
    assert strained(None, least) is None


def test_everything_waits_for_memory(box: Box) -> None:
    """Below its floor a machine lets nothing in; queue, why, capacity and status say why."""
    box.config(SCARCE)
    waiter = box.waiter()
    [row] = json.loads(box.headgate("queue", "--json"))["waiting"]
    assert (row["code"], row["pool"], row["eta"]) == ("memory_low", "host", None)
    assert " free, below its floor of 8000 TiB" in row["reason"]
    assert "below its floor" in box.headgate("why", str(row["id"]))
    gate = box.gate()
    capacity = gate.capacity("a/b")
    assert (capacity.state, capacity.code, capacity.free) == ("full", "memory_low", 0)
    host = pool_of(gate, "host")
    assert host.free == 0
    assert host.strain is not None
    assert host.strain.startswith("host has ")
    assert "below its floor of 8000 TiB" in box.headgate("status")
    with pytest.raises(NoRoomError, match="below its floor"):
        gate.slot(timeout=0).acquire()
    found = gate.strained(danger=True)
    assert found is not None
    assert found.code == "memory_low"
    box.config(PLENTY)
    assert waiter.line() == "up"
    assert waiter.end() == 0
    until(lambda: pool_of(gate, "host").strain is None)


def low(gate: Gate, tree: Tree) -> None:
    """Let a gate see the machine of the test."""
    gate._settings.resolver.gauge = HostGauge(tree.root)


def test_relief_lets_in_who_waits(open_gate: Opener, box: Box, tree: Tree) -> None:
    """What runs goes on while memory is low; when it is back, who waits is let in by itself."""
    box.config('[pools.host]\nlimit = 50\nmemory_floor = "1GiB"\n')
    gate = open_gate()
    low(gate, tree)
    tree.memory(16 * GIB, 2 * GIB)
    with gate.slot():
        tree.memory(16 * GIB, 700 * MIB)
        until(lambda: pool_of(gate, "host").strain)
        assert pool_of(gate, "host").strain == "host has 700 MiB free, below its floor of 1 GiB"
        waits, done = threading.Event(), threading.Event()

        def work() -> None:
            with gate.slot(on_wait=lambda _: waits.set()):
                done.set()

        thread = threading.Thread(target=work)
        thread.start()
        assert waits.wait(LONG)
        assert pool_of(gate, "host").in_use == 1
        tree.memory(16 * GIB, 3 * GIB)
        assert done.wait(LONG)
        thread.join(LONG)


def test_a_high_load_is_a_reason(open_gate: Opener, box: Box, tree: Tree) -> None:
    """Above the ceiling nothing starts."""
    box.config("[pools.host]\nload_ceiling = 1.0\n")
    gate = open_gate()
    low(gate, tree)
    tree.write("proc/loadavg", "9000 1 1 1/1 1")
    assert gate.capacity().code == "load_high"
    tree.write("proc/loadavg", "0.0 1 1 1/1 1")
    until(lambda: gate.capacity().state == "open")


def test_auto_is_what_the_machine_has(box: Box, tree: Tree) -> None:
    """The limit is shown with where it comes from; one set by hand beats it, until restored."""
    box.config('[pools.host]\nlimit = "auto"\nagent_memory = "4GiB"\n')
    tree.write("proc/self/cgroup", "0::/")
    tree.group("", memory_max=12 * GIB, memory_current=GIB)
    gate = box.gate()
    low(gate, tree)
    host = pool_of(gate, "host")
    assert (host.limit, host.configured_limit) == (2, 2)
    assert host.source.startswith("auto: 12 GiB RAM, ")
    gate.set_limit("host", 7)
    host = pool_of(gate, "host")
    assert (host.limit, host.configured_limit, host.source) == (7, 2, "hand")
    gate.restore("host")
    assert pool_of(gate, "host").limit == 2
    said = box.headgate("limits")
    assert "auto: " in said
    assert "auto: " in box.headgate("status")


def test_another_machine_is_believed(box: Box, tree: Tree) -> None:
    """Who decides about work on a machine heeds what those who wait there wrote of it."""
    box.config('[pools.host]\nmemory_floor = "1GiB"\n')
    here, there = box.gate(), box.gate()
    low(here, tree)
    there._runtime.membership.machine = "elsewhere"
    low(there, Tree(tree.root.parent / "there"))
    Tree(tree.root.parent / "there").memory(8 * GIB, 100 * MIB)
    thread = threading.Thread(target=lambda: there.slot(timeout=LONG).acquire().release())
    thread.start()
    until(lambda: [row for row in box.rows("note") if row[0] == "strain:elsewhere" and row[1]])
    with here.slot():
        assert here.capacity().state == "open"
    [waiting] = here.queue().waiting
    assert waiting.code == "memory_low"
    assert "100 MiB free" in waiting.reason
    Tree(tree.root.parent / "there").memory(8 * GIB, 4 * GIB)
    thread.join(LONG)
    assert not thread.is_alive()


def test_nothing_is_read_unless_asked_for(box: Box, tree: Tree) -> None:
    """Without a floor, a ceiling or an automatic limit the machine is not looked at."""
    gate = box.gate()
    low(gate, tree)
    with gate.slot("a/b"):
        gate.status()
        gate.capacity()
    gauge = gate._settings.resolver.gauge
    assert isinstance(gauge, HostGauge)
    assert gauge._next == 0.0
