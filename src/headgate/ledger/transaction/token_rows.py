"""The rows of those who come from elsewhere: their tokens, and what they have handed in."""

from typing import Protocol

from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Ms


class TokenRow(NamedTuple):
    """A token. What its owner shows is not kept, only a hash of it."""

    id: str
    name: str
    scope: str
    hash: str
    templates: tuple[str, ...]
    """The command templates that jobs may be made of; none for any command."""
    created: Ms


class SubmissionRow(NamedTuple):
    """What was handed in under a key."""

    key: str
    digest: str
    """Of what was asked for."""
    ids: tuple[int, ...]
    at: Ms


class TokenTx(Protocol):
    """The part of a transaction that is about these."""

    def tokens(self) -> list[TokenRow]:
        """All tokens, the oldest first."""

    def token(self, id: str) -> TokenRow | None:
        """A token."""

    def add_token(self, row: TokenRow) -> None:
        """Keep a token."""

    def drop_token(self, id: str) -> None:
        """Forget a token."""

    def submission(self, key: str) -> SubmissionRow | None:
        """What was handed in under a key."""

    def add_submission(self, row: SubmissionRow) -> None:
        """Remember it."""

    def forget_submissions(self, before: Ms) -> None:
        """Forget what is older."""
