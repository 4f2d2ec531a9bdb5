"""Tables: what the steward declared and promised about each, and its twin to rehearse with. Never a row."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, Response

from sfumato.server.access import Role, Visitor, allow, open_session, open_session_if_any
from sfumato.server.context import ServerContext, get_context
from sfumato.server.facts.spreadsheets import write_csv
from sfumato.server.pages.overview import draw_bar
from sfumato.server.pages.rendering import render

router = APIRouter()

Asker = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.ANALYST))]
Context = Annotated[ServerContext, Depends(get_context)]


@router.get("/tables")
def list_tables(request: Request, visitor: Asker, context: Context) -> HTMLResponse:
    """Return the tables that the visitor may ask about."""
    session = open_session_if_any(context, visitor)
    tables = () if session is None else session.tables.tables
    return render(request, visitor, "tables.html", tables=tables)


@router.get("/tables/{name}")
def show_table(name: str, request: Request, visitor: Asker, context: Context) -> HTMLResponse:
    """Return what is declared about a table, what is promised to the people in it, and what is left."""
    session = open_session(context, visitor)
    table = session.table(name).describe()
    accounts = [each for each in session.budget.accounts if table.population in each.name.split(":")[1:2]]
    twin = _find_published_twin(session.published(), table.name)
    facts: dict[str, Any] = {
        "table": table,
        "bars": [draw_bar(each, 0.0, visitor.analyst) for each in accounts],
        "example": write_example(table.name, [(each.name, each.type, each.values) for each in table.columns]),
        "twin": twin,
        "address": context.settings.address,
    }
    return render(request, visitor, "table.html", **facts)


@router.get("/tables/{name}/twin.csv")
def download_twin(
    name: str, visitor: Asker, context: Context, sheet: Annotated[str, Query(max_length=9)] = ""
) -> Response:
    """Return made-up rows with the names, types and ranges of a table; with `sheet`, for spreadsheets."""
    session = open_session(context, visitor)
    table = session.table(name).describe().name
    content = write_csv(session.twin(table), for_spreadsheets=bool(sheet))
    headers = {"Content-Disposition": 'attachment; filename="twin.csv"'}
    return Response(content, media_type="text/csv; charset=utf-8", headers=headers)


def write_example(table: str, columns: list[tuple[str, str, str]]) -> str:
    """Return a question that fits a table: a count by its first list, and an average of its first number."""
    listed = next((name for name, _, values in columns if values.startswith("one of")), None)
    number = next(
        (name for name, kind, values in columns if kind == "number" and values.startswith("between")), None
    )
    shown = [quote_name(listed)] if listed else []
    shown.append("COUNT(*) AS n")
    if number:
        shown.append(f"AVG({quote_name(number)}) AS {quote_name(f'mean_{number}')}")
    grouped = f" GROUP BY {quote_name(listed)}" if listed else ""
    # It is shown to a visitor, who sends it like any question of their own.
    return f"SELECT {', '.join(shown)} FROM {quote_name(table)}{grouped}"  # noqa: S608


def quote_name(name: str) -> str:
    """Return the name of a table or column as SQL has it, in quotes where it needs them."""
    return name if name.isidentifier() and name.isascii() else '"' + name.replace('"', '""') + '"'


def _find_published_twin(published: tuple[object, ...], table: str) -> str | None:
    """Return what is said about the twin of a table that the steward published, or None."""
    for each in published:
        card = getattr(each, "card", None)
        if getattr(each, "kind", "") == "twin" and card is not None and card.get("table") == table:
            return "The steward published one: its marginals were measured privately, and paid for."
    return None
