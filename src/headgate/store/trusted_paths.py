"""Whether a store's files are this user's own: who can write them can have commands run as us.

Looked at as sshd looks at a person's keys: the files themselves, and every folder and link on the
way to them, since who can rename a folder can put another in its place. A folder on the way may be
root's, and may be open to all if it has the sticky bit, as /tmp has: then nobody can replace what
is ours, and what somebody else has put there is not ours.

A store that was opened with `?shared=true` is not looked at: whoever can write it is trusted.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from headgate.errors import StoreUntrustedError

_ROOT = 0
_MOST_LINKS = 40
"""How many links the kernel follows on one path."""
_BESIDE_FILE = ("-wal", "-shm", "-journal")
_BESIDE_NAME = (".members", ".logs")


def check_trusted(path: Path) -> None:
    """Raise if somebody else than this user and root can change the store, or has made it."""
    check_folder(path)
    _check(path, path)
    real = os.path.realpath(path)
    for end in _BESIDE_FILE:  # SQLite puts them where the file is, not where a link to it is
        _check(Path(real + end), path)
    for end in _BESIDE_NAME:
        _check(Path(f"{path}{end}"), path)


def check_folder(path: Path) -> None:
    """Raise if the folder that a store is in, or is to be in, can be changed by somebody else."""
    for one, seen in _on_the_way(path.parent):
        _check_on_the_way(one, seen, path)


def make_folder(folder: Path, *, shared: bool) -> None:
    """Make a folder beside a store, for its owner alone; beside a shared one, as open as that."""
    store = folder.with_suffix("")
    mode = store.stat().st_mode & 0o666 if shared else 0o600
    mode |= mode >> 2 & 0o111  # who can read in it can enter it
    try:
        folder.mkdir(mode=mode)
    except FileExistsError:
        if not folder.is_dir():
            raise
        if not shared:
            _check(folder, store)
        return
    if shared:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _open_up(fd, mode, store)
        finally:
            os.close(fd)


def make_file(path: Path, *, shared: bool) -> bool:
    """Make an empty file, for its owner alone; in a shared store's folder, as open as the folder.

    Whatever is there already stays as it is: False.
    """
    real = Path(os.path.realpath(path))
    mode = real.parent.stat().st_mode & 0o666 if shared else 0o600
    try:
        fd = os.open(real, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
    except FileExistsError:
        return False
    try:
        if shared:
            _open_up(fd, mode, real.parent)
    finally:
        os.close(fd)
    return True


def open_as_its_folder(fd: int, folder: Path) -> None:
    """Open a file of ours to those to whom its folder is open: nobody else, if not shared."""
    mode = folder.stat().st_mode & 0o666
    if mode & 0o066:
        _open_up(fd, mode, folder)


def _open_up(fd: int, mode: int, like: Path) -> None:
    """Give what we have just made a mode, whatever our umask, and its folder's group if we may.

    By its descriptor: others may have put something else under its name by now.
    """
    try:
        os.fchown(fd, -1, like.stat().st_gid)
    except PermissionError:
        mode &= 0o707  # our group has nothing to do with it
    os.fchmod(fd, mode)


def _check(path: Path, store: Path) -> None:
    """Look at one of the store's own files or folders, and at the way there."""
    try:
        last, seen = str(path), os.lstat(path)
    except FileNotFoundError:
        return
    if stat.S_ISLNK(seen.st_mode):
        if seen.st_uid != os.geteuid():
            raise _foreign(last, seen, store)
        way = list(_on_the_way(path))
        if os.path.exists(path):  # noqa: PTH110 - else it leads to nothing so far
            last, seen = way.pop()
        for one, found in way:
            _check_on_the_way(one, found, store)
        if stat.S_ISLNK(seen.st_mode):
            return
    if seen.st_uid != os.geteuid():
        raise _foreign(last, seen, store)
    if _others_can_write(last, seen):
        raise _open_to_others(last, seen, store)


def _check_on_the_way(path: str, seen: os.stat_result, store: Path) -> None:
    if seen.st_uid not in {os.geteuid(), _ROOT} and not _has_no_number_here(seen.st_uid):
        raise _foreign(path, seen, store)
    is_link = stat.S_ISLNK(seen.st_mode)  # whose mode says nothing
    if not is_link and not seen.st_mode & stat.S_ISVTX and _others_can_write(path, seen):
        raise _open_to_others(path, seen, store)


