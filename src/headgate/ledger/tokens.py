"""Tokens of those who come from elsewhere, and submissions that are not made twice."""

from collections.abc import Callable

from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Ms
from headgate.errors import UsageError
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.token_rows import SubmissionRow, TokenRow

MOST_TOKENS = 1_000
_REMEMBERED = Ms(24 * 3_600_000)
"""For how long it is known what was handed in under a key."""


class Once(NamedTuple):
    """A submission that its maker may repeat, because it may not hear the answer."""

    key: str
    """Unique for its maker, who is part of it."""
    digest: str
    """Of what is asked for."""


def create(ledger: Ledger, row: TokenRow) -> None:
    """Keep a token."""
    tokens = ledger.tx.tokens()
    if any(known.name == row.name for known in tokens):
        raise UsageError(
            f"there is a token {row.name!r} already; choose another name, or revoke it first: "
            f"headgate token revoke {row.name}"
        )
    if len(tokens) >= MOST_TOKENS:
        raise UsageError(f"there are {MOST_TOKENS} tokens already; revoke some of them")
    ledger.tx.add_token(row)
    ledger.tell("token_created", f"{row.name}, scope {row.scope}")


def known_id(text: str) -> bool:
    """Whether a text looks like the id of a token."""
    return len(text) == 8 and all(letter in "0123456789abcdef" for letter in text)


def revoke(ledger: Ledger, name: str) -> TokenRow:
    """Forget a token, by its name or its id."""
    for row in ledger.tx.tokens():
        if name in {row.name, row.id}:
            ledger.tx.drop_token(row.id)
            ledger.tell("token_revoked", f"{row.name}, scope {row.scope}")
            return row
    raise UsageError(f"there is no token {name!r}; see headgate token list")


def once(ledger: Ledger, asked: Once | None, do: Callable[[], list[int]]) -> list[int]:
    """Do it, or find out what came of it when it was done under the same key."""
    if asked is None:
        return do()
    known = ledger.tx.submission(asked.key)
    if known is not None and known.at > ledger.now - _REMEMBERED:
        if known.digest != asked.digest:
            raise UsageError(
                "bad Idempotency-Key: it was used for something else; give each request its own"
            )
        return list(known.ids)
    ids = do()
    ledger.tx.forget_submissions(Ms(ledger.now - _REMEMBERED))
    ledger.tx.add_submission(
        SubmissionRow(key=asked.key, digest=asked.digest, ids=tuple(ids), at=ledger.now)
    )
    return ids
