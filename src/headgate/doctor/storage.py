"""The store: its SQLite, the file system it is on, its folder, its clock."""

import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from headgate import __version__
from headgate.config.error_text import label
from headgate.core import wall_clock
from headgate.core.install_hint import install
from headgate.core.quantities import show_duration
from headgate.core.times import Ms
from headgate.doctor.facts import Facts, StoreContents
from headgate.doctor.finding import Finding, note, ok, problem, warning
from headgate.ledger.transaction.remote_rows import is_remote
from headgate.store.pipe_has_reader import has_reader
from headgate.store.process_of_member import is_listening, is_running
from headgate.store.urls import SHARED

_OLDEST = (3, 51, 3)
"""The first SQLite that does not corrupt a log which two connections write at the same time."""
_SHARED = re.compile(
    r"9p|afpfs|afs|beegfs|ceph|cifs|davfs|drvfs|fakeowner|gfs2|glusterfs|gpfs|lustre|nfs4?|ocfs2"
    r"|orangefs|prl_fs|smb[23]?|smbfs|vboxsf|virtiofs|vmhgfs|webdav|grpcfuse"
    r"|fuse\.(sshfs|rclone|s3fs|gcsfuse|glusterfs|ceph|davfs2?|juicefs|vmhgfs-fuse|grpcfuse|mfs)"
)
"""File systems whose locks and shared memory cannot be relied on, by what `mount` calls them."""
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_LITTLE, _HARDLY_ANY = 200 * 2**20, 10 * 2**20
_JUMP = Ms(60_000)
_PIPE = re.compile(r"([0-9a-f]{12})\.(?:life|wake)")


def check(facts: Facts) -> list[Finding]:
    """Everything about the file and where it is."""
    import apsw

    found = [sqlite(apsw.sqlite_lib_version())]
    if facts.path is not None and facts.path.exists():
        found += file_system(facts.path, mounts(), darwin=sys.platform == "darwin")
        found += shared(facts.url) or permissions(facts.path)
        found += space(shutil.disk_usage(facts.path.parent).free, facts.path.parent)
    if facts.folder is not None and facts.folder.is_dir():
        found += leftovers(facts.folder)
        found += lost_pipes(facts.seen, facts.folder)
        found += other_versions(facts.seen, facts.folder)
    return [*found, *clock(facts.seen.clock), *doubted(facts.seen.unseen)]


def sqlite(version: str) -> Finding:
    """Whether SQLite is new enough to be trusted with several writers."""
    number = tuple(int(part) for part in version.split(".")[:3])
    least = ".".join(map(str, _OLDEST))
    if number >= _OLDEST:
        return ok("sqlite", f"SQLite {version}")
    return problem(
        "sqlite_old",
        f"SQLite {version}: before {least} two processes that write may corrupt the store",
        install(f"apsw>={least}"),
    )


