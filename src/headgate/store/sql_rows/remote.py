"""The tables of clients on other machines. Nothing of them is remembered: few ask."""

from headgate.ledger.transaction.remote_rows import RemoteMember, RemoteRequest
from headgate.store.sql_rows.session import Session


class RemoteRows(Session):
    """Clients on other machines, and what they have asked for."""

    def remote_member(self, id: str) -> RemoteMember | None:
        return next((RemoteMember._make(row) for row in self._ask("remote_member", id)), None)

    def remote_members(self) -> list[RemoteMember]:
        return [RemoteMember._make(row) for row in self._ask("remote_members")]

    def keep_remote_member(self, row: RemoteMember) -> None:
        self._change("keep_remote_member", *row)

    def remote_request(self, member: str, key: str) -> RemoteRequest | None:
        rows = self._ask("remote_request", member, key)
        return next((RemoteRequest._make(row) for row in rows), None)

    def remote_requests(self, member: str) -> list[RemoteRequest]:
        rows = [RemoteRequest._make(row) for row in self._ask("remote_requests", member)]
        return sorted(rows, key=lambda row: row.id)

    def keep_remote_request(self, row: RemoteRequest) -> None:
        self._change("keep_remote_request", *row)

    def drop_remote_request(self, id: int) -> None:
        self._change("drop_remote_request", id)
