"""Publications: read by everyone, made by stewards."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import Field, StrictStr
from starlette.responses import FileResponse

from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.steward import publishing
from sfumato.server.wire import MOST_SQL, FactsBody, ReleaseBody, SpendBody, WireBody

router = APIRouter(prefix="/api", tags=["publications"])

Context = Annotated[ServerContext, Depends(get_context)]


class PublicationBody(WireBody):
    """A question whose answer everyone may read."""

    sql: StrictStr = Field(max_length=MOST_SQL)
    spend: SpendBody
    name: StrictStr | None = Field(None, max_length=60, examples=["visits_by_ward"])


@router.get("/publications", response_model=FactsBody)
def list_publications(
    visitor: Annotated[Visitor, Depends(allow(Role.PUBLIC))], context: Context
) -> dict[str, Any]:
    """Return what was published, with the answers."""
    return {"publications": publishing.list_publications(context)}


@router.get("/publications/synthetic/{name}", response_class=FileResponse)
def read_synthetic(
    name: str, visitor: Annotated[Visitor, Depends(allow(Role.PUBLIC))], context: Context
) -> FileResponse:
    """Return a published synthetic table, as a Parquet file."""
    path = publishing.find_synthetic_file(context, name)
    return FileResponse(path, media_type="application/vnd.apache.parquet", filename="synthetic.parquet")


@router.post("/publications", response_model=ReleaseBody)
async def publish(
    body: PublicationBody, visitor: Annotated[Visitor, Depends(allow(Role.STEWARD))], context: Context
) -> dict[str, Any]:
    """Charge the population once for a question, and publish its answer."""
    return await context.turns.run(publishing.publish_question, context, body.sql, body.spend, body.name)
