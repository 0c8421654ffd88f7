"""Jobs: handed in, listed, shown, and what is done to one."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import Field
from starlette.responses import Response

from headgate.api.once import IdempotencyKey, once
from headgate.api.problems import Problem
from headgate.api.routes.job_said import JobSaid, places
from headgate.api.routes.looking import history
from headgate.api.routes.parameters import Duration, JobId, Pattern, Priority, Size, SomeLine
from headgate.api.routing import CONFLICT, NOT_FOUND, Gated, Who, answer, needs, new_router
from headgate.api.schemas import (
    MOST_ID,
    Asked,
    HistoryDocument,
    Id,
    JobsDocument,
    OutcomeDocument,
    OutcomesDocument,
    StateName,
    TemplatesDocument,
    WorkDocument,
)
from headgate.api.streams import until
from headgate.core.display import json_shapes
from headgate.core.display.json_shapes import Json
from headgate.core.display.snapshots import JobStatus
from headgate.core.jobs.states import ENDED, Word
from headgate.core.key_patterns import parse_pattern
from headgate.core.server_settings import Scope
from headgate.core.times import Seconds
from headgate.errors import UsageError
from headgate.gate import Gate
from headgate.gate.submit_jobs import Jobs
from headgate.ledger.queries.work_filter import WorkFilter
from headgate.ledger.tokens import Once
from headgate.work import job_fields
from headgate.work.check_command import check

router = new_router("jobs")
_SUBMIT = needs(Scope.SUBMIT)
_CHANGE = needs(Scope.SUBMIT, any_command=True)
_LOOK = Seconds(0.25)
_WAIT = 60
_MOST = 10_000


class BatchSaid(Asked):
    """Jobs that are handed in together: all of them, or none.

    One may come after an earlier one of the batch, by its name.
    """

    jobs: Annotated[list[JobSaid], Field(min_length=1, max_length=_MOST)]


class GraceSaid(Asked):
    """How many seconds it has to end by itself, before it is killed."""

    grace: Duration | None = None


class CancelSaid(Asked):
    """Which work: by its ids, or all that has a task, a name and a model.

    Without any of these it is all that waits or runs.
    """

    ids: Annotated[list[Id], Field(min_length=1, max_length=_MOST)] | None = None
    task: SomeLine | None = None
    name: SomeLine | None = None
    model: Pattern | None = None
    grace: Duration | None = None


class MoveSaid(Asked):
    """To where: before all others of its priority, or to another priority."""

    first: bool = False
    priority: Priority | None = None


_ITS_ID = {"parameters": {"id": "$response.body#/id"}}
_LINKED = ("show", "wait", "log", "cancel", "hold", "release", "retry", "move", "work")
_SUBMITTED: dict[int | str, dict[str, Any]] = {
    201: {"links": {name: {"operationId": name, **_ITS_ID} for name in _LINKED}},
    **CONFLICT,
}


@router.post(
    "/v1/jobs",
    status_code=201,
    response_model=WorkDocument,
    responses=_SUBMITTED,
    openapi_extra=_SUBMIT,
)
async def submit(
    body: JobSaid,
    request: Request,
    service: Gated,
    caller: Who,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Hand in a job. It is safe on disk when this answers, and waits until there is room.

    **It is run as the user that the server runs as.**
    """
    asked = await once(request, caller, idempotency_key)
    said = (body.fields(service.settings, caller), body.check_command)
    (job,) = await service.wait(lambda gate: _submit(gate, [said], asked))
    document = json_shapes.document(json_shapes.work(job))
    return answer(document, 201, Location=f"/v1/jobs/{job.id}")


