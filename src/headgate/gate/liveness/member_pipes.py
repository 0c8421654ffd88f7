"""Who is alive, told by the kernel, and how to wake one another.

Each member has two named pipes in the folder that the members of a store share:

    ID.life    its read end is open in the member, and in the programs that inherited it
    ID.wake    its read end is open in the member's own process only

Opening a pipe for writing fails at once if nobody has it open for reading. So `life` answers "does
anything of this member still run?" and `wake` answers "is its own process there?" - the kernel
closes both when a process ends, however it ends, and across containers that share the folder.
Whoever holds the write end of `life` open is told by poll() when the last reader has gone.
Writing a byte into `wake` wakes the process.

A pipe that is not there says nothing: somebody may have removed the folder. Then the member's
process is asked after by its number and its start, and woken through /proc, so that it makes its
pipes anew. Who can neither be seen to live nor be known to have ended counts as alive.
"""

import os
import re
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.errors import StoreUnavailableError, StoreUntrustedError
from headgate.gate.liveness import begun_leases
from headgate.gate.liveness.local_members import LocalRegistry
from headgate.gate.liveness.open_pipes import pipe_of, readers
from headgate.gate.liveness.process_marks import carriers
from headgate.ledger.transaction.rows import FindMember, Member
from headgate.store.pipe_has_reader import has_reader
from headgate.store.process_of_member import in_sight, is_running, is_stopped
from headgate.store.trusted_paths import make_folder, open_as_its_folder

if TYPE_CHECKING:
    from headgate.gate.liveness.preload_modules import Preloader

_OLD = 3600
_SOME = 50
_ID = r"[0-9A-Za-z_-]{1,64}"
_TRIES = 5
_PLACE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
_MODES = {"life": os.O_RDONLY | os.O_NONBLOCK, "wake": os.O_RDWR | os.O_NONBLOCK}


