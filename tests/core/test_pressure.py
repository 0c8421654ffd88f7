"""What one machine can carry, and when nothing more is to start on it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.config.check import parse
from headgate.core.admission.next_in_line import Head, keep_seats, obstacles
from headgate.core.admission.pool_set import resolve_pools
from headgate.core.admission.pools import AUTO, Declared, Pool, PoolRow
from headgate.core.admission.seats import Need, Use, blocked_by
from headgate.core.display.snapshots import explain
from headgate.core.host import auto_limit, pressure
from headgate.core.host.pressure import GIB, Host, PressureLimits
from headgate.core.quantities import MOST, parse_size, show_size
from headgate.core.times import Ms
from headgate.errors import ConfigError, UsageError

MIB = 2**20
PLENTY = Host(24 * GIB, 20 * GIB, 2, 0.5)


@pytest.mark.parametrize(
    "memory,cores,agent,limit",
    [
        (24 * GIB, 2, GIB // 2, 4),  # two per core
        (24 * GIB, 64, GIB // 2, 36),  # (24 - 6) / 0.5
        (4 * GIB, 8, GIB // 2, 6),  # (4 - 1) / 0.5
        (24 * GIB, 64, 2 * GIB, 9),
        (256 * MIB, 1, GIB // 2, 1),  # never none
        (24 * GIB, 0.25, GIB // 2, 1),
        (0, 0, GIB // 2, 1),
        (2**54, 1e9, MIB, MOST),
    ],
)
def test_auto_follows_from_memory_and_cores(
    memory: int, cores: float, agent: int, limit: int
) -> None:
    """The smaller of what fits into memory and two per core; at least one, whatever there is."""
    assert auto_limit.auto_limit(Host(memory, memory, cores), agent) == limit


@pytest.mark.parametrize(
    "memory,cores,said",
    [
        (24 * GIB, 2, "auto: 24 GiB RAM, 2 cores"),
        (512 * MIB, 1, "auto: 512 MiB RAM, 1 core"),
        (8 * GIB, 1.5, "auto: 8 GiB RAM, 1.5 cores"),
        (2**41, 128.0, "auto: 2 TiB RAM, 128 cores"),
    ],
)
def test_auto_says_where_it_comes_from(memory: int, cores: float, said: str) -> None:
    """What was found is shown beside the limit."""
    assert auto_limit.auto_source(Host(memory, 0, cores)) == said


def hosted(declared: Declared, host: Host | None = PLENTY, tuned: PoolRow | None = None) -> Pool:
    return resolve_pools({"host": declared}, [tuned] if tuned else [], host=host).pools["host"]


def test_auto_in_the_configuration() -> None:
    """The pool has the limit, says why, and has a floor of a twentieth of RAM up to 1 GiB."""
    pool = hosted(Declared(limit=AUTO))
    assert (pool.limit, pool.most, pool.configured_limit) == (4, 4, 4)
    assert pool.source == "auto: 24 GiB RAM, 2 cores"
    assert pool.pressure_limits == PressureLimits(GIB, 0.0, GIB // 2)
    small = hosted(Declared(limit=AUTO), Host(2 * GIB, GIB, 2))
    assert small.pressure_limits is not None
    assert small.pressure_limits.memory_floor == 2 * GIB // 20
    assert hosted(Declared(limit=AUTO, memory_floor=0)).pressure_limits is None
    assert hosted(Declared(limit=AUTO, memory_floor=GIB * 2)).pressure_limits == PressureLimits(
        2 * GIB, 0.0, GIB // 2
    )


def test_auto_without_figures_is_the_default() -> None:
    """Where nobody can tell what the machine has, the limit is what it is without a file."""
    pool = hosted(Declared(limit=AUTO), None)
    assert (pool.limit, pool.source, pool.pressure_limits) == (3, "default", None)


def test_a_limit_set_by_hand_beats_auto() -> None:
    """Set by hand, the limit counts; the floor stays."""
    pool = hosted(Declared(limit=AUTO), tuned=PoolRow("host", limit=9))
    assert (pool.limit, pool.source, pool.configured_limit) == (9, "hand", 4)
    assert pool.pressure_limits is not None


def test_nobody_cares_unless_asked() -> None:
    """A plain limit has no floor and no ceiling."""
    assert hosted(Declared(limit=5)).pressure_limits is None
    assert hosted(Declared(limit=5, agent_memory=GIB)).pressure_limits is None
    assert hosted(Declared(load_ceiling=2.0)).pressure_limits == PressureLimits(0, 2.0, 0)


FLOOR = PressureLimits(memory_floor=GIB)


@pytest.mark.parametrize(
    "pressure_limits,host,starting,said",
    [
        (FLOOR, PLENTY, 9, None),
        (FLOOR, PLENTY._replace(free=GIB), 0, None),
        (
            FLOOR,
            PLENTY._replace(free=700 * MIB),
            0,
            "memory_low: host has 700 MiB free, below its floor of 1 GiB",
        ),
        (
            PressureLimits(30 * GIB),
            PLENTY,
            0,
            (
                "memory_low: host has 20 GiB free, below its floor of 30 GiB, "
                "which is more than it has in all (24 GiB)"
            ),
        ),
        (
            PressureLimits(GIB, 0, GIB // 2),
            PLENTY._replace(free=1792 * MIB),
            2,
            (
                "memory_low: host has 1.8 GiB free less 1 GiB for 2 that just started, "
                "below its floor of 1 GiB"
            ),
        ),
        (PressureLimits(GIB, 0, GIB // 2), PLENTY._replace(free=1792 * MIB), 1, None),
        (
            PressureLimits(0, 2.0),
            PLENTY._replace(load=2.25, free=0),
            0,
            "load_high: host has a load of 2.2 per core, above its ceiling of 2",
        ),
        (PressureLimits(0, 2.0), PLENTY._replace(load=2.0), 0, None),
        (PressureLimits(0, 2.0), PLENTY._replace(load=None), 0, None),
    ],
)
def test_what_keeps_work_out(
    pressure_limits: PressureLimits, host: Host, starting: int, said: str | None
) -> None:
    """Memory below the floor, less what is expected to be taken, or a load above the ceiling."""
    use = Use()
    use.hosts["host@m"], use.starting["host@m"] = host, starting
    found = blocked_by(
        Need(Pool("host", 5, "file", pressure_limits=pressure_limits), "host@m", 1),
        "normal",
        use,
        Ms(0),
    )
    assert (f"{found.code}: {explain(found, Ms(0))}" if found else None) == said


def test_a_machine_without_a_limit_can_be_strained() -> None:
    """The floor holds also where the number of agents has no limit."""
    use = Use()
    use.hosts["host"] = Host(GIB, 0, 1)
    pool = Pool("host", None, "file", pressure_limits=FLOOR)
    found = blocked_by(Need(pool, "host", 1), "normal", use, Ms(0))
    assert found is not None
    assert found.code == "memory_low"


def test_who_borrows_its_seats_is_let_in() -> None:
    """A child that runs on its parent's seats is part of work in progress: it is not kept out."""
    use = Use()
    use.hosts["host"] = Host(GIB, 0, 1)
    assert (
        blocked_by(Need(Pool("host", 5, "file", pressure_limits=FLOOR), "host", 0), "", use, Ms(0))
        is None
    )


