"""Completion of commands, options, jobs, pools and models for a shell.

Prints a script for bash, zsh or fish. `words` is what these scripts ask: it prints what can stand
in place of the last word, each with its meaning after a tab.
"""

import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Iterator

from headgate.cli.shared.completion_scripts import SCRIPTS
from headgate.cli.shared.completion_words import Candidate, complete
from headgate.cli.shared.terminal import clean
from headgate.errors import HeadgateError
from headgate.gate import Gate

_MOST = 200
_ENDED_TOO = {"why", "logs", "wait", "submit"}


def arguments(parser: ArgumentParser) -> None:
    """What `completion` takes."""
    parser.add_argument(
        "shell", choices=(*SCRIPTS, "words"), metavar="SHELL", help="bash, zsh or fish"
    )
    parser.add_argument(
        "words",
        nargs=REMAINDER,
        metavar="WORD",
        help="after words: the command line so far",
    )


def run(args: Namespace) -> int:
    """Print the script, or the candidates."""
    if args.shell != "words":
        print(SCRIPTS[args.shell], end="", flush=True)
        return 0
    from headgate.cli import OPTIONS, VERBS, parser_of

    source = _Source(args)
    for found in complete(args.words[1:], VERBS, OPTIONS, parser_of, source.values):
        means = " ".join(clean(found.means).split())
        sys.stdout.write(f"{found.word}\t{means}\n" if means else f"{found.word}\n")
    sys.stdout.flush()
    return 0


class _Source:
    """What is in the store. Whatever is wrong with that, completion says nothing of it."""

    def __init__(self, args: Namespace) -> None:
        self._args = args

    def values(self, kind: str, verb: str) -> Iterator[Candidate]:
        """The jobs, pools or keys that there are."""
        from headgate.cli.shared.open_gate import open_gate

        try:
            with open_gate(self._args) as gate:
                found = list(_KINDS[kind](gate, verb))
        except (HeadgateError, OSError):
            return
        yield from (one for one in found if one.word.isprintable())


def _jobs(gate: Gate, verb: str) -> Iterator[Candidate]:
    """Jobs by name and by id: those to which the verb can do something."""
    queue = gate.queue(most=_MOST)
    names = {job.id: job.name for job in queue.jobs}
    shown = [
        *((work.id, names.get(work.id, ""), work.task, "running") for work in queue.running),
        *((work.id, names.get(work.id, ""), work.task, "queued") for work in queue.waiting),
        *((job.id, job.name, job.task, job.state) for job in queue.aside),
    ]
    if verb == "retry":
        shown = []
    if verb in {*_ENDED_TOO, "retry"}:
        ended = gate.jobs.finished(_MOST)
        shown += [(job.id, job.name, job.task, job.state) for job in ended]
    wanted: dict[str, set[str]] = {"release": {"held"}, "hold": {"queued", "parked"}}
    for id, name, task, state in shown:
        if state in wanted.get(verb, {state}):
            means = " ".join(filter(None, (state, task)))
            if name and not name.isdigit():
                yield Candidate(name, f"{id} {means}")
            yield Candidate(str(id), " ".join(filter(None, (means, name))))


def _pools(gate: Gate, _: str) -> Iterator[Candidate]:
    for pool in gate.status().pools:
        limit = "no limit" if pool.limit is None else f"{pool.in_use}/{pool.limit}"
        yield Candidate(pool.pool, limit)


def _keys(gate: Gate, _: str) -> Iterator[Candidate]:
    yield from map(Candidate, gate.known_keys())


_KINDS = {"ID": _jobs, "POOL": _pools, "KEY": _keys}
