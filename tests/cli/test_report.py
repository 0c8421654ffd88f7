"""`headgate report`: what upstream said, told by scripts and hooks."""

import json
import subprocess
from collections.abc import Iterator

import pytest

from headgate import Gate
from headgate.core.answers.signals import CONCURRENCY, KINDS, OVERLOADED, QUOTA, RATE
from tests.cli.golden.compare import Ask
from tests.support import HEADGATE, Box, pool_of

NEW = " (a new pool: it takes in all work whose provider fits)"


@pytest.fixture
def full(box: Box) -> Iterator[Gate]:
    """A gate with a pool of four that learns, and four at work in it."""
    box.config("[pools.host]\nlimit = 20\n[pools.a]\nlimit = 4\n")
    gate = box.gate()
    for _ in range(4):
        gate.slot("a/b").acquire()
    yield gate
    gate.close()


def test_too_many_at_once_lowers_the_limit_and_pauses(full: Gate, ask: Ask) -> None:
    """One incident is one cut; the message says both, and nothing goes to stdout."""
    assert ask("report", "A", "concurrency_limited", "--note", "429 from a hook") == (
        *(0, ""),
        "headgate: a: limit 4 to 3 and paused for 30s\n",
    )
    found = pool_of(full, "a")
    assert (found.limit, found.auto_reduced_from, found.paused) == (3, 4, True)
    assert "429 from a hook" in (found.notice or "")


def test_an_echo_is_counted_and_changes_nothing(full: Gate, ask: Ask) -> None:
    """What follows at once is of the same incident, and is said to be."""
    ask("report", "a", CONCURRENCY, "--retry-after", "0")
    said = ask("report", "a", CONCURRENCY)
    assert said.err == "headgate: a: counted as an echo of the same incident and not paused\n"
    assert pool_of(full, "a").limit == 3
    ask("report", "a", RATE, "--retry-after", "1h")
    said = ask("report", "a", CONCURRENCY)
    assert "an echo of the same incident and still paused for " in said.err


@pytest.mark.parametrize("signal", [RATE, QUOTA, OVERLOADED])
def test_other_refusals_pause_and_leave_the_limit(full: Gate, ask: Ask, signal: str) -> None:
    """Only too many at once says anything about how many may run."""
    said = ask("report", "a", signal, "--retry-after", "2m")
    assert said == (0, "", "headgate: a: paused for 2m\n")
    assert (pool_of(full, "a").limit, pool_of(full, "a").paused) == (4, True)


def test_a_pause_only_moves_forward(full: Gate, ask: Ask) -> None:
    """A shorter one, or any while somebody has to resume, changes nothing."""
    ask("report", "a", RATE, "--retry-after", "1h")
    until = pool_of(full, "a").paused_until
    said = ask("report", "a", RATE, "--retry-after", "5")
    assert said.err.startswith("headgate: a: already paused for longer (")
    assert pool_of(full, "a").paused_until == pytest.approx(until, abs=1)
    said = ask("report", "a", CONCURRENCY)
    assert said.err.startswith("headgate: a: limit 4 to 3 and already paused for longer (")
    assert ask("report", "a", RATE, "--retry-after", "3h").err == "headgate: a: paused for 3h\n"
    full.pause("a")
    assert ask("report", "a", QUOTA).err == "headgate: a: already paused until it is resumed\n"
    assert pool_of(full, "a").paused_until is None


@pytest.mark.parametrize("long", ["30d", "1000d", "1e300"])
def test_nothing_pauses_for_more_than_a_day(ask: Ask, long: str) -> None:
    """Whatever upstream says; and a pool that nobody has mentioned is pointed out."""
    said = ask("report", "umans", QUOTA, "--retry-after", long)
    assert said.err == f"headgate: umans: paused for 24h, a day is the most{NEW}\n"
    said = ask("report", "mistral", CONCURRENCY)
    assert said.err == f"headgate: mistral: no limit to reduce and paused for 30s{NEW}\n"
    said = ask("report", "xai", RATE, "--retry-after", "0", "--json")
    assert said == (0, "null\n", "headgate: xai: not paused\n")


def test_a_pool_that_does_not_adapt_keeps_its_limit(box: Box, ask: Ask) -> None:
    """Switched off, or the machine's own: there is a pause and nothing else."""
    box.config('[pools.a]\nlimit = 4\nadapt = "off"\n')
    for name, limit in (("a", 4), ("host", 3)):
        said = ask("report", name, CONCURRENCY)
        assert said.err == f"headgate: {name}: the limit stays {limit} and paused for 30s\n"


