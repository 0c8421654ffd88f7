"""What is going on: status, capacity, plan, the line."""

import os
from typing import Annotated, Any

from fastapi import Query
from pydantic import ConfigDict, Field
from starlette.responses import Response

from headgate.api.problems import Problem
from headgate.api.routes.parameters import (
    JobId,
    Key,
    Page,
    Pattern,
    Priority,
    Roles,
    Size,
    SomeLine,
    Weight,
    Word,
)
from headgate.api.routing import NOT_FOUND, Gated, answer, needs, new_router
from headgate.api.schemas import (
    Asked,
    CapacityDocument,
    HistoryDocument,
    PlanDocument,
    QueueDocument,
    Said,
    StateName,
    StatusDocument,
)
from headgate.api.service import Service
from headgate.core.admission.candidates import Candidate, read_candidate
from headgate.core.display import json_shapes
from headgate.core.display.json_shapes import Json
from headgate.core.key_patterns import parse_pattern
from headgate.core.server_settings import Scope
from headgate.gate import Gate
from headgate.ledger.queries.work_filter import WorkFilter
from headgate.work.history import history
from headgate.work.queue_page import QueuePage

router = new_router("looking")
_MOST_CANDIDATES = 100_000


@router.get("/v1/status", response_model=StatusDocument)
async def status(service: Gated) -> Response:
    """All pools at this moment. Whoever asks at the same time is told the same."""
    return Response(await status_body(service), media_type="application/json")


async def status_body(service: Service) -> str:
    """What it answers; asked so often that it does not go through the framework."""
    return await service.shared("status", _status)


def _status(gate: Gate) -> str:
    return json_shapes.encode(json_shapes.document(json_shapes.status(gate.status())))


@router.get("/v1/capacity", response_model=CapacityDocument)
async def capacity(
    service: Gated,
    key: Annotated[Key | None, Query()] = None,
    priority: Annotated[Priority, Query()] = 0,
) -> Response:
    """Whether work with this key would be let in now, how much of it, and if not, why."""
    found = await service.ask(lambda gate: gate.capacity(key, priority=priority))
    return answer(json_shapes.document(json_shapes.capacity(found)))


class CandidateSaid(Said):
    """What might be started. Other names than these come to nothing."""

    model_config = ConfigDict(extra="allow")

    key: Key | None = None
    priority: Priority | None = None
    weight: Weight | None = None
    tokens: Annotated[int, Field(ge=0, le=10**9)] | None = None
    since: Annotated[float, Field(ge=100_000_000, le=10**10)] | None = None
    task: SomeLine | None = None
    roles: Roles | None = None
    command: Annotated[list[Word], Field(min_length=1, max_length=1_000)] | None = None
    id: Any = None
    name: Any = None


class PlanSaid(Asked):
    """The candidates."""

    candidates: Annotated[list[CandidateSaid], Field(max_length=_MOST_CANDIDATES)]


@router.post("/v1/plan", response_model=PlanDocument, openapi_extra=needs(Scope.READ))
async def plan(body: PlanSaid, service: Gated) -> Response:
    """A dry run: which of these would start now, which would wait, and why. Nothing is started."""
    entries: list[tuple[Candidate, Json]] = []

    def key_of(argv: list[str]) -> str | None:
        return service.gate.key_of(argv, os.environ)

    for number, said in enumerate(body.candidates, 1):
        record = said.model_dump(exclude_none=True, include=set(CandidateSaid.model_fields))
        echo: Json = {name: record.pop(name) for name in ("id", "name") if name in record}
        candidate, wrong = read_candidate({**record, **_names(echo)}, key_of)
        if candidate is None:
            raise Problem("invalid_request", f"candidate {number}: {'; '.join(wrong)}", exit_code=2)
        entries.append((candidate, echo))

    def do(gate: Gate) -> Json:
        found = gate.plan(candidate for candidate, _ in entries)
        verdicts = [
            json_shapes.verdict(verdict, line, echo)
            for line, ((_, echo), verdict) in enumerate(
                zip(entries, found.verdicts, strict=True), 1
            )
        ]
        return json_shapes.document(json_shapes.plan(found, verdicts))

    return answer(await service.wait(do))


def _names(echo: Json) -> Json:
    return {name: value for name, value in echo.items() if isinstance(value, str)}


@router.get("/v1/queue", response_model=QueueDocument)
async def queue(
    service: Gated,
    *,
    pool: Annotated[Pattern | None, Query()] = None,
    task: Annotated[SomeLine | None, Query()] = None,
    model: Annotated[Pattern | None, Query()] = None,
    name: Annotated[SomeLine | None, Query()] = None,
    state: Annotated[StateName | None, Query()] = None,
    page: Page = 1,
    size: Size = 100,
    ended: Annotated[bool, Query(description="Whether to list what has ended, too.")] = False,
) -> Response:
    """What runs and what waits, in the order of the line: one page of it."""
    wanted = WorkFilter(
        pool=pool and parse_pattern(pool),
        task=task,
        model=model and parse_pattern(model),
        name=name,
    )
    look = QueuePage(wanted, state=state, size=size, page=page, ended=ended)
    found = await service.wait(look.find)
    return answer(json_shapes.document(json_shapes.queue(*found)))


@router.get("/v1/work/{id}", response_model=HistoryDocument, responses=NOT_FOUND)
async def work(id: JobId, service: Gated) -> Response:
    """All about a piece of work: why it waits, since when it runs, or how it ended."""
    found = await service.ask(lambda gate: history(gate, id))
    if found is None:
        raise Problem("not_found", f"nothing is known of {id}", exit_code=2)
    return answer(json_shapes.document(found.json()))