class PipeRegistry:
    """The members of a store that has a folder. Makes this process one of them."""

    def __init__(self, folder: Path, *, shared: bool = False) -> None:
        self.folder = folder
        self._shared = shared
        self.me = os.urandom(6).hex()
        self.marked_programs: dict[str, list[int]] = {}
        """Members kept alive only by programs that carry their mark, and those programs."""
        self._lost: dict[str, str] = {}
        """Where those are woken whose pipes were removed."""
        self._begun = begun_leases.BegunLeases()
        self._marking = threading.Lock()
        """Held while leases are marked as begun, in the pipe that may just be made anew."""
        self._life = -1
        self._wake = -1
        self._preloader: Preloader | None = None

    def join(self) -> None:
        """Make this process known as alive; the rows that name it come later."""
        if self._life >= 0:
            return
        try:
            with suppress(FileNotFoundError):
                self._clear_up()
            self._life = self._make("life")
            self._wake = self._make("wake")
        except OSError as error:
            self.leave(remove=True)
            raise StoreUnavailableError(
                f"cannot use {self.folder}, where the store keeps its pipes: {error.strerror}"
            ) from error
        from headgate.gate.liveness.preload_modules import Preloader

        self._preloader = Preloader()
        self._preloader.start()

    def _make(self, kind: str) -> int:
        """Make a pipe and read it. It gets its name last: a pipe without a reader is a death."""
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):  # somebody is just removing the folder
                make_folder(self.folder, shared=self._shared)
                return self._make_once(self._path(self.me, f"{kind}.new"), kind)
        return self._make_once(self._path(self.me, f"{kind}.new"), kind)

    def _make_once(self, new: Path, kind: str) -> int:
        new.unlink(missing_ok=True)
        os.mkfifo(new, 0o600)
        fd = -1
        try:
            fd = os.open(new, _MODES[kind])
            if self._shared:
                open_as_its_folder(fd, self.folder)
            if kind == "life":
                self._begun.tell_all(fd)
            new.rename(self._path(self.me, kind))
        except OSError:
            if fd >= 0:
                os.close(fd)
            new.unlink(missing_ok=True)
            raise
        return fd

    def renew(self) -> None:
        """Make the pipes anew whose files are gone: others look for them in vain."""
        for kind, fd in (("life", self._life), ("wake", self._wake)):
            # If it cannot be done, others go on asking after this process.
            with self._marking, suppress(OSError, StoreUntrustedError):
                if fd >= 0 and not self._is_at(self._path(self.me, kind), fd):
                    new = self._make(kind)
                    os.dup2(new, fd, inheritable=False)
                    os.close(new)

    def _is_at(self, path: Path, fd: int) -> bool:
        try:
            return os.path.samestat(path.lstat(), os.fstat(fd))
        except FileNotFoundError:
            return False

    def begin(self, lease: int) -> bool:
        """Tell others that a lease is being used; False if they cannot be told."""
        with self._marking:
            return self._begun.begin(self._life, lease)

    def end(self, lease: int) -> None:
        """A lease is not used any more."""
        with self._marking:
            self._begun.end(self._life, lease)

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
        """Remove what a dead member left in the folder; `life` last: `_clear_up` looks for that."""
        for kind in ("wake", "life"):
            with suppress(OSError):  # somebody has put something else there, or shut the folder
                self._path(member, kind).unlink(missing_ok=True)
        self.marked_programs.pop(member, None)
        self._lost.pop(member, None)

    def announce(self, member: str) -> None:
        """Put files in the place of the pipes of a client on another machine, which has none.

        The store says whether it lives. Processes of version 0.1.0 do not know that, and take
        whom they can open a file of for alive.
        """
        try:
            make_folder(self.folder, shared=self._shared)
            for kind in ("wake", "life"):
                fd = os.open(self._path(member, kind), _PLACE, 0o600)
                try:
                    if self._shared:
                        open_as_its_folder(fd, self.folder)
                finally:
                    os.close(fd)
        except OSError as error:
            raise StoreUnavailableError(
                f"cannot use {self.folder}, where the store keeps its pipes: {error.strerror}"
            ) from error

    def is_announced(self, member: str) -> bool:
        """Whether those files are there."""
        return all(self._path(member, kind).exists() for kind in ("wake", "life"))

    def _clear_up(self) -> None:
        """Remove pipes that nobody has open; their owners died before they could.

        Of many only some are looked at: the next who come look at others.
        """
        there = set(os.listdir(self.folder))  # noqa: PTH208 - thousands of names
        names = [
            name for name in there if name.endswith((".life", ".new")) or _is_lone(name, there)
        ]
        start = int.from_bytes(os.urandom(4), "big") % max(1, len(names) - _SOME + 1)
        for path in map(self.folder.joinpath, names[start : start + _SOME]):
            with suppress(OSError):
                old = time.time() - path.stat().st_mtime > _OLD
                if not old or has_reader(path) is not False:
                    continue
                if path.suffix == ".life":
                    self.forget(path.stem)
                else:
                    path.unlink()

    def wake(self, member: str) -> None:
        """Tell a member to look at the store: something has changed for it."""
        fd = _writable(str(self._path(member, "wake")))
        if fd is None and member in self._lost:
            fd = _writable(self._lost[member])
        if fd is None:
            return
        with suppress(OSError):  # full: it is awake already, or about to be
            os.write(fd, b"!")
        os.close(fd)

    def listening(self, member: str, find: FindMember, /) -> bool:
        """Whether the member's own process is there."""
        if member == self.me or (told := self._told(member, "wake")):
            return True
        row = find(member)
        return row is not None and self._lives(row, "wake", told=told)

    def alive(self, member: str, find: FindMember, /) -> bool:
        """Whether anything that inherited the member's life still runs."""
        if member == self.me or (told := self._told(member, "life")):
            return True
        row = find(member)
        if row is not None and self._lives(row, "life", told=told):
            return True
        return bool(readers({f"{member}.life"}))

    def stopped(self, member: str, find: FindMember, /) -> bool | None:
        """Whether the member's process is stopped; None if it cannot be seen."""
        if member == self.me:
            return False
        row = find(member)
        return None if row is None else is_stopped(row)

    def has_begun(self, member: str, lease: int, /) -> bool:
        """Whether the member may have begun to use a lease."""
        pipe = None if member == self.me else self.watch(member)
        if pipe is None:
            return True
        try:
            return begun_leases.is_marked(pipe, lease)
        finally:
            os.close(pipe)

    def users(self, members: Collection[str]) -> dict[str, list[int]]:
        """The processes that keep these members alive, other than this one and those who look."""
        found = readers({f"{member}.life" for member in members})
        me = os.getpid()
        return {
            name.removesuffix(".life"): [pid for pid in pids if pid != me]
            for name, pids in found.items()
        }

    def watch(self, member: str) -> int | None:
        """A descriptor on which poll() reports an error once the member has ended."""
        return _writable(str(self._path(member, "life")))

    def pipes(self) -> dict[str, int]:
        """The members whose pipe is there, and its inode."""
        with suppress(OSError), os.scandir(self.folder) as entries:
            return {
                one.name.removesuffix(".life"): one.inode()
                for one in entries
                if one.name.endswith(".life")
            }
        return {}

    def dead(self, members: Iterable[tuple[Member, Callable[[], list[str]]]]) -> list[str]:
        """Those of whom nothing runs any more: no pipe is open, no program carries their mark."""
        ended: dict[str, list[str]] = {}
        inherited: set[str] = set()
        """Pipes that a program may have open although their files are gone, or are new ones."""
        for member, marks in members:
            told = member.id == self.me or self._told(member.id, "life")
            if not told and not self._lives(member, "life", told=told):
                ended[member.id] = marks()
                if told is None or ended[member.id]:
                    inherited.add(f"{member.id}.life")
        all_marks = {mark for marks in ended.values() for mark in marks}
        carried = carriers(all_marks)
        for mark in all_marks - carried.keys():  # a program that is just starting another has none
            carried |= carriers({mark})
        heirs = readers(inherited)
        self.marked_programs = {
            id: pids
            for id, marks in ended.items()
            if (pids := [pid for mark in marks for pid in carried.get(mark, ())])
            or (pids := heirs.get(f"{id}.life", []))
        }
        return [id for id in ended if id not in self.marked_programs]

    def _told(self, member: str, kind: str) -> bool | None:
        """Whether a member's pipe has a reader; None if the pipe does not tell."""
        if not re.fullmatch(_ID, member):
            return False  # nobody ever had such an id, and its path would lead who knows where
        return has_reader(self._path(member, kind))

    def _lives(self, member: Member, kind: str, *, told: bool | None) -> bool:
        """Whether a member's process has a pipe open, though its file tells of no reader."""
        runs = is_running(member)
        seen = runs is not False and in_sight(member)
        pipe = pipe_of(member.pid, f"{member.id}.{kind}") if seen else None
        if pipe is None:
            return told is None and runs is not False
        if pipe:  # its file is gone: it makes another one when it is woken
            self._lost[member.id] = pipe_of(member.pid, f"{member.id}.wake") or ""
            self.wake(member.id)
        return bool(pipe)

    def _path(self, member: str, kind: str) -> Path:
        return self.folder / f"{member}.{kind}"


def _is_lone(name: str, there: Collection[str]) -> bool:
    """Whether only the `wake` of a member is left: who removed its pipes was killed in between."""
    return name.endswith(".wake") and f"{name.removesuffix('.wake')}.life" not in there


def _writable(path: str) -> int | None:
    """A pipe, opened for writing; None if nobody reads it, or if it is none."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    if stat.S_ISFIFO(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


MemberRegistry = PipeRegistry | LocalRegistry
