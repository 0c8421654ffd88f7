"""The interactive page. All that it loads is from here."""

from fastapi import Request
from starlette.responses import Response

from headgate.api.routing import new_router

router = new_router("docs")


@router.get("/v1/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """What can be asked, as OpenAPI."""
    from headgate.core.display.json_shapes import encode

    return Response(encode(request.app.openapi()), media_type="application/json")
