"""Requests for budget: analysts make and withdraw them, the steward grants or declines."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from pydantic import Field, StrictStr

from sfumato.errors import PolicyError
from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.wire import ExactNumber, FactsBody, WireBody, parse_number

router = APIRouter(prefix="/api", tags=["requests"])

Analyst = Annotated[Visitor, Depends(allow(Role.ANALYST))]
Steward = Annotated[Visitor, Depends(allow(Role.STEWARD))]
Asker = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.ANALYST))]
Context = Annotated[ServerContext, Depends(get_context)]
Number = Annotated[int, Path(ge=0, le=2**53)]


class BudgetRequestBody(WireBody):
    """How much more is asked for, and why."""

    epsilon: ExactNumber
    delta: ExactNumber = 0
    reason: StrictStr = Field(max_length=2000)


class RequestGrantBody(WireBody):
    """How much is added, if it is not what was asked for, and what to say with it."""

    epsilon: ExactNumber | None = None
    delta: ExactNumber | None = None
    note: StrictStr = Field("", max_length=2000)
    tables: Annotated[list[StrictStr], Field(max_length=1000)] | None = None


class RequestDeclineBody(WireBody):
    """Why nothing is granted."""

    why: StrictStr = Field(max_length=2000)


@router.get("/requests", response_model=FactsBody)
def list_requests(visitor: Asker, context: Context) -> dict[str, Any]:
    """Return every request with its answer, or for an analyst their own."""
    desk = context.lab.request_desk
    found = desk.list_received() if visitor.analyst is None else desk.list_sent(visitor.analyst)
    return {"requests": [each.to_dict() for each in found]}


@router.post("/requests", response_model=FactsBody)
def make_request(body: BudgetRequestBody, visitor: Analyst, context: Context) -> dict[str, Any]:
    """Ask the steward for more budget. An analyst who has no quota yet may ask for one."""
    amounts = {"epsilon": parse_number(body.epsilon), "delta": parse_number(body.delta)}
    return context.lab.request(visitor.name, **amounts, reason=body.reason).to_dict()


@router.post("/requests/{number}/grant", response_model=FactsBody)
def grant_request(
    number: Number, body: RequestGrantBody, visitor: Steward, context: Context
) -> dict[str, Any]:
    """Add what was asked for, or what is sent here, to the quota. A request is answered once."""
    more, side = (None if each is None else parse_number(each) for each in (body.epsilon, body.delta))
    return context.lab.request_desk.grant(number, more, side, body.note, body.tables).to_dict()


@router.post("/requests/{number}/decline", response_model=FactsBody)
def decline_request(
    number: Number, body: RequestDeclineBody, visitor: Steward, context: Context
) -> dict[str, Any]:
    """Decline a request, and say why."""
    return context.lab.request_desk.decline(number, body.why).to_dict()


@router.post("/requests/{number}/withdraw", response_model=FactsBody)
def withdraw_request(number: Number, visitor: Analyst, context: Context) -> dict[str, Any]:
    """Take back a request of one's own, unless it was answered."""
    for each in context.lab.request_desk.list_sent(visitor.name):
        if each.number == number:
            return each.withdraw().to_dict()
    raise PolicyError("SF-U101", f"There is no request {number} of yours.", try_="GET /api/requests")
