"""The configuration file: what is accepted, what is said about the rest, and how it is watched."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.config import GRACE, Config, Watched, default_path, find, load
from headgate.config.check import parse
from headgate.config.parsed_config import Retention
from headgate.config.template import TEMPLATE
from headgate.core.admission.pool_set import resolve_pools
from headgate.core.admission.pools import COOLDOWN, DEFAULTS, LEARN, Declared, UsageSource
from headgate.core.agents.run_limits import JobPolicy, RunLimits
from headgate.core.host.auto_limit import AGENT_MEMORY
from headgate.core.times import Ms
from headgate.errors import ConfigError

NO_FILE = Config(None, {}, GRACE, ())

LIMIT = (
    'expected a whole number from 1 to 1000000, "unlimited" or "auto"; to let nothing in, pause it'
)
SEATS = "expected a whole number from 0 to 1000000"
TIME = 'expected a time such as "500ms", "2s", "1m30s" or "1h", at most "366d"'
HOLD = 'expected a time such as "90m" or "12h", more than none and at most "366d", or "off"'

TABLES = "pools, defaults, classify, run, jobs, profiles, notify, server, store, templates"


def said(text: str, name: str = "c.toml") -> list[str]:
    """The lines of the error that this text causes."""
    with pytest.raises(ConfigError) as caught:
        parse(text, name)
    return str(caught.value).split("\n")


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HEADGATE_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))


def test_every_setting_is_read() -> None:
    """Each setting arrives in milliseconds and seats, under the pool's normalised name."""
    config = parse(
        """
        [pools.host]
        limit = "Unlimited"
        [pools."Anthropic/claude-opus-*"]
        limit = 4
        cooldown = 1.5
        max_hold = "6h"
        reserve = { background = 0, normal = 1, interactive = 2 }
        [pools.umans]
        max_hold = "off"
        reserve = {}
        [run]
        grace = "1m"
        """,
        "c.toml",
    )
    assert config == Config(
        None,
        {
            "host": Declared(limit="unlimited"),
            "anthropic/claude-opus-*": Declared(
                4, Ms(1_500), Ms(6 * 3_600_000), (("interactive", 2), ("normal", 1))
            ),
            "umans": Declared(max_hold=None, reserve=()),
        },
        Ms(60_000),
        (),
    )


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "[pools]\n[run]\n", "\ufeff"])
def test_a_file_that_says_nothing_leaves_the_defaults(text: str) -> None:
    """An empty file means the same as no file."""
    assert parse(text, "c.toml") == NO_FILE == load(None)


