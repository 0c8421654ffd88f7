"""All routes, put together, and what becomes of everything that goes wrong in one."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response

import headgate
from headgate.api import concurrency, docs_page
from headgate.api.event_feed import EventFeed
from headgate.api.guard import Guard
from headgate.api.problems import Problem, problem_of
from headgate.api.routes import ROUTERS, looking
from headgate.api.service import Service
from headgate.errors import HeadgateError

_TEXT = """\
What the command line can do, for programs. Times are ISO 8601 in UTC, durations are seconds, and
what went wrong is told as RFC 9457 has it, with a stable `code`.

Processes of the user that the server runs as need no token. Everybody else sends
`Authorization: Bearer TOKEN`. `x-headgate-scope` says which scope an operation needs. **Whoever may
submit jobs can run any command as the server's user**, unless the token or the configuration
restricts them to templates.
"""
_MOST_MISTAKES = 20
_NAME = re.compile(r"[A-Za-z0-9_]+\Z")
"""What is a name or a number; the framework also tells of its own parts."""
_ALL = (*ROUTERS, concurrency.router, docs_page.router)


def make_app(service: Service) -> Guard:
    """The whole of it: every request goes through the guard."""
    import asyncio

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        follower = asyncio.create_task(service.follow_configuration())
        yield
        follower.cancel()
        with suppress(asyncio.CancelledError):
            await follower

    app = FastAPI(
        title="headgate",
        version=headgate.__version__,
        description=_TEXT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        exception_handlers={
            Problem: _problem,
            HeadgateError: _error,
            RequestValidationError: _invalid,
            HTTPException: _http,
        },
        generate_unique_id_function=_name,
    )
    app.state.service = service
    app.state.events = EventFeed(service)
    for router in _ALL:
        app.include_router(router)
    return Guard(app, service, {"/v1/status": looking.status_body})


def _name(route: APIRoute) -> str:
    return route.name


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)  # noqa: S101 - what it is registered for
    return error.response()


async def _error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HeadgateError)  # noqa: S101 - as above
    return problem_of(error).response()


async def _invalid(_: Request, error: Exception) -> Response:
    """What is wrong, and where; never what was found there, which may be secret."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as above
    found = [
        {"at": "/".join(filter(_NAME.match, map(str, one["loc"]))), "text": str(one["msg"])}
        for one in error.errors()[:_MOST_MISTAKES]
    ]
    if any(one["type"] == "json_invalid" for one in error.errors()):
        return Problem("invalid_json", "expected an object of JSON", exit_code=2).response()
    text = "; ".join(f"{one['at']}: {one['text']}" for one in found)
    return Problem("invalid_request", text, exit_code=2, mistakes=found).response()


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - as above
    if isinstance(error.__cause__, Problem):  # while the body was read
        return error.__cause__.response()
    match error.status_code:
        case 404:
            found = Problem("not_found", "there is no such path; /v1/openapi.json lists them")
        case 405:
            allowed = ", ".join(sorted(_methods(request.url.path)))
            text = f"it can be asked with {allowed}"
            found = Problem("method_not_allowed", text, headers={"Allow": allowed})
        case _:
            found = Problem("bad_request", "the request cannot be read")
    return found.response()


def _methods(path: str) -> set[str]:
    """With which methods a path can be asked."""
    routes = [route for router in _ALL for route in router.routes if isinstance(route, APIRoute)]
    return {name for it in routes if it.path_regex.match(path) for name in it.methods or ()}
