"""Charges for releases that were made with other tools."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends
from pydantic import Field, StrictStr

from sfumato.privacy import Neighbours, from_dict
from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.wire import FactsBody, Key, WireBody

router = APIRouter(prefix="/api", tags=["charges"])

Steward = Annotated[Visitor, Depends(allow(Role.STEWARD))]
Reader = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.AUDITOR))]
Context = Annotated[ServerContext, Depends(get_context)]


class ExternalChargeBody(WireBody):
    """A release of another tool: its event in canonical form, whom it concerns, and what it was."""

    event: dict[str, Any] = Field(examples=[{"event": "gaussian", "sigma": "2"}])
    population: StrictStr = Field(max_length=200)
    about: StrictStr = Field(max_length=500)
    neighbours: Literal["add-remove", "replace-one"] = "add-remove"
    analyst: StrictStr | None = Field(None, max_length=200)
    key: Key | None = None


@router.get("/charges", response_model=FactsBody)
def list_charges(visitor: Reader, context: Context) -> dict[str, Any]:
    """Return the releases made with other tools that the ledger was charged for, oldest first."""
    return {"charges": [each.to_dict() for each in context.lab.charges()]}


@router.post("/charges", response_model=FactsBody)
def charge_release(body: ExternalChargeBody, visitor: Steward, context: Context) -> dict[str, Any]:
    """Charge a population for a release made with another tool. With a key, sending it again is free."""
    charged = context.lab.charge(
        from_dict(body.event),
        population=body.population,
        about=body.about,
        neighbours=Neighbours(body.neighbours),
        analyst=body.analyst,
        key=body.key,
    )
    return charged.to_dict()