def test_step_down_goes_by_one(box: Box, ask: Ask) -> None:
    """One less per incident, and the notice says how to get it back."""
    box.config('[pools.a]\nlimit = 4\nadapt = "step-down"\n')
    said = ask("report", "a", CONCURRENCY)
    assert said.err == "headgate: a: limit 4 to 3 and paused for 30s\n"
    assert "headgate limits restore 'a'" in ask("status").out
    said = ask("limits", "restore", "a")
    assert said.err == (
        "headgate: a is as configured again, and what it learned is forgotten: "
        "limit 4, cooldown 2s\n"
    )


def test_an_acceptance_without_a_lease_says_nothing(full: Gate, ask: Ask) -> None:
    """It is not known what was accepted at which level, and people are told so."""
    said = ask("report", "a", "accepted")
    assert said.code == 0
    assert said.err.startswith("headgate: a: nothing changes, for an acceptance counts only with ")
    assert pool_of(full, "a").limit == 4


def test_usage_counts_where_the_configuration_names_a_source(box: Box, ask: Ask) -> None:
    """A script can tell what upstream counts; elsewhere it is said that nobody looks at it."""
    box.config(
        "[pools.a]\nlimit = 4\n"
        'usage = { kind = "json", url = "http://127.0.0.1:9/", used = "used" }\n'
    )
    said = ask("report", "a", "usage", "--in-use", "3.5", "--limit", "4", "--json")
    assert said.err == "headgate: a: taken as the provider's own count\n"
    found = json.loads(said.out)
    assert (found["upstream"]["in_use"], found["upstream"]["limit"], found["free"]) == (3.5, 4, 0)
    assert "upstream 3.5/4, " in ask("status").out
    said = ask("report", "host", "usage", "--in-use", "3")
    assert "nothing changes, for the configuration names no usage" in said.err


@pytest.mark.parametrize("signal", ["accepted", "usage"])
def test_what_makes_no_pool_needs_one(box: Box, ask: Ask, signal: str) -> None:
    """A slip in the name is an error where nothing could come of it."""
    words = ("--in-use", "1") if signal == "usage" else ()
    said = ask("report", "hots", signal, *words)
    assert (said.code, said.out) == (2, "")
    assert said.err == "headgate: there is no pool hots; headgate limits lists them\n"


@pytest.mark.parametrize(
    "typed, meant",
    [("quota", QUOTA), ("qouta", QUOTA), ("overload", OVERLOADED), ("Rate_Limit", RATE)],
)
def test_a_slip_in_a_signal_is_understood(ask: Ask, typed: str, meant: str) -> None:
    """What was probably meant is named, after all that there is."""
    said = ask("report", "a", typed)
    assert said.code == 2
    assert said.err.endswith(f"{', '.join(KINDS)} (did you mean {meant}?)\n")


def test_json_is_the_pool_as_status_shows_it(box: Box) -> None:
    """A real process prints one object, with times as text."""
    said = json.loads(box.headgate("report", "*/claude-opus-*", RATE, "--json"))
    (shown,) = (
        row
        for row in json.loads(box.headgate("status", "--json"))["pools"]
        if row["pool"] == "*/claude-opus-*"
    )
    assert list(said) == ["schema", *shown]
    assert said["paused_until"][:16] == shown["paused_until"][:16]
    assert said["paused"]


def test_a_closed_quota_stops_other_processes_at_once(box: Box) -> None:
    """Who waits, who asks and who looks hear until when, and what for."""
    box.env["HEADGATE_LIMITS"] = "a=1"
    holder = box.holder("a/b")
    waiter = box.waiter("a/b")
    box.headgate("report", "a", QUOTA, "--retry-after", "5h", "--note", "the plan is used up")
    assert holder.end() == 0
    assert "a is paused for " in waiter.line(stream="stderr")
    done = subprocess.run(
        [HEADGATE, "capacity", "a/b", "--json"],
        env=box.env,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)
    assert (done.returncode, found["state"], found["code"]) == (75, "paused", "pool_paused")
    assert 17_900 < found["eta"] <= 18_100
    assert found["reason"].startswith("a is paused for ")
    assert "the plan is used up" in found["reason"]
    (waits,) = json.loads(box.headgate("queue", "--json"))["waiting"]
    said = box.headgate("why", str(waits["id"]))
    assert "because" in said
    assert "the plan is used up" in said
    assert "in about " in said
    box.headgate("resume", "a")
    assert waiter.line() == "up"
