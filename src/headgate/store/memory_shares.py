"""Roles and the turns of tasks in the memory of one process."""

from headgate.core.times import NO_TIME, Ms
from headgate.store.memory_requests import MemoryRequestRows

_SLACK = 100


class MemoryShareRows(MemoryRequestRows):
    """Who carries which roles, and who had a turn when."""

    def __init__(self) -> None:
        super().__init__()
        self._roles: dict[int, str] = {}
        self._turns: dict[tuple[str, str], Ms] = {}
        self._latest_turns: dict[str, Ms] = {}

    def roles(self, work: int) -> str:
        return self._roles.get(work, "")

    def set_roles(self, work: int, roles: str) -> None:
        if roles:
            self._set(self._roles, work, roles)
            if len(self._roles) > self._kept.history + _SLACK:
                for old in sorted(self._roles)[: -self._kept.history]:
                    if not self._is_known(old):
                        self._pop(self._roles, old)

    def _is_known(self, work: int) -> bool:
        return work in self._jobs or self._has_lease(work)

    def turn(self, place: str, task: str) -> Ms:
        return self._turns.get((place, task), NO_TIME)

    def latest_turn(self, place: str) -> Ms:
        return self._latest_turns.get(place, NO_TIME)

    def set_turn(self, place: str, task: str, at: Ms) -> None:
        self._set(self._turns, (place, task), at)
        self._set(self._latest_turns, place, max(at, self.latest_turn(place)))
