"""Which format the texts of a column are written in, found from the whole column.

A format is found only if the column loses at most 5 % of its values with it and more than 10 % with each
other format. A unit with at most 5 % of the values can then not turn one format into another:
docs/proofs/reading.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.columns import (
    DateColumn,
    ListedColumn,
    NumberColumn,
    TextColumn,
    find_format,
    require_values,
    with_format,
)
from sfumato.engines.formats import DATE_FORMATS, NUMBER_FORMATS
from sfumato.engines.ingest import DATES, NUMBERS, TEXTS
from sfumato.engines.snapshot import Preparation
from sfumato.errors import UsageError
from sfumato.lab.tables import report

if TYPE_CHECKING:
    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.catalog.columns import DeclaredColumn
    from sfumato.engines.router import EngineRouter
    from sfumato.engines.snapshot import SourceSurvey


def find_formats(engine: EngineRouter, source: Any, table: Table, survey: SourceSurvey) -> Table:
    """Return the table with the formats of columns that are not readable as they are declared.

    Refuse a column that two formats read and that means something else in each.
    """
    kept = survey.rows - survey.without_unit
    # Between 5 % and 10 % the format that needs no name fits too well for another one to be found.
    lossy = {
        column.name
        for column in survey.columns
        if not find_format(table.columns[column.name])
        and report.loses_much(column.unreadable, 2 * (kept - column.missing))
    }
    candidates = {
        name: DATE_FORMATS if isinstance(declared, DateColumn) else tuple(NUMBER_FORMATS)
        for name, declared in table.columns.items()
        if name in lossy and isinstance(declared, NumberColumn | DateColumn)
    }
    # The kinds are asked for last: to know them, objects of a pandas frame are looked at.
    kinds = engine.list_columns(source) if candidates else {}
    candidates = {name: each for name, each in candidates.items() if kinds[name] == TEXTS}
    if not candidates:
        return table
    found = _choose_formats(engine, source, table, candidates)
    columns = {
        name: with_format(column, found[name]) if name in found else column
        for name, column in table.columns.items()
    }
    return replace(table, columns=columns)


def describe_formats(table: Table, declared: Table) -> tuple[str, ...]:
    """Return the formats that were found for columns which were declared without one."""
    return tuple(
        f"'{name}' is read as written like {find_format(column)}."
        for name, column in table.columns.items()
        if find_format(column) != find_format(declared.columns[name])
    )


def _choose_formats(
    engine: EngineRouter, source: Any, table: Table, candidates: dict[str, tuple[str, ...]]
) -> dict[str, str]:
    """Return the format of each column that one format fits, by one pass over the source."""
    tried = [(name, each) for name, formats in candidates.items() for each in formats]
    columns = tuple(with_format(table.columns[name], each).make_stored_column(name) for name, each in tried)
    survey = engine.survey(source, Preparation(None, 1, columns, b""))
    fitting: dict[str, str] = {}
    near: dict[str, list[str]] = {name: [] for name in candidates}
    for (name, each), column in zip(tried, survey.columns, strict=True):
        values = survey.rows - column.missing
        if not report.loses_much(column.unreadable, values):
            fitting[name] = each
        if not report.loses_much(column.unreadable, 2 * values):
            near[name].append(each)
    for name in fitting:
        if len(near[name]) > 1:
            raise _two_ways(name, near[name], isinstance(table.columns[name], DateColumn))
    return fitting


def _two_ways(name: str, formats: list[str], dates: bool) -> UsageError:
    what = "order of day and month" if dates else "meaning of commas"
    options = " or ".join(f'sf.between(…, format="{each}")' for each in formats)
    return UsageError(
        "SF-C250",
        f"The values of '{name}' can be read in two ways: the {what} is not clear.",
        why="at least 90 % of the values are readable in each of two formats, and sfumato does not guess",
        try_=f'columns={{"{name}": {options}, …}}',
    )


def require_declared_values(engine: EngineRouter, source: Any, table: Table) -> Table:
    """Return the table with columns that cannot be missing because the source declares them NOT NULL.

    What the steward says about missing values holds instead. The types of the source decide, and no row.
    """
    open_columns = [name for name, each in table.columns.items() if _says_nothing_of_missing(each)]
    if not open_columns:
        return table
    required = engine.list_required(source)
    if not required.intersection(open_columns):
        return table
    kinds = engine.list_columns(source)
    total = {
        name for name in required.intersection(open_columns) if _is_total(table.columns[name], kinds[name])
    }
    columns = {name: require_values(each) if name in total else each for name, each in table.columns.items()}
    return replace(table, columns=columns)


def _says_nothing_of_missing(column: DeclaredColumn) -> bool:
    return not isinstance(column, TextColumn) and column.missing is None and column.nullable is None


def _is_total(column: DeclaredColumn, kind: str) -> bool:
    """Return whether a column of such a type has no other values than those that can be read."""
    if isinstance(column, ListedColumn):
        return kind == NUMBERS and set(map(type, column.values)) == {bool} and len(column.values) == 2
    return kind == (DATES if isinstance(column, DateColumn) else NUMBERS)
