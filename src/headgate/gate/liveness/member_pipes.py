"""Who is alive, told by the kernel, and how to wake one another.

Each member has two named pipes in the folder that the members of a store share:

    ID.life    its read end is open in the member, and in the programs that inherited it
    ID.wake    its read end is open in the member's own process only

Opening a pipe for writing fails at once if nobody has it open for reading. So `life` answers "does
anything of this member still run?" and `wake` answers "is its own process there?" - the kernel
closes both when a process ends, however it ends, and across containers that share the folder.
Whoever holds the write end of `life` open is told by poll() when the last reader has gone.
Writing a byte into `wake` wakes the process.
"""

import os
import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.errors import StoreUnavailableError
from headgate.gate.liveness.process_marks import carriers, readers
from headgate.ledger.transaction.rows import Member
from headgate.store.pipe_has_reader import has_reader

if TYPE_CHECKING:
    from headgate.gate.liveness.preload_modules import Preloader

_OLD = 3600
_SOME = 50
_ID = r"[0-9A-Za-z_-]{1,64}"


class PipeRegistry:
    """The members of a store that has a folder. Makes this process one of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.me = os.urandom(6).hex()
        self.marked_programs: dict[str, list[int]] = {}
        """Members kept alive only by programs that carry their mark, and those programs."""
        self._life = -1
        self._wake = -1
        self._preloader: Preloader | None = None

    def join(self) -> None:
        """Make this process known as alive; the rows that name it come later."""
        if self._life >= 0:
            return
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self._clear_up()
            for kind in ("life", "wake"):
                os.mkfifo(self._path(self.me, kind), 0o600)
            self._life = os.open(self._path(self.me, "life"), os.O_RDONLY | os.O_NONBLOCK)
            self._wake = os.open(self._path(self.me, "wake"), os.O_RDWR | os.O_NONBLOCK)
        except OSError as error:
            self.leave(remove=True)
            raise StoreUnavailableError(
                f"cannot use {self.folder}, where the store keeps its pipes: {error.strerror}"
            ) from error
        from headgate.gate.liveness.preload_modules import Preloader

        self._preloader = Preloader()
        self._preloader.start()

    @property
    def wake_fd(self) -> int:
        """Readable when somebody woke this process."""
        return self._wake

    @property
    def life_fd(self) -> int:
        """Whoever inherits this keeps the member alive."""
        return self._life

    def drain(self) -> None:
        """Forget the wake-ups that have come in."""
        with suppress(BlockingIOError):
            os.read(self._wake, 4096)

    def leave(self, *, remove: bool) -> None:
        """Stop being alive; `remove` the pipes too if nothing else of this member runs."""
        if self._preloader is not None:
            self._preloader.stop()
            self._preloader = None
        for fd in (self._life, self._wake):
            if fd >= 0:
                os.close(fd)
        self._life = self._wake = -1
        if remove:
            self.forget(self.me)

    def forget(self, member: str) -> None:
        """Remove what a dead member left in the folder."""
        for kind in ("life", "wake"):
            self._path(member, kind).unlink(missing_ok=True)
        self.marked_programs.pop(member, None)

    def _clear_up(self) -> None:
        """Remove pipes that nobody has open; their owners died before they could.

        Of many only some are looked at: the next who come look at others.
        """
        names = [name for name in os.listdir(self.folder) if name.endswith(".life")]  # noqa: PTH208
        start = int.from_bytes(os.urandom(4), "big") % max(1, len(names) - _SOME + 1)
        for name in names[start : start + _SOME]:
            member = name.removesuffix(".life")
            with suppress(OSError):
                old = time.time() - self._path(member, "life").stat().st_mtime > _OLD
                if old and not self.alive(member):
                    self.forget(member)

    def wake(self, member: str) -> None:
        """Tell a member to look at the store: something has changed for it."""
        try:
            fd = os.open(self._path(member, "wake"), os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return
        try:
            os.write(fd, b"!")
        except OSError:  # full: it is awake already, or about to be
            pass
        finally:
            os.close(fd)

    def listening(self, member: str) -> bool:
        """Whether the member's own process is there."""
        return member == self.me or self._open(member, "wake")

    def alive(self, member: str) -> bool:
        """Whether anything that inherited the member's life still runs."""
        return member == self.me or self._open(member, "life")

    def users(self, member: str) -> list[int]:
        """The processes that keep a member alive, other than its own and those who look."""
        pids = readers(str(self._path(member, "life").resolve()))
        return [pid for pid in pids if pid != os.getpid()]

    def watch(self, member: str) -> int | None:
        """A descriptor on which poll() reports an error once the member has ended."""
        try:
            return os.open(self._path(member, "life"), os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return None

    def dead(self, members: Iterable[tuple[Member, Callable[[], list[str]]]]) -> list[str]:
        """Those of whom nothing runs any more: no pipe is open, no program carries their mark."""
        ended: dict[str, list[str]] = {}
        for member, marks in members:
            if not self.alive(member.id):
                ended[member.id] = marks()
        all_marks = {mark for marks in ended.values() for mark in marks}
        carried = carriers(all_marks)
        for mark in all_marks - carried.keys():  # a program that is just starting another has none
            carried |= carriers({mark})
        self.marked_programs = {
            id: pids
            for id, marks in ended.items()
            if (pids := [pid for mark in marks for pid in carried.get(mark, ())])
        }
        return [id for id in ended if id not in self.marked_programs]

    def _open(self, member: str, kind: str) -> bool:
        if not re.fullmatch(_ID, member):
            return False  # nobody ever had such an id, and its path would lead who knows where
        return has_reader(self._path(member, kind))

    def _path(self, member: str, kind: str) -> Path:
        return self.folder / f"{member}.{kind}"


_AT_HOME: dict[str, Callable[[], None]] = {}


class LocalRegistry:
    """The members of a store that lives in this process: they live and die with it."""

    wake_fd = -1
    life_fd = -1

    def __init__(self, poke: Callable[[], None]) -> None:
        self.me = os.urandom(6).hex()
        self.marked_programs: dict[str, list[int]] = {}
        self._poke = poke

    def join(self) -> None:
        """Be reachable for the other gates of this process."""
        _AT_HOME[self.me] = self._poke

    def drain(self) -> None:
        """Nothing piles up here."""

    def leave(self, *, remove: bool) -> None:
        """Be gone."""
        _AT_HOME.pop(self.me, None)

    def forget(self, member: str) -> None:
        """Nothing is left by anyone."""

    def wake(self, member: str) -> None:
        """Tell a member to look at the store: something has changed for it."""
        poke = _AT_HOME.get(member)
        if poke is not None:
            poke()

    def listening(self, member: str) -> bool:
        """Whether the member's gate is open."""
        return member in _AT_HOME

    def alive(self, member: str) -> bool:
        """Whether the member's gate is open."""
        return member in _AT_HOME

    def users(self, member: str) -> list[int]:
        """No program of its own."""
        return []

    def watch(self, member: str) -> int | None:
        """Nobody needs watching here."""
        return None

    def dead(self, members: Iterable[tuple[Member, Callable[[], list[str]]]]) -> list[str]:
        """Those whose gate was closed."""
        return [member.id for member, _ in members if member.id not in _AT_HOME]


MemberRegistry = PipeRegistry | LocalRegistry
