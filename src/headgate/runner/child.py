"""A process of ours: it keeps the terminal, carries its lease's mark, and inherits its life.

It stays in our process group, as it would without us: the terminal sends Ctrl-C, Ctrl-Z and window
changes to all of the group by itself, and pipes between jobs keep working. Signals sent to us
alone are passed on. Where the system can tell the two apart (Linux) it is asked; elsewhere a
signal is taken to come from the terminal if we are in its foreground.
"""

import errno
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from headgate.core.printable_text import printable
from headgate.core.times import Seconds
from headgate.gate.liveness.process_marks import family

PASSED_ON = tuple(
    getattr(signal, name)
    for name in (
        "SIGINT",
        "SIGQUIT",
        "SIGTERM",
        "SIGHUP",
        "SIGUSR1",
        "SIGUSR2",
        "SIGTSTP",
        "SIGCONT",
    )
)
MINDED = (*PASSED_ON, signal.SIGCHLD)
_FROM_TERMINAL = {signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP}
_BY_KERNEL = 0x80
_SUBREAPER = 36
_POLL = Seconds(0.02)
_LONG = Seconds(86_400)


def find_program(name: str, path: str | None = None) -> str:
    """The file that a command name stands for; OSError as the system would raise it."""
    if "/" in name:
        candidates = [name]
    else:
        folders = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)
        candidates = [os.path.join(folder or ".", name) for folder in folders]  # noqa: PTH118
    refused = ""
    for candidate in candidates:
        try:
            mode = os.stat(candidate).st_mode  # noqa: PTH116 - names may be anything
        except OSError:
            continue
        if stat.S_ISREG(mode) and os.access(candidate, os.X_OK):
            return candidate
        refused = refused or candidate
    if refused:
        raise PermissionError(errno.EACCES, "is not an executable file", refused)
    raise FileNotFoundError(errno.ENOENT, "not found", name)


class Child:
    """One started process, and whatever it leaves to us."""

    def __init__(
        self,
        argv: list[str],
        environment: Mapping[str, str],
        life: int,
        path: str | None = None,
    ) -> None:
        self.status: int | None = None
        self.stopped = False
        self.on_other_end: Callable[[int], None] | None = None
        """Called with the number of a process beside it that has ended."""
        self.adopts = become_subreaper()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, MINDED)
        inherited = os.dup(life) if life >= 0 else -1
        try:
            if inherited >= 0:
                os.set_inheritable(inherited, True)
            self.pid = _spawn(find_program(argv[0], path), argv, environment, mask - set(MINDED))
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            raise
        finally:
            if inherited >= 0:
                os.close(inherited)

    @property
    def exit_code(self) -> int:
        """The process's own code, or 128 plus the signal that ended it."""
        if self.status is None:
            return 125
        code = os.waitstatus_to_exitcode(self.status)
        return code if code >= 0 else 128 - code

    def next_signal(self, timeout: Seconds | None = None) -> signal.Signals | None:
        """Sleep until something happens to us or to it, and pass it on; None if time is up."""
        if sys.platform == "linux":
            wait = _LONG if timeout is None else timeout
            info = signal.sigtimedwait(MINDED, wait)
            if info is None:
                return None
            number, from_terminal = signal.Signals(info.si_signo), info.si_code == _BY_KERNEL
        elif timeout is not None and not _comes(timeout):
            return None
        else:
            number = signal.Signals(signal.sigwait(MINDED))
            from_terminal = _foreground() == os.getpgrp()
        if number == signal.SIGCHLD:
            self.reap()
        elif number not in _FROM_TERMINAL or not from_terminal:
            self.send(number)
        return number

    def go_on(self) -> None:
        """Let it go on after a stop."""
        self.stopped = False
        self.send(signal.SIGCONT)

    def send(self, number: signal.Signals) -> None:
        """Signal the process, unless it has ended."""
        if self.status is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def reap(self) -> bool:
        """Take in the end of the process or of what it left; True if anything of it still runs."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return False
            if pid == 0:
                return self.status is None or (self.adopts and self._left_something())
            if os.WIFSTOPPED(status):
                # With a terminal there is a shell that takes over, and lets us go on later.
                self.stopped = pid == self.pid and _foreground() is not None
            elif pid == self.pid:
                self.status = status
            elif self.on_other_end is not None:
                self.on_other_end(pid)

    def _left_something(self) -> bool:
        """Whether there is a process of its own beside those that only stand beside it."""
        return self.on_other_end is None or bool(family(os.getpid()) - {os.getpid()})


def _comes(timeout: Seconds) -> bool:
    """Wait until there is a signal to be had, or for so long; where one cannot do both."""
    deadline = time.monotonic() + timeout
    while not signal.sigpending() & set(MINDED):
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(left, _POLL))
    return True


def _spawn(
    path: str, argv: list[str], environment: Mapping[str, str], mask: set[signal.Signals | int]
) -> int:
    """Start a program; a script that does not say by what is run by the shell, as shells do."""
    unset = [signal.SIGPIPE, signal.SIGXFSZ]  # Python ignores these, programs should not
    try:
        return os.posix_spawn(path, argv, environment, setsigmask=mask, setsigdef=unset)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
    shell = ["/bin/sh", path, *argv[1:]]
    return os.posix_spawn(shell[0], shell, environment, setsigmask=mask, setsigdef=unset)


def become_subreaper() -> bool:
    """Become the parent of descendants whose own parent ends (Linux); False elsewhere."""
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        return bool(ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def _foreground() -> int | None:
    """The process group in the foreground of our terminal; None if we have no terminal."""
    for fd in (0, 1, 2):
        try:
            return os.tcgetpgrp(fd)
        except OSError:
            continue
    return None


def describe(path: str | Path) -> str:
    """A program's name, for people: never its arguments, which may be prompts or secrets."""
    name = os.path.basename(str(path)) or str(path)  # noqa: PTH119 - any text
    return printable(name, "?")[:60]
