"""Events as they happen, for any number of watchers: the store is asked once for all of them.

While anybody watches, one task looks for new events several times a second, and keeps the last
ones. A watcher has a place of its own; one that has fallen behind, or comes from before, reads what
it has missed from the store.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress

from headgate.api.service import Service
from headgate.api.streams import Sent
from headgate.core.display import json_shapes
from headgate.core.display.snapshots import Event
from headgate.core.times import Seconds
from headgate.errors import StoreError

_LOOK = Seconds(0.1)
_AGAIN = Seconds(1)
_KEPT = 2_000
_BATCH = 1_000


class EventFeed:
    """The events of one store, for those who watch."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._kept: deque[Event] = deque(maxlen=_KEPT)
        self._last = -1
        self._news = asyncio.Event()
        self._watchers = 0
        self._task: asyncio.Task[None] | None = None

    async def watch(self, after: int | None) -> AsyncIterator[Event]:
        """What happens after an event; from now on if none is named."""
        self._watchers += 1
        try:
            place = await self._begin() if after is None else after
            while True:
                news = self._news
                found = self._after(place)
                if found is None:
                    found = await self._missed(place)
                for event in found:
                    yield event
                    place = event.seq
                if not found and place >= self._last:  # else it happened while we looked
                    await news.wait()
        finally:
            self._watchers -= 1
            if not self._watchers and self._task is not None:
                self._task.cancel()
                self._task = None
                self._kept.clear()
                self._last = -1

    async def _begin(self) -> int:
        """Have somebody look, and know which event is the last."""
        latest = await self._service.shared("last event", lambda gate: gate.events(most=1))
        last = latest[-1].seq if latest else 0
        self._look_from(last)
        return last

    def _look_from(self, last: int) -> None:
        if self._task is None:
            self._last = last
            self._task = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while True:
            try:
                last = self._last
                found = await self._service.ask(
                    lambda gate: gate.events(after=last, most=_BATCH)  # noqa: B023 - awaited here
                )
            except StoreError:
                await asyncio.sleep(_AGAIN)
                continue
            if found:
                self._kept.extend(found)
                self._last = found[-1].seq
                news, self._news = self._news, asyncio.Event()
                news.set()
            if len(found) < _BATCH:
                await asyncio.sleep(_LOOK)

    def _after(self, place: int) -> list[Event] | None:
        """What is kept from after a place; None if something before it may be missing."""
        if self._task is None or place > self._last:
            return None
        if place == self._last:
            return []
        if not self._kept or self._kept[0].seq > place + 1:
            return None
        found = []
        for event in reversed(self._kept):
            if event.seq <= place:
                break
            found.append(event)
        return found[::-1]

    async def _missed(self, place: int) -> list[Event]:
        """What the store knows from after a place."""
        found = await self._service.ask(lambda gate: gate.events(after=place, most=_BATCH))
        if not found:
            latest = await self._begin()
            if self._task is not None and place > max(latest, self._last):
                with suppress(TimeoutError):  # a number from the future: nothing comes for long
                    await asyncio.wait_for(self._news.wait(), _AGAIN)
        return list(found)


def sent(event: Event) -> Sent:
    """An event as it goes over the wire."""
    shown = json_shapes.document(json_shapes.event(event))
    return Sent(event.event, shown, id=str(event.seq))
