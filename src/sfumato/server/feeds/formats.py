"""Feeds as files: the same table gives the same bytes, so that a client can tell whether anything changed."""

from __future__ import annotations

import io
import json
import math
from datetime import date, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sfumato.errors import PolicyError

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.lab.feeds.feed import Feed

MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8; header=present",
    "parquet": "application/vnd.apache.parquet",
    "json": "application/json",
}


def render_feed(feed: Feed, ending: str) -> bytes:
    """Return a feed in the format that an ending names."""
    table = feed.to_arrow()
    match ending:
        case "csv":
            return _write_csv(table)
        case "parquet":
            return _write_parquet(feed, table)
        case "json":
            return _write_json(feed, table)
    raise PolicyError("SF-F120", "A feed is a .csv, a .parquet or a .json.", try_=f"{feed.path}.csv")


def make_etag(feed: Feed, representation: str) -> str:
    """Return what names these very bytes: the table, its card, and what wrote them in which form."""
    import pyarrow as pa

    card = json.dumps(feed.card.to_dict(), sort_keys=True)
    named = "\n".join([feed.digest, card, representation, pa.__version__])
    return f'"{sha256(named.encode()).hexdigest()[:32]}"'


def matches_etag(header: str | None, etag: str) -> bool:
    """Return whether an If-None-Match header names this representation, so that nothing need be sent."""
    if header is None:
        return False
    named = {each.strip().removeprefix("W/") for each in header.split(",")}
    return "*" in named or etag in named


def write_cell(cell: Any, *, large_as_text: bool = False) -> Any:
    """Return a cell ready for JSON: dates as texts, and infinite numbers as OData writes them."""
    if isinstance(cell, float) and not math.isfinite(cell):
        return "NaN" if math.isnan(cell) else "INF" if cell > 0 else "-INF"
    if isinstance(cell, datetime):
        return f"{cell.isoformat()}Z"
    if isinstance(cell, date):
        return cell.isoformat()
    if large_as_text and isinstance(cell, int) and not isinstance(cell, bool):
        return str(cell)
    return cell


def _write_csv(table: pa.Table) -> bytes:
    """Return RFC 4180 text: texts in quotes, and nothing at all where a value is missing."""
    from pyarrow import csv

    sink = io.BytesIO()
    csv.write_csv(table, sink)
    return sink.getvalue()


def _write_parquet(feed: Feed, table: pa.Table) -> bytes:
    from pyarrow import parquet

    sink = io.BytesIO()
    card = json.dumps(feed.card.to_dict(), sort_keys=True)
    parquet.write_table(table.replace_schema_metadata({"sfumato": card}), sink)
    return sink.getvalue()


def _write_json(feed: Feed, table: pa.Table) -> bytes:
    rows = [{name: write_cell(cell) for name, cell in row.items()} for row in table.to_pylist()]
    body = {**describe_feed(feed), "rows": rows}
    return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()


def describe_feed(feed: Feed) -> dict[str, Any]:
    """Return what a feed is and what its columns are, ready for JSON."""
    columns = [{"name": field.name, "type": str(field.type)} for field in feed.to_arrow().schema]
    return {**feed.card.to_dict(), "path": feed.path, "columns": columns, "digest": feed.digest}
