"""Declared facts in words: what a column may hold, who is protected, and a table as people see it.

All of it is public. It is read off the catalog, and never off rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from sfumato import viz
from sfumato.curator.catalog.calendar import SECONDS
from sfumato.curator.catalog.columns import DateColumn, ListedColumn, NumberColumn, TextColumn, kind_of_value
from sfumato.curator.catalog.domains import FreeTexts, Listed, Numbers, Periods
from sfumato.curator.catalog.unbounded import HasNoBounds
from sfumato.errors.numbers import format_number
from sfumato.privacy.units import Unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    import pyarrow as pa

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.catalog.columns import DeclaredColumn
    from sfumato.curator.catalog.domains import Domain

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
            (low, high), step = map(_write, (column.low, column.high)), format_number(column.step)
            return f"between {low} and {high}, in steps of {step}"
        case DateColumn():
            return f"between {column.low} and {column.high}, to the {column.unit}"
        case ListedColumn():
            return describe_list(column.domain)
        case TextColumn():
            return "any text"


def describe_missing(column: DeclaredColumn) -> str:
    """Return what happens to missing values, in words."""
    value = column.missing
    if value is None:
        return "stay NULL"
    if column.nullable is False:
        return "do not occur"
    return f"count as {_write(value) if isinstance(value, Fraction) else value}"


def describe_protection(table: Table) -> str:
    """Return who is protected in a table, in words."""
    if not isinstance(table.protects, Unit):
        return table.protects.sentence()
    if table.is_public:
        return "no one, because it is public"
    if table.unit.column is None:
        return "each row"
    return f"all rows of one {table.unit.column}, of which at most {table.unit.max_rows} are used"


def describe_domain(domain: Domain) -> tuple[str, str]:
    """Return the type of the values of a domain and which they are, in words."""
    match domain:
        case Numbers():
            low, high = (_write(domain.value_at(end)) for end in (domain.low, domain.high))
            return "number", f"between {low} and {high}, in steps of {format_number(domain.step)}"
        case Periods():
            ends = f"between {domain.value_at(domain.low)} and {domain.value_at(domain.high)}"
            return "timestamp" if domain.unit in SECONDS else "date", f"{ends}, to the {domain.unit}"
        case Listed(values=values) if values:
            return kind_of_value(values[0]), describe_list(domain)
        case FreeTexts():
            return "text", "any text"
    return "none", "always NULL"


def describe_list(listed: Listed) -> str:
    """Return the first values of a list in words, and how many there are."""
    values = listed.show_values()
    some = ", ".join(map(str, values[:_MOST_VALUES]))
    return f"one of {some}" + (f", … ({len(values)} values)" if len(values) > _MOST_VALUES else "")


class PublicFacts(HasNoBounds, ABC):
    """Public facts as a small table. They cost nothing: `quote` and `release` return them as they are."""

    __slots__ = ()

    @property
    @abstractmethod
    def header(self) -> tuple[str, ...]:
        """The names of the table's columns."""

    @property
    @abstractmethod
    def lines(self) -> list[tuple[str, ...]]:
        """The cells of the table, line by line."""

    def sentences(self) -> list[str]:
        """Return what is said above the table."""
        return []

    def quote(self, **_: Any) -> Self:
        """Return the facts: they are public, and nothing is read or charged for them."""
        return self

    release = quote

    def to_arrow(self) -> pa.Table:
        """Return the facts as an Arrow table of texts."""
        import pyarrow as pa

        columns = list(zip(*self.lines, strict=True)) or [()] * len(self.header)
        arrays = [pa.array(column, pa.string()) for column in columns]
        return pa.table(dict(zip(self.header, arrays, strict=True)))

    def to_pandas(self) -> pd.DataFrame:
        """Return the facts as a pandas frame of texts."""
        return self.to_arrow().to_pandas()

    def __str__(self) -> str:
        grid = align_cells([self.header, *self.lines]) if self.lines else []
        return "\n".join([*self.sentences(), *grid])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = viz.html_table(self.header, self.lines, align="left") if self.lines else ""
        return viz.paragraphs(self.sentences()) + table


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


@dataclass(frozen=True, slots=True, repr=False)
class TableDescription(PublicFacts):
    """What is declared about a table, or follows for rows made of one, as text, HTML and plain values."""

    name: str
    protects: str
    population: str | None
    rows: int | None
    """The number of rows, where that is public."""
    snapshot: int
    columns: tuple[ColumnDescription, ...]
    chosen: tuple[str, ...] = ()
    """Which bounds were chosen privately, one sentence each."""

    @property
    def header(self) -> tuple[str, ...]:
        return _HEADER

    @property
    def lines(self) -> list[tuple[str, ...]]:
        return [column.cells for column in self.columns]

    def sentences(self) -> list[str]:
        """Return who is protected, and what else is public."""
        public = [] if self.rows is None else [f"It has {self.rows:,} rows, which is public."]
        return [f"{self.name} protects {self.protects}.", *public, *self.chosen]

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, ready for JSON."""
        return {
            "table": self.name,
            "protects": self.protects,
            "population": self.population,
            "rows": self.rows,
            "snapshot": self.snapshot,
            "columns": [column.to_dict() for column in self.columns],
            **({"chosen": list(self.chosen)} if self.chosen else {}),
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
    unit = table.protects.column if isinstance(table.protects, Unit) else None
    chosen = tuple(each.describe(unit) for each in table.chosen)
    return TableDescription(
        table.name, protects, population, table.public_rows, table.snapshot, columns, chosen
    )


@dataclass(frozen=True, slots=True, repr=False)
class TableListing(PublicFacts):
    """The tables that can be asked about: their names, in order, and what is declared about each."""

    tables: tuple[TableDescription, ...]

    @property
    def header(self) -> tuple[str, ...]:
        return "table", "protects", "columns"

    @property
    def lines(self) -> list[tuple[str, ...]]:
        return [
            (each.name, each.protects, ", ".join(column.name for column in each.columns))
            for each in self.tables
        ]

    def sentences(self) -> list[str]:
        """Return a word where there is no table."""
        return [] if self.tables else ["There is no table to ask about yet."]

    def __iter__(self) -> Iterator[str]:
        return (each.name for each in self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def __getitem__(self, name: str) -> TableDescription:
        found = [each for each in self.tables if each.name.casefold() == name.casefold()]
        if not found:
            raise KeyError(name)
        return found[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, ready for JSON."""
        return {"tables": [each.to_dict() for each in self.tables]}


def align_cells(lines: list[tuple[str, ...]]) -> list[str]:
    """Return lines of cells as texts, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def _write(declared: Fraction) -> str:
    """Return a declared number with all of its digits, unless it has very many."""
    return format_number(declared, 12)
