"""The tables of tokens and submissions. Nothing of them is remembered: few ask."""

from headgate.core.times import Ms
from headgate.ledger.transaction.token_rows import SubmissionRow, TokenRow
from headgate.store.sql_rows.session import Row, Session


class TokenRows(Session):
    """Tokens, and what was handed in under a key."""

    def tokens(self) -> list[TokenRow]:
        return [_token(row) for row in self._ask("tokens")]

    def token(self, id: str) -> TokenRow | None:
        return next((_token(row) for row in self._ask("token", id)), None)

    def add_token(self, row: TokenRow) -> None:
        said = row._replace(templates=",".join(row.templates))  # type: ignore[arg-type]
        self._change("add_token", *said)

    def drop_token(self, id: str) -> None:
        self._change("drop_token", id)

    def submission(self, key: str) -> SubmissionRow | None:
        return next((_submission(row) for row in self._ask("submission", key)), None)

    def add_submission(self, row: SubmissionRow) -> None:
        ids = ",".join(map(str, row.ids))
        self._change("add_submission", row.key, row.digest, ids, row.at)

    def forget_submissions(self, before: Ms) -> None:
        self._change("forget_submissions", before)


def _token(row: Row) -> TokenRow:
    id, name, scope, digest, templates, created = row
    return TokenRow(
        id=id,
        name=name,
        scope=scope,
        hash=digest,
        templates=tuple(filter(None, templates.split(","))),
        created=Ms(created),
    )


def _submission(row: Row) -> SubmissionRow:
    key, digest, ids, at = row
    found = tuple(int(id) for id in ids.split(",") if id)
    return SubmissionRow(key=key, digest=digest, ids=found, at=Ms(at))
