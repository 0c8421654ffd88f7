"""What is said about a pool, in layers, and what follows from it."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.admission.pool_set import PoolSet, resolve_pools
from headgate.core.admission.pools import (
    COOLDOWN,
    DEFAULTS,
    LEARN,
    OFF,
    STEP_DOWN,
    UNLIMITED,
    Declared,
    Pool,
    PoolRow,
    UsageSource,
)
from headgate.core.admission.setting_precedence import parse_view, read_view
from headgate.core.key_patterns import HOST, NO_KEY
from headgate.core.learning.control_law import Learned, begin
from headgate.core.rate_limits import Rates
from headgate.core.stored_text.stored_values import LEARNED
from headgate.core.times import Ms
from headgate.errors import ConfigError, UsageError

OPUS = "*/claude-opus-*"
KEY = "anthropic/claude-opus-4-6"

names = st.sampled_from(["host", "anthropic", OPUS, "a/sonnet[1m]", "*", "openai/gpt-?"])
limits: st.SearchStrategy[int | str] = st.integers(1, 1_000_000) | st.just(UNLIMITED)


def test_without_a_word_the_defaults_hold() -> None:
    """With no file and nothing set by hand: host 3, opus 4 at any provider, nothing else."""
    pools = resolve_pools({}, []).pools
    assert {name: (pool.limit, pool.source) for name, pool in pools.items()} == {
        HOST: (3, "default"),
        OPUS: (4, "default"),
    }
    assert set(pools) == set(DEFAULTS)


@pytest.mark.parametrize(
    "declared, tuned, view, expected",
    [
        (None, None, "", (3, "default", 3)),
        (5, None, "", (5, "file", 5)),
        (None, 6, "", (6, "hand", 3)),
        (5, 6, "", (6, "hand", 5)),
        (None, None, "host=7", (7, "environment", 3)),
        (5, None, "host=7", (7, "environment", 5)),
        (5, 6, "host=7", (7, "environment", 5)),
        (UNLIMITED, None, "", (None, "file", None)),
        (None, UNLIMITED, "", (None, "hand", 3)),
        (5, 6, "host=unlimited", (None, "environment", 5)),
        (5, UNLIMITED, "host=7", (7, "environment", 5)),
        (5, 6, "anthropic=7", (6, "hand", 5)),
    ],
)
def test_environment_beats_hand_beats_file_beats_default(
    declared: int | str | None,
    tuned: int | str | None,
    view: str,
    expected: tuple[int | None, str, int | None],
) -> None:
    """The strongest layer that says something sets the limit; 'unlimited' is saying something."""
    made = resolve_pools({HOST: Declared(limit=declared)}, [PoolRow(HOST, limit=tuned)])
    pool = made.under(view).pools[HOST]
    assert (pool.limit, pool.source, pool.configured_limit) == expected


@pytest.mark.parametrize(
    "declared, tuned, cooldown",
    [(None, None, 0), (2_000, None, 2_000), (None, 500, 500), (2_000, 500, 500), (2_000, 0, 0)],
)
def test_a_cooldown_has_its_own_layers(
    declared: Ms | None, tuned: Ms | None, cooldown: int
) -> None:
    """A cooldown set by hand, even to nothing, beats the file's, and changes no limit."""
    made = resolve_pools({HOST: Declared(cooldown=declared)}, [PoolRow(HOST, cooldown=tuned)])
    assert made.pools[HOST].cooldown == cooldown
    assert (made.pools[HOST].limit, made.pools[HOST].source) == (3, "default")


@pytest.mark.parametrize(
    "declared, tuned",
    [({"openai": Declared(cooldown=Ms(2_500))}, []), ({}, [PoolRow("openai", cooldown=Ms(2_500))])],
)
def test_a_cooldown_alone_imposes_no_limit(
    declared: dict[str, Declared], tuned: list[PoolRow]
) -> None:
    """A cooldown where no limit exists imposes none, and applies once there is one."""
    made = resolve_pools(declared, tuned)
    assert made.pools["openai"] == Pool("openai", None, "none", cooldown=Ms(2_500), adapt=LEARN)
    limited = made.under("openai=2").pools["openai"]
    assert (limited.limit, limited.cooldown) == (2, 2_500)


