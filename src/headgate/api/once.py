"""Requests that can be made again without being done again, by their Idempotency-Key.

The key is its maker's: two callers may use the same. What was asked for under it is compared, so
that a key that was used for something else is refused. `ledger/tokens.once` keeps it with what was
done, in the same transaction.
"""

import hashlib
from typing import Annotated

from fastapi import Header, Request

from headgate.api.routing import Caller
from headgate.ledger.tokens import Once

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        pattern=r"^[!-~]+$",
        description="The same for each try of one request: what was done is not done again.",
    ),
]
"""A parameter `idempotency_key` of a handler."""


async def once(request: Request, caller: Caller, key: str | None) -> Once | None:
    """Under which key it was asked, and what for; None if no key was given."""
    if key is None:
        return None
    body = await request.body()
    asked = b"\0".join([request.method.encode(), request.url.path.encode(), body])
    return Once(f"{caller.name}\0{key}", hashlib.sha256(asked).hexdigest())
