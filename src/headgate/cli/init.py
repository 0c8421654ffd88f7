"""Write a configuration file to start from; as it stands, it changes nothing.

On a terminal one question is asked if an agent is installed whose requests could be seen only by
opening its connections on this machine: whether that is wanted. --meter answers it beforehand.

With --service, write a service instead that runs `headgate up` with the same --store and --config:
a systemd user unit, or a launchd agent on macOS. Agents go on when it is stopped or restarted.
"""

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from headgate.cli.shared import terminal
from headgate.cli.shared.open_gate import say
from headgate.cli.shared.service_files import KINDS, make, this_headgate, usual
from headgate.config import default_path
from headgate.config.file import NO_HOME
from headgate.config.template import TEMPLATE, with_meter
from headgate.core.agents.meters import METERS
from headgate.errors import UsageError
from headgate.store.urls import has_password

_AGAIN = "headgate init --force"


def arguments(parser: ArgumentParser) -> None:
    """What `init` takes."""
    parser.add_argument("--path", metavar="FILE", help="write it there, not to the usual place")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    parser.add_argument(
        "--service",
        nargs="?",
        const=usual(),
        choices=KINDS,
        help="write a service; by default the kind that this machine has",
    )
    parser.add_argument(
        "--meter", choices=METERS, help="how agents are counted and watched (docs/wire.md)"
    )
    parser.add_argument("--print", action="store_true", help="print it, and write nothing")


def run(args: Namespace) -> int:
    """Write the file and print its path."""
    if args.service is not None:
        return _service(args)
    if args.print:
        print(with_meter(args.meter) if args.meter else TEMPLATE, end="", flush=True)
        return 0
    path = _path(args.path or args.config_file or os.environ.get("HEADGATE_CONFIG"))
    _refuse_taken(path, force=args.force, again=_AGAIN)
    meter = args.meter or _asked()
    text = with_meter(meter) if meter else TEMPLATE
    _put(path, text, force=args.force, again=_AGAIN)
    if meter:
        say(f'written; meter = "{meter}", and every other line of it is a default')
    else:
        say("written; every line of it is a default, so nothing changes until you edit it")
    return 0


def _asked() -> str:
    """The meter that a person wants, if there is somebody to ask and something to ask about."""
    if not terminal.somebody_is_there():
        return ""
    from headgate.gate import Gate
    from headgate.store.memory import MemoryStore
    from headgate.wire.plan_meter import plan_installed

    with Gate(MemoryStore()) as gate:
        closed = [name for name, plan in plan_installed(gate, os.environ) if plan.choice.hint]
    if not closed:
        return ""
    names = " and ".join(filter(None, (", ".join(closed[:-1]), closed[-1])))
    say(
        f"{names} cannot be sent elsewhere without a change in what is asked. To see the requests "
        "all the same, headgate would open the connections to the provider on this machine, with "
        "certificates that only this agent trusts, for one run each (docs/wire.md, The tap). It "
        "keeps nothing of what it sees. Without that, it judges by what is printed."
    )
    return "wire" if terminal.agrees(f"see the requests of {names}?") else ""


def _service(args: Namespace) -> int:
    store = args.store or os.environ.get("HEADGATE_STORE", "").strip()
    config = args.config_file or os.environ.get("HEADGATE_CONFIG")
    words = [*this_headgate(), *_options(store, config), "up"]
    service = make(args.service, words, os.environ.get("PATH", os.defpath))
    if args.print:
        print(service.text, end="", flush=True)
        return 0
    path = _path(args.path) if args.path else service.path
    _put(path, service.text, force=args.force, again="headgate init --service --force")
    say("\n  ".join(("written; to start it now and with every login:", *service.next)))
    if os.environ.get("HEADGATE_LIMITS"):
        say("HEADGATE_LIMITS stays with this shell; use headgate limits set for everyone")
    return 0


def _options(store: str, config: str | None) -> list[str]:
    """What the service must be told so that it uses what this command uses."""
    if store and has_password(store):
        raise UsageError(
            "the store's URL holds a password, which does not belong into a service's file; leave "
            "it out of the URL and keep it where the database's own tools find it (~/.pgpass)"
        )
    options = [f"--store={store}"] if store else []
    return [*options, f"--config={_path(config)}"] if config else options


def _refuse_taken(path: Path, *, force: bool, again: str) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file in it")
    if path.exists() and not force:
        raise UsageError(f"{path} is there already; to replace it: {again}")


def _put(path: Path, text: str, *, force: bool, again: str) -> None:
    try:
        _write(path, text, force=force, again=again)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
    terminal.show_path(path)


def _path(said: str | None) -> Path:
    """Where to write: through links, so that a linked file is not replaced by a plain one."""
    if not said:
        path = default_path()
        if path.is_relative_to(NO_HOME):
            raise UsageError("cannot tell where your home is; set HOME, or name a file: --config")
        return Path(os.path.realpath(path))
    return Path(os.path.realpath(os.path.expanduser(said)))  # noqa: PTH111 - Path's raises


def _write(path: Path, text: str, *, force: bool, again: str) -> None:
    """Write all of it or nothing, and over nothing that is there unless forced."""
    _refuse_taken(path, force=force, again=again)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)
        draft.touch(mode=0o600, exist_ok=False)
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if force:
            draft.replace(path)
        else:
            _place(draft, path)
    except FileExistsError:
        _refuse_taken(path, force=force, again=again)
        raise
    finally:
        draft.unlink(missing_ok=True)


def _place(draft: Path, path: Path) -> None:
    """Give the draft its name, unless somebody was quicker; a rename would not notice."""
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        draft.rename(path)
