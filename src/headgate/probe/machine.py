"""Round after round of copies, until it is known how many of them a machine carries."""

from collections.abc import Callable

from headgate.core.host.auto_limit import auto_floor, auto_limit
from headgate.core.host.pressure import Host
from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import show_seconds, show_size
from headgate.core.times import Seconds
from headgate.errors import HeadgateError
from headgate.probe.run_copies import Bounds, run_round
from headgate.probe.search import Round, Search, fault, needs, worse


class MachineProbeOptions(NamedTuple):
    """How far a probe goes."""

    most: int = 16
    """The most copies at once."""
    timeout: Seconds = Seconds(600)
    """Seconds after which a copy is ended, and has failed."""
    rounds: int = 12
    """The most rounds."""
    floor: int = 0
    """Bytes that have to stay free; 0 for what is usual."""


class Tried(NamedTuple):
    """One number of copies, and what came of it."""

    copies: int
    round: Round | None
    """None if it was not even tried."""
    verdict: str
    """Why it is too many; empty if it is not."""


class MachineProbeResult(NamedTuple):
    """What a probe of a machine has found."""

    recommended: int
    reasons: tuple[str, ...]
    tried: tuple[Tried, ...]


def probe_machine(
    argv: list[str],
    options: MachineProbeOptions,
    *,
    look: Callable[[], Host | None],
    say: Callable[[str], None],
) -> MachineProbeResult:
    """Find out how many copies of a command this machine carries at once."""
    search, tried = Search(options.most), list[Tried]()
    alone = best = Round((), Seconds(0), 0)
    while len(tried) < options.rounds and (count := search.next()) is not None:
        rounds = [it.round for it in tried if it.round is not None]
        host = look()
        floor = 0 if host is None else options.floor or auto_floor(host)
        if host is not None and (why := needs(count, rounds, host.free, floor)):
            tried.append(Tried(count, None, why))
            say(f"{count} at once: not tried, {why}")
            search.record(count, bad=True)
            continue
        found = run_round(argv, count, Bounds(options.timeout, _alarm(look, floor)))
        why = worse(found, alone, best) if rounds else fault(found)
        tried.append(Tried(count, found, why))
        say(f"{count} at once: {_figures(found)}{f'; {why}' if why else ''}")
        search.record(count, bad=bool(why))
        if not why:
            alone, best = (found if not rounds else alone), found
    if not search.good:
        why = tried[0].verdict if tried else "nothing was tried"
        raise HeadgateError(f"no limit can be recommended: with a single copy, {why}")
    return MachineProbeResult(search.good, _reasons(search, tried, options, look()), tuple(tried))


def _alarm(look: Callable[[], Host | None], floor: int) -> Callable[[], str]:
    """Breaks a round off before it fills the machine."""

    def alarm() -> str:
        host = look()
        if host is None or host.free * 2 >= floor:
            return ""
        return f"it was broken off, for only {show_size(host.free)} were free"

    return alarm


def _figures(it: Round) -> str:
    each = show_seconds(it.seconds)
    cpu = show_seconds(it.cpu)
    return f"{each} each, {cpu} of processor time, at most {show_size(it.memory)}"


def _reasons(
    search: Search, tried: list[Tried], options: MachineProbeOptions, host: Host | None
) -> tuple[str, ...]:
    """Why this number, in words."""
    rounds = {it.copies: it.round for it in tried if it.round is not None}
    first, last = rounds[1], rounds[search.good]
    slower = last.seconds / max(first.seconds, 0.001)
    found = [f"{search.good} at once took {slower:.1f} times as long as one alone, and none failed"]
    bad = next((it for it in tried if it.copies == search.bad), None)
    if bad is not None:
        found.append(f"{bad.copies} are too many: {bad.verdict}")
    elif search.good >= options.most:
        found.append(f"more than {options.most} were not tried (--most)")
    if search.next() is not None:
        found.append(f"it was cut short after {len(tried)} rounds (--rounds)")
    each = max(it.memory for it in rounds.values())
    if host is not None and each >= 2**20:  # less than what agent_memory can be
        auto = auto_limit(host, each)
        found.append(f'limit = "auto" would be {auto}, with agent_memory = "{show_size(each)}"')
    return tuple(found)