def test_a_file_says_more_than_limits() -> None:
    """What the file says of reserve and max_hold, and the hand of pauses, reaches the pool."""
    made = resolve_pools(
        {"a": Declared(limit=4, max_hold=Ms(9_000), reserve=(("interactive", 1),))},
        [PoolRow("a", paused_until=Ms(50), pause_note="tea")],
    )
    assert made.pools["a"] == Pool(
        "a",
        4,
        "file",
        4,
        COOLDOWN,
        Ms(9_000),
        (("interactive", 1),),
        paused_until=Ms(50),
        pause_note="tea",
        most=4,
        adapt=LEARN,
        learned=begin(4),
    )
    assert made.under("a=9").pools["a"] == made.pools["a"]._replace(
        limit=9, source="environment", most=9, adapt=OFF, learned=None
    )


def test_a_file_says_what_else_binds() -> None:
    """A usage endpoint, programs to look for and rates reach the pool as they were written."""
    usage = UsageSource("umans", "https://api.code.umans.ai/v1/usage", "UMANS_API_KEY")
    said = Declared(usage=usage, observe=("claude -p",), rpm=50, tpm=40_000, spacing=Ms(250))
    assert resolve_pools({"a": said}, []).pools["a"] == Pool(
        "a",
        None,
        "none",
        cooldown=COOLDOWN,
        adapt=LEARN,
        usage=usage,
        observe=("claude -p",),
        rates=Rates(50, 40_000, Ms(250)),
    )


@pytest.mark.parametrize(
    "pool, declared, defaults, tuned, expected",
    [
        ("a", Declared(), Declared(), None, (LEARN, 2_000)),
        ("a", Declared(adapt=OFF), Declared(), None, (OFF, 0)),
        ("a", Declared(adapt=STEP_DOWN), Declared(), None, (STEP_DOWN, 2_000)),
        ("a", Declared(), Declared(adapt=OFF), None, (OFF, 0)),
        ("a", Declared(adapt=LEARN), Declared(adapt=OFF), None, (LEARN, 2_000)),
        ("a", Declared(adapt=OFF), Declared(cooldown=Ms(700)), None, (OFF, 700)),
        ("a", Declared(), Declared(cooldown=Ms(700)), None, (LEARN, 700)),
        ("a", Declared(cooldown=Ms(0)), Declared(cooldown=Ms(700)), None, (LEARN, 0)),
        ("a", Declared(cooldown=Ms(300)), Declared(cooldown=Ms(700)), None, (LEARN, 300)),
        ("a", Declared(cooldown=Ms(300)), Declared(cooldown=Ms(700)), 9, (LEARN, 9)),
        ("a", Declared(), Declared(adapt=OFF), 9, (OFF, 9)),
        (HOST, Declared(), Declared(), None, (OFF, 0)),
        (HOST, Declared(), Declared(adapt=LEARN, cooldown=Ms(700)), None, (OFF, 0)),
        (HOST, Declared(cooldown=Ms(300)), Declared(cooldown=Ms(700)), None, (OFF, 300)),
        (OPUS, Declared(), Declared(adapt=OFF), None, (OFF, 0)),
    ],
)
def test_all_but_the_machine_learn_unless_told_otherwise(
    pool: str, declared: Declared, defaults: Declared, tuned: Ms | None, expected: tuple[str, int]
) -> None:
    """Pools learn and let seats rest, or neither; the pool beats [defaults], which skips host."""
    said = declared._replace(limit=3)
    made = resolve_pools({pool: said}, [PoolRow(pool, cooldown=tuned)], defaults).pools[pool]
    assert (made.adapt, made.cooldown) == expected
    assert made.limit == made.most == 3
    assert made.learned == (None if made.adapt == OFF else begin(3))


@pytest.mark.parametrize(
    "limit, expected",
    [
        (None, (None, None, "none", None)),
        (UNLIMITED, (None, None, "hand", None)),
        (4, (4, 4, "hand", begin(4))),
        (LEARN, (begin(None).limit, None, "learned", begin(None))),
    ],
)
def test_a_limit_is_learned_where_there_is_one_to_learn(
    limit: int | str | None, expected: tuple[int | None, int | None, str, Learned | None]
) -> None:
    """Below a number, or from nothing with `learn`; where there is no limit, none comes up."""
    pool = resolve_pools({}, [PoolRow("a", limit)]).pools["a"]
    assert (pool.limit, pool.most, pool.source, pool.learned) == expected


