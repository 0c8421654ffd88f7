"""Agents that run without having asked: they use seats of an account that nobody counts."""

import os
import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from headgate.core.admission import pools
from headgate.core.named_tuple import NamedTuple
from headgate.core.user_patterns import Pattern
from headgate.doctor.facts import Facts
from headgate.doctor.finding import Finding, note, ok, warning
from headgate.gate.host.foreign_agents import (
    ancestors,
    command_lines,
    command_pattern,
    is_headgate,
)
from headgate.gate.liveness.process_marks import MARK, NO_LEASE

if TYPE_CHECKING:
    import psutil

AGENTS = frozenset({"aider", "claude", "codex", "gemini", "opencode"})
_INTERPRETER = re.compile(r"(python|node|bun|deno|ruby|uv|npx)[0-9.]*\Z")
_ENDING = re.compile(r"\.(?:[cm]?js|py|exe)\Z")
_MOST_NAMED = 10


class Agent(NamedTuple):
    """A program that is known to be an agent. Its arguments are nobody's business."""

    pid: int
    name: str
    counted: bool
    """Whether a pool's `observe` counts it."""


def check(facts: Facts) -> list[Finding]:
    """Which of them run on this machine now, as far as this user can see."""
    observed = _observed(facts)
    patterns = [command_pattern(one) for one in observed if one != pools.AGENTS]
    agents = running(AGENTS, patterns, all_counted=pools.AGENTS in observed)
    uncounted = [agent for agent in agents if not agent.counted]
    counted = [agent for agent in agents if agent.counted]
    found = []
    if uncounted:
        advice = "start them with headgate run -m KEY -- CMD, or count them with "
        advice += 'observe = "agents" in their pool'
        found.append(warning("outside", f"run outside headgate: {_named(uncounted)}", advice))
    if counted:
        text = f"run outside headgate, and are counted by observe: {_named(counted)}"
        found.append(note("observed", text))
    return found or [ok("outside", f"none of {', '.join(sorted(AGENTS))} runs outside headgate")]


def _observed(facts: Facts) -> set[str]:
    return {one for pool in facts.config.pools.values() for one in pool.observe or ()}


def _named(agents: list[Agent]) -> str:
    names = ", ".join(f"{agent.name} (pid {agent.pid})" for agent in agents[:_MOST_NAMED])
    more = len(agents) - _MOST_NAMED
    return f"{names} and {more} more" if more > 0 else names


def running(
    names: Collection[str], observed: Iterable[Pattern] = (), *, all_counted: bool = False
) -> list[Agent]:
    """Agents that neither carry a lease's mark nor were started by what does."""
    import psutil

    patterns = list(observed)
    found: dict[int, Agent] = {}
    above: dict[int, tuple[psutil.Process, ...]] = {}
    ours: set[int] = set()
    for process, argv in command_lines():
        name = agent_name(argv)
        if is_headgate(argv):
            ours.add(process.pid)
        elif name in names and _lives(process) and not _marked(process):
            text = " ".join(argv)
            counted = all_counted or any(pattern.search(text) for pattern in patterns)
            found[process.pid] = Agent(process.pid, name, counted)
            above[process.pid] = ancestors(process)
    agents = []
    for pid, agent in sorted(found.items()):
        line = {one.pid for one in above[pid]}
        if not line & (found.keys() | ours):  # else a part of another, or on its way to a lease
            agents.append(agent)
    return agents


def agent_name(argv: list[str]) -> str:
    """The name of the program that a command line runs, be it a script of some interpreter."""
    words = [word for word in argv[:6] if word]
    name = _base(words[0].split(" ")[0]) if words else ""
    if _INTERPRETER.match(name):
        script = next((word for word in words[1:] if not word.startswith("-")), "")
        return _base(script)
    return name


def _base(word: str) -> str:
    return _ENDING.sub("", os.path.basename(word)).lower()  # noqa: PTH119 - any text


def _marked(process: "psutil.Process") -> bool:
    """Whether it carries a mark; also if that cannot be told, as of another user's."""
    import psutil

    try:
        found = process.environ() or process.environ()  # none while a program starts
        return found.get(MARK, NO_LEASE) != NO_LEASE
    except (psutil.Error, OSError):
        return True


def _lives(process: "psutil.Process") -> bool:
    import psutil

    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False
