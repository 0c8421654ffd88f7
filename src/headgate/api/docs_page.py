"""The interactive page, and the OpenAPI that it is made from. All that it loads is from here."""

from functools import cache
from pathlib import Path

from fastapi import Request
from starlette.responses import Response

from headgate.api.guard import FOR_ALL
from headgate.api.problems import MEDIA_TYPE, Problem
from headgate.api.routing import SCOPE, new_router
from headgate.core.display.json_shapes import Json, encode
from headgate.core.server_settings import Scope

router = new_router("docs")
_ASSETS = {"docs.css": "text/css", "docs.js": "text/javascript"}
_POLICY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}


@router.get("/v1/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """What can be asked, as OpenAPI."""
    state = request.app.state
    if not hasattr(state, "openapi"):
        state.openapi = encode(described(request.app.openapi()))
    return Response(state.openapi, media_type="application/json")


def described(found: Json) -> Json:
    """The OpenAPI, with what is true of all operations: who may ask, and how it fails."""
    scheme = {"type": "http", "scheme": "bearer", "description": "headgate token create"}
    found["components"]["securitySchemes"] = {"token": scheme}
    for path, item in found["paths"].items():
        for method, operation in item.items():
            operation["security"] = [] if path in FOR_ALL else [{"token": []}]
            usual = Scope.READ if method == "get" else Scope.ADMIN
            operation.setdefault(SCOPE, usual.value)
            for status, answered in operation["responses"].items():
                if int(status) >= 400:
                    answered["content"] = _failed(answered.get("content", {}))
    return found


def _failed(shapes: Json) -> Json:
    """What comes with a failure: a problem, or under /concurrency also what its contract says."""
    usual = shapes.get("application/json", {})
    if usual.get("schema", {}).get("$ref", "").endswith("/ErrorText"):
        problem = {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}
        return {"application/json": usual, MEDIA_TYPE: problem}
    return {MEDIA_TYPE: usual}


@router.get("/docs", include_in_schema=False)
async def page() -> Response:
    """The page."""
    return Response(_read("docs.html"), headers=_POLICY, media_type="text/html")


@router.get("/docs/{name}", include_in_schema=False)
async def asset(name: str) -> Response:
    """What the page loads."""
    if name not in _ASSETS:
        raise Problem("not_found", "there is no such file")
    return Response(_read(name), headers=_POLICY, media_type=_ASSETS[name])


@cache
def _read(name: str) -> bytes:
    return Path(__file__).with_name("assets").joinpath(name).read_bytes()
