"""The [[notify]] tables: what they may say, and what is said of mistakes in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.config.check import parse
from headgate.core.display.snapshots import Event
from headgate.core.events import KINDS
from headgate.core.notification_targets import ALL, FAILED, MISSED, USUAL, NotifyTarget, Only
from headgate.core.times import Ms
from headgate.errors import ConfigError

ONE_WAY = "expected one of command, url, url_env, apprise or apprise_env"
ENV = "expected the name of an environment variable, as in"
COMMAND = 'expected a list such as ["notify-me", "--now"], or a line for the shell'
SERVICE = "expected a URL that apprise knows, as in ntfy://topic"


def targets(text: str) -> tuple[NotifyTarget, ...]:
    """What these tables say, if nothing is odd about them."""
    config = parse(text, "c.toml")
    assert config.warnings == ()
    return config.notify


def said(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(text, "c.toml")
    return str(caught.value).split("\n")


def test_a_target_needs_no_more_than_a_way() -> None:
    """All else has a default: a name by its place, the usual events, ten seconds, five tries."""
    found = targets('[[notify]]\ncommand = ["me", "-x"]\n[[notify]]\nurl_env = "HOOK"\n')
    assert found == (
        NotifyTarget("hook-1", command=("me", "-x")),
        NotifyTarget("hook-2", url_env="HOOK"),
    )
    assert (found[0].events, found[0].timeout, found[0].tries) == (USUAL, 10_000, 5)
    assert [target.by for target in found] == ["command", "webhook"]


def test_a_target_may_say_all_of_this() -> None:
    """Every setting at once; a line of text is for the shell, and one pattern needs no list."""
    text = """
    [[notify]]
    name = "web"
    url = "https://example.com/hook"
    secret_env = "HOOK_SECRET"
    events = ["failed", "limit_*"]
    only = { task = "oracle-*", key = ["Anthropic", "*/claude-opus-*"], pool = "a*" }
    timeout = "2s"
    tries = 1
    [[notify]]
    command = "cat > /dev/null"
    events = "ALL"
    [[notify]]
    apprise = "ntfy://topic"
    """
    assert targets(text) == (
        NotifyTarget(
            "web",
            url="https://example.com/hook",
            secret_env="HOOK_SECRET",
            events=("failed", "limit_*"),
            only=Only(("oracle-*",), ("anthropic", "*/claude-opus-*"), ("a*",)),
            timeout=Ms(2_000),
            tries=1,
        ),
        NotifyTarget("hook-2", command=("sh", "-c", "cat > /dev/null"), events=(ALL,)),
        NotifyTarget("hook-3", apprise="ntfy://topic"),
    )


@pytest.mark.parametrize(
    "setting, problem",
    [
        ("", f"1: notify: entry 1: does not say where to; {ONE_WAY}"),
        (
            "command = 'x'\nurl_env = 'U'",
            f"1: notify: entry 1: found command and url_env; {ONE_WAY}",
        ),
        ("command = []", f"2: notify: entry 1: command: found no command; {COMMAND}"),
        ("command = ' '", f"2: notify: entry 1: command: found an empty command; {COMMAND}"),
        ("command = 3", f"2: notify: entry 1: command: found no command; {COMMAND}"),
        (
            "command = ['a', 3]",
            f"2: notify: entry 1: command: found what no command can have in it; {COMMAND}",
        ),
        (
            "command = ['a', \"b\\u0000\"]",
            f"2: notify: entry 1: command: found what no command can have in it; {COMMAND}",
        ),
        (
            "url_env = 'no name'",
            (
                "2: notify: entry 1: url_env: found a text that is no name; "
                f'it is not repeated, for it may be a key; {ENV} "HOOK_URL"'
            ),
        ),
        (
            "apprise = 'telegram'",
            (
                "2: notify: entry 1: apprise: found what is no such URL; "
                f"it is not repeated, for it may hold a secret; {SERVICE}"
            ),
        ),
        (
            "command = 'x'\nsecret_env = 'S'",
            (
                "3: notify: entry 1: secret_env: "
                "only with url or url_env, where it signs what is sent"
            ),
        ),
        (
            "command = 'x'\nsecret = 'S'",
            (
                "3: notify: entry 1: secret: unknown; allowed here: name, command, url, url_env, "
                "apprise, apprise_env, secret_env, events, only, timeout, tries; "
                "did you mean secret_env?"
            ),
        ),
        (
            "command = 'x'\nevents = []",
            (
                "3: notify: entry 1: events: found a list, expected kinds of events "
                'such as ["failed", "limit_*"], or "all"'
            ),
        ),
        (
            "command = 'x'\nname = 'a b'",
            (
                '3: notify: entry 1: name: found "a b", '
                "expected letters, digits and . _ -, at most 40 of them"
            ),
        ),
        (
            "command = 'x'\ntries = 0",
            "3: notify: entry 1: tries: found 0, expected a whole number from 1 to 20",
        ),
        (
            "command = 'x'\ntimeout = '1h'",
            '3: notify: entry 1: timeout: found "1h", expected a time from "100ms" to "5m"',
        ),
        (
            "command = 'x'\nonly = { key = '' }",
            (
                '3: notify: entry 1: only.key: found "", expected a pattern with * and ?, '
                'or a list of them, as in "anthropic/claude-opus-*"'
            ),
        ),
        (
            "command = 'x'\nonly = { priority = 'normal' }",
            "3: notify: entry 1: only.priority: unknown; allowed here: task, key, pool",
        ),
        (
            "command = 'x'\nonly = 'x'",
            ('3: notify: entry 1: only: found "x", expected a table, as in { task = "oracle-*" }'),
        ),
    ],
)
def test_a_wrong_target_is_refused_with_its_place(setting: str, problem: str) -> None:
    """Each mistake names its line, what was found and what is allowed."""
    assert said(f"[[notify]]\n{setting}") == [f"c.toml:{problem}"]


@pytest.mark.parametrize(
    "text, problem",
    [
        ("notify = 3", "1: notify: found 3, expected a list of tables; write [[notify]]"),
        (
            "[notify]\ncommand = 'x'",
            "1: notify: found a table, expected a list of tables; write [[notify]]",
        ),
        ("notify = [3]", "1: notify: entry 1: found 3, expected a table; write [[notify]]"),
        (
            "[[notify]]\ncommand = 'x'\nname = 'hook-2'\n[[notify]]\ncommand = 'x'",
            '4: notify: entry 2: name "hook-2" is taken; give each target its own',
        ),
        (
            "[[notify]]\ncommand = 'x'\n" * 51,
            "1: notify: found 51 tables, expected at most 50",
        ),
    ],
)
def test_wrong_tables_are_refused(text: str, problem: str) -> None:
    """Names are unique, and tables are tables."""
    assert said(text) == [f"c.toml:{problem}"]


@pytest.mark.parametrize(
    "setting, secret",
    [
        ("url = 'https://user:pa55word1@example.com/'", "pa55word1"),
        ("url = 'https://example.com/?token=abcdefgh'", "abcdefgh"),
        ("url = 'hunter2://x'", "hunter2"),
        ("url_env = 'hunter2!'", "hunter2"),
        ("apprise = 'hunter2'", "hunter2"),
        ("apprise_env = 'tgram://123456:ABCdef123/42'", "ABCdef123"),
        ("command = 'x'\nsecret_env = 'a-hunter2'", "hunter2"),
        ('command = ["hunter2\\u0000"]', "hunter2"),
        ("url = 'https://example.com/'\nsecret = 'hunter2'", "hunter2"),
    ],
)
def test_no_secret_is_repeated(setting: str, secret: str) -> None:
    """Whatever is wrong with a setting that may hold a secret, the message does not show it."""
    assert secret not in "\n".join(said(f"[[notify]]\n{setting}"))


@pytest.mark.parametrize(
    "setting, warning",
    [
        (
            "url = 'https://hooks.example.com/T012345/B012345/a1b2c3d4e5f6g7h8i9j0k1l2'",
            "url: seems to have a secret in it; url_env keeps that out of this file",
        ),
        (
            "url = 'http://example.com/'",
            "url: what is sent there can be read on the way; https hides it",
        ),
        (
            "apprise = 'mailto://me:pass@example.com'",
            "apprise: seems to have a secret in it; apprise_env keeps that out of this file",
        ),
        (
            "command = 'x'\nevents = ['faild']",
            'events: "faild" fits no kind of event; did you mean failed?',
        ),
    ],
)
def test_what_looks_harmful_is_warned_of(setting: str, warning: str) -> None:
    """Secrets in the file, plain HTTP and events that never happen are legal, and said."""
    [found] = parse(f"[[notify]]\n{setting}", "c.toml").warnings
    assert found.endswith(f"notify: entry 1: {warning}")


def happening(kind: str, **more: object) -> Event:
    return Event(1, 0.0, kind, None, "", "", "", "")._replace(**more)  # type: ignore[arg-type]


def test_all_means_all() -> None:
    """`all` and `*` take in every kind of event; a target that names none gets the usual ones."""
    for kind in KINDS:
        for pattern in (ALL, "*"):
            assert NotifyTarget("t", events=(pattern,)).wants(happening(kind)), kind
        assert NotifyTarget("t").wants(happening(kind)) == (kind in USUAL), kind


def test_what_no_filter_holds_back() -> None:
    """That events were missed is always told; that one could not be told, never to itself."""
    picky = NotifyTarget("t", events=("done",), only=Only(task=("x",)))
    assert picky.wants(happening(MISSED))
    everything = NotifyTarget("t", events=(ALL,))
    assert not everything.wants(happening(FAILED, text="t: gave up"))
    assert everything.wants(happening(FAILED, text="t2: gave up"))


@given(
    st.dictionaries(
        st.sampled_from(NotifyTarget._fields),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: st.lists(inner, max_size=3),
            max_leaves=4,
        ),
    )
)
def test_any_table_parses_or_is_refused(table: dict[str, object]) -> None:
    """Whatever a table says, it makes a target or notes; nothing else is raised."""
    from headgate.config.notify import read_notify
    from headgate.config.problems import Notes

    notes = Notes("", "c.toml")
    found = read_notify(notes, {"notify": [table]})
    assert len(found) == 1
    notes.lines(notes.errors + notes.warnings)
