"""Which keys two names of pools have in common, told from the names alone.

A name is a glob over the provider and one over the model; a provider alone stands for all of its
models. Where it is in doubt, `covers` says no.
"""

import re
from functools import lru_cache

from headgate.core.key_patterns import HOST, ROLE


def covers(wide: str, narrow: str) -> bool:
    """Whether each key of one pool is surely one of the other's too."""
    if HOST in {wide, narrow}:
        return wide == HOST
    if wide.startswith(ROLE) != narrow.startswith(ROLE):
        return False
    pairs = zip(_halves(wide), _halves(narrow), strict=True)
    return all(_includes(_tidy(one), _tidy(other)) for one, other in pairs)


def overlap(one: str, other: str) -> bool:
    """Whether there can be a key that both pools have."""
    if HOST in {one, other}:
        return True
    if one.startswith(ROLE) != other.startswith(ROLE):
        return False
    pairs = zip(_halves(one), _halves(other), strict=True)
    return all(_meet(a, b) for a, b in pairs)


def _halves(pattern: str) -> tuple[str, str]:
    provider, slash, model = pattern.partition("/")
    return provider, model if slash else "*"


def _tidy(glob: str) -> str:
    """Each run of wildcards in one order, so that equal globs look equal: ? first, then one *."""
    return re.sub(
        r"[*?]+", lambda run: "?" * run[0].count("?") + ("*" if "*" in run[0] else ""), glob
    )


@lru_cache(maxsize=4096)
def _includes(wide: str, narrow: str) -> bool:
    """Whether a glob takes another as if its wildcards were letters; only * takes a *."""
    row = [True] + [False] * len(narrow)
    for sign in wide:
        before, row = row, [row[0] and sign == "*"]
        for n, letter in enumerate(narrow):
            if sign == "*":
                row.append(before[n + 1] or row[n])
            else:
                row.append(before[n] and letter != "*" and sign in {"?", letter})
    return row[-1]


@lru_cache(maxsize=4096)
def _meet(one: str, other: str) -> bool:
    """Whether some text fits both globs."""
    row = [True]
    for sign in other:
        row.append(row[-1] and sign == "*")
    for sign in one:
        before, row = row, [row[0] and sign == "*"]
        for n, letter in enumerate(other):
            if "*" in {sign, letter}:
                row.append(before[n + 1] or row[n])
            else:
                row.append(before[n] and (sign == letter or "?" in {sign, letter}))
    return row[-1]