@pytest.mark.parametrize(
    "limit, learned, counts",
    [
        (5, Learned(2, 5), True),
        (LEARN, Learned(7, 0), True),
        (6, Learned(2, 5), False),
        (LEARN, Learned(2, 5), False),
        (5, Learned(7, 0), False),
        (UNLIMITED, Learned(2, 5), False),
    ],
)
def test_what_was_learned_counts_for_the_limit_it_was_learned_below(
    limit: int | str,
    learned: Learned,
    counts: bool,  # noqa: FBT001
) -> None:
    """It sets the limit while that is what it began with, and only in a pool that learns.

    If the pool begins anew, it does so in an epoch of its own: what was sent before is older.
    """
    row = PoolRow("a", limit, learned=LEARNED.write(learned))
    most = limit if isinstance(limit, int) else None
    fresh = None if limit == UNLIMITED else begin(most)._replace(epoch=learned.epoch + 1)
    pool = resolve_pools({}, [row]).pools["a"]
    assert pool.learned == (learned if counts else fresh)
    assert pool.limit == (pool.learned.limit if pool.learned else None)
    assert pool.most == most
    off = resolve_pools({"a": Declared(adapt=OFF)}, [row]).pools["a"]
    assert (off.limit, off.learned) == (most, None)
    viewed = resolve_pools({}, [row]).under("a=9").pools["a"]
    assert (viewed.limit, viewed.most, viewed.learned) == (9, 9, None)


def test_what_was_learned_is_worth_remembering() -> None:
    """A row is forgotten when it says nothing; something learned is something said."""
    assert PoolRow("a").says_nothing
    assert not PoolRow("a", learned="[2]").says_nothing


@pytest.mark.parametrize(
    "until, now, paused", [(None, 0, False), (50, 49, True), (50, 50, False), (50, 51, False)]
)
def test_a_pause_ends_on_time(until: Ms | None, now: int, paused: bool) -> None:  # noqa: FBT001
    """A pool is paused strictly before its time, and not at it."""
    assert Pool("a", 1, "file", paused_until=until).paused(Ms(now)) is paused


def test_a_pool_may_exist_only_in_a_view() -> None:
    """A pool that only HEADGATE_LIMITS names exists for whoever has it, and for nobody else."""
    made = resolve_pools({}, [])
    seen = made.under("anthropic=2")
    assert seen.pools["anthropic"] == Pool("anthropic", 2, "environment", most=2)
    assert [pool.name for pool in seen.of(KEY)] == [OPUS, "anthropic", HOST]
    assert "anthropic" not in made.pools
    assert [pool.name for pool in made.of(KEY)] == [OPUS, HOST]


def test_work_sits_in_every_matching_pool_by_name() -> None:
    """Work sits in each pool that matches its key, in the order of their names."""
    made = resolve_pools(
        {name: Declared(limit=1) for name in ("zai", "anthropic", KEY, "*", "openai/*")}, []
    )
    assert [pool.name for pool in made.of(KEY)] == ["*", OPUS, "anthropic", KEY, HOST]
    assert [pool.name for pool in made.of("zai/glm")] == ["*", HOST, "zai"]
    assert [pool.name for pool in made.of(NO_KEY)] == [HOST]


def test_no_match_is_no_pool() -> None:
    """Work that no pattern matches sits in no pool at all."""
    assert PoolSet({}).of(KEY) == ()


def test_a_book_answers_from_memory() -> None:
    """The pools of a key and the book of a view are worked out once, and never mixed up."""
    made = resolve_pools({}, [])
    assert made.under("") is made
    assert made.of(KEY) is made.of(KEY)
    assert made.under("host=5") is made.under("host=5")
    assert made.under("host=5").of(KEY) is made.under("host=5").of(KEY)
    assert [pool.limit for pool in made.under("host=5").of(KEY)] == [4, 5]
    assert [pool.limit for pool in made.under("host=6").of(KEY)] == [4, 6]
    assert [pool.limit for pool in made.of(KEY)] == [4, 3]