@router.post(
    "/v1/batch",
    status_code=201,
    response_model=JobsDocument,
    responses=CONFLICT,
    openapi_extra=_SUBMIT,
)
async def submit_batch(
    body: BatchSaid,
    request: Request,
    service: Gated,
    caller: Who,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Hand in many jobs: all of them, or none."""
    asked = await once(request, caller, idempotency_key)
    said = [(job.fields(service.settings, caller), job.check_command) for job in body.jobs]
    jobs = await service.wait(lambda gate: _submit(gate, said, asked))
    return answer(_listed(jobs, None), 201)


def _submit(gate: Gate, said: list[tuple[Json, bool]], asked: Once | None) -> list[JobStatus]:
    names: dict[str, int] = {}
    drafts = []
    for number, (fields, checked) in enumerate(said, 1):
        try:
            draft = job_fields.read(fields, gate, names)
        except UsageError as error:
            where = f"job {number}: " if len(said) > 1 else ""
            raise UsageError(f"{where}{error}") from None
        drafts.append(draft)
        if checked:
            check([draft])
        if draft.name:
            names[draft.name] = -number
    return gate.jobs.submit(drafts, asked)


@router.get("/v1/jobs", response_model=JobsDocument)
async def list_jobs(
    service: Gated,
    *,
    state: Annotated[list[StateName] | None, Query(max_length=9)] = None,
    task: Annotated[SomeLine | None, Query()] = None,
    name: Annotated[SomeLine | None, Query()] = None,
    model: Annotated[Pattern | None, Query()] = None,
    after: Annotated[
        int, Query(ge=0, le=MOST_ID, description="The `next` of the page before.")
    ] = 0,
    size: Size = 100,
) -> Response:
    """Jobs by id: one page of those that are so. A page may be short and not the last.

    Go on with `after`, until `next` is null.
    """
    states = tuple(map(Word, dict.fromkeys(state))) if state else tuple(Word)
    wanted = WorkFilter(task=task, name=name, model=model and parse_pattern(model))
    jobs, following = await service.ask(
        lambda gate: gate.jobs.page(states, after=after, most=size, wanted=wanted)
    )
    return answer(_listed(jobs, following or None))


def _listed(jobs: list[JobStatus], following: int | None) -> Json:
    listed = [json_shapes.work(job) for job in jobs]
    return json_shapes.document({"jobs": listed, "next": following})


@router.get("/v1/templates", response_model=TemplatesDocument)
async def templates(service: Gated, caller: Who) -> Response:
    """The templates that jobs can be made of, and the arguments that each takes."""
    found = [
        {"name": name, "arguments": places(template)}
        for name, template in service.settings.templates.items()
        if not caller.templates or name in caller.templates
    ]
    return answer(json_shapes.document({"templates": found}))


@router.get("/v1/jobs/{id}", response_model=HistoryDocument, responses=NOT_FOUND)
async def show(id: JobId, service: Gated) -> Response:
    """All about a job: why it waits, since when it runs, or how it ended, and its attempts."""

    def look(gate: Gate) -> Json | None:
        return history(gate, id) if gate.job(id) is not None else None

    found = await service.ask(look)
    if found is None:
        raise _unknown(id)
    return answer(json_shapes.document(found))


@router.get("/v1/jobs/{id}/wait", response_model=WorkDocument, responses=NOT_FOUND)
async def wait(
    id: JobId,
    service: Gated,
    timeout: Annotated[float, Query(ge=0, le=_WAIT, description="Seconds.")] = 30,  # noqa: ASYNC109 - as it is called in the query
) -> Response:
    """Wait until a job has ended; as it is then, or when the time is up: ask again."""
    job = await service.shared(f"job {id}", lambda gate: gate.job(id))

    async def ended() -> JobStatus | None:
        found = job
        while found is not None and found.state not in set(ENDED):
            await asyncio.sleep(_LOOK)
            found = await service.shared(f"job {id}", lambda gate: gate.job(id))
        return found

    found = await until(service, ended(), timeout) or await service.ask(lambda gate: gate.job(id))
    if found is None:
        raise _unknown(id)
    return answer(json_shapes.document(json_shapes.work(found)))


@router.post(
    "/v1/jobs/{id}/cancel",
    response_model=OutcomeDocument,
    responses={**NOT_FOUND, **CONFLICT},
    openapi_extra=_CHANGE,
)
async def cancel(id: JobId, body: GraceSaid, service: Gated) -> Response:
    """End a job, or any other work, in any state; answers when it has ended."""

    def do(gate: Gate) -> Json | None:
        if gate.job(id) is None and history(gate, id) is None:
            return None
        outcome = gate.cancel(id, grace=body.grace)
        return json_shapes.document(json_shapes.outcome(str(id), outcome))

    found = await service.wait(do)
    if found is None:
        raise _unknown(id)
    return answer(found)


@router.post(
    "/v1/cancel", response_model=OutcomesDocument, responses=CONFLICT, openapi_extra=_CHANGE
)
async def cancel_many(body: CancelSaid, service: Gated) -> Response:
    """End many pieces of work side by side; answers when all of it has ended."""
    key = body.model and parse_pattern(body.model)
    if body.ids is not None and any((body.task, body.name, body.model)):
        text = "give ids, or task, name and model; not both"
        raise Problem("refused", text, exit_code=2)

    def do(gate: Gate) -> list[Json]:
        found = gate.cancel_all(body.ids, task=body.task, name=body.name, key=key, grace=body.grace)
        return [
            json_shapes.outcome(
                str(one.id), one.outcome, None if one.error is None else str(one.error)
            )
            for one in found
        ]

    return answer(json_shapes.document({"outcomes": await service.wait(do)}))


async def _done(service: Gated, id: int, act: Callable[[Jobs], None]) -> Response:
    """Do something to a job, and show it as it is then."""

    def do(gate: Gate) -> JobStatus | None:
        if gate.job(id) is None:
            return None
        act(gate.jobs)
        return gate.job(id)

    found = await service.ask(do)
    if found is None:
        raise _unknown(id)
    return answer(json_shapes.document(json_shapes.work(found)))


_CHANGES = {**NOT_FOUND, **CONFLICT}


@router.post(
    "/v1/jobs/{id}/hold", response_model=WorkDocument, responses=_CHANGES, openapi_extra=_CHANGE
)
async def hold(id: JobId, service: Gated) -> Response:
    """Take a waiting job out of the line until it is let go."""
    return await _done(service, id, lambda jobs: jobs.hold(id))


@router.post(
    "/v1/jobs/{id}/release", response_model=WorkDocument, responses=_CHANGES, openapi_extra=_CHANGE
)
async def release(id: JobId, service: Gated) -> Response:
    """Let a held job into the line."""
    return await _done(service, id, lambda jobs: jobs.let_go(id))


@router.post(
    "/v1/jobs/{id}/retry", response_model=WorkDocument, responses=_CHANGES, openapi_extra=_CHANGE
)
async def retry(id: JobId, service: Gated) -> Response:
    """Put a job that has ended into the line again."""
    return await _done(service, id, lambda jobs: jobs.retry(id))


@router.post(
    "/v1/jobs/{id}/move", response_model=WorkDocument, responses=_CHANGES, openapi_extra=_CHANGE
)
async def move(id: JobId, body: MoveSaid, service: Gated) -> Response:
    """Give a waiting job another place in the line."""
    return await _done(
        service, id, lambda jobs: jobs.move(id, priority=body.priority, first=body.first)
    )


def _unknown(id: int) -> Problem:
    return Problem("not_found", f"there is no job {id}; /v1/jobs lists them", exit_code=2)
