"""Declared facts in words: what a column may hold, who is protected, and a table as people see it.

All of it is public. It is read off the catalog, and never off rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato import viz
from sfumato.curator.catalog.columns import DateColumn, ListedColumn, NumberColumn, TextColumn, kind_of_value
from sfumato.privacy.exact import format_short
from sfumato.privacy.units import Unit

if TYPE_CHECKING:
    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.catalog.columns import DeclaredColumn

_MOST_VALUES = 8
"""Listed values that are shown."""


def name_type(column: DeclaredColumn) -> str:
    """Return the word people use for the type of a column's values."""
    match column:
        case NumberColumn():
            return "number"
        case DateColumn():
            return "timestamp" if column.unit == "second" else "date"
        case ListedColumn():
            return kind_of_value(column.values[0])
        case TextColumn():
            return "text"


def describe_values(column: DeclaredColumn) -> str:
    """Return the values that a column may have, in words."""
    match column:
        case NumberColumn():
            low, high, step = map(format_short, (column.low, column.high, column.step))
            return f"between {low} and {high}, in steps of {step}"
        case DateColumn():
            return f"between {column.low} and {column.high}, to the {column.unit}"
        case ListedColumn():
            values = column.domain.show_values()
            some = ", ".join(map(str, values[:_MOST_VALUES]))
            return f"one of {some}" + (f", … ({len(values)} values)" if len(values) > _MOST_VALUES else "")
        case TextColumn():
            return "any text"


def describe_missing(column: DeclaredColumn) -> str:
    """Return what happens to missing values, in words."""
    value = column.missing
    if value is None:
        return "stay NULL"
    return f"count as {format_short(value) if isinstance(value, Fraction) else value}"


def describe_protection(table: Table) -> str:
    """Return who is protected in a table, in words."""
    if not isinstance(table.protects, Unit):
        return table.protects.sentence()
    if table.is_public:
        return "no one, because it is public"
    if table.unit.column is None:
        return "each row"
    return f"all rows of one {table.unit.column}, of which at most {table.unit.max_rows} are used"


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """One declared column as people see it."""

    name: str
    type: str
    values: str
    missing: str
    constant: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, ready for JSON."""
        return {
            "column": self.name,
            "type": self.type,
            "values": self.values,
            "missing": self.missing,
            "constant": self.constant,
        }

    @property
    def cells(self) -> tuple[str, ...]:
        """The facts as the cells of one line."""
        return self.name, self.type, self.values, self.missing + ("; one per unit" if self.constant else "")


@dataclass(frozen=True, slots=True)
class TableDescription:
    """What is declared about a table, as text, HTML and plain values."""

    name: str
    protects: str
    population: str | None
    rows: int | None
    """The number of rows, where that is public."""
    snapshot: int
    columns: tuple[ColumnDescription, ...]

    def __str__(self) -> str:
        lines = align_cells([_HEADER, *(column.cells for column in self.columns)]) if self.columns else []
        return "\n".join([*self._sentences(), *lines])

    def _sentences(self) -> list[str]:
        public = [] if self.rows is None else [f"It has {self.rows:,} rows, which is public."]
        return [f"{self.name} protects {self.protects}.", *public]

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = viz.html_table(_HEADER, [column.cells for column in self.columns], align="left")
        return viz.paragraphs(self._sentences()) + (table if self.columns else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, ready for JSON."""
        return {
            "table": self.name,
            "protects": self.protects,
            "population": self.population,
            "rows": self.rows,
            "snapshot": self.snapshot,
            "columns": [column.to_dict() for column in self.columns],
        }


_HEADER = ("column", "type", "values", "missing values")


def describe_table(table: Table) -> TableDescription:
    """Return what is declared about a table."""
    columns = tuple(
        ColumnDescription(name, name_type(each), describe_values(each), describe_missing(each), each.constant)
        for name, each in table.columns.items()
    )
    population = None if table.is_public else table.population
    protects = describe_protection(table)
    return TableDescription(table.name, protects, population, table.public_rows, table.snapshot, columns)


def align_cells(lines: list[tuple[str, ...]]) -> list[str]:
    """Return lines of cells as texts, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