def test_a_book_is_made_of_what_it_was_given() -> None:
    """Changing the mapping a book was made from does not change the book."""
    given_pools = {"a": Pool("a", 1, "file")}
    made = PoolSet(given_pools)
    given_pools.clear()
    assert list(made.pools) == ["a"]


@pytest.mark.parametrize(
    "text, view",
    [
        ("", ""),
        (" , ,\n;", ""),
        ("host=5", "host=5"),
        ("host=5,anthropic/claude-opus-*=4", "anthropic/claude-opus-*=4,host=5"),
        (" HOST = 5 ;\n Anthropic/X = +4 ,", "anthropic/X=4,host=5"),
        ("host=5\nhost=05", "host=5"),
        ("host=Unlimited", "host=unlimited"),
        ("a/sonnet[1m]=1", "a/sonnet[1m]=1"),
    ],
)
def test_a_view_has_one_form(text: str, view: str) -> None:
    """However it was written, the same list of limits becomes the same text."""
    assert parse_view(text) == view


@pytest.mark.parametrize(
    "text, hint",
    [
        ("host", "'host' has no '='"),
        ("host=5,anthropic", "'anthropic' has no '='"),
        ("=5", "in '=5': bad pool ''"),
        ("host=", "in 'host=': bad limit ''"),
        ("host=0", "in 'host=0': bad limit '0'.*headgate pause"),
        ("host=many", "bad limit 'many'"),
        ("host=5=6", "bad limit '5=6'"),
        ("host/x=1", "'host' stands alone"),
        ("a b=1", "a provider is letters"),
        ("host=5,HOST=6", "host is given twice, as 5 and 6"),
        ("host=5,host=unlimited", "host is given twice, as 5 and unlimited"),
    ],
)
def test_a_bad_view_is_a_clear_error(text: str, hint: str) -> None:
    """A bad list names where it stands, the part that is wrong, and what is wrong with it."""
    with pytest.raises(ConfigError, match=f"^HEADGATE_LIMITS: .*{hint}"):
        parse_view(text)
    with pytest.raises(ConfigError, match=r"^--limits: "):
        parse_view(text, "--limits")


@given(st.dictionaries(names, limits), st.randoms(use_true_random=False), st.data())
def test_a_view_says_what_was_written(
    wanted: dict[str, int | str], random: Random, data: st.DataObject
) -> None:
    """A view reads back as the limits that were written, in any order, and parses to itself."""
    parts = [f"{name} = {limit}" for name, limit in wanted.items()]
    view = parse_view(",".join(parts))
    random.shuffle(parts)
    separator = data.draw(st.sampled_from([",", ";", "\n", " , "]))
    assert parse_view(separator.join(parts)) == view
    assert parse_view(view) == view
    assert read_view(view) == wanted


@given(st.text("host=5,;*?/a-\n \0", max_size=30) | st.text(max_size=60))
def test_any_text_is_a_view_or_a_config_error(text: str) -> None:
    """Any text either is a list of limits that reads back, or raises a ConfigError."""
    try:
        view = parse_view(text)
    except ConfigError:
        return
    assert parse_view(view) == view
    assert resolve_pools({}, []).under(view).pools


@given(
    st.dictionaries(names, limits), st.dictionaries(names, limits), st.dictionaries(names, limits)
)
def test_layers_hold_for_every_pool(
    file: dict[str, int | str], hand: dict[str, int | str], env: dict[str, int | str]
) -> None:
    """For every pool of any layer, the strongest layer that names it decides, and no other does."""
    view = parse_view(",".join(f"{name}={limit}" for name, limit in env.items()))
    declared = {name: Declared(limit=limit) for name, limit in file.items()}
    made = resolve_pools(
        declared, [PoolRow(name, limit=limit) for name, limit in hand.items()]
    ).under(view)
    default = {name: pool.limit for name, pool in DEFAULTS.items()}
    assert set(made.pools) == {*file, *hand, *env, *default}
    layers = (("environment", env), ("hand", hand), ("file", file), ("default", default))
    for name, pool in made.pools.items():
        source, said = next((word, layer[name]) for word, layer in layers if name in layer)
        assert (pool.source, pool.limit) == (source, said if said != UNLIMITED else None)


def test_a_config_error_is_a_usage_error() -> None:
    """Whoever catches bad usage also catches a bad list of limits."""
    assert issubclass(ConfigError, UsageError)
