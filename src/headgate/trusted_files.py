"""Whose a file is, and who else could change it: what it says is done as us.

Looked at as sshd looks at a person's keys: the file itself, and every folder and link on the way to
it, since who can rename a folder can put another in its place. A folder on the way may be root's,
and may be open to all if it has the sticky bit, as /tmp has: then nobody can replace what is ours,
and what somebody else has put there is not ours.
"""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from headgate.core.named_tuple import NamedTuple
from headgate.errors import HeadgateError

_ROOT = 0
_MOST_LINKS = 40
"""How many links the kernel follows on one path."""


class Trust(NamedTuple):
    """Whose a kind of file may be, and what is said of one that is not."""

    error: type[HeadgateError]
    another: str
    """What else can be done, as in `Use another store`."""
    roots: bool = False
    """Whether it may be root's: who is root can do everything anyway."""
    or_else: Callable[[], str] = str
    """What can be done to trust whoever can write there; made only if it is to be said."""

    @property
    def owners(self) -> set[int]:
        """Who may own such a file."""
        return {os.geteuid(), _ROOT} if self.roots else {os.geteuid()}


def check_way(path: Path, trust: Trust) -> None:
    """Raise if somebody else than this user and root can change a folder or link on a path."""
    for one, seen in _on_the_way(path):
        _check_on_the_way(one, seen, trust)


def check_file(path: Path, trust: Trust) -> None:
    """Raise if a file or folder, or where a link of its name leads, is not to be trusted."""
    try:
        last, seen = str(path), os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISLNK(seen.st_mode):
        if seen.st_uid not in trust.owners:
            raise _foreign(last, seen, trust)
        way = list(_on_the_way(path))
        if os.path.exists(path):  # noqa: PTH110 - else it leads to nothing so far
            last, seen = way.pop()
        for one, found in way:
            _check_on_the_way(one, found, trust)
        if stat.S_ISLNK(seen.st_mode):
            return
    if seen.st_uid not in trust.owners:
        raise _foreign(last, seen, trust)
    if _others_can_write(last, seen):
        raise _open_to_others(last, seen, trust)


def _check_on_the_way(path: str, seen: os.stat_result, trust: Trust) -> None:
    if seen.st_uid not in {os.geteuid(), _ROOT} and not _has_no_number_here(seen.st_uid):
        raise _foreign(path, seen, trust)
    is_link = stat.S_ISLNK(seen.st_mode)  # whose mode says nothing
    if not is_link and not seen.st_mode & stat.S_ISVTX and _others_can_write(path, seen):
        raise _open_to_others(path, seen, trust)


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
        except (FileNotFoundError, NotADirectoryError):
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


def _foreign(path: str, seen: os.stat_result, trust: Trust) -> HeadgateError:
    return trust.error(
        f"{_described(path, seen)} belongs to {_name(seen.st_uid)}, and this is "
        f"{_name(os.geteuid())}: who owns it can have commands run as this user. "
        f"{trust.another}, or become its owner if nobody else has written there "
        f"(chown {_name(os.geteuid(), number=False)} {quoted(path)}){trust.or_else()}"
    )


def _open_to_others(path: str, seen: os.stat_result, trust: Trust) -> HeadgateError:
    who = "o" if seen.st_mode & stat.S_IWOTH else ""
    who = f"g{who}" if seen.st_mode & stat.S_IWGRP else who
    return trust.error(
        f"{_described(path, seen)} can be changed by other users, who could have commands run as "
        f"{_name(os.geteuid())}: take that from them (chmod {who}-w {quoted(path)})"
        f"{trust.or_else()}"
    )


def _described(path: str, seen: os.stat_result) -> str:
    kind = {stat.S_IFDIR: "the folder", stat.S_IFLNK: "the link"}.get(
        stat.S_IFMT(seen.st_mode), "the file"
    )
    owner = _name(seen.st_uid)
    return f"{kind} {quoted(path)} (owner {owner}, mode {stat.S_IMODE(seen.st_mode):04o})"


def _name(user: int, *, number: bool = True) -> str:
    import pwd

    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:
        return f"uid {user}" if number else str(user)
    return f"{name} (uid {user})" if number else name


def quoted(path: str) -> str:
    """A path as it can be typed in a shell, and shown."""
    from shlex import quote

    return quote(path) if path.isprintable() else repr(path)
