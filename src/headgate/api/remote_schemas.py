"""The shapes of clients on other machines, of what they ask for and of what they are told."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from headgate.api.schemas import MOST_ID, Asked, Document, Shape
from headgate.core.display.json_shapes import Json, document
from headgate.core.display.snapshots import Waiting
from headgate.core.times import seconds
from headgate.gate import remote_clients
from headgate.ledger.remote_members import Held
from headgate.ledger.transaction.remote_rows import RemoteMember

LONGEST_WAIT = 60.0
Wait = Annotated[float, Field(ge=0, le=LONGEST_WAIT)]
"""For how many seconds the answer may be put off until there is something to tell."""
MemberId = Annotated[str, Field(pattern=r"^remote-[0-9a-f]{24}$")]
Text = Annotated[str, Field(max_length=200)]


class MemberWanted(Asked):
    """A client that joins."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "build-7", "fence": 600}]})

    name: Text = ""
    fence: Annotated[float, Field(ge=1, le=604_800)] | Literal["never"] = 600.0
    """After how many seconds of silence it has ended all its programs by itself."""


class MemberDocument(Document):
    """A client, and the times that it keeps to."""

    member: str
    store: str
    fence: float | None
    suspect_after: float
    margin: float


class RenewalWanted(Asked):
    """A client says that it is there, and what it has been told."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"seen": "", "wait": 10}]})

    seen: Text = ""
    wait: Wait = 0.0
    places: bool = False
    """Whether it wants to be told where its tickets stand, and why."""


class TicketShape(Shape):
    """A request in the line."""

    id: int
    request: str
    position: int | None
    code: str | None
    pool: str | None
    reason: str | None
    eta: float | None
    waiting: dict[str, Any] | None


class LeaseShape(Shape):
    """Seats that are held."""

    id: int
    request: str
    task: str
    mark: str
    max_hold: float | None
    ending: str | None
    """Why it is to end."""


class StandingDocument(Document):
    """All that a client waits for and holds."""

    seen: str
    tickets: list[TicketShape]
    leases: list[LeaseShape]


class TicketWanted(Asked):
    """Seats that are asked for."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "member": "remote-0123456789abcdef01234567",
                    "key": "anthropic/claude-opus-4-6",
                    "task": "oracle-2",
                    "wait": 30,
                }
            ]
        }
    )

    member: MemberId
    key: Text = ""
    task: Text = ""
    label: Text = ""
    priority: int | str = 0
    weight: int = 1
    since: float | None = None
    roles: Annotated[str, Field(max_length=1_000)] = ""
    tokens: int = 0
    marked: bool = False
    without_host: bool = False
    parent: Annotated[int, Field(ge=0, le=MOST_ID)] = 0
    machine: Annotated[str, Field(max_length=64, pattern=r"^[!-~]*$")] = ""
    limits: Annotated[str, Field(max_length=4_000)] = ""
    wait: Wait = 0.0
    patient: bool = True
    """Whether it waits in the line if there is no room."""


class TicketDocument(Document):
    """What has become of a request."""

    id: int
    state: Literal["waiting", "granted"]
    ticket: TicketShape | None
    lease: LeaseShape | None


class SignalWanted(Asked):
    """What upstream said to the work of a lease."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "member": "remote-0123456789abcdef01234567",
                    "signal": "concurrency-limited",
                    "retry_after": 2,
                }
            ]
        }
    )

    member: MemberId
    signal: Text
    retry_after: float | str | None = None
    tokens: int | None = None
    account: bool = False
    note: Text = ""


class ProgramWanted(Asked):
    """The process that uses a lease, on its own machine."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"member": "remote-0123456789abcdef01234567", "pid": 4711}]}
    )

    member: MemberId
    pid: Annotated[int, Field(ge=0, le=2**31 - 1)]


def member_document(row: RemoteMember, store: str) -> Json:
    """A client, as it is told about itself."""
    return document(
        {
            "member": row.id,
            "store": store,
            "fence": None if row.fence is None else seconds(row.fence),
            "suspect_after": seconds(row.suspect_after),
            "margin": seconds(row.margin),
        }
    )


def standing_document(found: remote_clients.Spots) -> Json:
    """What a client waits for and holds."""
    standing = found.standing
    tickets = [_ticket(id, request, found.spots.get(id)) for id, request in standing.waits.items()]
    leases = [_lease(one) for one in standing.holds.values()]
    return document({"seen": found.digest, "tickets": tickets, "leases": leases})


def ticket_document(asked: remote_clients.Asked, request: str) -> Json:
    """What has become of one request."""
    held = asked.held
    return document(
        {
            "id": asked.id,
            "state": "waiting" if held is None else "granted",
            "ticket": _ticket(asked.id, request, asked.spot) if held is None else None,
            "lease": None if held is None else _lease(held._replace(key=held.key or request)),
        }
    )


def _ticket(id: int, request: str, spot: Waiting | None) -> Json:
    if spot is None:
        nothing = dict.fromkeys(("position", "code", "pool", "reason", "eta", "waiting"))
        return {"id": id, "request": request, **nothing}
    return {
        "id": id,
        "request": request,
        "position": spot.position,
        "code": spot.code,
        "pool": spot.pool,
        "reason": spot.reason,
        "eta": spot.eta,
        "waiting": spot._asdict(),
    }


def _lease(held: Held) -> Json:
    return {
        "id": held.id,
        "request": held.key,
        "task": held.task,
        "mark": held.mark,
        "max_hold": None if held.max_hold is None else seconds(held.max_hold),
        "ending": held.ending or None,
    }
