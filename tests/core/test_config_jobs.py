"""The table `[jobs]`: when agents are ended, and what becomes of their jobs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.config import load
from headgate.config.check import parse
from headgate.core.agents.run_limits import JobPolicy, RunLimits
from headgate.core.quantities import parse_size
from headgate.core.times import Ms
from headgate.errors import ConfigError, UsageError

TIME = 'expected a time such as "90s" or "1h", more than none and at most "366d"'
FLAG = "expected true or false"
SIZE = 'expected a size from "64KiB" to "1TiB", such as "64MiB"'
MANY = "expected a whole number from {} to 1000000"


def said(text: str) -> list[str]:
    """The lines of the error that this text causes."""
    with pytest.raises(ConfigError) as caught:
        parse(text, "c.toml")
    return str(caught.value).split("\n")


def test_without_a_table_the_defaults_count() -> None:
    """No file, an empty file and an empty table say the same."""
    assert load(None).jobs == parse("", "c").jobs == parse("[jobs]", "c").jobs == JobPolicy()


def test_every_setting_is_read() -> None:
    """Each arrives in milliseconds, bytes and numbers."""
    config = parse(
        """
        [jobs]
        patience = "2m"
        stale_after = "45m"
        max_runtime = "12h"
        max_tool_calls = 4000
        same_tool_calls = 20
        park = false
        attempts = 3
        backoff = "1s"
        longest_backoff = 60
        expires = "Never"
        keep = "forever"
        log_size = "1GiB"
        fallback_after = 0
        """,
        "c.toml",
    )
    assert config.warnings == ()
    limits = RunLimits(Ms(120_000), Ms(2_700_000), Ms(43_200_000), 4_000, 20, park=False)
    assert config.jobs == JobPolicy(limits, 3, Ms(1_000), Ms(60_000), None, None, 2**30, Ms(0))


@pytest.mark.parametrize(
    "name", ["stale_after", "max_runtime", "max_tool_calls", "same_tool_calls"]
)
def test_an_end_can_be_switched_off(name: str) -> None:
    """The word is "off", in any case."""
    limits = parse(f'[jobs]\n{name} = " Off "', "c.toml").jobs.limits
    assert limits._asdict() == {**RunLimits()._asdict(), name: None}


@pytest.mark.parametrize(
    "setting, problem",
    [
        ("patience = 0", f"found 0, {TIME}; park = false ends no agent for a refusal"),
        ('patience = "off"', f'found "off", {TIME}; park = false ends no agent for a refusal'),
        ("stale_after = -1", f'found -1, {TIME}, or "off"'),
        ('stale_after = "never"', f'found "never", {TIME}, or "off"'),
        ("max_runtime = false", f'found false, {TIME}, or "off"'),
        ("max_tool_calls = 0", f'found 0, {MANY.format(1)}, or "off"'),
        ('max_tool_calls = "200"', f'found "200", {MANY.format(1)}, or "off"'),
        ("same_tool_calls = 1", f'found 1, {MANY.format(2)}, or "off"'),
        ("park = 1", f"found 1, {FLAG}"),
        ("attempts = 0", "found 0, expected a whole number from 1 to 1000"),
        ("attempts = 1001", "found 1001, expected a whole number from 1 to 1000"),
        ("backoff = 0", f"found 0, {TIME}"),
        ('longest_backoff = "367d"', f'found "367d", {TIME}'),
        ('expires = "off"', f'found "off", {TIME}, or "never"'),
        ('keep = "never"', f'found "never", {TIME}, or "forever"'),
        ('log_size = "63KiB"', f'found "63KiB", {SIZE}'),
        ('log_size = "2TiB"', f'found "2TiB", {SIZE}'),
        ("log_size = -1", f"found -1, {SIZE}"),
        ("log_size = 1e9", f"found 1000000000.0, {SIZE}"),
        (f"log_size = 1{'0' * 400}", f"found a number beyond 64 bits, {SIZE}"),
        ("fallback_after = nan", 'found nan, expected a time such as "5m", at most "366d"'),
    ],
)
def test_a_wrong_value_is_refused(setting: str, problem: str) -> None:
    """The error names the file, the setting, what was found and what is allowed."""
    name = setting.partition(" ")[0]
    assert said(f"[jobs]\n{setting}") == [f"c.toml:2: jobs.{name}: {problem}"]


def test_a_misspelt_setting_is_refused_with_advice() -> None:
    """The nearest name is suggested."""
    [line] = said("[jobs]\nmax_tool_call = 5")
    assert line.startswith("c.toml:2: jobs.max_tool_call: unknown; allowed here: patience, ")
    assert line.endswith("did you mean max_tool_calls?")


def test_what_is_no_table_is_refused() -> None:
    """A value in its place is told as such."""
    assert said("jobs = 3") == ["c.toml:1: jobs: found 3, expected a table; write [jobs]"]


@pytest.mark.parametrize(
    "setting, problem",
    [
        (
            'backoff = "20m"',
            "jobs.backoff: backoff is 20m, and longest_backoff less, 10m; raise the latter",
        ),
        (
            'longest_backoff = "1s"',
            "jobs.longest_backoff: backoff is 5s, and longest_backoff less, 1s; raise the latter",
        ),
    ],
)
def test_the_longest_wait_is_not_shorter_than_the_first(setting: str, problem: str) -> None:
    """Which of the two is wrong nobody can tell, so the file is refused."""
    assert said(f"[jobs]\n{setting}") == [f"c.toml:2: {problem}"]


@pytest.mark.parametrize(
    "setting, warning",
    [
        (
            'stale_after = "5m"',
            (
                "stale_after: a working agent may be silent for longer than 5m "
                "(claude writes no text before its end); 45m is safer"
            ),
        ),
        (
            'max_runtime = "5m"',
            "max_runtime: agents run for hours, and are ended after 5m; 12h is safer",
        ),
        (
            "max_tool_calls = 200",
            "max_tool_calls: 200 tool calls are about 9m of work; 4000 is safer",
        ),
        (
            'patience = "10s"',
            (
                "patience: refusals often ask for a longer wait than 10s, "
                "and an agent that obeys is ended; 90s is usual"
            ),
        ),
        (
            "same_tool_calls = 5",
            (
                "same_tool_calls: 5 tool calls are soon made by an agent that waits for something; "
                "100 is usual"
            ),
        ),
    ],
)
def test_what_would_end_healthy_agents_is_warned_of(setting: str, warning: str) -> None:
    """The file is accepted all the same."""
    config = parse(f"[jobs]\n{setting}", "c.toml")
    assert config.warnings == (f"c.toml:2: jobs.{warning}",)


@pytest.mark.parametrize(
    "text, size",
    [
        (65_536, 65_536),
        ("65536", 65_536),
        ("64KiB", 65_536),
        ("64 kib", 65_536),
        ("64K", 65_536),
        ("64kB", 64_000),
        ("1.5MiB", 1_572_864),
        ("1GiB", 2**30),
        ("1T", 2**40),
        ("12b", 12),
        (0, 0),
    ],
)
def test_sizes_are_read(text: object, size: int) -> None:
    """KiB and K are 1024 bytes, kB is 1000."""
    assert parse_size(text) == size


@given(st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.booleans()))
def test_a_size_is_bytes_or_refused(value: object) -> None:
    """Nothing else comes out."""
    try:
        assert parse_size(value) >= 0
    except UsageError as error:
        assert "expected a size" in str(error)  # noqa: PT017 - which of the two is the point
