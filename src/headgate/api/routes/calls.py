"""What gates of other machines call: the methods of a gate, by their names.

For headgate's own clients (`Gate.open("http://…")`), which want the values that a gate gives here
too, whatever their version. Everybody else is better served by the other routes.
"""

from typing import Annotated, Any

from fastapi import Path, Request
from pydantic import ConfigDict, Field
from starlette.responses import Response

from headgate.api.once import IdempotencyKey, once
from headgate.api.problems import Problem
from headgate.api.remote_schemas import Text
from headgate.api.routing import (
    CONFLICT,
    NOT_FOUND,
    Gated,
    Who,
    answer,
    is_bound,
    needs,
    new_router,
)
from headgate.api.schemas import Asked, Document
from headgate.core.admission.setting_precedence import parse_view
from headgate.core.display.json_shapes import document
from headgate.core.server_settings import Scope
from headgate.errors import UsageError
from headgate.gate import Gate
from headgate.remote.values import decode, encode

router = new_router("remote")

_READ = (
    *(
        "status",
        "known_keys",
        "pool_names",
        "capacity",
        "plan",
        "queue",
        "events",
        "why",
        "in_flight",
    ),
    *("metered", "deadlocks", "deadlock_of", "job", "find_job", "find_work", "moment"),
    *("said_cooldown", "jobs.status", "jobs.attempts", "jobs.finished", "jobs.counts", "jobs.page"),
)
_SUBMIT = (
    *("report", "cancel_all", "jobs.submit"),
    *("jobs.hold", "jobs.let_go", "jobs.move", "jobs.retry"),
)
_ADMIN = (
    *("set_limit", "unset_limit", "set_cooldown", "set_per_task", "set_order"),
    *("restore", "pause", "resume"),
)
CALLS = {
    **dict.fromkeys(_READ, Scope.READ),
    **dict.fromkeys(_SUBMIT, Scope.SUBMIT),
    **dict.fromkeys(_ADMIN, Scope.ADMIN),
}
"""Which methods can be called, and the scope that each needs."""
_SLOW = frozenset({"cancel_all"})
Method = Annotated[str, Path(max_length=40, examples=["capacity"])]


class CallWanted(Asked):
    """A call: what is given to the method, as `headgate/remote/values.py` writes it."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"args": ["anthropic/claude-opus-4-6"]}]}
    )

    args: Annotated[list[Any], Field(default_factory=list)]
    named: Annotated[dict[str, Any], Field(default_factory=dict)]
    limits: str = ""
    parent: Text = ""


class CallDocument(Document):
    """What the method gave."""

    value: Any


@router.post(
    "/v1/calls/{method}",
    response_model=CallDocument,
    responses={**NOT_FOUND, **CONFLICT},
    openapi_extra=needs(Scope.READ),
)
async def call(
    method: Method,
    wanted: CallWanted,
    service: Gated,
    who: Who,
    request: Request,
    *,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Call a method of the gate. Which scope that needs depends on the method."""
    scope = CALLS.get(method)
    if scope is None:
        raise Problem("not_found", "a gate of another machine cannot call a method of that name")
    if method == "plan" and "log" in wanted.named:  # which writes events
        scope = Scope.SUBMIT
    if not who.scope.covers(scope):
        raise Problem("small_scope", f"this needs a token with the scope {scope.value}")
    if scope is not Scope.READ and is_bound(who, service.settings):
        raise Problem("only_templates", "submit with a template: POST /v1/jobs")
    view = parse_view(wanted.limits, "limits")
    args = [decode(one) for one in wanted.args]
    named = {str(name): decode(one) for name, one in wanted.named.items()}
    if method == "jobs.submit" and idempotency_key is not None:
        named["once"] = await once(request, who, idempotency_key)

    def do(gate: Gate) -> object:
        found: Any = gate.seen_by(view, wanted.parent)
        for name in method.split("."):
            found = getattr(found, name)
        try:
            return encode(found(*args, **named))
        except (TypeError, AttributeError, ValueError, KeyError):
            raise UsageError(
                f"{method} cannot be called so; the client may be of another version"
            ) from None

    made = await (service.wait(do) if method in _SLOW else service.ask(do))
    return answer(document({"value": made}))
