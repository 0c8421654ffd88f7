"""The command line: one file per verb.

A verb's module has `arguments(parser)`, which says what it takes, and `run(args)`, which does it
and returns the exit code. Only the module of the verb that was asked for is loaded: agents
call some of these often. Data goes to stdout, chatter to stderr.
"""

import atexit
import gc
import os
import sys
import threading
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn, TextIO

if TYPE_CHECKING:
    from argparse import ArgumentParser

GROUPS = {
    "Run agents": {
        "run": "run a program when there is room for it",
        "submit": "hand in work that outlives this terminal",
        "up": "start submitted work when there is room, in the foreground until Ctrl-C",
        "worker": "the same as up, without the server",
        "serve": "answer over HTTP, in the foreground until Ctrl-C",
    },
    "See what goes on": {
        "status": "what is in use, pool by pool",
        "queue": "what runs and what waits",
        "why": "why something waits, or how it ended",
        "logs": "the output of a job",
        "events": "what happened",
        "capacity": "whether there is room for a model now (exit 75 if not)",
        "plan": "which of some candidates would start now, and why not the others",
    },
    "Change what waits and runs": {
        "cancel": "end something, waiting or running",
        "wait": "wait until jobs have ended (exit 1 if one failed)",
        "retry": "put a job that has ended into the line again",
        "hold": "take a waiting job out of the line",
        "release": "let a held job into the line",
        "move": "give a waiting job another place in the line",
    },
    "Set limits": {
        "limits": "show, get, set and unset limits and cooldowns",
        "pause": "let nothing start in a pool",
        "resume": "let a paused pool go on",
        "report": "tell a pool what upstream said, as in a 429",
        "probe": "find out how many this machine, or an account, can take",
    },
    "Set up and look after": {
        "init": "write a configuration file to start from, or a service",
        "config": "check the configuration",
        "doctor": "look for what is wrong or odd, and say what to do about it",
        "store": "check, copy and compact the store, while it is in use",
        "token": "make, list and revoke tokens for those who ask over HTTP",
        "notify": "try and show who is told of what happens",
        "completion": "completion of commands for bash, zsh and fish",
    },
    "Try it out": {
        "demo": "a dozen stand-in agents under caps, on a store of their own",
        "sim": "a provider that can be overrun, to judge how limits are learned",
    },
}
"""All verbs, by what one wants to do."""

VERBS = {verb: does for verbs in GROUPS.values() for verb, does in verbs.items()}

OPTIONS = {
    "--store URL": "where the line is kept: sqlite:///path or memory:// (HEADGATE_STORE)",
    "--config FILE": "the configuration (HEADGATE_CONFIG)",
    "--version": "print the version; with -v also where files are looked for, and which are there",
    "--help": "this; headgate VERB --help says more about one verb",
}
"""What stands before the verb."""

_GARBAGE = 50_000
"""After how many new objects garbage is looked for. Loading a verb makes fewer, and none of it is
garbage: looking through it each 700, as Python does by itself, takes a twelfth of `status`."""
_USAGE = """\
usage: headgate [--store URL] [--config FILE] VERB ...

Lets in as many AI agents as your machines and accounts can take, and never one more.

{verbs}

{options}

HEADGATE_LIMITS="host=5,anthropic/claude-opus-*=4" beats every other limit.
HEADGATE_SCHEMA=1 leaves out of JSON the names that have changed.
Exit codes: the program's own from run (128+n on a signal), 75 no room, 124 waited too long,
125 headgate's own error, 126 and 127 cannot start the program, 2 bad usage.
"""


def program() -> NoReturn:
    """`headgate` as a program of its own: it ends when its verb has, with what was to be done last.

    Taking two hundred modules apart before the end would be a sixth of what `status` costs.
    """
    code = main()
    others = set(threading.enumerate()) - {threading.main_thread()}
    if any(not thread.daemon for thread in others):
        sys.exit(code)  # which waits for them
    atexit._run_exitfuncs()  # noqa: SLF001 - what `sys.exit` does, and os._exit does not
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


