"""Publications: read by everyone, made by stewards."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import Field, StrictInt, StrictStr
from starlette.responses import FileResponse

from sfumato.errors import UsageError
from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.remote.sent_values import MOST_DRAWN
from sfumato.server.steward import publishing
from sfumato.server.wire import (
    MOST_SQL,
    ExactNumber,
    FactsBody,
    ReleaseBody,
    SpendBody,
    WireBody,
    parse_number,
)

router = APIRouter(prefix="/api", tags=["publications"])

Context = Annotated[ServerContext, Depends(get_context)]


class PublicationBody(WireBody):
    """A question whose answer everyone may read."""

    sql: StrictStr = Field(max_length=MOST_SQL)
    spend: SpendBody
    name: StrictStr | None = Field(None, max_length=60, examples=["visits_by_ward"])


class SyntheticPublicationBody(WireBody):
    """Synthetic rows that everyone may read: of a generator that a job fitted, or a twin of a table."""

    job: StrictStr | None = Field(None, pattern=r"^[0-9a-f]{32}$")
    table: StrictStr | None = Field(None, max_length=200)
    rho: ExactNumber | None = None
    rows: StrictInt = Field(1000, ge=1, le=MOST_DRAWN)
    name: StrictStr | None = Field(None, max_length=60, examples=["visits_synthetic"])


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
    asked = body.sql, body.spend, body.name
    return await context.turns.run(publishing.publish_question, context, *asked, whose=visitor.name)


@router.post("/publications/synthetic", response_model=FactsBody)
def publish_synthetic(
    body: SyntheticPublicationBody,
    visitor: Annotated[Visitor, Depends(allow(Role.STEWARD))],
    context: Context,
) -> dict[str, Any]:
    """Publish rows of a generator, for nothing, or a twin, which is charged for if it has a price."""
    if (body.job is None) == (body.table is None):
        raise UsageError("SF-U104", "Name a job or a table, and not both.", try_='{"table": "visits"}')
    if body.job is not None:
        made = publishing.publish_generator(context, visitor, body.job, body.rows, body.name)
    else:
        rho = None if body.rho is None else parse_number(body.rho)
        made = publishing.publish_twin(context, str(body.table), body.rows, rho, body.name)
    return publishing.write_publication(made)