@pytest.mark.parametrize(
    "setting, problem",
    [
        ("limit = 0", f"limit: found 0, {LIMIT}"),
        ("limit = 1.5", f"limit: found 1.5, {LIMIT}"),
        ("limit = true", f"limit: found true, {LIMIT}"),
        ("limit = 1000001", f"limit: found 1000001, {LIMIT}"),
        ("limit = 99999999999999999999", f"limit: found a number beyond 64 bits, {LIMIT}"),
        (f"limit = 0x{'f' * 9_000}", f"limit: found a number beyond 64 bits, {LIMIT}"),
        ('limit = ""', f'limit: found "", {LIMIT}'),
        ("limit = [4]", f"limit: found a list, {LIMIT}"),
        ("limit = { a = 4 }", f"limit: found a table, {LIMIT}"),
        ("limit = 2026-01-31", f"limit: found 2026-01-31, {LIMIT}"),
        (r'limit = "\u001b[31m\nx"', rf'limit: found "\x1b[31m\nx", {LIMIT}'),
        ("cooldown = -1", f"cooldown: found -1, {TIME}"),
        ("cooldown = true", f"cooldown: found true, {TIME}"),
        ("cooldown = nan", f"cooldown: found nan, {TIME}"),
        ("cooldown = inf", f"cooldown: found inf, {TIME}"),
        ('cooldown = ""', f'cooldown: found "", {TIME}'),
        ('cooldown = "2 parsecs"', f'cooldown: found "2 parsecs", {TIME}'),
        ('cooldown = "367d"', f'cooldown: found "367d", {TIME}'),
        (f"cooldown = 1{'0' * 400}", f"cooldown: found a number beyond 64 bits, {TIME}"),
        ("max_hold = 0", f"max_hold: found 0, {HOLD}"),
        ('max_hold = "never"', f'max_hold: found "never", {HOLD}'),
        ("max_hold = false", f"max_hold: found false, {HOLD}"),
        ("reserve = 1", "reserve: found 1, expected a table; write [pools.host.reserve]"),
        ("reserve.normal = -1", f"reserve.normal: found -1, {SEATS}"),
        ("reserve.normal = false", f"reserve.normal: found false, {SEATS}"),
        ("reserve.normal = 0.0", f"reserve.normal: found 0.0, {SEATS}"),
        ('reserve.normal = "unlimited"', f'reserve.normal: found "unlimited", {SEATS}'),
        (
            "reserve.Interactive = 1",
            (
                "reserve.Interactive: unknown; allowed here: interactive, normal, background; "
                "did you mean interactive?"
            ),
        ),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(setting: str, problem: str) -> None:
    """The message names the file, the line, the key, what was found and what is allowed."""
    assert said(f"\n[pools.host]\n{setting}") == [f"c.toml:3: pools.host.{problem}"]


@pytest.mark.parametrize(
    "text, problem",
    [
        ("[run]\ngrace = 'soon'", f'c.toml:2: run.grace: found "soon", {TIME}'),
        ("run = 3", "c.toml:1: run: found 3, expected a table; write [run]"),
        (
            "[pools]\nhost = 3",
            "c.toml:2: pools.host: found 3, expected a table; write [pools.host]",
        ),
        (
            "[[pools.host]]\nlimit = 3",
            "c.toml:1: pools.host: found a list, expected a table; write [pools.host]",
        ),
        (
            "pools = { host = { limit = 0 } }",
            f"c.toml:1: pools.host.limit: found 0, {LIMIT}",
        ),
        (
            "[pool.host]\nlimit = 3",
            (f"c.toml:1: pool: unknown; allowed here: {TABLES}; did you mean pools?"),
        ),
        (
            "limit = 3",
            (
                f"c.toml:1: limit: unknown; allowed here: {TABLES}; "
                "put it under its pool, as in [pools.host]"
            ),
        ),
        (
            "[pools.host]\nlimt = 3",
            (
                "c.toml:2: pools.host.limt: unknown; "
                "allowed here: limit, cooldown, max_hold, reserve, adapt, observe, spacing, "
                "per_task, order, memory_floor, load_ceiling, agent_memory; did you mean limit?"
            ),
        ),
        (
            "[pools.umans.ai]\nlimit = 3",
            (
                "c.toml:1: pools.umans.ai: unknown; "
                "allowed here: limit, cooldown, max_hold, reserve, "
                "adapt, usage, observe, rpm, tpm, spacing, meter, queue_timeout, "
                "warned_limit, per_task, order; "
                'a pool\'s name with a dot needs quotes: [pools."umans.ai"]'
            ),
        ),
        ("[run]\nzzz = 3", "c.toml:2: run.zzz: unknown; allowed here: grace"),
        (
            '["\\u001b[31m\\n"]',
            (
                r'c.toml:1: "\x1b[31m\n": unknown; '
                f"allowed here: {TABLES}"
            ),
        ),
        (
            '[pools."host/x"]',
            (
                "c.toml:1: pools.\"host/x\": bad pool 'host/x': "
                "'host' stands alone; it counts all work of a machine"
            ),
        ),
        (
            '[pools.host]\n[pools."A/x=#]"]\n',
            "c.toml:2: pools.\"A/x=#]\": bad pool 'A/x=#]': a model name cannot contain '='",
        ),
        (
            '[pools.umans]\n[pools."UMANS"]',
            "c.toml:2: pools.UMANS: is the same pool as pools.umans; keep one of the two tables",
        ),
    ],
)
def test_a_wrong_name_is_refused_with_advice(text: str, problem: str) -> None:
    """A misspelt, misplaced, doubled or unquoted name is met with what was probably meant."""
    assert said(text) == [problem]


def test_all_mistakes_are_told_at_once() -> None:
    """One error holds a line for each mistake, in the order of the file."""
    text = (
        '[rum]\n[pools.a]\nlimit = 0\ncooldown = "x"\n[pools."/"]\nmax_hold = 0\n[run]\ngrace = []'
    )
    found = [line.split(": ")[0:2] for line in said(text)]
    assert found == [
        ["c.toml:1", "rum"],
        ["c.toml:3", "pools.a.limit"],
        ["c.toml:4", "pools.a.cooldown"],
        ["c.toml:5", 'pools."/"'],
        ["c.toml:6", 'pools."/".max_hold'],
        ["c.toml:8", "run.grace"],
    ]


def test_a_flood_of_mistakes_is_cut_short() -> None:
    """After twenty lines only the number of the others is told."""
    lines = said("".join(f"k{n} = 1\n" for n in range(500)))
    assert len(lines) == 21
    assert lines[-1] == "c.toml: and 480 more like these"


def test_values_of_unknown_settings_are_not_shown() -> None:
    """A secret that strayed into the file does not come out in a message."""
    assert not re.search("hunter", said('api_key = "hunter2"')[0])
    assert not re.search("unter", said("api_key = hunter2")[0])


def test_hostile_text_stays_on_one_short_line() -> None:
    """Long names and control characters, in the file or its name, cannot forge or flood output."""
    long = "x" * 5_000
    for text in (
        f"{long} = 1",
        f'[pools.host]\nlimit = "{long}"',
        f'[pools." {long}"]',
        f"[{long}",
    ):
        (line,) = said(text)
        assert len(line) < 700
    (line,) = said("[pools.host]\nlimit = 0", "evil\n\x1b[2J.toml")
    assert line.startswith(r"'evil\n\x1b[2J.toml':2: pools.host.limit: found 0")


@pytest.mark.parametrize(
    "text, problem",
    [
        (
            "[pools.a/b]",
            (
                "c.toml:1: not valid TOML: Expected ']' at the end of a table declaration "
                '(at line 1, column 9), found "/"; put quotes'
            ),
        ),
        (
            "[pools.a]\r\ncooldown = 2s\r\n",
            (
                "c.toml:2: not valid TOML: Expected newline or end of document after a statement "
                '(at line 2, column 13), found "s"; put quotes around text ("2s")'
            ),
        ),
        (
            "[pools.a]\nlimit =\n",
            (
                "c.toml:2: not valid TOML: Invalid value (at line 2, column 8), "
                "found the end of the line; "
            ),
        ),
        ('a = """\n', "c.toml:2: not valid TOML: Unterminated string (at end of document); "),
    ],
)
def test_a_syntax_error_is_placed(text: str, problem: str) -> None:
    """What TOML itself refuses is told with line, column and the usual remedy."""
    (line,) = said(text)
    assert line.startswith(problem)


def test_a_doubled_table_or_key_is_refused() -> None:
    """TOML refuses a repeated name; the advice is to give it once."""
    (table,) = said("[pools.a]\n[pools.b]\n[pools.a]\n")
    assert table.startswith("c.toml:3: not valid TOML: Cannot declare ('pools', 'a') twice")
    (key,) = said("[pools.a]\nlimit = 1\nlimit = 2\n")
    assert key.startswith("c.toml:3: not valid TOML: Cannot overwrite a value")
    assert table.endswith("; give each table and each setting once")
    assert key.endswith("; give each table and each setting once")


@pytest.mark.parametrize("text", [f"a = {'1' * 5_000}", f"a = {'[' * 9_000}"])
def test_absurd_values_are_refused(text: str) -> None:
    """What exceeds the limits of Python's own reader is an error like any other."""
    assert said(text)[0].startswith("c.toml: a number is too long or tables are nested too deeply")


@pytest.mark.parametrize(
    "settings, warning",
    [
        ('max_hold = "29m"', "2: pools.umans.max_hold: agents run for hours, and are ended after "),
        ('cooldown = "301s"', "2: pools.umans.cooldown: each freed seat stays empty for 5m01s"),
        ("limit = 1001", "2: pools.umans.limit: 1001 seats limit little"),
        ("reserve.normal = 1", "2: pools.umans.reserve: has no effect while this pool has no lim"),
        (
            "limit = 2\nreserve = { normal = 1, interactive = 1 }",
            "3: pools.umans.reserve: sets aside 2 of 2 seats, but one always stays open to ev",
        ),
    ],
)
def test_a_harmful_value_is_warned_of(settings: str, warning: str) -> None:
    """A legal value that looks like a mistake is taken, with one line about it."""
    config = parse(f"[pools.umans]\n{settings}", "c.toml")
    assert set(config.pools) == {"umans"}
    (found,) = config.warnings
    assert found.startswith(f"c.toml:{warning}")


def test_a_grace_too_short_to_use_is_warned_of() -> None:
    """An agent killed at once cannot save its work."""
    config = parse("run.grace = 0", "c.toml")
    assert config.grace == 0
    assert config.warnings == (
        "c.toml:1: run.grace: hardly time for an ended agent to save its work; 10s is",
    )


def test_ordinary_values_are_not_warned_of() -> None:
    """Values at the edge of what is sensible pass in silence; `host` has a limit by default."""
    text = """
    [pools.host]
    reserve = { interactive = 2 }
    [pools.umans]
    limit = 1000
    cooldown = "5m"
    max_hold = "31m"
    reserve = { interactive = 999 }
    [run]
    grace = 1
    """
    assert parse(text, "c.toml").warnings == ()


def test_a_quoted_name_is_found_on_its_line() -> None:
    """Brackets, dots and escapes in a pool's name do not hide its line."""
    text = '\n[ pools . "a/claude[1m]" ]\nlimit = 1\n[pools]\n"b/\\u0078.1".max_hold = 0\n'
    assert said(text) == [f'c.toml:5: pools."b/x.1".max_hold: found 0, {HOLD}']


def test_the_template_changes_nothing() -> None:
    """A freshly written template leaves every pool as it was, without errors or warnings."""
    config = parse(TEMPLATE, "c.toml")
    assert config.warnings == ()
    assert config.grace == GRACE
    assert resolve_pools(config.pools, ()).pools == resolve_pools({}, ()).pools


def test_the_template_shows_the_defaults() -> None:
    """Uncommented, the template names every setting that has a default, and each with it."""
    config = parse(re.sub(r"(?m)^#(?! |$)", "", TEMPLATE), "c.toml")
    assert config.warnings == ()
    assert config.grace == GRACE
    assert config.classify == ()
    assert config.defaults == Declared(cooldown=COOLDOWN, adapt=LEARN)
    assert config.pools == {
        "host": DEFAULTS["host"]._replace(
            memory_floor=0, load_ceiling=0.0, agent_memory=AGENT_MEMORY
        ),
        "*/claude-opus-*": Declared(
            limit=DEFAULTS["*/claude-opus-*"].limit,
            cooldown=COOLDOWN,
            reserve=(),
            adapt=LEARN,
            observe=(),
            spacing=Ms(0),
            order="oldest",
        ),
    }
    pools = resolve_pools(config.pools, (), config.defaults).pools.items()
    assert {name: pool._replace(source="default") for name, pool in pools} == resolve_pools(
        {}, ()
    ).pools
    assert config.jobs == JobPolicy()
    assert config.profiles == {}
    settings = {*Declared._fields, *RunLimits._fields, *JobPolicy._fields, "grace"}
    for name in settings - {
        "usage",
        "rpm",
        "tpm",
        "limits",
        "meter",
        "queue_timeout",
        "warned_limit",
        "per_task",
    }:
        assert f"\n#{name} = " in TEMPLATE


def test_the_templates_examples_can_be_used() -> None:
    """Settings that have no default are shown by examples; uncommented, they are accepted."""
    setting = (
        r"(?m)^# (?=\[\[|\[profiles|(?:rpm|tpm|usage|provider|status|body|signal|like|programs|name"
        r"|command|events) = )"
    )
    config = parse(re.sub(setting, "", TEMPLATE), "c.toml")
    assert config.warnings == ()
    pool = config.pools["*/claude-opus-*"]
    assert (pool.rpm, pool.tpm) == (50, 40_000)
    assert pool.usage == UsageSource("umans", "https://api.code.umans.ai/v1/usage", "UMANS_API_KEY")
    assert [rule.signal for rule in config.classify] == ["concurrency-limited"]
    assert [target.name for target in config.notify] == ["me"]
    assert config.profiles == {"my-claude": {"like": "claude", "programs": ("my-claude",)}}


def test_find_prefers_the_variable(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HEADGATE_CONFIG beats the default path and is made absolute; an empty one is as none."""
    default_path().parent.mkdir(parents=True)
    write(default_path(), "")
    monkeypatch.setenv("HEADGATE_CONFIG", "")
    assert find() == default_path()
    write(file, "")
    monkeypatch.chdir(file.parent)
    monkeypatch.setenv("HEADGATE_CONFIG", file.name)
    assert find() == file


def test_find_refuses_a_variable_that_names_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A named file that is missing is an error, never silently the defaults."""
    monkeypatch.setenv("HEADGATE_CONFIG", str(file))
    with pytest.raises(ConfigError, match=f"{file}: HEADGATE_CONFIG names this file, but there is"):
        find()


def test_find_is_content_without_a_file() -> None:
    """Where no file is named and none is at the default path, there is none."""
    assert find() is None


def test_the_default_path_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """XDG_CONFIG_HOME counts if absolute; otherwise the home directory's .config."""
    assert default_path() == tmp_path / "xdg/headgate/config.toml"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert default_path() == tmp_path / ".config/headgate/config.toml"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert default_path() == tmp_path / ".config/headgate/config.toml"


def test_load_reads_a_file(file: Path) -> None:
    """A loaded Config knows its file, and messages name it."""
    write(file, "[pools.host]\nlimit = 7\nmax_hold = 1\n")
    config = load(file)
    assert config.path == file
    assert config.pools == {"host": Declared(limit=7, max_hold=Ms(1_000))}
    assert config.warnings[0].startswith(f"{file}:3: pools.host.max_hold: ")


def test_load_ignores_a_byte_order_mark(file: Path) -> None:
    """A file saved by an editor that marks UTF-8 is read like any other."""
    file.write_bytes(b"\xef\xbb\xbf[pools.host]\r\nlimit = 7\r\n")
    assert load(file).pools == {"host": Declared(limit=7)}


@pytest.mark.parametrize(
    "data, problem",
    [
        (b"# ok\n# caf\xe9\n", ":2: found the byte 0xe9, expected UTF-8 text; save the file as"),
        ("limit = 3".encode("utf-16"), ":1: found the byte 0xff, expected UTF-8 text; save the"),
        (b"#" * 5_000_000, ": found more than 4 MiB, expected a TOML file of a few lines; name"),
    ],
    ids=["latin-1", "utf-16", "huge"],
)
def test_load_refuses_what_is_no_text(file: Path, data: bytes, problem: str) -> None:
    """Bytes that cannot be a configuration are refused by place and remedy."""
    file.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert str(caught.value).startswith(f"{file}{problem}")


def test_load_refuses_what_is_no_file(file: Path) -> None:
    """A missing file, a directory, a pipe and an impossible name are errors, and none blocks."""
    os.mkfifo(file.with_name("pipe"))
    for path, problem in (
        (file, "cannot be read: No such file or directory; expected a TOML file that you may read"),
        (file.parent, "found a directory, expected a TOML file; name a file instead"),
        (file.with_name("pipe"), "found a device or a pipe, expected a TOML file; name a file"),
        (file / "below", "cannot be read: "),
        (Path("a\0b"), "cannot be read: its name has a null character"),
    ):
        with pytest.raises(ConfigError, match=re.escape(problem)):
            load(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_load_refuses_what_it_may_not_read(file: Path) -> None:
    """A file without read permission is an error that says so."""
    write(file, "").chmod(0)
    with pytest.raises(ConfigError, match="cannot be read: Permission denied"):
        load(file)


def test_watched_sees_a_change(file: Path) -> None:
    """A saved change is handed out once, even one of the same size in the same instant."""
    watched = Watched(write(file, "[pools.host]\nlimit = 1\n"))
    assert watched.config.pools == {"host": Declared(limit=1)}
    assert watched.fresh() is None
    for limit in range(2, 10):
        write(file, f"[pools.host]\nlimit = {limit}\n")
        config = watched.fresh()
        assert config is not None
        assert config.pools == {"host": Declared(limit=limit)}
        assert config is watched.config
        assert watched.fresh() is None


def test_watched_sees_a_replaced_file(file: Path) -> None:
    """A file moved over the old one is a change, also with an old date."""
    watched = Watched(write(file, "[pools.host]\nlimit = 1\n"))
    other = write(file.with_name("new"), "[pools.host]\nlimit = 2\n")
    os.utime(other, ns=(0, file.stat().st_mtime_ns))
    other.rename(file)
    config = watched.fresh()
    assert config is not None
    assert config.pools == {"host": Declared(limit=2)}


def test_watched_does_not_read_a_settled_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unchanged file costs a stat and nothing more."""
    os.utime(write(file, ""), (1, 1))
    watched = Watched(file)
    monkeypatch.setattr("headgate.config.file.load", lambda _: pytest.fail("read again"))
    assert watched.fresh() is None


def test_watched_keeps_the_last_good_config(file: Path) -> None:
    """A broken change is reported once and changes nothing; a repaired one counts again."""
    watched = Watched(write(file, "[pools.host]\nlimit = 1\n"))
    good = watched.config
    write(file, "[pools.host]\nlimit = 0\n")
    assert watched.fresh() is None
    assert watched.problem == f"{file}:2: pools.host.limit: found 0, {LIMIT}"
    watched.problem = None
    assert watched.fresh() is None
    assert watched.problem is None
    assert watched.config is good
    write(file, "[pools.host")
    assert watched.fresh() is None
    assert watched.problem is not None
    write(file, "[pools.host]\nlimit = 2\n")
    assert watched.fresh() == Config(file, {"host": Declared(limit=2)}, GRACE, ())
    assert watched.problem is None


def test_watched_forgets_a_problem_that_was_undone(file: Path) -> None:
    """Going back to the last good text is no change, but ends the problem."""
    watched = Watched(write(file, "[pools.host]\nlimit = 1\n"))
    write(file, "[pools.host")
    assert watched.fresh() is None
    write(file, "[pools.host]\nlimit = 1\n")
    assert watched.fresh() is None
    assert watched.problem is None


def test_watched_sees_a_file_vanish_and_reappear(file: Path) -> None:
    """Without the file the defaults count, until it is back."""
    watched = Watched(write(file, "[pools.host]\nlimit = 1\n"))
    file.unlink()
    assert watched.fresh() == NO_FILE
    assert watched.fresh() is None
    write(file, "[pools.host]\nlimit = 1\n")
    assert watched.fresh() == Config(file, {"host": Declared(limit=1)}, GRACE, ())


def test_watched_waits_for_the_default_path() -> None:
    """Without a file to begin with, one that appears at the default path counts."""
    watched = Watched(None)
    assert watched.config == NO_FILE
    assert watched.fresh() is None
    default_path().parent.mkdir(parents=True)
    write(default_path(), "[run]\ngrace = 3\n")
    assert watched.fresh() == Config(default_path(), {}, Ms(3_000), ())


def test_watched_stays_with_its_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file named by a relative path is still watched after a change of directory."""
    write(file, "")
    monkeypatch.chdir(file.parent)
    watched = Watched(Path(file.name))
    monkeypatch.chdir("/")
    assert watched.fresh() is None
    assert watched.config.path == file


def test_watched_begins_with_a_good_file(file: Path) -> None:
    """A named file that is missing or wrong is an error at once, not a problem to report later."""
    with pytest.raises(ConfigError, match="cannot be read"):
        Watched(file)
    with pytest.raises(ConfigError, match="limit: found 0"):
        Watched(write(file, "[pools.host]\nlimit = 0\n"))


def test_watched_takes_a_directory_for_a_broken_change(file: Path) -> None:
    """Something unreadable in the file's place keeps the last good Config."""
    watched = Watched(write(file, "[pools.host]\nlimit = 1\n"))
    file.unlink()
    file.mkdir()
    assert watched.fresh() is None
    assert watched.problem is not None
    assert watched.config.pools == {"host": Declared(limit=1)}


def test_the_heavy_imports_wait() -> None:
    """Importing the module brings in neither the TOML reader nor the matcher of names."""
    program = textwrap.dedent(
        """
        import sys, headgate.config
        heavy = {"tomllib", "difflib", "dataclasses", "headgate.core.answers.builtin_rules"}
        print(*heavy & set(sys.modules))
        """
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


def check(text: str) -> None:
    try:
        config = parse(text, "c.toml")
    except ConfigError as error:
        lines = str(error).split("\n")
        assert lines
        assert all(line.startswith("c.toml:") and line.isprintable() for line in lines)
    else:
        assert all(line.isprintable() for line in config.warnings)
        assert resolve_pools(config.pools, ()).pools


@given(st.text())
def test_any_text_parses_or_is_a_config_error(text: str) -> None:
    """No text whatever makes the reader fail in another way, or speak unprintably."""
    check(text)


def quoted(text: str) -> str:
    return '"' + "".join(f"\\U{ord(c):08x}" for c in text) + '"'


WORDS = ("pools", "run", "host", "Host", "limit", "cooldown", "max_hold", "reserve", "grace")
ODD_WORDS = ("normal", "interactive", "limt", '"*/claude-opus-*"', '"a/b"', "''", "x", "[", ".")
SCALARS = ("true", "nan", "-inf", "1e400", "1.5", "'off'", "'unlimited'", "'2s'", "1979-05-27")
ODD_SCALARS = ("07:32:00", "''", "2s", '"""', f"0x{'f' * 5_000}", "9" * 5_000)
NAMES = st.sampled_from(WORDS + ODD_WORDS) | st.text(st.characters(exclude_categories=["Cs"])).map(
    quoted
)
VALUES = st.recursive(
    st.sampled_from(SCALARS + ODD_SCALARS)
    | st.integers().map(str)
    | st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.text(st.characters(exclude_categories=["Cs"])).map(quoted),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(st.tuples(NAMES, inner), max_size=3).map(
            lambda items: "{" + ", ".join(f"{name} = {value}" for name, value in items) + "}"
        )
    ),
    max_leaves=5,
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(".".join)
LINES = st.one_of(
    PATHS.map(lambda path: f"[{path}]"),
    PATHS.map(lambda path: f"[[{path}]]"),
    NAMES.map(lambda name: f"[pools.{name}]"),
    st.tuples(PATHS, VALUES).map(lambda pair: f"{pair[0]} = {pair[1]}"),
    st.tuples(NAMES, VALUES).map(lambda pair: f"{pair[0]} = {pair[1]}"),
    st.just("# a comment"),
)


@settings(deadline=None)  # tomllib takes the square of a name's depth
@given(st.lists(LINES, max_size=8), st.sampled_from(["\n", "\r\n", "\n\n"]))
@example([f"a{'.a' * 2_000} = 1"], "\n")
@example([f"[pools{'.a' * 2_000}]"], "\n")
@example(['[pools.host]\nlimit = """\n[pools.x]\n"""'], "\n")
def test_anything_like_toml_parses_or_is_a_config_error(lines: list[str], end: str) -> None:
    """No document whatever makes the reader fail in another way, or speak unprintably."""
    check(end.join(lines))


def test_it_says_how_much_is_kept() -> None:
    """Of events, requests and history; what is not said is as ever."""
    found = parse("[store]\nevents = 500\nhistory = 1_000_000\n", "c.toml").store
    assert found == Retention(events=500, requests=10_000, history=1_000_000)


@pytest.mark.parametrize("said", ["99", "1000001", '"many"', "true", "[]"])
def test_what_it_cannot_keep_is_refused(said: str) -> None:
    """By line and bounds."""
    with pytest.raises(ConfigError, match=r"events: found .*from 100 to 1000000"):
        parse(f"[store]\nevents = {said}\n", "c.toml")
