"""The ledger: its entries, whether it holds, and its export."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.responses import StreamingResponse

from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.steward.ledger import export_ledger, list_entries, verify_ledger
from sfumato.server.wire import FactsBody

router = APIRouter(prefix="/api/ledger", tags=["ledger"])

Auditor = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.AUDITOR))]
Context = Annotated[ServerContext, Depends(get_context)]


@router.get("", response_model=FactsBody)
def read_entries(
    visitor: Auditor,
    context: Context,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> dict[str, Any]:
    """Return entries after a number, oldest first. `next` is the number to go on from."""
    return list_entries(context, after, limit)


@router.get("/verify", response_model=FactsBody)
def verify(visitor: Auditor, context: Context) -> dict[str, Any]:
    """Verify every hash, total and stored answer, and return what the ledger holds."""
    return verify_ledger(context)


@router.get("/export", response_class=StreamingResponse)
def export(visitor: Auditor, context: Context) -> StreamingResponse:
    """Return the chain as JSON lines, which a short script can check without sfumato."""
    return StreamingResponse(export_ledger(context), media_type="application/x-ndjson")
