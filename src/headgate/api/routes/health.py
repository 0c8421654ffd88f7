"""Whether the server and its store answer. Anybody may ask who can reach it."""

from starlette.responses import Response

import headgate
from headgate.api.problems import Problem
from headgate.api.routing import Gated, answer, new_router
from headgate.api.schemas import HealthDocument
from headgate.core.display.json_shapes import document
from headgate.errors import StoreError

router = new_router("health")


@router.get("/v1/health", response_model=HealthDocument)
async def health(service: Gated) -> Response:
    """Whether the process answers, whatever its store does."""
    draining = service.draining.is_set()
    return answer(document({"ok": True, "version": headgate.__version__, "draining": draining}))


@router.get("/v1/ready", response_model=HealthDocument)
async def ready(service: Gated) -> Response:
    """Whether it takes requests: its store answers, and it is not being stopped."""
    if service.draining.is_set():
        raise Problem("draining", "the server is being stopped", headers={"Retry-After": "1"})
    try:
        await service.shared("ready", lambda gate: gate.events(most=1))
    except StoreError:
        text = "the store does not answer"  # where it is, is nobody's business
        raise Problem("store", text, exit_code=125, headers={"Retry-After": "1"}) from None
    return await health(service)
