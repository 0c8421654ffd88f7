"""Patterns that users write: none takes longer than its text, and what cannot be so is refused."""

import re
import time
from pathlib import Path

import pytest

import headgate
from headgate.config.check import parse
from headgate.config.profile_fields import BUILTIN as PROFILES
from headgate.config.profiles import _builtin, all_profiles
from headgate.core.agents.find_profile import Profile
from headgate.core.agents.output_lines import look
from headgate.core.answers.builtin_rules import BUILTIN
from headgate.core.answers.classify import Response, classify, classify_line
from headgate.core.user_patterns import UserPattern, user_pattern
from headgate.errors import ConfigError
from headgate.gate.host.foreign_agents import command_pattern
from tests.support import LONG

ENDLESS = [
    "(a+)+$",
    "(a|a)*b",
    "(.*)*x",
    "(x+x+)+y",
    "(a|aa)+$",
    "(a*)*b",
    "([a-zA-Z]+)*1",
    r"(\w+\s?)+!",
    "(.*a){25}b",
    "(?:(?:(?:a+)+)+)+z",
    ".*.*.*.*.*.*.*.*=",
]
LONG_LINE = "a" * 8_000 + "!"
PLACES = {
    "a rule's line": "[[classify]]\nsignal = 'none'\nline = '{}'",
    "a rule's body": "[[classify]]\nsignal = 'none'\nbody = '{}'",
    "a rule's header": "[[classify]]\nsignal = 'none'\nheader = {{ 'x-a' = '{}' }}",
    "a profile's session_line": "[profiles.x]\nsession_line = '({})'",
    "a profile's retries": "[profiles.x]\nretries = ['{}']",
    "a changed profile's retries": "[profiles.claude]\nretries = ['{}']",
    "observe": "[pools.a]\nobserve = [{{ process = '{}' }}]",
}
"""Every setting that takes a regular expression."""


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("pattern", ENDLESS)
def test_no_pattern_takes_longer_than_its_text(place: str, pattern: str) -> None:
    """Wherever it is written, and whatever it is tried on."""
    config = parse(PLACES[place].format(pattern), "c.toml")
    begun = time.monotonic()
    rules = (*config.classify, *BUILTIN)
    classify_line(LONG_LINE, "", rules)
    classify(Response(429, {"x-a": LONG_LINE}, LONG_LINE * 8), 0.0, rules)  # type: ignore[arg-type]
    for profile in all_profiles(config):
        look(profile, LONG_LINE)
    for pool in config.pools.values():
        for one in pool.observe or ():
            command_pattern(one).search(LONG_LINE * 100)
    assert time.monotonic() - begun < LONG


def test_the_table_of_places_is_whole() -> None:
    """A setting that takes a pattern reads it with `pattern`, which is in these files alone."""
    source = Path(headgate.__file__).parent
    users = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if re.search(r"import \(?[^)]*\b(?:pattern|user_pattern)\b,?\n?[^)]*", path.read_text())
        and re.search(r"\b(?:pattern|user_pattern)\b[(,)]", path.read_text())
    }
    assert users == {
        "config/pool_fields.py",
        "config/profile_fields.py",
        "core/agents/output_lines.py",
        "core/answers/answer_rules.py",
        "core/answers/classify.py",
        "core/table_fields.py",
        "core/user_patterns.py",
        "gate/host/foreign_agents.py",
    }


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "pattern, why",
    [
        (r"(a)\1", "without backreferences"),
        (r"(?P<n>a)(?P=n)", "without backreferences"),
        ("a(?=b)", "without lookaround"),
        ("a(?!b)", "without lookaround"),
        ("(?<=a)b", "without lookaround"),
        ("(?<!a)b", "without lookaround"),
        ("(?>a+)b", "without atomic groups"),
        ("a++b", "without possessive repetition"),
        (r"ab\Z", r"the end of the text is \z or $"),
        ("a{1001}", "at most 1000 repetitions are allowed"),
        ("(a{100}){100}", "at most 1000 repetitions are allowed"),
        ("a{99999999999}", "at most 1000 repetitions are allowed"),
        (r".{1000}.{1000}", "too large"),
    ],
)
def test_what_cannot_be_matched_in_linear_time_is_refused(
    place: str, pattern: str, why: str
) -> None:
    """When the file is read; the message names the file, the setting, the pattern and the cause."""
    with pytest.raises(ConfigError) as caught:
        parse(PLACES[place].format(pattern), "c.toml")
    text = str(caught.value)
    name = next(word for word in re.findall(r"\w+", place)[::-1] if word in PLACES[place])
    assert text.startswith("c.toml:")
    assert name in text
    assert why in text
    assert ("x-a" if name == "header" else re.findall(r"\w+", pattern)[0]) in text


