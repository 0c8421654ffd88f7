"""Agents on this machine that headgate did not start: they use an account's seats all the same.

They are found by their command lines, as `pgrep -f` does. A wrapper repeats the command line of
what it wraps, so a match below another match is the same agent. For the same reason a match above
a process of ours, as in `sh -c "headgate run … -- opencode …"`, is our own wrapper.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from headgate.core.admission.pools import AGENTS
from headgate.core.key_patterns import HOST
from headgate.core.key_patterns import matches as covered
from headgate.core.named_tuple import NamedTuple
from headgate.core.user_patterns import UserPattern, user_pattern
from headgate.gate.liveness.process_marks import MARK

if TYPE_CHECKING:
    import psutil

    from headgate.gate.host.known_agents import KeyOf

_LONGEST = 32 * 1024
_TAKES_A_WORD = {"-W", "-X"}
_HEADGATE, _COMMAND = re.compile(r"\bheadgate\s"), re.compile(r"\s--\s")


class Ours(NamedTuple):
    """What headgate has started, or is, on this machine and among the processes seen from here."""

    members: frozenset[int] = frozenset()
    """The processes that wait or hold: their own command lines often contain the agent's."""
    programs: frozenset[int] = frozenset()
    """The processes that leases are held for. They are ours with all they have started."""
    marks: frozenset[str] = frozenset()
    """The marks of all leases, as found in the environment."""


class _Match(NamedTuple):
    process: "psutil.Process"
    text: str
    pools: frozenset[str]
    above: "tuple[psutil.Process, ...]" = ()


def count(
    patterns: Mapping[str, tuple[str, ...]], ours: Ours, key_of: "KeyOf | None" = None
) -> dict[str, int]:
    """For each pool, how many foreign agents match one of its regular expressions.

    `key_of` tells what the known agents use, for pools that count those.
    """
    counts = dict.fromkeys(patterns, 0)
    matches, own = _scan(patterns, ours, key_of)
    if not matches:
        return counts
    wrappers = _wrappers(matches, own)
    sure = _Sure(ours, own)
    agents = {
        pid: match
        for pid, match in matches.items()
        if pid not in wrappers and not sure.of_ours(match) and _lives(match.process)
    }
    for match in agents.values():
        counted = {one.pid for one in match.above} & agents.keys()
        for pool in match.pools:
            if not any(pool in agents[pid].pools for pid in counted):
                counts[pool] += 1
    return counts


def _scan(
    patterns: Mapping[str, tuple[str, ...]], ours: Ours, key_of: "KeyOf | None"
) -> "tuple[dict[int, _Match], dict[int, tuple[psutil.Process, list[str]]]]":
    """One pass over all processes: those that match, and those that are headgate itself."""
    wanted = {
        pool: [command_pattern(pattern) for pattern in some if pattern != AGENTS]
        for pool, some in patterns.items()
        if some
    }
    known = [pool for pool, some in patterns.items() if AGENTS in some] if key_of else []
    matches: dict[int, _Match] = {}
    own: dict[int, tuple[psutil.Process, list[str]]] = {}
    for process, argv in command_lines() if wanted else ():
        pid = process.pid
        if pid == os.getpid() or pid in ours.members or is_headgate(argv):
            own[pid] = process, argv
            continue
        text = " ".join(argv)[:_LONGEST]
        pools = [pool for pool, some in wanted.items() if any(one.search(text) for one in some)]
        key = key_of(argv, partial(_environment, process)) if key_of and known else None
        if key is not None:
            pools += [pool for pool in known if pool == HOST or (key and covered(pool, key))]
        if pools:
            matches[pid] = _Match(process, text, frozenset(pools), ancestors(process))
    return matches, own


def command_lines() -> "Iterator[tuple[psutil.Process, list[str]]]":
    """Every process that has a command line. One that is just starting a program has none yet."""
    import psutil

    silent = []
    for pid in psutil.pids():
        with suppress(psutil.Error, OSError):
            process = psutil.Process(pid)
            argv = process.cmdline()
            if argv:
                yield process, argv
            else:
                silent.append(process)
    for process in silent:
        with suppress(psutil.Error, OSError):
            if argv := process.cmdline():
                yield process, argv


def _environment(process: "psutil.Process") -> Mapping[str, str]:
    import psutil

    try:
        return process.environ()
    except (psutil.Error, OSError):
        return {}


def _wrappers(
    matches: dict[int, _Match], own: "dict[int, tuple[psutil.Process, list[str]]]"
) -> set[int]:
    """Matches above a process of ours that only repeat what that was told to run."""
    found = set()
    for process, argv in own.values():
        told = argv[argv.index("--") + 1 :] if "--" in argv else argv
        command = " ".join(told)[:_LONGEST]
        for one in ancestors(process):
            match = matches.get(one.pid)
            if match and (_asks(match.text) or (command and command in match.text)):
                found.add(one.pid)
    return found


class _Sure:
    """Tells who was started by headgate, reading each environment at most once."""

    def __init__(self, ours: Ours, own: "dict[int, tuple[psutil.Process, list[str]]]") -> None:
        runners = {pid for pid in ours.members if pid in own and is_headgate(own[pid][1])}
        self._roots = {pid for pid in ours.programs if pid > 0} | runners
        self._marks = ours.marks
        self._marked: dict[int, bool] = {}

    def of_ours(self, match: _Match) -> bool:
        """Whether it, or anything above it, is a lease's program or carries a lease's mark."""
        line = (match.process, *match.above)
        return any(one.pid in self._roots for one in line) or any(map(self._carries, line))

    def _carries(self, process: "psutil.Process") -> bool:
        import psutil

        if not self._marks:
            return False
        known = self._marked.get(process.pid)
        if known is None:
            try:
                found = process.environ() or process.environ()  # none while a program starts
                known = found.get(MARK) in self._marks
            except (psutil.Error, OSError):
                known = False
            self._marked[process.pid] = known
        return known


def ancestors(process: "psutil.Process") -> "tuple[psutil.Process, ...]":
    """A process's parent, its parent, and so on, as far as they can be told."""
    import psutil

    found: list[psutil.Process] = []
    one: psutil.Process | None = process
    while one is not None and len(found) < 100:
        try:
            one = one.parent()  # None if the number has passed to a younger process
        except (psutil.Error, OSError):
            break
        if one is not None:
            found.append(one)
    return tuple(found)


def _lives(process: "psutil.Process") -> bool:
    """Whether it is still the process that was looked at, and runs."""
    import psutil

    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False


def is_headgate(argv: list[str]) -> bool:
    """Whether a command line is headgate's own: a runner, or the keeper that it leaves behind."""
    words = iter(argv[:12])
    name = os.path.basename(next(words, ""))  # noqa: PTH119 - any text
    if "python" not in name:
        return name == "headgate"
    for word in words:
        if word == "-m":
            return next(words, "") == "headgate"
        if word in _TAKES_A_WORD:
            next(words, "")
        elif word == "-c" or not word.startswith("-"):
            return os.path.basename(word) == "headgate"  # noqa: PTH119 - any text
    return False


def command_pattern(pattern: str) -> UserPattern:
    """A pattern of `observe`. A prompt's line breaks are no end of the command."""
    return user_pattern(pattern, "s")


def _asks(text: str) -> bool:
    """Whether a command line has headgate start a command; in two steps, each of them linear."""
    found = _HEADGATE.search(text)
    return found is not None and _COMMAND.search(text, found.end()) is not None
