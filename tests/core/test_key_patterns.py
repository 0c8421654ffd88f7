"""What work uses, and the patterns that pools are named by."""

import string
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.key_patterns import HOST, NO_KEY, matches, parse_key, parse_pattern
from headgate.errors import UsageError

_ALNUM = string.ascii_lowercase + string.digits
_MODEL = string.ascii_letters + string.digits + "-._:/[](){}^$+@#~!%&<>é模"

providers = st.builds(
    str.__add__,
    st.sampled_from(_ALNUM),
    st.text(_ALNUM + "._@+-", max_size=20),
).filter(lambda name: name != HOST)
models = st.text(_MODEL, min_size=1, max_size=60).filter(lambda model: "//" not in f"/{model}/")
keys = st.builds("{}/{}".format, providers, models)
wild_models = st.text(_MODEL + "*?", min_size=1).filter(lambda model: "//" not in f"/{model}/")
globs = st.builds("{}/{}".format, providers | st.just("*"), wild_models)


@pytest.mark.parametrize(
    "text, key",
    [
        ("  anthropic/claude-opus-4-6\n", "anthropic/claude-opus-4-6"),
        ("OpenAI/GPT-5", "openai/GPT-5"),
        ("openrouter/anthropic/claude-opus-4", "openrouter/anthropic/claude-opus-4"),
        ("anthropic/claude-sonnet-4[1m]", "anthropic/claude-sonnet-4[1m]"),
        ("ollama/llama3:70b", "ollama/llama3:70b"),
        ("a/host", "a/host"),
        ("hosted/x", "hosted/x"),
        ("me@corp.example+eu/m", "me@corp.example+eu/m"),
        ("7/x", "7/x"),
    ],
)
def test_a_key_is_trimmed_and_its_provider_lowered(text: str, key: str) -> None:
    """A key is trimmed and lower-cased in its provider; its model stays as given."""
    assert parse_key(text) == key


@pytest.mark.parametrize(
    "text, hint",
    [
        ("", "run without -m"),
        ("anthropic", "PROVIDER/MODEL"),
        ("anthropic/", "PROVIDER/MODEL"),
        ("/claude-opus-4-6", "PROVIDER/MODEL"),
        ("anthropic/claude-opus-*", "wildcards belong in the name of a pool"),
        ("anthropic/claude-opus-?", "wildcards belong in the name of a pool"),
        ("*/claude-opus-4-6", "wildcards belong in the name of a pool"),
        ("host/x", "'host' is the machine's pool"),
        ("HOST/x", "'host' is the machine's pool"),
        ("my provider/x", "a provider is letters"),
        ("-x/y", "a provider is letters"),
        ("prövider/x", "a provider is letters"),
        ("a/claude opus", "cannot contain ' '"),
        ("a/claude\nopus", r"cannot contain '\\n'"),
        ("a/x\u00a0y", "cannot contain"),
        ("a/x\x1b[31my", r"cannot contain '\\x1b'"),
        ("a/x\u202ey", r"cannot contain '\\u202e'"),
        ("a/x\ud800y", r"cannot contain '\\ud800'"),
        ("a/x,y", "cannot contain ','"),
        ("a/x=y", "cannot contain '='"),
        ("a/x|y", "cannot contain"),
        ("a/x`y", "cannot contain"),
        ("a/x'y", "cannot contain"),
        ('a/x"y', "cannot contain"),
        ("a/x\\y", "cannot contain"),
        ("a/" + "x" * 199, "201 characters, at most 200"),
    ],
)
def test_a_bad_key_is_a_clear_error(text: str, hint: str) -> None:
    """A bad key is refused with what is wrong with it, in one short printable line."""
    with pytest.raises(UsageError, match=hint) as caught:
        parse_key(text)
    message = str(caught.value)
    assert message.startswith("bad key ")
    assert message.isprintable()
    assert len(message) < 400


@pytest.mark.parametrize(
    "value",
    [None, 5, b"a/b"],
)
@pytest.mark.parametrize("parse", [parse_key, parse_pattern])
def test_only_text_is_a_key_or_a_pattern(parse: Callable[[object], str], value: object) -> None:
    """Anything but text is refused with the type that was found."""
    with pytest.raises(UsageError, match=f"expected text, found {type(value).__name__}"):
        parse(value)


def test_the_longest_key_is_allowed() -> None:
    """Two hundred characters are allowed."""
    key = "a/" + "x" * 198
    assert parse_key(key) == key


@given(keys)
def test_parsing_a_key_twice_changes_nothing(key: str) -> None:
    """A parsed key parses to itself, whatever the spaces around it and the provider's case."""
    parsed = parse_key(key)
    assert parse_key(parsed) == parsed
    provider, _, model = key.partition("/")
    assert parse_key(f"  {provider.upper()}/{model}\n") == parsed


@given(st.text(max_size=250))
def test_any_text_is_a_key_or_a_usage_error(text: str) -> None:
    """Any text either parses to a stable, printable key or raises a UsageError."""
    try:
        parsed = parse_key(text)
    except UsageError:
        return
    assert parse_key(parsed) == parsed
    assert parsed.isprintable()
    assert not set(parsed) & set(" ,=*?")


@pytest.mark.parametrize(
    "text, pattern",
    [
        ("host", "host"),
        (" HOST ", "host"),
        ("*", "*"),
        ("open*", "open*"),
        ("Anthropic/Claude-*", "anthropic/Claude-*"),
        ("a?c/x?", "a?c/x?"),
        ("a/sonnet[1m]", "a/sonnet[1m]"),
    ],
)
def test_a_pattern_is_normalised(text: str, pattern: str) -> None:
    """A pattern is trimmed and lower-cased in its provider; wildcards are allowed."""
    assert parse_pattern(text) == pattern


