"""Tables that can be asked about, and what is left of budgets."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends

from sfumato.server.access import Role, Visitor, allow, open_session
from sfumato.server.context import ServerContext, get_context
from sfumato.server.wire import FactsBody, TableBody, TablesBody

router = APIRouter(prefix="/api", tags=["catalog"])

Asker = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.ANALYST))]
Context = Annotated[ServerContext, Depends(get_context)]


@router.get("/tables", response_model=TablesBody)
def list_tables(visitor: Asker, context: Context) -> dict[str, Any]:
    """Return the tables that the visitor may ask about, with what is declared about each."""
    return open_session(context, visitor).tables.to_dict()


@router.get("/tables/{name}", response_model=TableBody)
def read_table(name: str, visitor: Asker, context: Context) -> dict[str, Any]:
    """Return what is declared about one table."""
    return open_session(context, visitor).table(name).describe().to_dict()


@router.get("/budget", response_model=FactsBody)
def read_budget(visitor: Asker, context: Context) -> dict[str, Any]:
    """Return what is left of every account that the visitor may spend from."""
    budget = open_session(context, visitor).budget
    return {"accounts": budget.to_dict(), "text": str(budget)}