def main(argv: list[str] | None = None) -> int:
    """Run a verb, and turn whatever goes wrong into a message and an exit code."""
    words = sys.argv[1:] if argv is None else argv
    gc.set_threshold(_GARBAGE)
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    try:
        code = _dispatch(list(words))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stdout = _nowhere()
        return 141
    except OSError as error:
        sys.stdout = _nowhere()
        _complain(f"headgate: {error.strerror or error}")
        return 125


def _nowhere() -> TextIO:
    """What is written here is lost: the output was closed, or nobody reads it any more."""
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - stays open


def _complain(text: str) -> None:
    from headgate.core.printable_text import plain

    with suppress(OSError):
        print(plain(text), file=sys.stderr, flush=True)


def _dispatch(words: list[str]) -> int:
    options: dict[str, str] = {}
    while words and words[0].startswith("-"):
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if name in {"--store", "--config"}:
            if not equals:
                if not words:
                    return _bad_usage(f"{name} needs a value")
                value = words.pop(0)
            options[name[2:]] = value
        elif word in {"--help", "-h"}:
            return _help()
        elif word == "--version":
            return _version(options, verbose=not {"-v", "--verbose"}.isdisjoint(words))
        else:
            return _bad_usage(f"unknown option {word}")
    if not words:
        _help(sys.stderr)
        return 2
    verb = words.pop(0)
    if verb == "help":
        return _dispatch([words[0], "--help"]) if words else _help()
    if verb not in VERBS:
        return _bad_usage(f"unknown verb {verb!r}{_meant(verb)}")
    return _run(verb, words, options)


def parser_of(verb: str) -> "ArgumentParser":
    """What reads the words after a verb, and knows what they mean."""
    from argparse import HelpFormatter

    from headgate.cli.shared.options import VerbParser

    module = import_module(f"headgate.cli.{verb}")
    parser = VerbParser(
        verb=verb,
        prog=f"headgate {verb}",
        description=module.__doc__,
        allow_abbrev=False,
        formatter_class=lambda prog: HelpFormatter(prog, width=100),
    )
    module.arguments(parser)
    return parser


def _run(verb: str, words: list[str], options: dict[str, str]) -> int:
    from headgate.errors import HeadgateError

    parser = parser_of(verb)
    try:
        args = parser.parse_args(words)
        args.store = options.get("store")
        args.config_file = options.get("config")
        if getattr(args, "json", False):
            from headgate.cli.shared.open_gate import wants_only_new

            wants_only_new()  # a bad HEADGATE_SCHEMA is found before anything is done
        return int(import_module(f"headgate.cli.{verb}").run(args))
    except HeadgateError as error:
        _complain(f"headgate: {error}")
        return error.exit_code


def _help(out: object = None) -> int:
    groups = (
        "\n".join([f"{heading}:", *(f"  {verb:<10} {does}" for verb, does in verbs.items())])
        for heading, verbs in GROUPS.items()
    )
    options = "\n".join(f"  {name:<16} {does}" for name, does in OPTIONS.items())
    text = _USAGE.format(verbs="\n\n".join(groups), options=options)
    print(text, end="", file=out or sys.stdout)  # type: ignore[arg-type]
    return 0


def _version(options: dict[str, str], *, verbose: bool) -> int:
    from importlib.metadata import version

    print(f"headgate {version('headgate')}")
    if verbose:
        from headgate.core.printable_text import plain
        from headgate.doctor.files import lines, look

        at = {"store": options.get("store"), "config": options.get("config")}
        print(f"Python {sys.version.split()[0]}, {sys.executable}")
        print("\n".join(plain(line) for line in lines(look(os.environ, **at))))
    return 0


def _bad_usage(what: str) -> int:
    _complain(f"headgate: {what}; see headgate --help")
    return 2


def _meant(verb: str) -> str:
    from headgate.cli.shared.synonyms import meant

    found = meant(verb, VERBS)
    return f" (did you mean {found}?)" if found else ""
