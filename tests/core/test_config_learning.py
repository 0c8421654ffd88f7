"""The settings of pools that learn, and the rules for reading answers."""

import os
import subprocess
import sys
import textwrap
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.config import GRACE, Config, load
from headgate.config.check import parse
from headgate.config.error_text import hide, key_like
from headgate.core.admission.pools import AGENTS, Declared, UsageSource
from headgate.core.answers.answer_rules import Rule
from headgate.core.times import Ms
from headgate.errors import ConfigError

ALLOWED = "pools, defaults, classify, run, jobs, profiles, notify, server, store, templates"

LIMIT = (
    'expected a whole number from 1 to 1000000, "unlimited" or "learn"; to let nothing in, pause it'
)
ADAPT = 'expected "learn", "step-down" or "off"'
TIME = 'expected a time such as "500ms", "2s", "1m30s" or "1h", at most "366d"'
RATE = "expected a whole number from 1 to 1000000000"
SPACING = 'expected a time such as "500ms" or "2s", at most "1h"'
KIND = 'expected "umans", "featherless", "json" or "python"'
URL = "expected a URL such as https://api.example.com/usage"
ENV = 'expected the name of an environment variable, as in "UMANS_API_KEY"'
PATH = 'expected the place of a number in the answer, as in "data.0.in_flight"'
CALL = 'expected a function, as in "package.module:function"'
EVERY = 'expected a time from "250ms" to "10m"'
MARGIN = "expected a whole number from 0 to 1000"
PROCESS = 'expected a regular expression of 1 to 1000 characters, as in "(^|/)claude( |$)"'
TABLE = 'as in { process = "(^|/)claude( |$)" }'
NOT_ON_HOST = (
    "not on host, which has nothing upstream; "
    "put it under a provider's pool, as in [pools.anthropic]"
)
BY_ENV = "keys come from the environment: name the variable in key_env"
NO_URL = f"url: found a text that is not such a URL; {URL}"
NO_NAME = f"key_env: found a text that is no name; it is not repeated, for it may be a key; {ENV}"
A_KEY = (
    "key_env: found what looks like a key, which is not repeated here; "
    f"put it into an environment variable, and write the name of that; {ENV}"
)


def said(text: str) -> list[str]:
    """The lines of the error that this text causes."""
    with pytest.raises(ConfigError) as caught:
        parse(text, "c.toml")
    return str(caught.value).split("\n")


def pool(settings: str, name: str = "umans") -> Declared:
    """What these settings of a pool say, if nothing is odd about them."""
    config = parse(f"[pools.{name}]\n{settings}", "c.toml")
    assert config.warnings == ()
    return config.pools[name]


# What is accepted.


@pytest.mark.parametrize(
    "setting, declared",
    [
        ('limit = "learn"', Declared(limit="learn")),
        ('limit = " Learn "', Declared(limit="learn")),
        ('limit = "learn"\nreserve.normal = 2', Declared(limit="learn", reserve=(("normal", 2),))),
        ('limit = "learn"\nadapt = "learn"', Declared(limit="learn", adapt="learn")),
        ('adapt = "learn"', Declared(adapt="learn")),
        ('adapt = "Step-Down"', Declared(adapt="step-down")),
        ('adapt = "off"', Declared(adapt="off")),
        ("rpm = 1", Declared(rpm=1)),
        ("rpm = 1000000000", Declared(rpm=1_000_000_000)),
        ("tpm = 1000", Declared(tpm=1_000)),
        ('spacing = "250ms"', Declared(spacing=Ms(250))),
        ("spacing = 0", Declared(spacing=Ms(0))),
        ("observe = []", Declared(observe=())),
        ("observe = [{ process = 'claude' }]", Declared(observe=("claude",))),
        (
            (
                "[[pools.umans.observe]]\nprocess = '(^|/)pi( |$)'\n"
                "[[pools.umans.observe]]\nprocess = 'opencode|crush'"
            ),
            Declared(observe=("(^|/)pi( |$)", "opencode|crush")),
        ),
    ],
)
def test_what_a_pool_may_say(setting: str, declared: Declared) -> None:
    """Each new setting of a pool arrives as it is meant, in seats and milliseconds."""
    assert pool(setting) == declared


