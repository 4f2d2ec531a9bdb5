"""Who one is, whether the server is well, and the description of the API."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import PlainTextResponse

from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.wire import FactsBody

router = APIRouter(tags=["server"])

Everyone = Annotated[Visitor, Depends(allow(Role.PUBLIC))]
Context = Annotated[ServerContext, Depends(get_context)]


@router.get("/healthz", response_model=FactsBody)
def read_health(visitor: Everyone, context: Context) -> dict[str, Any]:
    """Return that the server is up and that its ledger answers."""
    context.lab.ledger.read_identity()
    return {"status": "ok"}


@router.get("/metrics", response_class=PlainTextResponse)
def read_metrics(
    visitor: Annotated[Visitor, Depends(allow(Role.STEWARD, Role.AUDITOR))], context: Context
) -> PlainTextResponse:
    """Return counts of requests by route and status, as Prometheus reads them."""
    return PlainTextResponse(context.counters.write_text(), media_type="text/plain; version=0.0.4")


@router.get("/api/openapi.json", include_in_schema=False)
def read_openapi(request: Request, visitor: Everyone) -> dict[str, Any]:
    """Return the description of this API."""
    return request.app.openapi()  # type: ignore[no-any-return]  # as `create_app` has set it


@router.get("/api/me", response_model=FactsBody)
def read_me(visitor: Everyone) -> dict[str, Any]:
    """Return the name and the role of whoever asks."""
    return {"name": visitor.name, "role": visitor.role.value}
