"""Clients on other machines, in the memory of one process."""

from collections.abc import Callable

from headgate.ledger.transaction.remote_rows import RemoteMember, RemoteRequest
from headgate.store.memory_tokens import MemoryTokenRows


class MemoryRemoteRows(MemoryTokenRows):
    """The tables of clients on other machines; each is forgotten with its member."""

    def __init__(self) -> None:
        super().__init__()
        self._remote: dict[str, RemoteMember] = {}
        self._remote_requests: dict[tuple[str, str], RemoteRequest] = {}

    def remote_member(self, id: str) -> RemoteMember | None:
        return self._remote.get(id)

    def remote_members(self) -> list[RemoteMember]:
        return [row for _, row in sorted(self._remote.items())]

    def keep_remote_member(self, row: RemoteMember) -> None:
        self._set(self._remote, row.id, row)

    def remote_request(self, member: str, key: str) -> RemoteRequest | None:
        return self._remote_requests.get((member, key))

    def remote_requests(self, member: str) -> list[RemoteRequest]:
        found = (row for row in self._remote_requests.values() if row.member == member)
        return sorted(found, key=lambda row: row.id)

    def keep_remote_request(self, row: RemoteRequest) -> None:
        self._set(self._remote_requests, (row.member, row.key), row)

    def drop_remote_request(self, id: int) -> None:
        if self._remote_requests:
            self._forget_requests(lambda row: row.id == id)

    def _forget_remote(self, member: str) -> None:
        if member in self._remote:
            self._pop(self._remote, member)
            self._forget_requests(lambda row: row.member == member)

    def _forget_requests(self, fits: Callable[[RemoteRequest], bool]) -> None:
        for key in [key for key, row in self._remote_requests.items() if fits(row)]:
            self._pop(self._remote_requests, key)
