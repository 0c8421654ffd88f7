"""`headgate doctor`: what is wrong or odd, in words, with what to do about it."""

import itertools
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from headgate import Gate
from headgate.cli import doctor
from headgate.cli.shared import terminal
from headgate.config import Config, load
from headgate.core.display.snapshots import PoolStatus, Status
from headgate.core.key_patterns import matches
from headgate.core.pattern_overlap import covers, overlap
from headgate.core.times import Ms, Seconds
from headgate.doctor import (
    Finding,
    Report,
    examine,
    machine,
    meters,
    overlapping_pools,
    settings,
    storage,
    timeouts,
    try_notification,
    unmanaged_agents,
)
from headgate.doctor.facts import Facts, StoreContents, gather
from headgate.gate.liveness.process_marks import MARK
from tests.cli.golden.compare import Ask, asking, check
from tests.support import HEADGATE, LONG, Box, until

OPUS = "anthropic/claude-opus-4-6"
HOUR = 3_600_000.0


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], box: Box, monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.setattr(unmanaged_agents, "AGENTS", frozenset({f"none-{uuid4().hex}"}))
    return asking(capsys)


def found(ask: Ask, *words: str) -> dict[str, list[dict[str, Any]]]:
    """The findings by their codes."""
    said = ask(*words, "doctor", "--json")
    report = json.loads(said.out)
    assert said.code == (0 if report["healthy"] else 1)
    codes: dict[str, list[dict[str, Any]]] = {}
    for finding in report["findings"]:
        codes.setdefault(finding["code"], []).append(finding)
    return codes


def pool(name: str, limit: int | None, source: str = "file", **more: Any) -> PoolStatus:  # noqa: ANN401
    return PoolStatus(
        **{
            "pool": name,
            "limit": limit,
            "configured_limit": limit,
            "source": source,
            "in_use": 0,
            "cooling": 0,
            "queued": 0,
            "paused": False,
            "paused_until": None,
            "cooldown_ms": 0,
            "max_hold": None,
            "reserve": {},
            **more,
        }
    )


def facts(*pools: PoolStatus, config: Config | None = None, **seen: float | None) -> Facts:
    status = Status(pools, 0, 0, {}, Seconds(1_000.0))
    keys = {n.replace("__", "/"): None if ms is None else Ms(ms) for n, ms in seen.items()}
    return Facts(config or load(None), {}, "memory://", status, seen=StoreContents(keys))


def seen(*pools: PoolStatus, keys: tuple[str, ...]) -> Facts:
    return facts(*pools)._replace(seen=StoreContents(dict.fromkeys(keys)))


def codes(findings: list[Finding] | Iterator[Finding]) -> list[tuple[str, str]]:
    return [(one.level, one.code) for one in findings]


def test_a_new_machine_is_well(ask: Ask, box: Box) -> None:
    """With no file and no store: the defaults, a note that there is no store, and none is made."""
    codes = found(ask)
    assert [one["text"] for one in codes["limit"]] == [
        "host: 3 by default",
        "*/claude-opus-*: 4 by default",
    ]
    assert "not there yet" in codes["no_store"][0]["text"]
    assert not box.path.exists()


