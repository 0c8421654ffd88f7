"""Which program a command line really starts: behind `env`, `timeout 5`, `npx`, `node` and such."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from headgate.core.named_tuple import NamedTuple

_DEEPEST = 8
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_VERSION = re.compile(r"(?<=[^/])@[^/@]*\Z")
_SUFFIX = re.compile(r"\.(?:exe|cmd|js|mjs|cjs|py)\Z")


class _Wrapper(NamedTuple):
    """A program that starts another one."""

    valued: tuple[str, ...] = ()
    """Its options that take a value."""
    skips: int = 0
    """Arguments of its own before the program."""
    words: tuple[str, ...] = ()
    """Only with one of these subcommands."""
    modules: bool = False
    """Whether -m names the program."""


_WRAPPERS: Mapping[str, _Wrapper] = {
    "env": _Wrapper(("-u", "--unset", "-C", "--chdir", "-a", "--argv0")),
    "nice": _Wrapper(("-n", "--adjustment")),
    "ionice": _Wrapper(("-c", "--class", "-n", "--classdata")),
    "timeout": _Wrapper(("-s", "--signal", "-k", "--kill-after"), 1),
    "gtimeout": _Wrapper(("-s", "--signal", "-k", "--kill-after"), 1),
    "chrt": _Wrapper((), 1),
    "taskset": _Wrapper((), 1),
    "flock": _Wrapper(("-w", "--timeout", "-E"), 1),
    "stdbuf": _Wrapper(("-i", "--input", "-o", "--output", "-e", "--error")),
    "time": _Wrapper(("-f", "--format", "-o", "--output")),
    "sudo": _Wrapper(("-u", "--user", "-g", "--group", "-D", "--chdir")),
    "doas": _Wrapper(("-u",)),
    "caffeinate": _Wrapper(("-t", "-w")),
    "systemd-run": _Wrapper(("-p", "--property", "-u", "--unit", "-E", "--setenv", "--slice")),
    "nohup": _Wrapper(),
    "setsid": _Wrapper(),
    "unbuffer": _Wrapper(),
    "exec": _Wrapper(("-a",)),
    "command": _Wrapper(),
    "npx": _Wrapper(("-p", "--package")),
    "pnpx": _Wrapper(),
    "bunx": _Wrapper(("-p", "--package")),
    "npm": _Wrapper(("-p", "--package"), words=("exec", "x")),
    "pnpm": _Wrapper(("--package",), words=("dlx", "exec")),
    "yarn": _Wrapper(("-p", "--package"), words=("dlx", "exec")),
    "uvx": _Wrapper(("--from", "--with", "-p", "--python")),
    "uv": _Wrapper(("--from", "--with", "-p", "--python", "--project"), words=("run", "tool")),
    "pipx": _Wrapper(("--spec", "--python"), words=("run",)),
    "poetry": _Wrapper(("-C", "--directory"), words=("run",)),
    "node": _Wrapper(("-r", "--require", "--import", "--loader", "-C", "--conditions")),
    "bun": _Wrapper((), words=("x", "run", "")),
    "deno": _Wrapper((), words=("run",)),
    "python": _Wrapper(("-W", "-X"), modules=True),
}


class Start(NamedTuple):
    """The program that a command line starts."""

    at: int
    """Its place in the command line; past the end if there is none."""
    names: tuple[str, ...]
    """The names it goes by: the last part of its path, and the packages it is in."""
    environment: Mapping[str, str]
    """Variables that are set on the way."""


def is_wrapper(program: str) -> bool:
    """Whether a program is known to start another one."""
    return program in _WRAPPERS


def unwrap(argv: Sequence[str]) -> Start:
    """The program behind the ones that only start another."""
    return _unwrap(tuple(argv))


@lru_cache(maxsize=4)  # whoever starts a program asks several times what it is
def _unwrap(argv: tuple[str, ...]) -> Start:
    at = 0
    environment: dict[str, str] = {}
    for _ in range(_DEEPEST):
        if at >= len(argv):
            break
        name = _names(argv[at])[0]
        wrapper = _WRAPPERS.get("python" if re.fullmatch(r"python[0-9.]*", name) else name)
        if wrapper is None:
            break
        inner = _behind(argv, at, wrapper, environment)
        if inner is None:
            break
        at = inner
    return Start(at, _names(argv[at]) if at < len(argv) else (), environment)


def _behind(
    argv: Sequence[str], at: int, wrapper: _Wrapper, environment: dict[str, str]
) -> int | None:
    """The place of what a wrapper starts; None if it starts nothing that can be told."""
    skips = wrapper.skips
    wanted = wrapper.words
    place = at + 1
    while place < len(argv):
        arg = argv[place]
        assigned = _ASSIGNMENT.fullmatch(arg)
        if wrapper.modules and arg == "-m":
            return place + 1 if place + 1 < len(argv) else None
        if arg in wrapper.valued:
            place += 1
        elif arg.startswith("-"):
            pass
        elif assigned:
            environment[assigned[1]] = assigned[2]
        elif wanted:
            if arg not in wanted:
                return place if "" in wanted else None
            wanted = ("run",) if arg == "tool" else ()
        elif skips:
            skips -= 1
        else:
            return place
        place += 1
    return None


def _names(program: str) -> tuple[str, ...]:
    """Names by which a program may be known; never empty."""
    path = program[:1_000].replace("\\", "/").lower()
    package = _VERSION.sub("", path)
    base = _SUFFIX.sub("", package.rsplit("/", 1)[-1])
    parts = package.split("/")
    inside = [p for p in parts[:-1] if p]
    pairs = [f"{a}/{b}" for a, b in pairwise(parts) if a.startswith("@")]
    packages = inside[inside.index("node_modules") + 1 :] if "node_modules" in inside else []
    return (base, *pairs, *packages)
