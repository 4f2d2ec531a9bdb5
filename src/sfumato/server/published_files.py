"""Publications as files at fixed addresses: CSV, Parquet and JSON. The same table gives the same bytes."""

from __future__ import annotations

import io
import json
import math
from datetime import date, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, Response

from sfumato.errors import PolicyError
from sfumato.lab.publications.public_tables import find_public_table, list_public_tables
from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.wire import FactsBody

if TYPE_CHECKING:
    from sfumato.lab.publications.public_tables import PublicTable

router = APIRouter(tags=["publications"])

Anyone = Annotated[Visitor, Depends(allow(Role.PUBLIC))]
Context = Annotated[ServerContext, Depends(get_context)]
MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8; header=present",
    "parquet": "application/vnd.apache.parquet",
    "json": "application/json",
}
_FILES: dict[int | str, dict[str, Any]] = {
    200: {"content": {kind.partition(";")[0]: {} for kind in MEDIA_TYPES.values()}},
    304: {"description": "What If-None-Match names is still what there is"},
}


@router.get("/published", response_model=FactsBody)
def list_published(visitor: Anyone, context: Context) -> dict[str, Any]:
    """Return what was published, with columns and addresses."""
    return {"tables": [each.describe() for each in list_public_tables(context.lab)]}


@router.get("/published/{file}", response_class=Response, responses=_FILES)
def read_published(
    file: Annotated[str, Path(max_length=100)], request: Request, visitor: Anyone, context: Context
) -> Response:
    """Return a published answer as NAME.csv, NAME.parquet or NAME.json. It never costs anything."""
    name, _, ending = file.partition(".")
    table = find_public_table(context.lab, name)
    if ending not in MEDIA_TYPES:
        raise PolicyError(
            "SF-U101", "A published table is a .csv, a .parquet or a .json.", try_=f"{table.path}.csv"
        )
    etag = make_etag(table, ending)
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if matches_etag(request.headers.get("if-none-match"), etag):
        return Response(None, 304, headers)
    headers["Content-Disposition"] = f'attachment; filename="{table.name}.{ending}"'
    return Response(write_file(table, ending), 200, headers, MEDIA_TYPES[ending])


def write_file(table: PublicTable, ending: str) -> bytes:
    """Return a table in the format that an ending names."""
    from pyarrow import csv, parquet

    sink = io.BytesIO()
    match ending:
        case "csv":  # RFC 4180: texts in quotes, and nothing at all where a value is missing
            csv.write_csv(table.rows, sink)
            return sink.getvalue()
        case "parquet":
            card = json.dumps(table.describe(), sort_keys=True)
            parquet.write_table(table.rows.replace_schema_metadata({"sfumato": card}), sink)
            return sink.getvalue()
    rows = [{name: _write_cell(cell) for name, cell in row.items()} for row in table.rows.to_pylist()]
    return json.dumps({**table.describe(), "rows": rows}, ensure_ascii=False, allow_nan=False).encode()


def make_etag(table: PublicTable, ending: str) -> str:
    """Return what names these bytes: the table, its description, and what wrote them in which form."""
    import pyarrow as pa

    named = "\n".join([json.dumps(table.describe(), sort_keys=True), ending, pa.__version__])
    return f'"{sha256(named.encode()).hexdigest()[:32]}"'


def matches_etag(header: str | None, etag: str) -> bool:
    """Return whether an If-None-Match header names this representation, so that nothing need be sent."""
    if header is None:
        return False
    named = {each.strip().removeprefix("W/") for each in header.split(",")}
    return "*" in named or etag in named


def _write_cell(cell: Any) -> Any:
    """Return a cell ready for JSON: dates as texts, and numbers that JSON lacks as their names."""
    if isinstance(cell, float) and not math.isfinite(cell):
        return "NaN" if math.isnan(cell) else "INF" if cell > 0 else "-INF"
    if isinstance(cell, datetime):
        return f"{cell.isoformat()}Z"
    return cell.isoformat() if isinstance(cell, date) else cell
