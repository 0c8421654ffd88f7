"""Seats that are held at a server."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from headgate.core.answers.signals import Signal
from headgate.core.times import Ms, Seconds, seconds
from headgate.gate.lease import Lease, LeaseOwner


class RemoteOwner(LeaseOwner, Protocol):
    """What such a lease asks of the client that holds it."""

    def signal(self, lease: Lease, said: Mapping[str, object]) -> None:
        """Have the server know what upstream said to a lease; does not wait."""


class RemoteLease(Lease):
    """All the seats that one admitted piece of work holds at a server."""

    def __init__(
        self,
        owner: RemoteOwner,
        id: int,
        *,
        key: str,
        task: str,
        weight: int,
        mark: str,
        waited: Seconds,
    ) -> None:
        super().__init__(owner, id, key=key, task=task, weight=weight, mark=mark, waited=waited)
        self._server = owner
        self.taken_at = 0
        """When it was granted, on the clock that counts sleep."""
        self.mark = mark
        self.member = ""
        """As which member it is held."""

    def report(
        self,
        signal: str,
        *,
        retry_after: float | str | None = None,
        tokens: int | None = None,
        account: bool = False,
        note: str = "",
    ) -> None:
        """Tell what upstream said to this piece of work; returns at once."""
        from headgate.core.answers.signals import parse_signal, parse_wait
        from headgate.core.quantities import parse_task, parse_tokens

        wait = parse_wait(retry_after)
        self._server.signal(
            self,
            {
                "signal": parse_signal(signal),
                "retry_after": None if wait is None else seconds(wait),
                "tokens": None if tokens is None else parse_tokens(tokens),
                "account": account,
                "note": parse_task(note, "note"),
            },
        )

    def tell(self, signal: Signal) -> None:
        """The same, for a signal that was read off an answer or off a program's output."""
        wait = None if signal.retry_after is None else seconds(signal.retry_after)
        said = {"signal": signal.kind, "retry_after": wait}
        self._server.signal(self, {**said, "account": signal.account, "note": signal.note})

    def still_refused(self, signal: Signal, length: Ms) -> None:
        """Tell that it still waits because of a signal."""
        self.tell(signal._replace(retry_after=length))

    def answered(
        self,
        status: int,
        headers: Mapping[str, str] | Iterable[tuple[str, str]],
        body: str | bytes | None = b"",
    ) -> str | None:
        """Learn from an HTTP answer to this piece of work; returns the signal that it was."""
        import time

        from headgate.core.answers.classify import Response, classify

        pairs = headers.items() if hasattr(headers, "items") else headers
        plain = {str(name): str(value) for name, value in pairs}
        text = body if isinstance(body, str) else bytes(body or b"")
        provider = self.key.partition("/")[0]
        response = Response(int(status), plain, text, provider)
        found = classify(response, Seconds(time.time()), self._server.rules())
        if found is None:
            return None
        self.tell(found)
        return found.kind
