"""The face for those who hand out tokens, and who look at what they are shown.

A token is `hg_`, its id, and 256 random bits. The store keeps a hash of it: nobody can make it
again from that, and nothing slower than SHA-256 is needed where nothing can be guessed.
"""

import hashlib
import hmac
import os
import re
from collections.abc import Sequence

from headgate.core.named_tuple import NamedTuple
from headgate.core.quantities import parse_task
from headgate.core.server_settings import Scope
from headgate.core.times import Ms, Seconds, seconds
from headgate.errors import UsageError
from headgate.gate.process_runtime import Runtime
from headgate.ledger import tokens
from headgate.ledger.transaction.ledger import Ledger
from headgate.ledger.transaction.token_rows import TokenRow

_SHAPE = re.compile(r"hg_([0-9a-f]{8})_([A-Za-z0-9_-]{43})\Z")


class TokenStatus(NamedTuple):
    """What is shown of a token: everything but itself."""

    id: str
    name: str
    scope: Scope
    templates: tuple[str, ...]
    created: Seconds


class Tokens:
    """The tokens of a store."""

    def __init__(self, runtime: Runtime) -> None:
        self._transactor = runtime.transactor

    def create(
        self, scope: Scope, name: str = "", templates: Sequence[str] = ()
    ) -> tuple[TokenStatus, str]:
        """Make a token: what is shown of it from now on, and itself, which is told only now."""
        import secrets

        id, secret = os.urandom(4).hex(), secrets.token_urlsafe(32)
        name = parse_task(name, "name") or id
        if tokens.known_id(name) and name != id:
            raise UsageError(f"bad name {name!r}: it looks like an id; choose another")

        def do(ledger: Ledger) -> TokenStatus:
            row = TokenRow(
                id=id,
                name=name,
                scope=scope.value,
                hash=_hash(secret),
                templates=tuple(templates),
                created=ledger.now,
            )
            tokens.create(ledger, row)
            return _status(row)

        return self._transactor.run(do), f"hg_{id}_{secret}"

    def list(self) -> list[TokenStatus]:
        """All tokens, the oldest first."""
        return self._transactor.look(lambda ledger: [_status(row) for row in ledger.tx.tokens()])

    def revoke(self, name: str) -> TokenStatus:
        """Have nobody use a token any more, by its name or its id."""
        return _status(self._transactor.run(lambda ledger: tokens.revoke(ledger, name)))

    def find(self, shown: str) -> TokenStatus | None:
        """The token that somebody shows; None if it is none, or none any more."""
        match = _SHAPE.match(shown)
        if match is None:
            return None
        row = self._transactor.look(lambda ledger: ledger.tx.token(match[1]))
        if row is None or not hmac.compare_digest(row.hash, _hash(match[2])):
            return None
        return _status(row)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _status(row: TokenRow) -> TokenStatus:
    return TokenStatus(
        id=row.id,
        name=row.name,
        scope=Scope(row.scope),
        templates=row.templates,
        created=seconds(Ms(row.created)),
    )