def test_a_burst_does_not_get_in_on_the_same_memory() -> None:
    """Each that is let in takes what it is expected to off what is free."""
    pool = Pool("host", 100, "file", pressure_limits=PressureLimits(GIB, 0, GIB // 2))
    use = Use()
    use.hosts["host"] = Host(24 * GIB, 3 * GIB, 8)
    head = Head((0, 0, 0), 0, "normal", (Need(pool, "host", 1),), {})
    let_in = 0
    while not obstacles(head, use, Ms(0)) and let_in < 100:
        use.let_in(head.needs[0], "normal", Ms(0))
        let_in += 1
    assert let_in == 5


def test_nothing_is_kept_for_who_is_held_up_by_its_machine() -> None:
    """A starved head on a strained machine does not idle the seats of the others' pools."""
    host, opus = Pool("host", 9, "file", pressure_limits=FLOOR), Pool("opus", 1, "file")
    head = Head((0, 0, 1), 1, "normal", (Need(host, "host@m", 1), Need(opus, "opus", 1)), {})
    head.overtaken["opus"] = 1
    use = Use()
    keep_seats(head, use, Ms(2))
    assert use.kept == {"opus": 1}
    use.kept.clear()
    use.hosts["host@m"] = Host(GIB, 0, 1)
    keep_seats(head, use, Ms(2))
    assert use.kept == {}


def test_danger_is_below_half_of_the_floor() -> None:
    """What runs is in danger long after nothing more is let in."""
    assert pressure.in_danger(FLOOR, PLENTY._replace(free=GIB // 2)) is None
    found = pressure.in_danger(FLOOR, PLENTY._replace(free=300 * MIB))
    assert found == ("memory_low", "300 MiB free, below half of its floor (512 MiB)")
    assert pressure.in_danger(PressureLimits(0, 2.0), PLENTY._replace(free=0)) is None


@given(st.integers(0, 2**50), st.integers(0, 2**50), st.floats(0, 1e6), st.integers(1, 2**50))
def test_auto_is_always_a_limit(memory: int, free: int, cores: float, agent: int) -> None:
    """Whatever a machine has, the limit is one, and the default floor is less than all of it."""
    host = Host(memory, free, cores)
    assert 1 <= auto_limit.auto_limit(host, agent) <= MOST
    assert auto_limit.auto_floor(host) <= min(memory, GIB)


@pytest.mark.parametrize(
    "text,size",
    [
        ("512MiB", 512 * MIB),
        ("1.5 gib", 3 * GIB // 2),
        ("2GB", 2 * 10**9),
        ("700M", 700 * MIB),
        ("1t", 2**40),
        ("100 b", 100),
        ("8kb", 8_000),
    ],
)
def test_sizes_are_read(text: str, size: int) -> None:
    """Binary units, decimal ones with a plain B, spaces and any case."""
    assert parse_size(text) == size


@pytest.mark.parametrize("bad", ["", 1.5, True, "GiB", "-1GiB", "1e9M", "9" * 99, "99999999T"])
def test_what_is_no_size_is_refused(bad: object) -> None:
    """No text is too odd for a clear answer."""
    with pytest.raises(UsageError, match="bad size"):
        parse_size(bad)


@pytest.mark.parametrize(
    "size,text",
    [(0, "0 B"), (999, "999 B"), (1_000, "1 KiB"), (1_536, "1.5 KiB"), (GIB, "1 GiB"), (-5, "0 B")],
)
def test_sizes_are_shown(size: int, text: str) -> None:
    """In three digits at most."""
    assert show_size(size) == text


def test_the_settings_of_a_machine() -> None:
    """Sizes, a number, and `off`."""
    said = parse(
        '[pools.host]\nlimit = "Auto"\nmemory_floor = "1GiB"\nload_ceiling = 2\n'
        'agent_memory = "300MB"\n',
        "c.toml",
    )
    assert said.pools["host"] == Declared(
        limit=AUTO, memory_floor=GIB, load_ceiling=2.0, agent_memory=300_000_000
    )
    off = parse('[pools.host]\nmemory_floor = "off"\nload_ceiling = "Off"\n', "c.toml")
    assert off.pools["host"] == Declared(memory_floor=0, load_ceiling=0.0)
    low = parse("[pools.host]\nload_ceiling = 0.2\n", "c.toml")
    assert "2.0 is usual" in low.warnings[0]


@pytest.mark.parametrize(
    "text,said",
    [
        ("memory_floor = 1024", 'found 1024, expected a size such as "512MiB"'),
        ('memory_floor = "1KiB"', 'found "1KiB", expected a size'),
        ("memory_floor = true", "found true, expected a size"),
        ('load_ceiling = "2"', 'found "2", expected a number from 0.1 to 1000'),
        ("load_ceiling = 0", "found 0, expected a number"),
        ("load_ceiling = nan", "found nan, expected a number"),
        ("load_ceiling = true", "found true, expected a number"),
        ('agent_memory = "off"', 'found "off", expected a size'),
    ],
)
def test_bad_settings_of_a_machine_are_refused(text: str, said: str) -> None:
    """What was found, and what is allowed."""
    with pytest.raises(ConfigError) as error:
        parse(f"[pools.host]\n{text}\n", "c.toml")
    assert said in str(error.value)


@pytest.mark.parametrize(
    "text,said",
    [
        ('memory_floor = "1GiB"', "only on host"),
        ("load_ceiling = 2.0", "only on host"),
        ('agent_memory = "1GiB"', "only on host"),
        ('limit = "auto"', "which only host can have"),
    ],
)
def test_only_a_machine_has_memory(text: str, said: str) -> None:
    """The pool of an account takes none of it, and is told where it belongs."""
    with pytest.raises(ConfigError) as error:
        parse(f"[pools.anthropic]\n{text}\n", "c.toml")
    assert said in str(error.value)
