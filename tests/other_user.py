"""Verbs run by another user, in a real process. Needs root."""

import os
import subprocess
import sys

import pytest

NOBODY = 65534
NO_ENTRY = 54321
"""A user whom no list of users knows."""
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="NOT TESTED: becoming another user needs root"
)
_BECOME = """
# Loaded while the interpreter's own files can be read.
import ctypes, difflib, grp, json, os, psutil, pwd, shlex, socket, sys, tomllib
from headgate.cli import main
from headgate.gate.liveness.preload_modules import preload
preload(("cli", "config", "core", "doctor", "gate", "ledger", "runner", "store", "work"))
import headgate.wire.agent_settings, headgate.wire.beside
from headgate.config.profiles import BUILTIN, _builtin
list(map(_builtin, BUILTIN))
user = int(sys.argv[1])
os.setgroups([]), os.setgid(user), os.setuid(user), os.umask(0o022), os.chdir("/")
sys.exit(main(sys.argv[2:]))
"""


def run_as(user: int, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a verb as another user, with no more in its environment than it is given."""
    return subprocess.run(
        [sys.executable, "-c", _BECOME, str(user), *words],
        env={"PATH": os.defpath, **env},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