def test_each_limit_tells_where_it_comes_from(
    ask: Ask, box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default, the file, by hand, HEADGATE_LIMITS, learned, and what a 429 made of it."""
    box.config("[pools.host]\nlimit = 20\n[pools.a]\nlimit = 4\n[pools.b]\nlimit = 4\n")
    gate = box.gate()
    gate.set_limit("b", 9)
    gate.set_limit("c", "learn")
    gate.pause("c", note="tea")
    with gate.slot("a/x") as lease:
        lease.report("concurrency-limited", retry_after=0)
    monkeypatch.setenv("HEADGATE_LIMITS", "d=2")
    texts = [one["text"] for one in found(ask)["limit"]]
    assert texts == [
        "host: 20 from the configuration",
        "*/claude-opus-*: 4 by default",
        "a: 1 from the configuration, reduced from 4 after a 429",
        "b: 9 set by hand, where the configuration says 4",
        "c: 2 learned, paused until it is resumed",
        "d: 2 from HEADGATE_LIMITS",
    ]


def test_it_looks_like_this(ask: Ask) -> None:
    """Groups with headings, a sign for each level, advice below; signs that ASCII has too."""
    report = Report(
        (
            ("Settings", (Finding("ok", "config", "all fine"),)),
            (
                "Limits",
                (Finding("note", "a", "worth knowing"), Finding("warning", "b", "odd", "do")),
            ),
            ("Store", (Finding("problem", "c", "broken\x1b[2J", "mend it"),)),
        )
    )
    drawn = "\n".join(doctor.lines(report, terminal.Pen()))
    check("doctor", drawn + "\n")
    plain = "\n".join(doctor.lines(report, terminal.Pen(blocks="#=.")))
    assert plain.isascii()
    assert doctor.lines(Report(()), terminal.Pen()) == ["All is well."]


def test_a_broken_file_is_a_problem_and_the_rest_is_checked(ask: Ask, box: Box) -> None:
    """Each mistake is told; limits and the store are looked at with the defaults."""
    box.gate().set_limit("a", 3)
    box.config('[pools.host]\nlimit = "many"\ncolour = 1\n')
    codes = found(ask)
    assert [one["level"] for one in codes["config_broken"]] == ["problem"] * 2
    assert "a: 3 set by hand" in [one["text"] for one in codes["limit"]]
    assert codes["store"]


def test_warnings_of_the_file_are_told(ask: Ask, box: Box) -> None:
    """What is legal but looks harmful is a warning here too, and no problem."""
    box.config('[pools.host]\nmax_hold = "5m"\n')
    codes = found(ask)
    assert "agents run for hours" in codes["config_warning"][0]["text"]


@pytest.mark.parametrize("limits", ["nonsense", "a=0", "a=1,a=2", "sk-ant-api03-secret12345"])
def test_broken_limits_are_a_problem(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, limits: str
) -> None:
    """HEADGATE_LIMITS that nothing could be started with; what looks like a key is not shown."""
    monkeypatch.setenv("HEADGATE_LIMITS", limits)
    codes = found(ask)
    assert codes["limits_broken"][0]["level"] == "problem"
    assert "secret" not in json.dumps(codes)


def test_the_environment_in_effect_is_told(monkeypatch: pytest.MonkeyPatch, box: Box) -> None:
    """Which variables have a say, without passwords; and one that is nearly right has none."""
    box.config('[pools.a]\nusage = { kind = "umans", url = "https://x/y", key_env = "NO_SUCH" }\n')
    config, _ = settings.read_config(None)
    environ = {
        "HEADGATE_STORE": "postgresql://me:hunter2@db/x",
        "HEADGATE_CONFIG": "/x",
        "HEADGATE_LEASE": "abc.1",
        "HEADGATE_LIMIT": "a=1",
        "HEADGATE_PORT": "1",
        "HTTPS_PROXY": "http://me:hunter3@proxy",
    }
    told = settings.check_environment(config, environ, None)
    assert [one.code for one in told] == [
        "store_variable",
        "config_variable",
        "under_lease",
        "proxy",
        "no_key",
        "unknown_variable",
    ]
    assert "hunter" not in str(told)
    assert "did you mean HEADGATE_LIMITS?" in str(told[-1])


def test_a_password_is_never_printed(ask: Ask) -> None:
    """A store's URL with one is refused by this version, without repeating it."""
    said = ask("--store", "postgresql://me:hunter2@db/x", "doctor")
    assert said.code == 1
    assert "hunter2" not in said.out + said.err


PATTERNS = ("a", "b", "a/x", "a/x*", "a/*x", "*/x", "a/?", "a/??", "a/*?", "?/x*", "*", "a/x?*")
KEYS = [
    f"{provider}/{''.join(model)}"
    for provider in ("a", "b", "ab")
    for size in (1, 2, 3)
    for model in itertools.product("xy", repeat=size)
]


def test_names_are_compared_rightly() -> None:
    """A pool covers another if it has all of its keys, and meets it if it has one of them."""
    keys = {name: {key for key in KEYS if matches(name, key)} for name in PATTERNS}
    for one, other in itertools.product(PATTERNS, repeat=2):
        if covers(one, other):
            assert keys[other] <= keys[one], (one, other)
        assert overlap(one, other) == bool(keys[one] & keys[other]), (one, other)
    for one in PATTERNS:
        assert covers("host", one)
        assert not covers(one, "host")


def test_equal_names_cover_each_other() -> None:
    """Whichever way the wildcards are written, and whatever they stand for."""
    for one, other in (("a", "a/*"), ("a/*?", "a/?*"), ("a/**x", "a/*x"), ("*/c-*", "p/c-o-*")):
        assert covers(one, other)
    assert not covers("p/c-o-*", "*/c-*")


def test_a_limit_that_is_never_reached(ask: Ask) -> None:
    """All of its work sits in a tighter pool: a note by default, a warning if it was set."""
    host, opus = pool("host", 3, "default"), pool("*/claude-opus-*", 4, "default")
    assert codes(overlapping_pools.check(facts(host, opus))) == [("note", "shadowed")]
    opus = opus._replace(source="file")
    assert codes(overlapping_pools.check(facts(host, opus, anthropic__claude_opus=None)))[0] == (
        "warning",
        "shadowed",
    )
    for tight in (opus._replace(limit=2), opus._replace(limit=2, auto_reduced_from=4)):
        assert ("warning", "shadowed") not in codes(overlapping_pools.check(facts(host, tight)))


@pytest.mark.parametrize(
    "wide, narrow, shadowed",
    [
        (pool("a", 4), pool("a/x", 4), "a/x"),
        (pool("a", 4), pool("a/*", 4), "a/*"),
        (pool("a", 5), pool("a/x", 4), None),
        (pool("a", 4, "learned"), pool("a/x", 9), None),
        (pool("a", 2, auto_reduced=True, auto_reduced_from=9), pool("a/x", 4), None),
        (pool("b", 4), pool("a/x", 9), None),
        (pool("a", None), pool("a/x", 9), None),
    ],
)
def test_only_what_surely_shadows(
    wide: PoolStatus, narrow: PoolStatus, shadowed: str | None
) -> None:
    """A limit that may rise by itself shadows nothing; of two alike, one is superfluous."""
    keys = ("a/x", "b/x")
    told = [
        one
        for one in overlapping_pools.check(seen(wide, narrow, keys=keys))
        if one.code == "shadowed"
    ]
    assert [one.text.partition(":")[0] for one in told] == ([shadowed] if shadowed else [])


@pytest.mark.parametrize(
    "name, meant",
    [
        ("claude-opus-*", "anthropic/claude-opus-*"),
        ("antropic/claude-opus-*", "anthropic/claude-opus-*"),
        ("antropic", "anthropic"),
        ("anthropic/claude-opas-4-6", OPUS),
        ("anthropic/cluade-opus-*", "anthropic/claude-opus-*"),
    ],
)
def test_a_slip_in_a_name_is_seen(name: str, meant: str) -> None:
    """A pool that fits nothing seen so far, but would if its name were nearly the same."""
    told = overlapping_pools.check(seen(pool(name, 4), pool("anthropic/*", 9), keys=(OPUS,)))
    assert ("warning", "fits_nothing") in codes(told)
    assert any(one.advice == f"did you mean {meant}?" for one in told)


def test_a_model_without_its_provider_is_seen_at_once() -> None:
    """Even before anything has run, a name like a model's is no provider's."""
    told = overlapping_pools.check(facts(pool("claude-opus-*", 4)))
    assert [one.advice for one in told] == ["did you mean */claude-opus-*?"]
    assert overlapping_pools.check(facts(pool("anthropic", 4), pool("openai", 4))) == []


def test_what_fits_nothing_at_all_is_noted() -> None:
    """Neither work nor another pool: perhaps it is no longer needed."""
    told = overlapping_pools.check(seen(pool("zai", 4), pool("a", 9), keys=("a/x",)))
    assert codes(told) == [("note", "fits_nothing")]


def test_limits_that_add_up_are_noted() -> None:
    """Two versions of a model with a limit each and none in common."""
    apart = [pool("p/opus-4-6", 4), pool("p/opus-4-7", 4)]
    told = overlapping_pools.check(seen(*apart, keys=("p/opus-4-6", "p/opus-4-7")))
    assert codes(told) == [("note", "disjoint")]
    assert "so 8 may run at once" in told[0].text
    assert told[0].advice.endswith("'p/opus*' N")
    joined = [*apart, pool("p/opus-*", 5)]
    assert overlapping_pools.check(seen(*joined, keys=("p/opus-4-6", "p/opus-4-7"))) == []


def test_keys_without_a_limit_are_noted() -> None:
    """What runs under no limit but the machine's, unless somebody said that it may."""
    keys = ("a/x", "b/x", "c/x")
    told = overlapping_pools.check(
        seen(pool("host", 3), pool("a", 2), pool("b", None, "hand"), keys=keys)
    )
    assert [one.text for one in told] == ["in use, with no limit but the machine's: c/x"]


@pytest.mark.parametrize(
    "given, code",
    [
        (facts(pool("a", 4, max_hold=5.0)), "grace"),
        (facts(pool("a", 4, max_hold=60.0, cooldown_ms=60_000)), "cooldown"),
        (facts(pool("a", 4, max_hold=3600.0), a__x=2 * HOUR), "max_hold"),
        (
            facts(pool("a", 4, max_hold=60.0))._replace(seen=StoreContents(overdue={"a/x": 1})),
            "overdue",
        ),
        (facts(pool("a", 4, max_hold=60.0), pool("a/x", 4, max_hold=90.0)), "max_hold_shadowed"),
        (facts(pool("a", 4, cooldown_ms=60_000), a__x=30_000.0), "cooldown_long"),
        (facts(pool("a", 4, spacing_ms=60_000), a__x=90_000.0), "spacing"),
    ],
)
def test_timeouts_in_each_others_way(given: Facts, code: str) -> None:
    """One that is shorter than what it contains, and pauses that leave seats empty."""
    assert code in [one.code for one in timeouts.check(given)]


def test_timeouts_that_agree_are_well() -> None:
    """Nothing is said against an hour for work of minutes."""
    given = facts(pool("host", 3, max_hold=7200.0), pool("a", 4, max_hold=3600.0), a__x=60_000.0)
    assert codes(timeouts.check(given)) == [("ok", "times")]


class Limits(NamedTuple):
    patience: int | None = 90_000
    stale_after: int | None = None
    max_runtime: int | None = None
    message_stale_after: int | None = None


class Jobs(NamedTuple):
    limits: Limits = Limits()
    expires: int | None = 60_000


class WithJobs(NamedTuple):
    """A configuration that speaks of jobs."""

    jobs: Jobs
    pools: dict[str, Any]
    grace: int = 10_000


@pytest.mark.parametrize(
    "limits, warnings",
    [
        (Limits(), 0),
        (Limits(90_000, 600_000, 3_600_000), 0),
        (Limits(90_000, 60_000), 1),
        (Limits(90_000, 600_000, 60_000), 2),
        (Limits(90_000, None, 9_000_000), 1),
    ],
)
def test_the_terms_of_jobs_are_compared(limits: Limits, warnings: int) -> None:
    """Patience within silence within the time to run within the longest hold of a pool."""
    config: Any = WithJobs(Jobs(limits), {})
    told = timeouts.check(facts(pool("a", 4, max_hold=7200.0), config=config))
    assert codes(told).count(("warning", "job_terms")) == warnings


def test_jobs_that_expire_before_a_pause_ends() -> None:
    """They would be lost without ever having had a chance."""
    config: Any = WithJobs(Jobs(), {})
    paused = pool("a", 4, paused=True, paused_until=5_000.0)
    told = timeouts.check(facts(paused, config=config))
    assert codes(told) == [("warning", "job_terms")]


@pytest.mark.parametrize(
    "version, level",
    [
        ("3.51.3", "ok"),
        ("3.54.1", "ok"),
        ("4.0.0", "ok"),
        ("3.51.2", "problem"),
        ("3.9.9", "problem"),
    ],
)
def test_an_old_sqlite_is_a_problem(version: str, level: str) -> None:
    """Before 3.51.3 two writers could corrupt a log."""
    assert storage.sqlite(version).level == level


MOUNTS = r"""
/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
//server/share /mnt/win\040dows cifs rw 0 0
me@host:/x /mnt/ssh fuse.sshfs rw 0 0
/dev/sdb1 /home/local xfs rw 0 0
tmpfs /run tmpfs rw 0 0
overlay /layer overlay rw 0 0
bindfs /mnt/bind fuse.bindfs rw 0 0
/dev/sdc /twice ext4 rw 0 0
server:/y /twice nfs rw 0 0
drvfs /mnt/c 9p rw 0 0
"""
DARWIN = """
/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)
//me@server/share on /Volumes/My Share (smbfs, nodev, nosuid, mounted by me)
map auto_home on /System/Volumes/Data/home (autofs, automounted, nobrowse)
"""


@pytest.mark.parametrize(
    "path, level",
    [
        ("/var/s.db", "ok"),
        ("/home/me/s.db", "problem"),
        ("/home/local/s.db", "ok"),
        ("/homes/s.db", "ok"),
        ("/mnt/win dows/s.db", "problem"),
        ("/mnt/ssh/s.db", "problem"),
        ("/mnt/c/s.db", "problem"),
        ("/twice/s.db", "problem"),
        ("/run/s.db", "warning"),
        ("/mnt/bind/s.db", "warning"),
        ("/layer/s.db", "note"),
    ],
)
def test_a_network_file_system_is_a_problem(path: str, level: str) -> None:
    """The innermost mount counts, and of two at one place the later."""
    (told,) = storage.file_system(Path(path), MOUNTS)
    assert told.level == level


def test_the_file_system_is_told_on_macos_too() -> None:
    """By what `mount` prints there; and nothing is made up where nothing is known."""
    for path, kind in (("/Volumes/My Share/s.db", "smbfs"), ("/x/s.db", "apfs")):
        assert storage.kind_of(Path(path), DARWIN, darwin=True) == kind
    assert storage.kind_of(Path("/x"), "nonsense\n\n") == ""
    assert codes(storage.file_system(Path("/x"), "")) == [("note", "file_system")]
    assert storage.mounts()


def test_a_store_that_others_can_read_is_a_warning(ask: Ask, box: Box) -> None:
    """As is one that others can change; with the command that mends it."""
    box.gate().status()
    assert found(ask)["permissions"]
    box.path.chmod(0o644)
    (told,) = found(ask)["readable_store"]
    assert (told["level"], told["advice"]) == ("warning", f"chmod go-rwx {box.path}")
    box.path.chmod(0o666)
    assert found(ask)["writable_store"]
    box.path.chmod(0o600)
    box.folder.chmod(0o777)
    assert found(ask)["open_folder"]


@pytest.mark.parametrize("free, level", [(2**40, None), (2**26, "warning"), (2**20, "problem")])
def test_a_full_disk_is_seen_coming(free: int, level: str | None) -> None:
    """Little room is a warning, hardly any a problem."""
    assert [one.level for one in storage.space(free, Path("/x"))] == ([level] if level else [])


def test_what_the_dead_left_is_noted(ask: Ask, box: Box) -> None:
    """Pipes that nobody has open, and files that are none; those of the living are left alone."""
    gate = box.gate()
    gate.slot("a/x").acquire()
    assert "leftovers" not in found(ask)
    os.mkfifo(box.members / "0123456789ab.life")
    (box.members / "notes.txt").touch()
    codes = found(ask)
    assert codes["leftovers"][0]["text"].startswith("1 processes")
    assert codes["strange_files"][0]["level"] == "warning"
    assert len(gate.queue().running) == 1


def test_a_jump_of_the_clock_is_noted(monkeypatch: pytest.MonkeyPatch, ask: Ask, box: Box) -> None:
    """The store's clock goes on as before, and more than a minute of difference is told."""
    box.gate().status()
    assert "clock" not in found(ask)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 3_600)
    assert "put back by 1h" in found(ask)["clock"][0]["text"]


