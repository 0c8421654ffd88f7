"""Tokens and submissions in the memory of one process."""

from headgate.core.times import Ms
from headgate.ledger.transaction.token_rows import SubmissionRow, TokenRow
from headgate.store.memory_requests import MemoryRequestRows


class MemoryTokenRows(MemoryRequestRows):
    """The tables of tokens and submissions, beside those of requests."""

    def __init__(self) -> None:
        super().__init__()
        self._tokens: dict[str, TokenRow] = {}
        self._submissions: dict[str, SubmissionRow] = {}

    def tokens(self) -> list[TokenRow]:
        return sorted(self._tokens.values(), key=lambda row: (row.created, row.id))

    def token(self, id: str) -> TokenRow | None:
        return self._tokens.get(id)

    def add_token(self, row: TokenRow) -> None:
        self._set(self._tokens, row.id, row)

    def drop_token(self, id: str) -> None:
        self._pop(self._tokens, id)

    def submission(self, key: str) -> SubmissionRow | None:
        return self._submissions.get(key)

    def add_submission(self, row: SubmissionRow) -> None:
        self._set(self._submissions, row.key, row)

    def forget_submissions(self, before: Ms) -> None:
        for row in list(self._submissions.values()):
            if row.at < before:
                self._pop(self._submissions, row.key)