@pytest.mark.parametrize(
    "text, hint",
    [
        ("", "expected host, a PROVIDER, PROVIDER/MODEL, or role:NAME"),
        ("a/", "expected host, a PROVIDER, PROVIDER/MODEL, or role:NAME"),
        ("host/x", "'host' stands alone"),
        ("a b", "a provider is letters"),
        ("[ab]/x", "a provider is letters"),
        ("a/x y", "cannot contain ' '"),
        ("a/x,y", "cannot contain ','"),
        ("a/x\x1by", r"cannot contain '\\x1b'"),
        ("*" * 10_000, "10000 characters, at most 200"),
    ],
)
def test_a_bad_pattern_is_a_clear_error(text: str, hint: str) -> None:
    """A bad pool name is refused with what is wrong with it, in one short printable line."""
    with pytest.raises(UsageError, match=hint) as caught:
        parse_pattern(text)
    message = str(caught.value)
    assert message.startswith("bad pool ")
    assert message.isprintable()
    assert len(message) < 400


@given(st.text(max_size=250) | globs)
def test_parsing_a_pattern_twice_changes_nothing(text: str) -> None:
    """Any text either parses to a stable pattern or raises a UsageError."""
    try:
        parsed = parse_pattern(text)
    except UsageError:
        return
    assert parse_pattern(parsed) == parsed


@pytest.mark.parametrize(
    "pattern, key, sits",
    [
        # exact
        ("anthropic/claude-opus-4-6", "anthropic/claude-opus-4-6", True),
        ("anthropic/claude-opus-4-6", "anthropic/claude-opus-4-65", False),
        ("anthropic/claude-opus-4-6", "openai/claude-opus-4-6", False),
        ("anthropic/Claude", "anthropic/claude", False),
        # a whole provider
        ("anthropic", "anthropic/claude-opus-4-6", True),
        ("anthropic", "anthropic/x/y", True),
        ("anthropic", "anthropic2/x", False),
        ("anthropic", "openrouter/anthropic", False),
        # globs
        ("anthropic/claude-opus-*", "anthropic/claude-opus-4-6", True),
        ("anthropic/claude-opus-*", "anthropic/claude-opus-", True),
        ("anthropic/claude-opus-*", "bedrock/claude-opus-4-6", False),
        ("*/claude-opus-*", "bedrock/claude-opus-4-6", True),
        ("*/claude-opus-*", "openrouter/anthropic/claude-opus-4", False),
        ("openrouter/*/claude-opus-*", "openrouter/anthropic/claude-opus-4", True),
        ("*/*claude-opus-*", "openrouter/anthropic/claude-opus-4", True),
        ("a/*", "a/x/y/z", True),
        ("*", "a/x", True),
        ("*/*", "a/x", True),
        ("open*", "openai/x", True),
        ("open*", "anthropic/open", False),
        ("a/x?", "a/x1", True),
        ("a/x?", "a/x", False),
        ("a/x?", "a/x12", False),
        ("a?c/x", "abc/x", True),
        ("a?c/x", "ac/x", False),
        # brackets and the signs of regular expressions stand for themselves
        ("a/sonnet[1m]", "a/sonnet[1m]", True),
        ("a/sonnet[1m]", "a/sonnet1", False),
        ("a/*[1m]", "a/sonnet[1m]", True),
        ("a/x.y", "a/x.y", True),
        ("a.b/x", "acb/x", False),
        ("a/x+", "a/xx", False),
        ("a/x+", "a/x+", True),
        ("a/^x$", "a/^x$", True),
        # host
        ("host", "a/x", True),
        ("host", NO_KEY, True),
        ("*", NO_KEY, False),
        ("a", NO_KEY, False),
        ("*/*", NO_KEY, False),
    ],
)
def test_which_work_sits_in_which_pool(pattern: str, key: str, sits: bool) -> None:  # noqa: FBT001
    """Only `*` and `?` are special; a provider alone takes all its models; host takes all work."""
    assert parse_pattern(pattern) == pattern
    if key:
        assert parse_key(key) == key
    assert matches(pattern, key) is sits


@given(keys, keys)
def test_an_exact_pattern_picks_exactly_its_key(key: str, other: str) -> None:
    """A pattern made from a key matches that key and no other."""
    key, other = parse_key(key), parse_key(other)
    pattern = parse_pattern(key)
    assert pattern == key
    assert matches(pattern, key)
    assert matches(pattern, other) is (key == other)


@given(keys, st.data())
def test_an_exact_pattern_does_not_pick_a_near_miss(key: str, data: st.DataObject) -> None:
    """A pattern made from a key does not match the key with one character changed or added."""
    place = data.draw(st.integers(key.index("/") + 1, len(key)))
    sign = data.draw(st.sampled_from(_MODEL))
    longer = key[:place] + sign + key[place:]
    changed = key[:place] + sign + key[place + 1 :]
    assert not matches(key, longer)
    assert matches(key, changed) is (changed == key)


@given(keys, st.data())
def test_a_glob_made_from_a_key_picks_it(key: str, data: st.DataObject) -> None:
    """A key still sits in the pool when any piece of its model is replaced by a star."""
    provider, _, model = key.partition("/")
    start = data.draw(st.integers(0, len(model)))
    end = data.draw(st.integers(start, len(model)))
    assert matches(f"{provider}/{model[:start]}*{model[end:]}", key)
    assert matches(f"*/{model[:start]}*{model[end:]}", key)
    assert matches(provider, key)
    assert matches(HOST, key)


def test_a_pattern_of_many_stars_answers_at_once() -> None:
    """A pattern full of stars is decided without trying every way to split the name."""
    assert not matches("a/" + "*x" * 40 + "y", "a/" + "x" * 190)