@pytest.mark.parametrize(
    "soft, level", [(None, None), (4096, None), (1023, "note"), (256, "warning")]
)
def test_few_descriptors_are_told(soft: int | None, level: str | None) -> None:
    """Who keeps watch needs one for each member."""
    assert [one.level for one in machine.descriptors(soft)] == ([level] if level else [])


def test_a_damaged_store_is_a_problem(ask: Ask, box: Box) -> None:
    """It says so, and what to do, and the other checks go on."""
    box.path.write_bytes(b"this is no database, whatever its name says" * 100)
    codes = found(ask)
    assert "is damaged or is no SQLite file" in codes["store_unusable"][0]["text"]
    assert codes["limit"]
    assert codes["python"]


def test_a_store_in_no_folder_is_a_problem(ask: Ask, box: Box) -> None:
    """Nobody makes a folder that somebody has named."""
    codes = found(ask, "--store", f"sqlite://{box.folder}/none/s.db")
    assert codes["store_unusable"][0]["advice"].startswith("make it: mkdir -p")


def test_agents_outside_are_found_by_name_only(box: Box) -> None:
    """Their number and name are told, and never their arguments; a seat makes them ours."""
    name = f"agent{uuid4().hex[:8]}"
    script = f"exec -a '/opt/{name}' sleep 600"
    stray = box.start("bash", "-c", script, env={"SECRET": "prompt"})
    names = {name}
    until(lambda: [one.pid for one in unmanaged_agents.running(names)] == [stray.pid])
    assert unmanaged_agents.running(names) == [
        unmanaged_agents.Agent(stray.pid, name, counted=False)
    ]
    marked = box.start("bash", "-c", script, env={MARK: "abc.1"})
    runner = box.run("-m", "a/b", "--", "bash", "-c", f"echo up; {script}")
    assert runner.line() == "up"
    nested = box.start(
        "bash", "-c", f"exec -a {name} bash -c 'echo up; exec -a {name} sleep 600 & wait'"
    )
    assert nested.line() == "up"
    until(lambda: {one.pid for one in unmanaged_agents.running(names)} == {stray.pid, nested.pid})
    assert marked.alive()


