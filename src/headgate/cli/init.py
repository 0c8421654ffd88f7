"""Write a configuration file to start from; as it stands, it changes nothing."""

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from headgate.cli.common import say
from headgate.config import default_path
from headgate.config.template import TEMPLATE
from headgate.errors import UsageError


def arguments(parser: ArgumentParser) -> None:
    """What `init` takes."""
    parser.add_argument("--path", metavar="FILE", help="write it there, not to the usual place")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")


def run(args: Namespace) -> int:
    """Write the file and print its path."""
    path = _path(args.path or args.config_file or os.environ.get("HEADGATE_CONFIG"))
    try:
        _write(path, TEMPLATE, force=args.force)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
    print(path, flush=True)
    say("written; every line of it is a default, so nothing changes until you edit it")
    return 0


def _path(said: str | None) -> Path:
    """Where to write: through links, so that a linked file is not replaced by a plain one."""
    if not said:
        return Path(os.path.realpath(default_path()))
    return Path(os.path.realpath(os.path.expanduser(said)))  # noqa: PTH111 - Path's raises


def _write(path: Path, text: str, *, force: bool) -> None:
    """Write all of it or nothing, and over nothing that is there unless forced."""
    taken = UsageError(f"{path} is there already; to replace it: headgate init --force")
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file in it")
    if path.exists() and not force:
        raise taken
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
        raise taken from None
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