@pytest.mark.parametrize(
    "setting, source",
    [
        (
            'kind = "umans", url = "https://api.code.umans.ai/v1/usage", key_env = "UMANS_API_KEY"',
            UsageSource("umans", "https://api.code.umans.ai/v1/usage", "UMANS_API_KEY"),
        ),
        (
            'kind = "Featherless", url = "https://x.ai/s?a=b&page=2#c", every = "10m", margin = 7',
            UsageSource("featherless", "https://x.ai/s?a=b&page=2#c", every=Ms(600_000), margin=7),
        ),
        (
            (
                'kind = "json", url = "HTTPS://Proxy_1:08443", used = "data.0.in_flight", '
                'limit = "data[0].most seats", every = "250ms", key_env = "_k", margin = 1000'
            ),
            UsageSource(
                "json",
                "HTTPS://Proxy_1:08443",
                "_k",
                "data.0.in_flight",
                "data[0].most seats",
                every=Ms(250),
                margin=1_000,
            ),
        ),
        (
            'kind = "python", call = "my.usage:Meter.read"',
            UsageSource("python", call="my.usage:Meter.read"),
        ),
        (
            'kind = "json", used = "n", url = "http://internal/usage"',
            UsageSource("json", "http://internal/usage", used="n"),
        ),
        *(
            (
                f'kind = "json", used = "n", key_env = "K", url = "http://{host}/u"',
                UsageSource("json", f"http://{host}/u", "K", "n"),
            )
            for host in ("localhost", "localhost.:80", "127.9.0.1:1", "[::1]:65535", "a.LOCALHOST")
        ),
        (
            'kind = "json", used = "n", url = "https://bücher.example/"',
            UsageSource("json", "https://bücher.example/", used="n"),
        ),
        (
            'kind = "json", used = "n", url = "https://a/0123456789abcdef0123456789abcdef/use"',
            UsageSource("json", "https://a/0123456789abcdef0123456789abcdef/use", used="n"),
        ),
    ],
)
def test_where_usage_may_be_read(setting: str, source: UsageSource) -> None:
    """Each kind of source takes what it needs, inline or as a table, and is silent if it is safe.

    A key that is sent without encryption stays on this machine.
    """
    assert pool(f"usage = {{ {setting} }}").usage == source


def test_usage_may_be_a_table_of_its_own() -> None:
    """A source written over several lines means the same."""
    text = 'limit = 4\n[pools.umans.usage]\nkind = "python"\ncall = "a:b"\nmargin = 3\n'
    assert pool(text) == Declared(limit=4, usage=UsageSource("python", call="a:b", margin=3))


def test_host_takes_what_needs_no_upstream() -> None:
    """The machine's pool has starts to space and agents to observe, and may say that it is off."""
    text = 'adapt = "off"\nspacing = "1s"\nobserve = [{ process = "claude" }]'
    assert pool(text, "host") == Declared(adapt="off", spacing=Ms(1_000), observe=("claude",))


def test_defaults_for_all_pools() -> None:
    """[defaults] sets two fields and leaves the pools alone."""
    config = parse('[defaults]\nadapt = "step-down"\ncooldown = "3s"\n[pools.a]\n', "c.toml")
    assert config == Config(
        None, {"a": Declared()}, GRACE, (), Declared(adapt="step-down", cooldown=Ms(3_000)), ()
    )
    assert parse("[defaults]\n", "c.toml") == load(None)
    assert load(None).defaults == Declared()


def test_a_pool_may_learn_where_the_others_do_not() -> None:
    """What a pool says itself beats the defaults."""
    text = '[defaults]\nadapt = "off"\n[pools.a]\nlimit = "learn"\nadapt = "learn"\n'
    assert parse(text, "c.toml").pools["a"] == Declared(limit="learn", adapt="learn")


def test_rules_for_answers() -> None:
    """Each [[classify]] becomes a rule, in order; one without a name is known by its number."""
    config = parse(
        """
        [[classify]]
        name = "mine"
        status = [429, "500-599"]
        signal = "concurrency-limited"
        [classify.header]
        x-reason = "^seats$"
        [[classify]]
        line = "FATAL"
        signal = "none"
        """,
        "c.toml",
    )
    assert config.warnings == ()
    assert config.classify == (
        Rule(
            "mine",
            "concurrency-limited",
            status=(429, range(500, 600)),
            header={"x-reason": "^seats$"},
        ),
        Rule("entry 2", "none", line="FATAL"),
    )
    assert parse("classify = []", "c.toml") == load(None)


# What is refused.


