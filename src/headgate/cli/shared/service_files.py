"""A service that keeps headgate's worker up: a systemd user unit, or a launchd agent.

Both leave the programs alone that the worker has started: agents outlive its restarts, and seats
follow the agents. Neither limits what they may use.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from headgate.config.error_text import label
from headgate.core.named_tuple import NamedTuple
from headgate.errors import UsageError

SYSTEMD, LAUNCHD = "systemd", "launchd"
KINDS = (SYSTEMD, LAUNCHD)
_NAME = "headgate"
_LABEL = "dev.headgate.worker"

_UNIT = """\
# Written by headgate init --service; headgate init --service --force writes it anew.
[Unit]
Description=headgate: lets in as many AI agents as machines and accounts can take

[Service]
ExecStart={command}
# A service has no shell that would set it, and agents are found on it.
Environment={path}
Restart=on-failure
RestartSec=5
# 2 is bad usage or a broken configuration: trying again would not help.
RestartPreventExitStatus=2
# The worker alone is stopped or restarted: the agents it has started go on.
KillMode=process
OOMPolicy=continue

[Install]
WantedBy=default.target
"""


class ServiceFile(NamedTuple):
    """A service's file: where it belongs, what is in it, and what to do with it then."""

    path: Path
    text: str
    next: tuple[str, ...]


def make(kind: str, words: Sequence[str], search: str) -> ServiceFile:
    """The service that runs these words, with programs found on the path `search`."""
    for word in (*words, search):
        if not word.isprintable():
            raise UsageError(
                f"cannot put {label(word)} into a service: it has characters that cannot be "
                "printed; rename it, or name another"
            )
    return _systemd(words, search) if kind == SYSTEMD else _launchd(words, search)


def usual() -> str:
    """The kind of service that this machine has."""
    return LAUNCHD if sys.platform == "darwin" else SYSTEMD


def this_headgate() -> list[str]:
    """How to start the headgate that is running now, from anywhere."""
    called = Path(os.path.abspath(sys.argv[0]))  # noqa: PTH100 - a link may be moved on, its target not
    beside = Path(sys.executable).with_name(_NAME)
    for path in (called, beside):
        if path.name == _NAME and path.is_file() and os.access(path, os.X_OK):
            return [str(path)]
    return [sys.executable, "-m", _NAME]


def _systemd(words: Sequence[str], search: str) -> ServiceFile:
    base = os.environ.get("XDG_CONFIG_HOME", "")
    home = Path(base) if base.startswith("/") else _home() / ".config"
    if set(words[0]) & set("'\"\\"):  # systemd takes no such program, but passes its name on
        words = ["/usr/bin/env", *words]
    program, *rest = words
    # systemd puts variables into arguments, but not into the name of the program.
    command = " ".join([_quoted(program), *(_quoted(word).replace("$", "$$") for word in rest)])
    return ServiceFile(
        home / "systemd" / "user" / f"{_NAME}.service",
        _UNIT.format(command=command, path=_quoted(f"PATH={search}")),
        (
            "systemctl --user daemon-reload",
            f"systemctl --user enable --now {_NAME}",
            "loginctl enable-linger    # so that it also runs while you are not logged in",
        ),
    )


def _quoted(word: str) -> str:
    """A word as systemd reads it: in quotes, with none of its own signs left to be read."""
    for sign, instead in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%")):
        word = word.replace(sign, instead)
    return f'"{word}"'


def _launchd(words: Sequence[str], search: str) -> ServiceFile:
    import plistlib
    from shlex import quote

    path = _home() / "Library" / "LaunchAgents" / f"{_LABEL}.plist"
    log = str(_home() / "Library" / "Logs" / f"{_NAME}.log")
    content = {
        "Label": _LABEL,
        "ProgramArguments": list(words),
        "EnvironmentVariables": {"PATH": search},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "AbandonProcessGroup": True,  # the agents it has started go on when it is stopped
        "ProcessType": "Interactive",  # else launchd slows down the worker and its agents
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    return ServiceFile(
        path,
        plistlib.dumps(content, sort_keys=False).decode(),
        (
            f"launchctl bootout gui/$(id -u)/{_LABEL} 2>/dev/null",
            f"launchctl bootstrap gui/$(id -u) {quote(str(path))}",
        ),
    )


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise UsageError("cannot tell where your home is; set HOME") from None
