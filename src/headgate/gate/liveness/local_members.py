"""The members of a store in memory: gates of this process, which live and die with it."""

import os
from collections.abc import Callable, Collection, Iterable

from headgate.ledger.transaction.rows import Member

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

    def renew(self) -> None:
        """Nothing gets lost here."""

    def drain(self) -> None:
        """Nothing piles up here."""

    def leave(self, *, remove: bool) -> None:
        """Be gone."""
        _AT_HOME.pop(self.me, None)

    def forget(self, member: str) -> None:
        """Nothing is left by anyone."""

    def announce(self, member: str) -> None:
        """No other version shares this store."""

    def is_announced(self, member: str) -> bool:
        """Nobody has to be told."""
        return True

    def wake(self, member: str) -> None:
        """Tell a member to look at the store: something has changed for it."""
        poke = _AT_HOME.get(member)
        if poke is not None:
            poke()

    def listening(self, member: str, _: object = None, /) -> bool:
        """Whether the member's gate is open."""
        return member in _AT_HOME

    def alive(self, member: str, _: object = None, /) -> bool:
        """Whether the member's gate is open."""
        return member in _AT_HOME

    def stopped(self, member: str, _: object = None, /) -> bool:
        """Nobody here is stopped while another is not."""
        return False

    def has_begun(self, member: str, lease: int, /) -> bool:
        """Whoever was granted something here has it."""
        return True

    def begin(self, lease: int) -> bool:
        """Nobody has to be told."""
        return True

    def end(self, lease: int) -> None:
        """Nobody has to be told."""

    def users(self, members: Collection[str]) -> dict[str, list[int]]:
        """No program of their own."""
        return {}

    def watch(self, member: str) -> int | None:
        """Nobody needs watching here."""
        return None

    def pipes(self) -> dict[str, int]:
        """There are none here."""
        return {}

    def dead(self, members: Iterable[tuple[Member, Callable[[], list[str]]]]) -> list[str]:
        """Those whose gate was closed."""
        return [member.id for member, _ in members if member.id not in _AT_HOME]
