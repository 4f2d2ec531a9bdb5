"""Registering tables: from a file on the server's machine, or from one that the steward sends."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import Field, StrictBool, StrictInt, StrictStr
from starlette.responses import PlainTextResponse

from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.problems import write_problem
from sfumato.server.steward import sources, tables
from sfumato.server.wire import ExactNumber, FactsBody, WireBody

router = APIRouter(prefix="/api", tags=["tables"])

Steward = Annotated[Visitor, Depends(allow(Role.STEWARD))]
Context = Annotated[ServerContext, Depends(get_context)]
Name = Annotated[str, Path(max_length=200)]


class PathBody(WireBody):
    """A Parquet or CSV file in one of the folders that the server may read."""

    path: StrictStr = Field(min_length=1, max_length=1000)


class UploadBody(WireBody):
    """A file that was sent to /api/uploads."""

    upload: StrictStr = Field(max_length=100)


class DatabaseBody(WireBody):
    """A table in one of the databases that the server may read, by the names that /api/sources gives."""

    database: StrictStr = Field(min_length=1, max_length=1000)
    table: StrictStr = Field(min_length=1, max_length=1000, examples=["public.visits"])


SourceBody = PathBody | UploadBody | DatabaseBody


class DraftBody(WireBody):
    """A source whose columns are to be listed."""

    source: SourceBody


class RegistrationBody(DraftBody):
    """A table, its source, and what is declared about it: as JSON, or as a schema file in TOML."""

    name: StrictStr = Field(max_length=200, examples=["visits"])
    declaration: dict[str, Any] | None = Field(
        None,
        examples=[
            {
                "unit": {"column": "patient_id", "max_rows": 20},
                "columns": {"age": {"between": [0, 110]}, "ward": {"one_of": ["A", "B"], "constant": True}},
                "budget": {"epsilon": 4, "delta": "1e-7", "side_share": "0.5"},
            }
        ],
    )
    schema_: StrictStr | None = Field(None, alias="schema", max_length=200_000)


class RegisterBody(RegistrationBody):
    """A declaration, and whether the losses that an error named are accepted."""

    confirm_losses: StrictBool = False


class RowsChoiceBody(WireBody):
    """A number of rows that is chosen privately, for an ε of the budget."""

    choose: ExactNumber = Field(examples=[0.05])
    for_epsilon: ExactNumber | None = None
    keep: ExactNumber | None = None
    up_to: ExactNumber | None = None


class AdvanceBody(DraftBody):
    """The source of a table's next snapshot, up to where all rows are there, and the rows of a unit."""

    through: dict[StrictStr, StrictStr] | None = Field(None, max_length=10)
    max_rows: Annotated[StrictInt, Field(ge=1)] | RowsChoiceBody | None = None
    confirm_losses: StrictBool = False


@router.post(
    "/uploads",
    response_model=FactsBody,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def upload(
    request: Request,
    visitor: Steward,
    context: Context,
    format_: Annotated[Literal["parquet", "csv"], Query(alias="format")],
) -> dict[str, Any]:
    """Take a table as the body of the request, and return the name by which it can be registered."""
    kept = await run_in_threadpool(sources.UploadedTable, context, format_)
    try:
        async for part in request.stream():
            await run_in_threadpool(kept.write, part)
        await run_in_threadpool(kept.close)
    except BaseException:
        kept.erase()
        raise
    return {"upload": kept.name, "bytes": kept.bytes}


@router.get("/sources", response_model=FactsBody)
def list_sources(visitor: Steward, context: Context) -> dict[str, Any]:
    """Return the files and the tables of databases that may be registered."""
    databases = [
        {"database": each.name, "tables": list(each.tables)}
        | ({} if each.problem is None else {"problem": write_problem(each.problem)})
        for each in sources.list_databases(context)
    ]
    return {"sources": list(sources.list_sources(context)), "databases": databases}


@router.post("/tables/draft", response_class=PlainTextResponse)
def draft(body: DraftBody, visitor: Steward, context: Context) -> PlainTextResponse:
    """Return a schema file in TOML for a source; nothing in it is read off values."""
    return PlainTextResponse(tables.draft_table(context, body.source.model_dump()))


@router.post("/tables/check", response_model=FactsBody)
def check(body: RegistrationBody, visitor: Steward, context: Context) -> dict[str, Any]:
    """Return what registering would do to the rows, with exact counts: for the steward alone."""
    said = tables.read_declaration(body.declaration, body.schema_)
    return tables.check_table(context, body.name, body.source.model_dump(), said)


@router.post("/tables", response_model=FactsBody)
def register(body: RegisterBody, visitor: Steward, context: Context) -> dict[str, Any]:
    """Register a table and open its budget; return what the declaration did to its rows."""
    said = tables.read_declaration(body.declaration, body.schema_)
    report = tables.register_table(
        context, body.name, body.source.model_dump(), said, confirm_losses=body.confirm_losses
    )
    return {"table": body.name, "report": report, "chosen": tables.list_chosen(context, body.name)}


@router.post("/tables/{name}/advance", response_model=FactsBody)
def advance(name: Name, body: AdvanceBody, visitor: Steward, context: Context) -> dict[str, Any]:
    """Make the table's next snapshot; return what the declaration did to its rows."""
    said = body.max_rows
    rows = said.model_dump(exclude_none=True) if isinstance(said, RowsChoiceBody) else said
    report = tables.advance_table(
        context,
        name,
        body.source.model_dump(),
        body.through,
        rows,
        confirm_losses=body.confirm_losses,
    )
    return {"table": name, "report": report, "chosen": tables.list_chosen(context, name)}


@router.delete("/tables/{name}", response_model=FactsBody)
def drop(name: Name, visitor: Steward, context: Context) -> dict[str, Any]:
    """Erase a table and its snapshot. What was spent on its people stays spent."""
    context.lab.drop(name)
    return {"dropped": name}
