"""What a job has printed: all of its last attempt, or as it comes."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import closing
from functools import partial
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response, StreamingResponse

from headgate.api.problems import Problem
from headgate.api.routes.parameters import JobId
from headgate.api.routing import CONFLICT, NOT_FOUND, Gated, caller_of, new_router
from headgate.api.service import Service
from headgate.api.streams import still_counts
from headgate.core.display.snapshots import JobStatus
from headgate.core.jobs.states import ENDED
from headgate.core.times import Seconds
from headgate.errors import UsageError
from headgate.gate import Gate
from headgate.work.read_output import CHUNK, open_output, output_path, parts, start_of_last

router = new_router("output")
_TYPE = "text/plain; charset=utf-8"
_LOOK = Seconds(0.2)
_ASK_TOKEN = 50
_TEXT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The output, as it was written",
        "content": {_TYPE: {"schema": {"type": "string"}}},
    }
}


class _File:
    """An open log, and how far it was read."""

    def __init__(self, fd: int, at: int) -> None:
        self._fd = fd
        self._at = at

    @property
    def is_open(self) -> bool:
        """Whether there is one."""
        return self._fd >= 0

    def more(self) -> bytes:
        """What comes next; empty if there is nothing so far. What was given back is left out."""
        if not self.is_open:
            return b""
        for start, end in parts(self._fd, self._at, os.fstat(self._fd).st_size):
            data = os.pread(self._fd, min(CHUNK, end - start), start)
            self._at = start + len(data)
            return data
        return b""

    def close(self) -> None:
        """Let go of it."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


@router.get(
    "/v1/jobs/{id}/log",
    response_class=Response,
    responses={**_TEXT, **NOT_FOUND, **CONFLICT},
)
async def log(
    id: JobId,
    request: Request,
    service: Gated,
    *,
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
    lines: Annotated[int | None, Query(ge=0, le=1_000_000, description="The last ones.")] = None,
    follow: Annotated[bool, Query(description="Go on until the job has ended.")] = False,
) -> Response:
    """What a job has printed: of its last attempt, or of the one that is asked for.

    With `follow`, all attempts from the last one on, until the job has ended.
    """
    job = await service.ask(lambda gate: gate.job(id))
    if job is None:
        raise Problem("not_found", f"there is no job {id}; /v1/jobs lists them", exit_code=2)
    if follow and attempt is not None:
        raise Problem("refused", "follow goes with the last attempt only", exit_code=2)
    if follow:
        body = _follow(service, caller_of(request).token, job, lines)
        return StreamingResponse(body, media_type=_TYPE)
    number = attempt or job.attempts
    if not 0 < number <= job.attempts:
        raise Problem("not_found", f"job {id} has {job.attempts} attempts so far", exit_code=2)
    file = await service.ask(lambda gate: _open(gate, id, number, lines))
    return StreamingResponse(_whole(service, file), media_type=_TYPE)


def _open(gate: Gate, id: int, attempt: int, lines: int | None) -> _File:
    try:
        fd = open_output(id, output_path(gate, id, attempt))
    except UsageError:  # where it was, is nobody's business
        raise Problem("not_found", f"the output of job {id} is gone", exit_code=2) from None
    return _File(fd, start_of_last(fd, lines))


async def _whole(service: Service, file: _File) -> AsyncIterator[bytes]:
    with closing(file):
        while data := await service.ask(partial(_more, file)):
            yield data


async def _follow(
    service: Service, token: str, job: JobStatus, lines: int | None
) -> AsyncIterator[bytes]:
    """What comes, over all attempts. It ends with the job, the server, or the token."""
    number, file = max(1, job.attempts), _File(-1, 0)
    looks = 0
    try:
        while not service.draining.is_set():
            found = await service.shared(f"job {job.id}", lambda gate: gate.job(job.id))
            if found is None:
                return
            if not file.is_open:
                file = await service.ask(partial(_open_if_there, job.id, number, lines))
                lines = None if file.is_open else lines
            while data := await service.ask(partial(_more, file)):
                yield data
            if found.attempts > number:
                file.close()
                number, file = number + 1, _File(-1, 0)
                continue
            if found.state in set(ENDED):
                return
            looks += 1
            if looks % _ASK_TOKEN == 0 and not await still_counts(service, token):
                return
            await asyncio.sleep(_LOOK)
    finally:
        file.close()


def _open_if_there(id: int, attempt: int, lines: int | None, gate: Gate) -> _File:
    if not os.path.lexists(output_path(gate, id, attempt)):
        return _File(-1, 0)
    return _open(gate, id, attempt, lines)


def _more(file: _File, _: Gate) -> bytes:
    return file.more()