@pytest.mark.parametrize(
    "argv, name",
    [
        (["claude"], "claude"),
        (["/usr/bin/claude", "-p", "x"], "claude"),
        (["node", "--no-warnings", "/usr/lib/bin/gemini.js", "-p"], "gemini"),
        (["/usr/bin/python3.12", "/home/me/.local/bin/aider"], "aider"),
        (["opencode -m anthropic/claude-opus-4-6", "600"], "opencode"),
        (["vim", "claude"], "vim"),
        (["", ""], ""),
    ],
)
def test_agents_are_known_by_their_programs(argv: list[str], name: str) -> None:
    """By the program or the script, with or without its path and ending."""
    assert unmanaged_agents.agent_name(argv) == name


def test_observed_agents_are_a_note(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that a pool counts all the same are told as such."""
    name = f"agent{uuid4().hex[:8]}"
    monkeypatch.setattr(unmanaged_agents, "AGENTS", frozenset({name}))
    path = box.config(f'[pools.a]\nlimit = 4\nobserve = [{{ process = "{name}" }}]\n')
    stray = box.start("bash", "-c", f"exec -a {name} sleep 600")
    given = facts(config=load(path))
    until(lambda: unmanaged_agents.check(given)[0].code == "observed")
    (told,) = unmanaged_agents.check(given)
    assert (told.level, f"(pid {stray.pid})" in told.text) == ("note", True)
    (told,) = unmanaged_agents.check(facts())
    assert (told.level, told.code) == ("warning", "outside")


def test_without_notifications_none_is_sent(ask: Ask) -> None:
    """The test says that nothing is configured, and is no problem."""
    said = ask("doctor", "--notify")
    assert said.code == 0
    assert "no notifications are configured" in said.out
    assert "Notifications" not in ask("doctor").out


class Target(NamedTuple):
    name: str
    trouble: str = ""


class WithNotify(NamedTuple):
    """A configuration that names who is to be told."""

    notify: tuple[Target, ...]


def test_each_target_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot be told is a problem, without its secrets; the others are told."""
    module = type(sys)("headgate.notify")
    module.try_out = lambda target: target.trouble  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "headgate.notify", module)
    config: Any = WithNotify((Target("me"), Target("team", "refused sk-ant-api03-abcdefgh")))
    told = try_notification.send(facts(config=config))
    assert codes(told) == [("ok", "notify"), ("problem", "notify_failed")]
    assert "sk-ant" not in str(told)


