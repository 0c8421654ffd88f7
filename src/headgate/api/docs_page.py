"""The interactive page, and the OpenAPI that it is made from. All that it loads is from here."""

from functools import cache
from pathlib import Path

from fastapi import Request
from starlette.responses import Response

from headgate.api.problems import Problem
from headgate.api.routing import new_router
from headgate.core.display.json_shapes import encode

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
        state.openapi = encode(request.app.openapi())
    return Response(state.openapi, media_type="application/json")


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
