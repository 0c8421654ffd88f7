"""Roles that work carries, and the turns of tasks. Few stores have any."""

import time

from headgate.core.times import NO_TIME, Ms
from headgate.store.sql_rows.session import Session, Tables

_TRIM_EVERY = 100
_TURNS = 10_000
"""Of so many tasks the last turns are kept."""


class ShareRows(Session):
    """Who carries which roles, and who had a turn when."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self._untrimmed_shares = time.monotonic_ns() % _TRIM_EVERY  # spreads the work

    def forget(self) -> None:
        """Remember nothing of any transaction before."""
        super().forget()
        self._roles: dict[int, str] = {}
        self._turns: dict[tuple[str, str], Ms] = {}
        self._latest_turns: dict[str, Ms] = {}

    def roles(self, work: int) -> str:
        if work not in self._roles:
            rows = self._ask("roles", work)
            self._roles[work] = rows[0][0] if rows else ""
        return self._roles[work]

    def set_roles(self, work: int, roles: str) -> None:
        self._roles[work] = roles
        if roles:
            self._change("set_roles", work, roles)
            self._trim()

    def turn(self, place: str, task: str) -> Ms:
        if (place, task) not in self._turns:
            rows = self._ask("turn", place, task)
            self._turns[place, task] = Ms(rows[0][0]) if rows else NO_TIME
        return self._turns[place, task]

    def latest_turn(self, place: str) -> Ms:
        if place not in self._latest_turns:
            self._latest_turns[place] = Ms(self._number("latest_turn", place))
        return self._latest_turns[place]

    def set_turn(self, place: str, task: str, at: Ms) -> None:
        self._turns[place, task] = at
        self._latest_turns[place] = max(at, self.latest_turn(place))
        self._change("set_turn", place, task, at)
        self._trim()

    def _trim(self) -> None:
        self._untrimmed_shares += 1
        if self._untrimmed_shares >= _TRIM_EVERY:
            self._untrimmed_shares = 0
            self._change("trim_roles", self._kept.history)
            self._change("trim_turns", _TURNS)
            self._roles.clear()
            self._turns.clear()