@pytest.mark.parametrize(
    "setting, problem",
    [
        ("limit = 0", f"limit: found 0, {LIMIT}"),
        ('limit = "lern"', f'limit: found "lern", {LIMIT}'),
        ('adapt = "no"', f'adapt: found "no", {ADAPT}'),
        ("adapt = false", f"adapt: found false, {ADAPT}"),
        ("adapt = ['learn']", f"adapt: found a list, {ADAPT}"),
        ("rpm = 0", f"rpm: found 0, {RATE}"),
        ("rpm = 1000000001", f"rpm: found 1000000001, {RATE}"),
        ("rpm = true", f"rpm: found true, {RATE}"),
        ("rpm = 1.5", f"rpm: found 1.5, {RATE}"),
        ("rpm = '60'", f'rpm: found "60", {RATE}'),
        (f"rpm = 0x{'f' * 9_000}", f"rpm: found a number beyond 64 bits, {RATE}"),
        ("tpm = {}", f"tpm: found a table, {RATE}"),
        ("spacing = '61m'", f'spacing: found "61m", {SPACING}'),
        ("spacing = -1", f"spacing: found -1, {SPACING}"),
        (f"spacing = 1{'0' * 400}", f"spacing: found a number beyond 64 bits, {SPACING}"),
        ("usage = 3", "usage: found 3, expected a table; write [pools.umans.usage]"),
        ("usage = 'umans'", 'usage: found "umans", expected a table; write [pools.umans.usage]'),
        ("usage = []", "usage: found a list, expected a table; write [pools.umans.usage]"),
        ("usage = {}", f"usage: kind: missing, {KIND}"),
        ("usage = { kind = 'uman' }", f'usage.kind: found "uman", {KIND}'),
        ("usage = { kind = 1 }", f"usage.kind: found 1, {KIND}"),
        ("observe = 3", f"observe: found 3, expected a list of tables, {TABLE[:6]}[{TABLE[6:]}]"),
        ("observe = ['claude']", f'observe: entry 1: found "claude", expected a table, {TABLE}'),
        ("observe = [{}]", f"observe: entry 1: process: missing, {PROCESS}"),
        (
            "observe = [{ process = 'claude' }, { process = 3 }]",
            f"observe: entry 2: process: found 3, {PROCESS}",
        ),
        (
            "observe = [{ process = 'claude', name = 3 }]",
            "observe: entry 1: name: unknown; allowed here: process",
        ),
        (
            "observe = [{ process = '(' }]",
            (f'observe: entry 1: process: found "(" (missing ): (), {PROCESS}'),
        ),
        (
            "observe = [{ process = 'a{99999999999999999999}' }]",
            (
                'observe: entry 1: process: found "a{99999999999999999999}" '
                "(repetition size; at most 1000 repetitions are allowed, nested ones multiplied), "
                f"{PROCESS}"
            ),
        ),
        (
            f"observe = [{{ process = '{'(' * 499}{')' * 499}' }}]",
            (
                f'observe: entry 1: process: found "{"(" * 30}…{")" * 30}", '
                f"which is in every command line; {PROCESS}"
            ),
        ),
        ("observe = [{ process = '' }]", f'observe: entry 1: process: found "", {PROCESS}'),
        *(
            (
                f"observe = [{{ process = '{pattern}' }}]",
                (
                    f'observe: entry 1: process: found "{pattern}", '
                    f"which is in every command line; {PROCESS}"
                ),
            )
            for pattern in (".*", " ", "x*", "a|")
        ),
        (
            f"observe = [{{ process = '{'x' * 1_001}' }}]",
            f'observe: entry 1: process: found "{"x" * 30}…{"x" * 30}", {PROCESS}',
        ),
        (
            f"observe = [{', '.join(['{ process = 3 }'] * 51)}]",
            "observe: found 51 tables, expected at most 50",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(setting: str, problem: str) -> None:
    """The message names the line, the key, what was found and what is allowed."""
    assert said(f"\n[pools.umans]\n{setting}") == [f"c.toml:3: pools.umans.{problem}"]


@pytest.mark.parametrize(
    "setting, problem",
    [
        ('kind = "umans"', f': url: missing; kind = "umans" needs {URL[9:]}'),
        ('kind = "json", used = "a"', f': url: missing; kind = "json" needs {URL[9:]}'),
        ('kind = "json", url = "https://a"', f': used: missing; kind = "json" needs {PATH[9:]}'),
        ('kind = "python"', f': call: missing; kind = "python" needs {CALL[9:]}'),
        (
            'kind = "python", call = "a:b", url = "nowhere"',
            '.url: not with kind = "python", only with "umans", "featherless" or "json"',
        ),
        (
            'kind = "umans", url = "https://a", used = "a"',
            '.used: not with kind = "umans", only with "json"',
        ),
        (
            'kind = "featherless", url = "https://a", call = "a:b"',
            '.call: not with kind = "featherless", only with "python"',
        ),
        (
            'kind = "umans", url = "https://a", evry = "2s"',
            (
                ".evry: unknown; allowed here: kind, url, key_env, used, limit, call, every, "
                "margin; did you mean every?"
            ),
        ),
        ('kind = "umans", url = 3', f".url: found 3, {URL}"),
        *(
            (f'kind = "umans", url = "{url}"', f".{NO_URL}")
            for url in (
                "",
                "ftp://api.umans.ai/",
                "https://",
                "https://:443/v1",
                "https://a b/",
                "https://a/ b",
                "https://a:0/",
                "https://a:65536/",
                "https://a:x/",
                "https://a..b/",
                "https://[::g]/",
                "https://a/\\u001b[2J",
                "https://%61/",
                "https://\\u2028/",
                f"https://{'a' * 64}/",
                f"https://ü{'a' * 64}/",
                "https://\\u00b4/",
                f"https://a/{'a' * 2_000}",
            )
        ),
        (
            'kind = "umans", url = "https://me:hunter2@a/"',
            f".url: has a user name or a password in it; {BY_ENV}; {URL}",
        ),
        *(
            (f'kind = "umans", url = "https://a/{rest}"', f".url: has a key in it; {BY_ENV}; {URL}")
            for rest in (
                "?key=hunter2",
                "?x-api-key=hunter2",
                "?ACCESS_TOKEN=hunter2",
                "?apikey=hunter2",
                "sk-hunter2hunter2/usage",
            )
        ),
        ('kind = "umans", url = "https://a", key_env = 3', f".key_env: found 3, {ENV}"),
        *(
            (f'kind = "umans", url = "https://a", key_env = "{name}"', f".{NO_NAME}")
            for name in ("", "$UMANS", "1A", "hunter-2", "A\\n", "A" * 129)
        ),
        *(
            (f'kind = "umans", url = "https://a", key_env = "{key}"', f".{A_KEY}")
            for key in (
                "sk-hunter2",
                "sk_live_hunter2",
                "Bearer sk-hunter2",
                "AIzaSyhunter2hunter2hunter2hunter2hunter",
                "hunter2hunter2hunter2hunter2",
            )
        ),
        *(
            (f'kind = "json", url = "https://a", used = "{path}"', f'.used: found "{path}", {PATH}')
            for path in ("", "a..b", "a[", "a]b")
        ),
        ('kind = "json", url = "https://a", used = 3', f".used: found 3, {PATH}"),
        (
            'kind = "json", url = "https://a", used = "a", limit = 4',
            f".limit: found 4, {PATH}",
        ),
        *(
            (f'kind = "python", call = "{call}"', f'.call: found "{call}", {CALL}')
            for call in ("a", "a:", "a:b()", "a..b:c", "1a:b", "a:b:c")
        ),
        ('kind = "python", call = []', f".call: found a list, {CALL}"),
        *(
            (f'kind = "python", call = "a:b", every = {every}', f".every: found {every}, {EVERY}")
            for every in ('"249ms"', '"601s"', "0", "-1", "true", "nan", '"often"')
        ),
        *(
            (
                f'kind = "python", call = "a:b", margin = {margin}',
                f".margin: found {margin}, {MARGIN}",
            )
            for margin in ("-1", "1001", "1.0", '"1"', "true")
        ),
    ],
)
def test_a_wrong_source_is_refused(setting: str, problem: str) -> None:
    """Each kind gets what it needs and nothing else; neither URLs nor keys are repeated."""
    (line,) = said(f"[pools.umans]\nusage = {{ {setting} }}")
    assert line == f"c.toml:2: pools.umans.usage{problem}"
    assert "hunter" not in line


@pytest.mark.parametrize("name", ["key", "api_key", "token", "password", "Authorization"])
def test_a_key_in_the_file_is_refused(name: str) -> None:
    """Whoever tries to write the key itself is told where keys come from."""
    usage = f'kind = "umans", url = "https://a", {name} = "hunter2"'
    (line,) = said(f"[pools.umans]\nusage = {{ {usage} }}")
    assert line.startswith(
        f"c.toml:2: pools.umans.usage.{name}: unknown; allowed here: kind, url, "
    )
    assert line.endswith(f"; {BY_ENV}")
    assert "hunter" not in line


@pytest.mark.parametrize(
    "setting, problem",
    [
        (
            'limit = "Learn"',
            (
                'limit: found "Learn", but host has nothing upstream to learn from; expected a '
                'whole number from 1 to 1000000, "unlimited" or "auto"; to let nothing in, pause it'
            ),
        ),
        (
            'adapt = "learn"',
            'adapt: found "learn", expected "off": host has nothing upstream to learn from',
        ),
        (
            "adapt = 3",
            'adapt: found 3, expected "off": host has nothing upstream to learn from',
        ),
        ("rpm = 3", f"rpm: {NOT_ON_HOST}"),
        ("tpm = 'x'", f"tpm: {NOT_ON_HOST}"),
        ("usage = {}", f"usage: {NOT_ON_HOST}"),
    ],
)
def test_host_has_nothing_upstream(setting: str, problem: str) -> None:
    """What only a provider can tell is refused for the machine's pool, however it is spelled."""
    assert said(f"[pools.Host]\n{setting}") == [f"c.toml:2: pools.Host.{problem}"]


@pytest.mark.parametrize(
    "text, problem",
    [
        (
            '[pools.a]\nlimit = "learn"\nadapt = "off"',
            '3: pools.a.adapt: it says adapt = "off", with',
        ),
        (
            '[pools.a]\nadapt = "step-down"\nlimit = "learn"',
            '2: pools.a.adapt: it says adapt = "step-down", with',
        ),
        (
            '[pools.a]\nlimit = "learn"\n[defaults]\nadapt = "off"',
            '2: pools.a.limit: [defaults] says adapt = "off", with',
        ),
    ],
)
def test_a_limit_is_learned_only_by_learning(text: str, problem: str) -> None:
    """A limit to be found, and nothing to find it with, do not go together."""
    assert said(text) == [
        f'c.toml:{problem} which no limit is found; give limit a number, or adapt "learn"'
    ]


@pytest.mark.parametrize(
    "text, problem",
    [
        ("defaults = 3", "1: defaults: found 3, expected a table; write [defaults]"),
        ("[[defaults]]", "1: defaults: found a list, expected a table; write [defaults]"),
        ('[defaults]\nadapt = "on"', f'2: defaults.adapt: found "on", {ADAPT}'),
        ("[defaults]\ncooldown = -1", f"2: defaults.cooldown: found -1, {TIME}"),
        (
            "[defaults]\nlimit = 3",
            (
                "2: defaults.limit: unknown; allowed here: adapt, cooldown, meter, queue_timeout, "
                "warned_limit; "
                "put it under its pool, as in [pools.host]"
            ),
        ),
        (
            "[defaults]\nrpm = 3",
            (
                "2: defaults.rpm: unknown; allowed here: adapt, cooldown, meter, queue_timeout, "
                "warned_limit; "
                "put it under its pool, as in [pools.anthropic]"
            ),
        ),
        (
            "adapt = 'off'",
            (
                f"1: adapt: unknown; allowed here: {ALLOWED}; "
                "put it under its pool, or under [defaults] for all"
            ),
        ),
        (
            "[classify]\na = 3",
            "1: classify: found a table, expected a list of tables; write [[classify]]",
        ),
        ("classify = 'x'", '1: classify: found "x", expected a list of tables; write [[classify]]'),
        (
            "classify = [3]",
            "1: classify: entry 1: found 3, expected a table; write [[classify]]",
        ),
        (
            "[[classify]]\ncode = 'a'\nsignal = 'none'\n[[classify]]\nstatus = 42\nsignal = 'none'",
            (
                "5: classify: entry 2: status: found 42, expected a status from 100 to 599, "
                'a range as "500-599", or a list of them'
            ),
        ),
        (
            "[[classify]]\nstatus = 429\nsignal = 'none'\nbdy = 'x'",
            (
                "4: classify: entry 1: bdy: unknown; allowed here: name, signal, provider, status, "
                "header, code, body, profile, line, account, retry; did you mean body?"
            ),
        ),
        (
            "[[classify]]\nstatus = 429",
            (
                "1: classify: entry 1: signal: missing, expected one of accepted, "
                "concurrency-limited, rate-limited, quota-gone, overloaded, none, quoted"
            ),
        ),
        (
            "classify = [{ signal = 'none' }]",
            (
                "1: classify: entry 1: says not when it applies; "
                "name a status, header, code, body or line"
            ),
        ),
    ],
)
def test_a_wrong_table_is_refused(text: str, problem: str) -> None:
    """[defaults] and each [[classify]] are checked as pools are, entry by entry, line by line."""
    assert said(text) == [f"c.toml:{problem}"]


def test_all_mistakes_are_told_at_once() -> None:
    """Mistakes in every part of a file come in one error, in the order of the lines."""
    text = """
    [pools.host]
    rpm = 1
    [pools.a]
    limit = "lern"
    adapt = 1
    [pools.a.usage]
    kind = "python"
    every = 0
    [[pools.a.observe]]
    process = "claude"
    [[pools.a.observe]]
    process = "["
    [pools.b]
    spacing = "2h"
    [defaults]
    adapt = 2
    [[classify]]
    status = 1
    [classify.header]
    x = 1
    [[classify]]
    signal = "x"
    """
    assert [line.split(": found")[0].split(": missing")[0] for line in said(text)] == [
        f"c.toml:3: pools.host.rpm: {NOT_ON_HOST}",
        "c.toml:5: pools.a.limit",
        "c.toml:6: pools.a.adapt",
        "c.toml:7: pools.a.usage: call",
        "c.toml:9: pools.a.usage.every",
        "c.toml:13: pools.a.observe: entry 2: process",
        "c.toml:15: pools.b.spacing",
        "c.toml:17: defaults.adapt",
        "c.toml:18: classify: entry 1: signal",
        "c.toml:19: classify: entry 1: status",
        "c.toml:20: classify: entry 1: header",
        (
            "c.toml:22: classify: entry 2: says not when it applies; "
            "name a status, header, code, body or line"
        ),
        "c.toml:23: classify: entry 2: signal",
    ]


# What is taken, with a warning.


@pytest.mark.parametrize(
    "setting, warning",
    [
        (
            'spacing = "301s"',
            "2: pools.umans.spacing: only one start in 5m01s, however many seats are free",
        ),
        ("tpm = 999", "2: pools.umans.tpm: 999 tokens a minute are fewer than one request takes"),
        (
            'limit = 2\nusage = { kind = "python", call = "a:b", margin = 2 }',
            "3: pools.umans.usage.margin: leaves 2 seats free in a pool of 2; 0 or 1 is usual",
        ),
        *(
            (
                f'usage = {{ kind = "{kind}", url = "{url}"{rest} }}',
                "2: pools.umans.usage.url: the key travels unencrypted; https keeps it from others",
            )
            for kind, url, rest in (
                ("json", "http://10.0.0.1/", ', used = "a", key_env = "K"'),
                ("json", "HTTP://localhost.example.com/", ', used = "a", key_env = "K"'),
                ("json", "http://mylocalhost/", ', used = "a", key_env = "K"'),
                ("json", "http://[2001:db8::1]/", ', used = "a", key_env = "K"'),
                ("json", "http://127.0.0.1.example.com", ', used = "a", key_env = "K"'),
                ("umans", "http://gateway/usage", ', key_env = "K"'),
                ("umans", "http://gateway/usage", ""),
                ("featherless", "http://gateway/usage", ""),
            )
        ),
        *(
            (
                f"observe = [{{ process = 'claude' }}, {{ process = '{pattern}' }}]",
                (
                    f'2: pools.umans.observe: entry 2: process: "{pattern}" is found in '
                    "nearly every command line; say more"
                ),
            )
            for pattern in ("/", "[a-z]+")
        ),
    ],
)
def test_a_harmful_value_is_warned_of(setting: str, warning: str) -> None:
    """A legal value that looks like a mistake is taken, with one line about it."""
    config = parse(f"[pools.umans]\n{setting}", "c.toml")
    assert set(config.pools) == {"umans"}
    assert config.warnings == (f"c.toml:{warning}",)


def test_a_long_default_cooldown_is_warned_of() -> None:
    """The warning about a pool's cooldown holds for that of all pools."""
    assert parse('[defaults]\ncooldown = "6m"', "c.toml").warnings == (
        "c.toml:2: defaults.cooldown: each freed seat stays empty for 6m; 2s is usual",
    )


def test_the_edges_of_what_is_sensible_pass_in_silence() -> None:
    """No warning without a reason; the limit that a pool has by default counts too."""
    pool('spacing = "5m"\ntpm = 1000\nlimit = 3\nusage = {kind="python",call="a:b",margin=2}')
    pool('limit = "learn"\nusage = { kind = "python", call = "a:b", margin = 1000 }')
    text = "[pools.'*/claude-opus-*']\nusage = {kind='python',call='a:b',margin=4}"
    (warning,) = parse(text, "c.toml").warnings
    assert "leaves 4 seats free in a pool of 4" in warning


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "pattern",
    ["(" * 80 + ".*" + ")*" * 80 + "x", "(?:x){900}", "(x+x+)+y"],
)
def test_a_pattern_that_searches_for_ever_does_not_hold_up_the_file(pattern: str) -> None:
    """To check a pattern costs nothing, whatever to use it would cost."""
    start = time.monotonic()
    assert pool(f"observe = [{{ process = '{pattern}' }}]").observe == (pattern,)
    assert time.monotonic() - start < 5


# Secrets.

SECRETS = (
    "sk-hunter2hunter2",
    "sk-ant-api03-hunter2_hunter2-hunter2",
    "ghp_hunter2hunter2hunter2",
    "AIzaSyHunter2hunter2hunter2",
    "eyJhunter2hunter2.hunter2",
    "hunter2hunter2hunter2hunter2",
    "https://me:hunter2@example.com",
)


@pytest.mark.parametrize(
    "text",
    [
        '[pools.a]\nlimit = "{}"',
        '[pools.a]\nadapt = "{}"',
        '[pools.a]\ncooldown = "x {} x"',
        '[pools.a]\nusage = "{}"',
        '[pools.a]\nobserve = ["{}"]',
        "[pools.a]\nobserve = [{{ process = '({}' }}]",
        '[pools.a.usage]\nkind = "{}"',
        '[pools.a.usage]\nkind = "python"\ncall = "{}"',
        '[pools.a.usage]\nkind = "umans"\nurl = "nowhere {}"',
        '[pools.a.usage]\nkind = "umans"\nurl = "https://a"\nkey_env = "{}"',
        '[pools.a.usage]\nkind = "umans"\nurl = "https://a"\nkey_env = ["{}"]',
        '[pools.a.usage]\nkind = "umans"\nurl = "https://a"\nkey = "{}"',
        '[pools.a.usage]\n"{}" = 3',
        '[pools."{}/"]',
        '["{}"]',
        '[[classify]]\nsignal = "{}"',
        "[[classify]]\nsignal = 'none'\nbody = '({}'",
        "[[classify]]\nsignal = 'none'\nheader = {{ authorization = '({}' }}",
        "[[classify]]\nsignal = 'none'\nstatus = ['{}']",
        "classify = [3, '{}']",
        "classify = '{}'",
        '[run]\ngrace = "{}"',
    ],
)
def test_what_looks_like_a_secret_is_never_repeated(text: str) -> None:
    """Wherever in the file a key is written, no message shows it, nor the rest of a long one."""
    for secret in SECRETS:
        for written in (secret, secret.replace("hunter2", "hunter2" * 30, 1)):
            assert "hunter" not in "".join(said(text.format(written)))


def test_plain_words_are_not_taken_for_secrets() -> None:
    """The names of variables, models and pools come out as they are."""
    for name in (
        "UMANS_API_KEY",
        "OPENAI_API_KEY_2",
        "MY_COMPANY_2026_GATEWAY_TOKEN_V2",
        "hf_token",
        "anthropic/claude-3-5-sonnet-20241022",
        "task-sk",
        "internationalization",
        "99999999999999999999999",
        "https://api.example.com/v1/usage",
    ):
        assert not key_like(name)
        assert hide(name) == name


# Whatever comes in.


def test_rules_are_imported_only_for_a_file_that_has_some() -> None:
    """A file without [[classify]] is read without the table of verdicts."""
    program = textwrap.dedent(
        """
        import sys
        from headgate.config.check import parse
        parse('''[pools.umans]
        usage = { kind = "json", url = "https://a/b", used = "n", key_env = "K" }
        observe = [{ process = "claude" }]''', "c.toml")
        names = ("answer_rules", "builtin_rules", "classify")
        heavy = {f"headgate.core.answers.{name}" for name in names}
        print(*heavy & set(sys.modules))
        parse("[[classify]]\\nstatus = 429\\nsignal = 'none'", "c.toml")
        print("headgate.core.answers.answer_rules" in sys.modules)
        """
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "\nTrue\n"


def check(text: str) -> None:
    try:
        config = parse(text, "c.toml")
    except ConfigError as error:
        lines = tuple(str(error).split("\n"))
    else:
        lines = config.warnings
    assert all(line.startswith("c.toml:") and line.isprintable() for line in lines)
    assert all(len(line) < 1_000 for line in lines)


def quoted(text: str) -> str:
    return '"' + "".join(f"\\U{ord(c):08x}" for c in text) + '"'


TEXTS = st.text(st.characters(exclude_categories=["Cs"])).map(quoted)
USAGE_KEYS = ("kind", "url", "key_env", "used", "limit", "call", "every", "margin", "process")
POOL_KEYS = ("adapt", "usage", "observe", "rpm", "tpm", "spacing", "cooldown", "reserve", "x")
KEYS = st.sampled_from((*USAGE_KEYS, *POOL_KEYS, *Rule._fields))
GOOD = "learn off umans json python https://a/b a.b:c a.0.b KEY 2s none quoted claude 500-599"
BAD = "http://a@b sk-abcdefgh ( [[a] (?\\n http://[:: .* (?<= x{9999999999}"
ODD = ("true", "nan", "-inf", "429", "1979-05-27", f"0x{'f' * 5_000}")
SCALARS = (
    st.sampled_from([f"'{word}'" for word in f"{GOOD} {BAD}".split()] + list(ODD))
    | st.integers().map(str)
    | TEXTS
    | st.text("()[]{}*+?|\\^$.a0,:<>=!-P#\n").map(quoted)
    | st.text("htps:/@[].%0?#&=key").map(lambda rest: quoted(f"https://{rest}"))
)


def inline(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    tables = st.dictionaries(KEYS | TEXTS, values, max_size=5)
    return tables.map(lambda table: f"{{{', '.join(f'{k} = {v}' for k, v in table.items())}}}")


VALUES = st.recursive(
    SCALARS,
    lambda inner: inline(inner) | st.lists(inner, max_size=3).map(lambda v: f"[{', '.join(v)}]"),
    max_leaves=6,
)
HEADS = st.sampled_from(
    [
        "[pools.a]",
        "[pools.host]",
        "[pools.b.usage]",
        "[[pools.c.observe]]",
        "[defaults]",
        "[[classify]]",
        "[classify.header]",
        "[[classify.status]]",
        "[run]",
    ]
)
TABLES = st.tuples(HEADS, st.dictionaries(KEYS, VALUES, max_size=6)).map(
    lambda pair: "\n".join([pair[0], *(f"{k} = {v}" for k, v in pair[1].items())])
)


@settings(deadline=None)
@given(st.lists(TABLES, max_size=4))
@example([f"[[classify]]\ncode = 0x{'f' * 5_000}\nsignal = 'none'"])
@example([f"[[classify]]\nstatus = [0x{'f' * 5_000}]\nsignal = 'none'"])
@example(["[[classify]]\nbody = '[[a]'\nsignal = 'none'"])
@example(["[[classify]]\nbody = \"(?\\n\"\nsignal = 'none'"])
@example(["[[classify]]\nheader.x = \"(?<\\u001b\"\nsignal = 'none'"])
@example(["[pools.a]\nobserve = [{ process = '[[a]' }, { process = \"(?\\n\" }]"])
@example(["[[classify]]\n" + "\n".join(f"k{n} = 1" for n in range(40))])
def test_any_tables_parse_or_are_a_config_error(tables: list[str]) -> None:
    """Whatever the new settings are given, the answer is a Config or lines for people."""
    check("\n".join(tables))


@given(st.text())
def test_hiding_never_fails_and_is_final(text: str) -> None:
    """To hide what is hidden changes nothing."""
    assert hide(hide(text)) == hide(text)


def test_one_word_observes_all_known_agents() -> None:
    """Alone, or among patterns of one's own; no pattern can be taken for it."""
    for said in ('"agents"', '["agents"]', '["agents", { process = "(^|/)robo( |$)" }]'):
        (found,) = parse(f"[pools.a]\nobserve = {said}\n", "c.toml").pools.values()
        assert found.observe is not None
        assert found.observe[0] == AGENTS
    for said in (
        '"all"',
        '[["agents"]]',
        "3",
        '{ process = "*agents" }',
        '[{ process = "*agents" }]',
    ):
        with pytest.raises(ConfigError):
            parse(f"[pools.a]\nobserve = {said}\n", "c.toml")
