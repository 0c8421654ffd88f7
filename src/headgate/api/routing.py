"""Routers whose routes say which scope they need, and are not reached without it.

    router = new_router("jobs")

    @router.post("/v1/jobs/{id}/hold", openapi_extra=needs(Scope.ADMIN))
    async def hold(id: JobId, service: Gated) -> Response:
        ...

What is said of nothing needs ADMIN, and a GET needs READ. The scope is checked before anything of
the body is read.
"""

from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from headgate.api.problems import Problem
from headgate.api.schemas import ProblemDetails
from headgate.api.service import Service
from headgate.core.display.json_shapes import Json, encode
from headgate.core.named_tuple import NamedTuple
from headgate.core.server_settings import Scope, ServerSettings

SCOPE = "x-headgate-scope"
ANY_COMMAND = "x-headgate-not-for-templates"


class Caller(NamedTuple):
    """Who asks."""

    name: str
    """For logs: `owner`, `token:NAME`, or `open`."""
    scope: Scope
    templates: tuple[str, ...] = ()
    """The templates that jobs may be made of; none for any command."""
    token: str = ""
    """What was shown, to see whether it still counts; never shown or logged."""

    @property
    def owner(self) -> bool:
        """Whether it is a process of the user that the server runs as."""
        return self.name == "owner"


def needs(scope: Scope, *, any_command: bool = False) -> dict[str, Any]:
    """What a route says about who may use it; `any_command`: nobody who is bound to templates."""
    return {SCOPE: scope.value} | ({ANY_COMMAND: True} if any_command else {})


def is_bound(caller: Caller, settings: ServerSettings) -> bool:
    """Whether somebody can make jobs of templates only, and touch no others."""
    if caller.owner or not caller.scope.covers(Scope.SUBMIT):
        return False
    return settings.only_templates or bool(caller.templates)


class ScopedRoute(APIRoute):
    """A route that is not reached without its scope."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request, if its caller may ask."""
        handle = super().get_route_handler()
        said = (self.openapi_extra or {}).get(SCOPE)
        usual = Scope.READ if self.methods == {"GET"} else Scope.ADMIN
        wanted = Scope(said) if said else usual
        any_command = (self.openapi_extra or {}).get(ANY_COMMAND, False)

        async def guarded(request: Request) -> Response:
            caller = caller_of(request)
            if not caller.scope.covers(wanted):
                raise Problem(
                    "small_scope",
                    f"the token has the scope {caller.scope.value}, and this needs {wanted.value}: "
                    f"headgate token create --scope {wanted.value}",
                    exit_code=125,
                )
            if any_command and is_bound(caller, service_of(request).settings):
                text = "who can make jobs of templates only can do nothing to those of others"
                raise Problem("only_templates", text, exit_code=125)
            return await handle(request)

        return guarded


_EVERYWHERE: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "model": ProblemDetails}
    for status, text in {
        400: "The request makes no sense",
        401: "A token is needed",
        403: "The caller may not do this",
        409: "It cannot be done as things are",
        408: "The request took too long to arrive",
        413: "The body is too large",
        415: "The body has to be application/json",
        422: "Something in the request is not as it has to be",
        431: "The head of the request is too large",
        500: "A mistake in headgate, or in its configuration",
        503: "The server is being stopped, or the store does not answer",
        507: "The store's disk is full",
    }.items()
}
NOT_FOUND: dict[int | str, dict[str, Any]] = {
    404: {"description": "There is no such thing", "model": ProblemDetails}
}
CONFLICT: dict[int | str, dict[str, Any]] = {
    409: {"description": "It cannot be done as things are", "model": ProblemDetails}
}


def new_router(tag: str | Enum) -> APIRouter:
    """A router for routes of one kind."""
    return APIRouter(tags=[tag], route_class=ScopedRoute, responses=_EVERYWHERE)


def service_of(request: Request) -> Service:
    """What the requests of a server share."""
    found: Service = request.app.state.service
    return found


def caller_of(request: Request) -> Caller:
    """Who asks."""
    found: Caller = request.state.caller
    return found


Gated = Annotated[Service, Depends(service_of)]
"""Asked for by a handler that needs the gate."""
Who = Annotated[Caller, Depends(caller_of)]
"""Asked for by a handler that needs to know who asks."""


def answer(document: Json | list[Json], status: int = 200, **headers: str) -> Response:
    """A document as JSON."""
    return Response(encode(document), status, headers, "application/json")
