"""What is wrong is said where it is done: tighter pools, slips in names, room that is none."""

import json
import subprocess
import threading

import pytest

from headgate.core.likely_slips import meant_key, meant_pool
from tests.cli.golden.compare import Ask
from tests.support import HEADGATE, LONG, Box

OPUS = "anthropic/claude-opus-4-6"
KEYS = [OPUS, "anthropic/claude-sonnet-4-6", "openai/gpt-5", "openai/gpt-4o-mini"]
POOLS = ["host", "*/claude-opus-*", "anthropic"]


def test_setting_a_limit_names_the_pools_that_are_tighter(ask: Ask) -> None:
    """Whoever raises a limit that another one bounds is told by which, and how to raise that."""
    said = ask("limits", "set", "anthropic/claude-opus-*", "8")
    assert said.code == 0
    assert said.err.splitlines()[1] == (
        "headgate: note: all of its work also sits in host (3) and */claude-opus-* (4), so no more "
        "than 3 of it run at once; to raise that: headgate limits set host N"
    )
    assert "note:" not in ask("limits", "set", "anthropic/claude-opus-*", "2").err


@pytest.mark.parametrize(
    "words, meant",
    [
        (("limits", "set", "antropic", "4"), "anthropic"),
        (("limits", "set", "anthropic/claude-opsu-*", "4"), "anthropic/claude-opus-*"),
        (("limits", "set", "claude-opus-*", "4"), "*/claude-opus-*"),
        (("limits", "cooldown", "hsot", "4s"), "host"),
        (("pause", "opnai"), "openai"),
    ],
)
def test_a_slip_in_the_name_of_a_pool_makes_none(ask: Ask, words: list[str], meant: str) -> None:
    """It is refused with what was probably meant; --new makes it all the same."""
    said = ask(*words)
    assert said.code == 2
    assert f"did you mean {meant}?" in said.err
    assert ask(*words, "--new").code == 0


def test_versions_and_what_was_used_are_no_slips() -> None:
    """Names that differ in their digits, short ones, and those that fit known work are let pass."""
    assert meant_pool("openai2", POOLS, KEYS) == ""
    assert meant_pool("xia", POOLS, ["xai/grok"]) == ""
    assert meant_pool("anthropik", POOLS, ["anthropik/x"]) == ""
    assert meant_key("anthropic/claude-opus-4-7", KEYS) == ""
    assert meant_key("anthropic/claude-haiku-4-5", KEYS) == ""
    assert meant_key("openai/gpt-4o", KEYS) == ""
    assert meant_key("anthropic/cluade-opus-4-6", KEYS) == OPUS


def test_run_and_submit_warn_of_a_key_that_may_be_a_slip(box: Box, ask: Ask) -> None:
    """Work with it starts all the same, and the warning comes only until it was used."""
    with box.gate() as gate:
        gate.slot(OPUS).acquire().release()
    slip = "anthropic/cluade-opus-4-6"
    warning = f"headgate: warning: {slip} was never used here; did you mean {OPUS}?\n"
    assert warning in ask("submit", "-m", slip, "--hold", "--", "true").err
    words = [HEADGATE, "run", "-m", slip, "--", "true"]
    for told in (warning, ""):
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=LONG)
        assert done.stderr == told


def test_a_slip_around_the_pool_of_a_family_is_warned_of_from_the_first_day(ask: Ask) -> None:
    """Before anything was used, the pools tell which families there are."""
    said = ask("submit", "-m", "anthropic/claude-opsu-4-6", "--hold", "--", "true")
    assert "did you mean anthropic/claude-opus-4-6?" in said.err
    for fine in ("anthropic/claude-opus-5", "anthropic/claude-sonnet-4-6", "openai/gpt-5"):
        assert "did you mean" not in ask("submit", "-m", fine, "--hold", "--", "true").err


def test_free_is_what_one_more_would_find(box: Box, ask: Ask) -> None:
    """A pool of whose work none can start has nothing free, whatever its own seats say."""
    gate = box.gate()
    gate.set_limit("anthropic/claude-opus-*", 8)
    waits = threading.Event()
    leases = [gate.slot(OPUS).acquire() for _ in range(3)]
    slot = gate.slot(OPUS, on_wait=lambda _: waits.set())
    thread = threading.Thread(target=lambda: slot.acquire().release())
    thread.start()
    assert waits.wait(LONG)
    pools = {pool["pool"]: pool for pool in json.loads(ask("status", "--json").out)["pools"]}
    opus = pools["anthropic/claude-opus-*"]
    assert (opus["free"], opus["own_free"], opus["bounded_by"]) == (0, 5, "host")
    shown = ask("status").out
    assert "host has no room" in shown
    capacity = json.loads(ask("capacity", OPUS, "--json").out)
    assert capacity["free"] == opus["free"]
    for lease in leases:
        lease.release()
    thread.join(LONG)


def test_limits_get_prints_a_limit_and_nothing_else(ask: Ask) -> None:
    """A number for scripts on stdout; what bounds it is told beside, and a slip is an error."""
    assert ask("limits", "get", "host") == (0, "3\n", "")
    said = ask("limits", "get", "*/claude-opus-*")
    assert said.out == "4\n"
    assert "no more than 3 of it run at once" in said.err
    found = json.loads(ask("limits", "get", "host", "--json").out)
    assert (found["schema"], found["pool"], found["limit"]) == (1, "host", 3)
    assert ask("limits", "get", "hots").code == 2


def test_pausing_says_how_much_is_in_the_pool(box: Box, ask: Ask) -> None:
    """Who pauses a pool sees what goes on there, and what waits."""
    with box.gate() as gate, gate.slot(OPUS):
        assert "(1 in use, 0 waiting)" in ask("pause", "*/claude-opus-*").err


def test_config_check_says_what_doctor_knows(box: Box, ask: Ask) -> None:
    """Limits that are never reached and names that fit nothing are warned of at once."""
    box.config("[pools.anthropic]\nlimit = 9\n[pools.antropic]\nlimit = 2\n")
    said = ask("config", "check").err
    assert "warning: anthropic: its limit of 9 is never reached" in said
    assert "did you mean anthropic?" in said