def test_what_is_wrong_with_a_pattern_does_not_repeat_all_of_it() -> None:
    """A pattern may be the place where somebody has put a key."""
    with pytest.raises(ConfigError) as caught:
        parse("[[classify]]\nsignal = 'none'\nbody = '(sk-ant-api03-hunter2hunter2'", "c.toml")
    assert "missing )" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_without_re2_only_patterns_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install; a file without patterns is as good as ever."""
    monkeypatch.setitem(__import__("sys").modules, "re2", None)
    user_pattern.cache_clear()
    with pytest.raises(ConfigError, match=r"retries: .*pip install 'google-re2'"):
        parse("[profiles.x]\nretries = ['never seen']", "c.toml")
    parse("[profiles.x]\nprograms = ['x']", "c.toml")


def test_patterns_of_our_own_mean_the_same_to_re2() -> None:
    """So a profile may mix them with a user's; those of rules are told by their text."""
    for profile in map(_builtin, PROFILES):
        assert profile.builtin
        for pattern in filter(None, (profile.session_line, *profile.retries)):
            UserPattern(pattern)
    config = parse("[profiles.claude]\nsilent = true\n[profiles.x]\nlike = 'codex'", "c.toml")
    assert all(profile.builtin for profile in all_profiles(config))
    config = parse("[profiles.x]\nlike = 'codex'\nretries = ['a']", "c.toml")
    assert not next(one for one in all_profiles(config) if one.name == "x").builtin


@pytest.mark.parametrize(
    "text", ["\ud800 lone", "ü" * 100, "\x00", "", "\U0001f600", "a\udfffb", "x" * 10**6]
)
def test_any_text_can_be_looked_at(text: str) -> None:
    """Halves of characters come from JSON and from command lines; nothing raises."""
    rules = parse(PLACES["a rule's line"].format("(?P<status>.*)lone"), "c.toml").classify
    quoted = parse(
        "[[classify]]\nsignal = 'quoted'\nline = '(?P<status>.*)(?P<body>)'", "c.toml"
    ).classify
    for some in (rules, quoted):
        classify_line(text, "", some)
        classify_line(f'{{"type": "error", "message": "{text}"}}', "", some)
    look(Profile("x", retries=("lone",), session_line="(l)one"), text)
    command_pattern("lone").search(text)


HOSTILE = [
    *("a", "1", " ", "-", ".", "://", "{", "[[", "\x1b[", "\x1b]", "eyJ", "sk-", "Bearer ", "1h"),
    *("try again in 1", "resets 1", "retry after 1h1m1s ", "rate limit ", "429 ", '"code": "'),
    *("ERROR 12:12:12 ", "Number of a ", 'timestamp=1234567890 level=ERROR run=a message="', "a:"),
]


@pytest.mark.parametrize("part", HOSTILE)
def test_our_own_patterns_take_no_longer_than_their_text(part: str) -> None:
    """They are matched by Python's `re`: tried on what comes near to each of them."""
    line, body = (part * 8_192)[:8_192], (part * 65_536)[:65_536]
    begun = time.monotonic()
    classify_line(line)
    for status in (200, 400, 429, 503):
        classify(Response(status, {"retry-after": line}, body, "anthropic"), 0.0)  # type: ignore[arg-type]
    for profile in map(_builtin, PROFILES):
        look(profile, line)
    assert time.monotonic() - begun < LONG
