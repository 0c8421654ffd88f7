"""What the process beside an agent tells its runner, and what the watch over it makes of that."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from headgate.core.agents.agent_watch import AgentWatch
from headgate.core.agents.find_profile import GENERIC
from headgate.core.agents.run_limits import RunLimits
from headgate.core.times import Ms
from headgate.wire.exchange import WireExchange
from headgate.wire.exchange_owner import ExchangeRecord
from headgate.wire.hear_wire import hear_wire
from headgate.wire.order import WireOrder
from headgate.wire.policy import WirePolicy
from headgate.wire.supervise import Wire
from tests.support import Box

OPUS = "anthropic/claude-opus-4-6"
ENDED = ExchangeRecord(OPUS, "", 200, "complete", 0.0, 0.1, 0.2)


class Asked:
    """A request that a model works for."""

    counts = True

    def __init__(self, conversation: str = "") -> None:
        self.conversation = conversation


class Told:
    """Stands where a runner's side of the wire is: hands on what the policy told, as it came."""

    def __init__(self, box: Box) -> None:
        order = WireOrder(
            store=box.url,
            config="",
            view="",
            lease=7,
            mark="x.7",
            key=OPUS,
            task="t",
            meter="wire",
            port=0,
            upstreams={},
        )
        self._news: list[dict[str, Any]] = []
        self.policy = WirePolicy(order, box.gate(), self._tell)

    def _tell(self, news: Mapping[str, Any]) -> None:
        self._news.append(dict(news))

    def news(self) -> list[dict[str, Any]]:
        found, self._news = self._news, []
        return found

    def ask(self, conversation: str = "") -> WireExchange:
        exchange = cast("WireExchange", Asked(conversation))
        self.policy.begun(exchange)
        return exchange


def test_a_request_that_follows_a_tool_is_told_at_once(box: Box) -> None:
    """However short the tool was: an upstream that hangs then is a stall, and no long tool."""

    async def test() -> None:
        told = Told(box)
        watch = AgentWatch(GENERIC, RunLimits(stale_after=Ms(60_000)), (), "", Ms(0))
        told.policy.ended(told.ask(), ENDED._replace(tools=("Bash#1",)))
        hear_wire(cast("Wire", told), watch, Ms(1_000))
        assert watch.verdict(Ms(900_000)) is None
        told.ask()
        hear_wire(cast("Wire", told), watch, Ms(2_000))
        assert watch.due(Ms(2_000)) == 62_000

    asyncio.run(test())


def test_another_request_beside_a_tool_changes_nothing(box: Box) -> None:
    """A title that is written meanwhile is another conversation, or was asked for before."""

    async def test() -> None:
        told = Told(box)
        watch = AgentWatch(GENERIC, RunLimits(stale_after=Ms(60_000)), (), "", Ms(0))
        before, main = told.ask("main"), told.ask("main")
        told.policy.ended(main, ENDED._replace(tools=("Bash#1",), conversation="main"))
        told.policy.ended(before, ENDED._replace(conversation="main"))
        told.policy.ended(told.ask("title"), ENDED._replace(conversation="title"))
        hear_wire(cast("Wire", told), watch, Ms(1_000))
        assert watch.verdict(Ms(900_000)) is None
        told.ask("main")
        hear_wire(cast("Wire", told), watch, Ms(900_000))
        assert watch.due(Ms(900_000)) == 960_000

    asyncio.run(test())


def test_bytes_that_pass_are_told_once_a_second(box: Box) -> None:
    """A stream of a thousand events is one sign of life; its end is told whenever it comes."""

    async def test() -> None:
        told = Told(box)
        exchange = told.ask()
        for _ in range(1_000):
            told.policy.heard()
        told.policy.ended(exchange, ENDED)
        assert [next(iter(one)) for one in told.news()] == ["heard", "ended"]

    asyncio.run(test())