def test_a_check_that_fails_ends_only_itself(monkeypatch: pytest.MonkeyPatch, box: Box) -> None:
    """The others are still worth having."""

    def broken() -> str:
        raise PermissionError("no")

    box.gate().status()
    monkeypatch.setattr(storage, "mounts", broken)
    report = examine({}, store=box.url)
    assert [one.text for one in report.findings if one.code == "unchecked"] == [
        "storage could not be checked: PermissionError"
    ]
    assert any(one.code == "python" for one in report.findings)


def test_it_changes_nothing(ask: Ask, box: Box) -> None:
    """No row of the store differs afterwards, with others running and waiting."""
    box.env["HEADGATE_LIMITS"] = "host=1"
    box.holder(OPUS)
    box.waiter(OPUS)
    tables = ("pool", "lane", "ticket", "lease", "rest", "history", "member", "event", "note")
    before = {table: box.rows(table) for table in tables}
    codes = found(ask)
    assert "1 running, 1 waiting, 1 keys seen" in codes["store"][0]["text"]
    assert {table: box.rows(table) for table in tables} == before


def test_the_past_comes_from_the_store(ask: Ask, box: Box) -> None:
    """How long work was held, and whether it was ended for that, is compared with the file."""
    box.config('[pools.a]\nlimit = 4\nmax_hold = "1ms"\n')
    gate = Gate.open(box.url)
    ended = threading.Event()
    lease = gate.slot("a/x", on_end=lambda _: ended.set()).acquire()
    assert ended.wait(LONG)
    lease.release()
    gate.slot("b/x").acquire().release()
    gate.close()
    box.config('[pools.b]\nlimit = 4\nmax_hold = "1ms"\n[pools.a]\nmax_hold = "2h"\n')
    told = found(ask)
    assert "1 of 1 of a/x" in told["overdue"][0]["text"]
    assert "2 keys seen" in told["store"][0]["text"]


