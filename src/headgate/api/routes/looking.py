"""What is going on: status, capacity, plan, the line."""

from starlette.responses import Response

from headgate.api.routing import Gated, new_router
from headgate.api.schemas import StatusDocument
from headgate.core.display import json_shapes
from headgate.gate import Gate

router = new_router("looking")


@router.get("/v1/status", response_model=StatusDocument)
async def status(service: Gated) -> Response:
    """All pools at this moment. Whoever asks at the same time is told the same."""
    body = await service.shared("status", _status)
    return Response(body, media_type="application/json")


def _status(gate: Gate) -> str:
    return json_shapes.encode(json_shapes.document(json_shapes.status(gate.status())))