def mounts() -> str:
    """What is mounted where, in the system's own words; empty if it cannot be told."""
    import subprocess

    try:
        if sys.platform == "linux":
            return Path("/proc/self/mounts").read_text(errors="surrogateescape")
        done = subprocess.run(["mount"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return ""
    return done.stdout


def file_system(path: Path, mounted: str, *, darwin: bool = False) -> Iterator[Finding]:
    """Whether the store is on a file system that processes of one machine can share safely."""
    kind = kind_of(path, mounted, darwin=darwin)
    where = label(path.parent)
    advice = "use a local disk: HEADGATE_STORE=sqlite:///path/to/file"
    if _SHARED.fullmatch(kind.lower()):
        text = f"{where} is on a network or shared file system ({kind}), where locks may not hold"
        yield problem("network_store", f"{text} and the store may be corrupted", advice)
    elif "fuse" in kind and kind != "fuseblk":
        text = f"{where} is on a file system of some program's ({kind}), whose locks may not hold"
        yield warning("fuse_store", text, advice)
    elif kind in _IN_MEMORY:
        yield warning("memory_store", f"{where} is in memory ({kind}): gone with a restart", advice)
    elif kind == "overlay":
        text = f"{where} is in a container's own layer: nobody outside shares it, and it goes with"
        yield note("container_store", f"{text} the container", "mount a folder of the machine")
    elif kind:
        yield ok("file_system", f"{where} is on a local file system ({kind})")
    else:
        yield note("file_system", f"cannot tell which file system {where} is on")


def kind_of(path: Path, mounted: str, *, darwin: bool = False) -> str:
    """The kind of the file system that a file is on; empty if it cannot be told."""
    whole = Path(os.path.realpath(path))
    best, kind = -1, ""
    for line in mounted.splitlines():
        if darwin:
            found = re.search(r" on (/.*) \(([^,)]+)", line)
            where, name = (found[1], found[2]) if found else ("", "")
        else:
            fields = line.split(" ")
            where, name = (_plain(fields[1]), fields[2]) if len(fields) > 2 else ("", "")
        # Of two that are mounted at one place, the later is the one that is seen.
        if where and len(where) >= best and whole.is_relative_to(where):
            best, kind = len(where), name
    return kind


def _plain(text: str) -> str:
    """A path as it is: the kernel writes blanks and backslashes as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def shared(url: str) -> list[Finding]:
    """Whether the store is said to be shared with other users; what that means."""
    if not url.endswith(SHARED):
        return []
    text = "the store is shared: whoever can write it can have commands run by its workers"
    return [note("shared_store", text)]


def permissions(path: Path) -> Iterator[Finding]:
    """Whether others than its owner can read or change the store."""
    beside = [path, *(path.with_name(path.name + end) for end in ("-wal", "-shm", ".members"))]
    there = [(one, one.stat()) for one in beside if one.exists()]
    open_to = [one for one, seen in there if stat.S_IMODE(seen.st_mode) & 0o077]
    writable = [one for one, seen in there if stat.S_IMODE(seen.st_mode) & 0o022]
    folder = path.parent.stat()
    advice = "chmod go-rwx " + " ".join(quote(str(one)) for one in open_to)
    if any(seen.st_uid != os.getuid() for _, seen in there):
        text = f"{label(path)} or what is beside it belongs to another user"
        yield warning("foreign_store", text, f"see: ls -l '{label(path.parent)}'")
    if writable:
        yield warning("writable_store", f"other users can change {label(writable[0])}", advice)
    elif open_to:
        text = f"other users can read {label(open_to[0])}: what runs, for whom and since when"
        yield warning("readable_store", text, advice)
    elif folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX:
        text = f"other users can replace the store, for {label(path.parent)} is open to all"
        yield warning("open_folder", text, f"chmod o-w '{label(path.parent)}'")
    else:
        yield ok("permissions", "only its owner can read and change the store")


def space(free: int, folder: Path) -> Iterator[Finding]:
    """Whether there is room for the store to grow."""
    if free >= _LITTLE:
        return
    text = f"only {free // 2**20} MiB are free on the disk of {label(folder)}"
    make = problem if free < _HARDLY_ANY else warning
    yield make("disk", f"{text}; a full disk lets nothing start", "free some space")


def leftovers(folder: Path) -> Iterator[Finding]:
    """Pipes of members that have ended, and files that are none of ours."""
    members, strange = set(), []
    for entry in folder.iterdir():
        pipe = _PIPE.fullmatch(entry.name)
        if pipe and entry.is_fifo():
            members.add(pipe[1])
        else:
            strange.append(entry)
    gone = [member for member in members if has_reader(folder / f"{member}.life") is False]
    if gone:
        text = f"{len(gone)} processes that were killed have left pipes in {label(folder)}"
        yield note("leftovers", f"{text}; an hour later the next to join removes them")
    if strange:
        text = f"{len(strange)} files in {label(folder)} are no pipes of headgate's"
        yield warning("strange_files", text, f"see: ls -l '{label(folder)}'")


def lost_pipes(seen: StoreContents, folder: Path) -> Iterator[Finding]:
    """Members of whom nobody here can tell whether they live: their pipe is gone, and unseen."""
    lost = [
        f"{member.id} (pid {member.pid} there)"
        for member in seen.members
        if not is_remote(member.id)
        and has_reader(folder / f"{member.id}.life") is None
        and is_running(member) is None
    ]
    if lost:
        text = f"processes of other containers have lost their pipes in {label(folder)}"
        advice = (
            "their seats stay taken until they make them anew, as they do when they next look; "
            f"if one is gone for good, say so: mkfifo '{label(folder)}/ID.life'"
        )
        yield warning("lost_pipes", f"{text}: {', '.join(lost)}", advice)


def other_versions(seen: StoreContents, folder: Path) -> Iterator[Finding]:
    """Processes of another version: they go on, and use what they know."""
    from headgate.store.migrate import described, known_schema

    others = [
        described(member)
        for member in seen.members
        if (member.version, known_schema(member)) != (__version__, seen.schema)
        and is_listening(folder, member)
    ]
    if others:
        this = f"{__version__}, schema {seen.schema}"
        text = f"processes of another version than this one ({this}) use the store"
        advice = "they go on and nothing is lost; a worker is of the new version when started again"
        yield note("other_versions", f"{text}: {', '.join(others)}", advice)


def clock(ahead: Ms) -> Iterator[Finding]:
    """Whether the wall clock was set since the machine was started."""
    if abs(ahead) > _JUMP:
        way = "back" if ahead > 0 else "on"
        text = f"the clock was put {way} by {show_duration(abs(ahead))} since the machine started"
        yield note("clock", f"{text}; leases, pauses and cooldowns are not affected")


def doubted(unseen: Ms) -> Iterator[Finding]:
    """Whether it is open how long the machine was off."""
    if unseen:
        advice = "if the clock is wrong, set it; what it says is looked at again and again"
        yield warning("clock_doubted", wall_clock.doubt(unseen), advice)
