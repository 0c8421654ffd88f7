"""What happened, and what happens."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Header, Query, Request
from starlette.responses import Response, StreamingResponse

from headgate.api.event_feed import EventFeed, sent
from headgate.api.routes.parameters import Size
from headgate.api.routing import Gated, answer, new_router
from headgate.api.schemas import MOST_ID, EventsDocument, Id
from headgate.api.streams import MEDIA_TYPE, Sent, stream
from headgate.core.display import json_shapes
from headgate.core.events import EVENTS

router = new_router("events")
_KINDS = sorted(kind for kinds in EVENTS.values() for kind in kinds)
Kind = Annotated[str, Query(pattern=r"^[a-z_]{1,40}$", examples=_KINDS[:1])]
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events; each has its `seq` for an id, and an event for data",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
    }
}
_Last = Annotated[
    str | None,
    Header(pattern=r"^[0-9]{1,18}$", description="The id of the last event that was seen."),
]


@router.get("/v1/events", response_model=EventsDocument)
async def events(
    service: Gated,
    after: Annotated[int | None, Query(ge=0, le=MOST_ID)] = None,
    size: Size = 100,
) -> Response:
    """What happened after an event, or the latest. Go on after `last`."""
    place = -1 if after is None else after
    found = await service.ask(lambda gate: gate.events(after=place, most=size))
    last = found[-1].seq if found else after
    listed = [json_shapes.event(event) for event in found]
    return answer(json_shapes.document({"events": listed, "last": last}))


@router.get("/v1/events/stream", response_class=StreamingResponse, responses=_STREAM)
async def event_stream(
    request: Request,
    *,
    last_event_id: _Last = None,
    after: Annotated[int | None, Query(ge=0, le=MOST_ID)] = None,
    work: Annotated[Id | None, Query(description="Only what is about this work.")] = None,
    kind: Annotated[list[Kind] | None, Query(max_length=100)] = None,
) -> Response:
    """What happens from now on, or after the event of `Last-Event-ID` or `after`, as it happens."""
    feed: EventFeed = request.app.state.events
    said = after if last_event_id is None else int(last_event_id)
    place = await feed.latest() if said is None else said  # known before anything is answered

    async def wanted() -> AsyncIterator[Sent]:
        async for event in feed.watch(place):
            if (work is None or event.work == work) and (not kind or event.event in kind):
                yield sent(event)

    return stream(request, wanted())