def _on_the_way(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Each folder and link from the root to a path, and what it leads to; as far as there is any.

    Link by link, because each can be changed by whoever owns it.
    """
    steps = [part for part in reversed(str(path).split("/")) if part]
    here, links = "/", 0
    yield here, os.lstat(here)
    while steps:
        step = steps.pop()
        if step == "..":
            here = os.path.dirname(here)  # noqa: PTH120 - `here` has no links in it
            continue
        if step == ".":
            continue
        next_one = os.path.join(here, step)  # noqa: PTH118 - bytes that are no text pass through
        try:
            seen = os.lstat(next_one)
        except FileNotFoundError:
            return
        yield next_one, seen
        if not stat.S_ISLNK(seen.st_mode):
            here = next_one
            continue
        links += 1
        if links > _MOST_LINKS:
            return  # opening it fails, and says why
        target = os.readlink(next_one)  # noqa: PTH115 - the same
        here = "/" if target.startswith("/") else here
        steps += [part for part in reversed(target.split("/")) if part]


def _others_can_write(path: str, seen: os.stat_result) -> bool:
    mode = seen.st_mode
    if mode & stat.S_IWOTH:
        return True
    return bool(mode & stat.S_IWGRP) and not _is_private_group(path, seen.st_gid)


def _is_private_group(path: str, group: int) -> bool:
    """Whether nobody else is in a group, as in systems that give each user one of their own."""
    import grp
    import pwd

    if group != os.getegid() or _has_more_rules(path):
        return False
    try:
        me = pwd.getpwuid(os.geteuid())
        members = set(grp.getgrgid(group).gr_mem) - {me.pw_name}
    except KeyError:
        return False
    users = {one.pw_uid for one in pwd.getpwall() if one.pw_gid == group}
    return me.pw_gid == group and not members and users <= {me.pw_uid}


def _has_more_rules(path: str) -> bool:
    """Whether an access control list lets in others, of whom the mode tells only how far."""
    if not hasattr(os, "getxattr"):
        return False
    try:
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except OSError:
        return False


def _has_no_number_here(user: int) -> bool:
    """Whether a user is one that this user namespace has no number for, as root in a sandbox."""
    try:
        overflow = int(Path("/proc/sys/kernel/overflowuid").read_text())
        numbers = list(map(int, Path("/proc/self/uid_map").read_text().split()))
    except (OSError, ValueError):
        return False
    ranges = zip(numbers[::3], numbers[2::3], strict=True)
    return user == overflow and not any(first <= user < first + n for first, n in ranges)


def _foreign(path: str, seen: os.stat_result, store: Path) -> StoreUntrustedError:
    return StoreUntrustedError(
        f"{_described(path, seen)} belongs to {_name(seen.st_uid)}, and this is "
        f"{_name(os.geteuid())}: who owns it can have commands run as this user. "
        f"Use another store, or become its owner if nobody else has written there "
        f"(chown {_name(os.geteuid(), number=False)} {_quoted(path)}){_or_share(store)}"
    )


def _open_to_others(path: str, seen: os.stat_result, store: Path) -> StoreUntrustedError:
    who = "o" if seen.st_mode & stat.S_IWOTH else ""
    who = f"g{who}" if seen.st_mode & stat.S_IWGRP else who
    return StoreUntrustedError(
        f"{_described(path, seen)} can be changed by other users, who could have commands run as "
        f"{_name(os.geteuid())}: take that from them (chmod {who}-w {_quoted(path)})"
        f"{_or_share(store)}"
    )


def _described(path: str, seen: os.stat_result) -> str:
    kind = {stat.S_IFDIR: "the folder", stat.S_IFLNK: "the link"}.get(
        stat.S_IFMT(seen.st_mode), "the file"
    )
    owner = _name(seen.st_uid)
    return f"{kind} {_quoted(path)} (owner {owner}, mode {stat.S_IMODE(seen.st_mode):04o})"


def _or_share(store: Path) -> str:
    url = _quoted(f"sqlite://{store}?shared=true")
    return f", or trust everybody who can write there: --store {url}"


def _name(user: int, *, number: bool = True) -> str:
    import pwd

    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:
        return f"uid {user}" if number else str(user)
    return f"{name} (uid {user})" if number else name


def _quoted(path: str) -> str:
    from shlex import quote

    return quote(path) if path.isprintable() else repr(path)
