"""What exchanges tell their owner, and what they ask of it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from headgate.core.answers.answer_rules import Rule
from headgate.core.answers.signals import Signal
from headgate.core.named_tuple import NamedTuple
from headgate.core.times import Seconds
from headgate.core.wire.token_usage import NO_USAGE, Usage
from headgate.proxy import Route


class Destination(NamedTuple):
    """Where a request goes on to."""

    route: Route
    provider: str
    """As in a key; empty if nobody knows."""
    path: str


class ExchangeRecord(NamedTuple):
    """What is known of a request when it has ended. Times are seconds."""

    key: str
    task: str
    status: int
    outcome: str
    waited: float
    first_byte: float | None
    took: float
    usage: Usage = NO_USAGE
    tries: int = 1
    refused: int = 0
    """How often upstream refused it."""
    tools: Sequence[str] = ()
    """The tools that the agent was told to call, as far as that could be seen."""
    conversation: str = ""
    """Which of the agent's conversations it belongs to, as its headers tell."""
    failed: bool = False
    """Whether an answer that began well said later that something went wrong."""

    @property
    def served(self) -> bool:
        """Whether upstream did what it was asked for."""
        return self.outcome == "complete" and self.status < 400 and not self.failed


class RunningExchange(Protocol):
    """A request that is on its way."""

    conversation: str
    """Which of the agent's conversations it belongs to, as its headers tell."""

    @property
    def counts(self) -> bool:
        """Whether a model works for it."""


class ExchangeOwner(Protocol):
    """What exchanges tell, and what they ask for."""

    patience: Seconds
    rules: "tuple[Rule, ...]"

    def begun(self, exchange: RunningExchange) -> None:
        """A request has come."""

    def heard(self) -> None:
        """Something passes."""

    def told(self, key: str, headers: Mapping[str, str]) -> None:
        """An answer has come, with these headers."""

    def accepted(self, key: str) -> None:
        """Upstream has accepted a request."""

    def refused(self, key: str, signal: Signal) -> None:
        """Upstream has refused a request."""

    def passed_on(self, key: str, signal: Signal) -> None:
        """The agent is told of a refusal."""

    def answered(self, key: str, status: int, *, tools: Sequence[str], served: bool) -> None:
        """An answer is over that is no exchange of its own, as in a WebSocket."""

    def ended(self, exchange: RunningExchange, record: ExchangeRecord) -> None:
        """A request is over."""
