"""The guardian as its client sees it: a process that is told what is held, and until when."""

import os
import subprocess
import sys
from collections.abc import Iterable

from headgate.remote import guardian
from headgate.store.machine_and_clock import process_fields


class GuardianProcess:
    """Starts a guardian, tells it of every change, and starts another if it was killed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def be_there(self, until: int, marks: Iterable[str]) -> None:
        """Have one. If the one before was killed or stopped, the new one is told all anew."""
        if self._process is not None and self._process.poll() is None:
            if "".join(process_fields(self._process.pid)[:1]) not in {"T", "t"}:
                return
            self._process.kill()  # it is stopped, and would end nothing
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", guardian.__file__, str(os.getpid()), str(until), *marks],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            env={"HEADGATE_LEASE": "none"},
            cwd="/",
        )
        assert self._process.stdin is not None  # noqa: S101 - it was asked for
        os.set_blocking(self._process.stdin.fileno(), False)

    def send(self, line: str) -> None:
        """Let it know, if there is one."""
        process = self._process
        if process is None or process.stdin is None:
            return
        try:
            os.write(process.stdin.fileno(), f"{line}\n".encode())
        except BlockingIOError:  # it does not listen: the next one hears everything anew
            process.kill()
        except (OSError, ValueError):
            pass

    def close(self) -> None:
        """Let it go, now that nothing is held."""
        if self._process is None:
            return
        self.send("bye")
        assert self._process.stdin is not None  # noqa: S101 - it was asked for
        self._process.stdin.close()
        self._process.wait()