def test_it_runs_from_a_shell(box: Box) -> None:
    """With an ASCII terminal and a closed input; the exit code is 1 if something is broken."""
    box.config("nonsense")
    done = subprocess.run(
        [HEADGATE, "doctor"],
        env={**box.env, "PYTHONIOENCODING": "ascii"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.isascii()
    assert "  x " in done.stdout


def installed(folder: Path, *names: str) -> dict[str, str]:
    """An environment in which some agents are on the PATH, and nothing else of a user's is."""
    for name in names:
        program = folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\nexit 3\n")
        program.chmod(0o755)
    return {"PATH": str(folder / "bin"), "HOME": str(folder)}


def test_each_agent_tells_its_meter(tmp_path: Path, box: Box) -> None:
    """Which agents are installed, which meter each gets and why; a hint where there is a better."""
    box.gate()
    environ = installed(tmp_path, "claude", "opencode")
    findings = {one.text.partition(":")[0]: one for one in _meters(environ, box)}
    assert (findings["opencode"].level, findings["opencode"].code) == ("ok", "meter")
    assert "meter wire, because opencode sends the same" in findings["opencode"].text
    assert findings["claude"].level == "note"
    assert "meter agent, because nobody asked" in findings["claude"].text
    assert "--meter wire" in findings["claude"].advice
    assert set(findings) == {"claude", "opencode"}


def test_the_settings_say_which_meter(tmp_path: Path, box: Box) -> None:
    """What somebody asked for counts, and is told; a meter that there is not is a problem."""
    box.gate()
    environ = installed(tmp_path, "opencode")
    (said,) = _meters({**environ, "HEADGATE_METER": "agent"}, box)
    assert said.text == "opencode: meter agent, because HEADGATE_METER says so"
    (broken,) = _meters({**environ, "HEADGATE_METER": "speed"}, box)
    assert (broken.level, broken.code) == ("problem", "meter_broken")


def test_a_gateway_of_the_users_stays_the_upstream(tmp_path: Path, box: Box) -> None:
    """Its host is told, without what may be secret in its URL; and so is a proxy on the way."""
    box.gate()
    environ = {
        **installed(tmp_path, "claude"),
        "ANTHROPIC_BASE_URL": "https://gateway.corp/v9?key=hunter3",
        "https_proxy": "http://me:hunter4@proxy",
    }
    findings = _meters(environ, box)
    assert codes(findings) == [("ok", "meter"), ("note", "upstream"), ("note", "wire_proxy")]
    assert "gateway.corp" in findings[1].text
    assert "hunter" not in str(findings)


def test_refusals_without_a_time_make_it_a_warning(tmp_path: Path, box: Box) -> None:
    """An agent that is judged by its output, in a pool that upstream refused lately."""
    box.gate()
    environ = installed(tmp_path, "claude")
    seen = StoreContents(refused={"openai": 1, "anthropic": 3})
    (one,) = _meters(environ, box, seen)
    assert one.level == "warning"
    assert "refused work of anthropic" in one.text
    (other,) = _meters(environ, box, StoreContents(refused={"openai": 1}))
    assert other.level == "note"


def test_events_tell_what_was_refused(box: Box) -> None:
    """A refusal that lowered a limit is known to the checks, by its pool."""
    box.config("[pools.a]\nlimit = 4\n")
    with box.gate().slot("a/x") as lease:
        lease.report("concurrency-limited", retry_after=0)
    seen = gather(load(None), {}, box.url, "")[0].seen
    assert seen.refused == {"a": 1}


def test_folders_of_ended_wires_are_told(box: Box) -> None:
    """Only those of agents that hold no seats, and of which nothing lives."""
    holder = box.holder("a/b")
    (work,) = box.running()
    wire = box.folder / "s.db.wire"
    for name in (str(work["id"]), "77", "strange"):
        (wire / name).mkdir(parents=True)
    given = gather(load(None), {}, box.url, "")[0]
    (left,) = meters.leftovers(given)
    assert (left.level, left.code) == ("note", "wire_leftovers")
    assert left.text.startswith("1 agents that have ended")
    assert str(wire / "77") in left.advice
    holder.end()
    (wire / "77").rmdir()
    (wire / str(work["id"])).rmdir()
    assert list(meters.leftovers(given)) == []


def _meters(environ: dict[str, str], box: Box, seen: StoreContents | None = None) -> list[Finding]:
    status = Status((), 0, 0, {}, Seconds(1_000.0))
    about = Facts(load(None), environ, box.url, status, box.path, box.members)
    return meters.check(about._replace(seen=seen or StoreContents()))


def test_what_each_kind_costs_is_told(box: Box, ask: Ask) -> None:
    """In bytes, the largest first; together it is the whole file."""
    gate = box.gate()
    with gate.slot("a/b"):
        pass
    gate.close()
    (told,) = found(ask)["store_size"]
    assert told["level"] == "ok"
    for kind in ("events", "requests", "history", "jobs", "what goes on"):
        assert re.search(rf"\d (B|KiB) {kind}", told["text"]), told["text"]
