"""Tables: registered, checked, advanced and dropped, from sources that the server may read.

Reports have exact counts of protected rows. They go to the steward who asked and are kept nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.calendar import parse_moment
from sfumato.curator.catalog.schema_file import Schema, parse_schema, read_fields
from sfumato.errors import UsageError
from sfumato.privacy.bound_choice import choose
from sfumato.server.quiet import hush_steward_warnings
from sfumato.server.steward.sources import open_source
from sfumato.server.wire import parse_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.privacy.bound_choice import BoundChoice
    from sfumato.server.context import ServerContext

_NAME = "declaration"


def read_declaration(fields: Mapping[str, Any] | None, toml: str | None) -> Schema:
    """Return a declaration that came as JSON, with the keys of a schema file, or as the text of one."""
    if (fields is None) == (toml is None):
        raise UsageError("SF-U104", "A declaration is sent as declaration or as schema, and not as both.")
    if toml is not None:
        return parse_schema(toml, _NAME)
    return read_fields(_with_dates(dict(fields or {})), _NAME)


def register_table(
    context: ServerContext,
    name: str,
    source: Mapping[str, str],
    said: Schema,
    *,
    confirm_losses: bool = False,
) -> Any:
    """Register a table; return what the declaration did to its rows, for the steward alone."""
    with open_source(context, source, erase=True) as rows_at, hush_steward_warnings():
        report = context.lab.register(name, rows_at, **_words(said), confirm_losses=confirm_losses)
    return None if report is None else report.to_dict()


def check_table(context: ServerContext, name: str, source: Mapping[str, str], said: Schema) -> dict[str, Any]:
    """Return what registering would do to the rows of a source. Nothing is stored."""
    with open_source(context, source, erase=False) as rows_at, hush_steward_warnings():
        return context.lab.check(name, rows_at, **_words(said)).to_dict()


def list_chosen(context: ServerContext, name: str) -> list[str]:
    """Return the bounds of a table that were chosen privately, each in a sentence. They are public."""
    table = context.lab.table(name)
    return [each.describe(table.unit.column) for each in table.chosen]


def list_source_columns(context: ServerContext, source: Mapping[str, str]) -> dict[str, str]:
    """Return the columns of a source with the kind of their values, by its types. No row is read."""
    with open_source(context, source, erase=False) as rows_at:
        return context.lab.engine.list_columns(rows_at)


def draft_table(context: ServerContext, source: Mapping[str, str]) -> str:
    """Return a schema file for a source, in which the steward fills in what is protected."""
    with open_source(context, source, erase=False) as rows_at:
        return context.lab.draft_schema(rows_at)


def advance_table(
    context: ServerContext,
    name: str,
    source: Mapping[str, str],
    through: Mapping[str, str] | None = None,
    max_rows: int | dict[str, Any] | None = None,
    *,
    confirm_losses: bool = False,
) -> Any:
    """Make the next snapshot of a table; return what the declaration did to its rows."""
    rows = _read_choice(max_rows) if isinstance(max_rows, dict) else max_rows
    moments = {column: parse_moment(text) or text for column, text in (through or {}).items()}
    with open_source(context, source, erase=True) as rows_at, hush_steward_warnings():
        report = context.lab.advance(
            name,
            rows_at,
            max_rows=rows,
            through=moments or None,
            confirm_losses=confirm_losses,
        )
    return None if report is None else report.to_dict()


def _read_choice(said: dict[str, Any]) -> BoundChoice:
    """Return a bound that is to be chosen, as it was sent."""
    exact = {name: parse_number(each) for name, each in said.items()}
    return choose(epsilon=exact.pop("choose"), **exact)


def _words(said: Schema) -> dict[str, Any]:
    """Return a declaration as keywords of the lab."""
    words = {"unit": said.unit, "columns": said.columns, "budget": said.budget}
    return words | {"neighbours": said.neighbours, "rows": said.rows}


def _with_dates(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with texts in bounds that write dates as dates, for which JSON has no form."""
    columns = fields.get("columns")
    if not isinstance(columns, dict):
        return fields
    return fields | {"columns": {str(name): _date_bounds(column) for name, column in columns.items()}}


def _date_bounds(column: Any) -> Any:
    if not isinstance(column, dict) or not isinstance(column.get("between"), list):
        return column
    read = {"between": [_read_date(end) for end in column["between"]]}
    return column | read | ({"missing": _read_date(column["missing"])} if "missing" in column else {})


def _read_date(value: Any) -> Any:
    return (parse_moment(value) or value) if isinstance(value, str) else value
