"""How a source becomes a snapshot: columns of integers and texts, units with a bounded number of rows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class StoredGrid:
    """A number stored as the nearest multiple of a step, clipped to [low, high]; no number as missing.

    `missing` is the integer that stands for a missing value; without it a missing value stays missing.
    """

    name: str
    low: int
    high: int
    step: Fraction = Fraction(1)
    missing: int | None = None
    format: str = ""
    """How texts write the numbers: a name in engines/formats.py; empty for plain numbers."""


@dataclass(frozen=True, slots=True)
class StoredTime:
    """A date or moment as days or seconds since 1970 in UTC, rounded down, clipped; others as missing."""

    name: str
    low: int
    high: int
    seconds: bool
    missing: int | None = None
    format: str = ""
    """How texts write the dates: a name in engines/formats.py; empty for ISO 8601."""


@dataclass(frozen=True, slots=True)
class StoredCodes:
    """A value stored as its position in a public list of texts, numbers or booleans; others as missing."""

    name: str
    values: tuple[str, ...] | tuple[float, ...] | tuple[bool, ...]
    missing: int | None = None


@dataclass(frozen=True, slots=True)
class StoredText:
    """A text stored as it is. No program returns one that was not discovered with noise."""

    name: str


StoredColumn = StoredGrid | StoredTime | StoredCodes | StoredText


def write_steps(grid: StoredGrid, number: str, double: str) -> str:
    """Write how many steps of a grid a double is, by one product or quotient for steps as 0.01 or 5."""
    steps = number
    if grid.step.denominator != 1:
        steps = f"{steps} * CAST('{float(grid.step.denominator)!r}' AS {double})"
    if grid.step.numerator != 1:
        steps = f"{steps} / CAST('{float(grid.step.numerator)!r}' AS {double})"
    return f"({steps})"


def find_reach(column: StoredColumn) -> int | None:
    """Return how far from zero a column's integers can be, by the declaration alone; None for texts."""
    match column:
        case StoredGrid(low=low, high=high) | StoredTime(low=low, high=high):
            return max(abs(low), abs(high), abs(column.missing or 0))
        # One more than the largest code; older snapshots state the same number.
        case StoredCodes(values=values):
            return max(len(values), abs(column.missing or 0))
        case StoredText():
            return None


@dataclass(frozen=True, slots=True)
class Preparation:
    """How a source becomes a snapshot: each unit keeps its first `max_rows` rows in a keyed hash order.

    With no unit column every row is a unit of its own and all rows are kept. A column in `constant` has one
    value for all rows of a unit: the one of the unit's first row in that order, whatever the others say.
    """

    unit: str | None
    max_rows: int
    columns: tuple[StoredColumn, ...]
    key: bytes
    constant: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnSurvey:
    """How many rows of a source lose what they say in one column, of the rows that have an identifier."""

    name: str
    missing: int
    """Rows that say nothing."""
    unreadable: int
    """Rows with something else than the declared kind, or than the listed values: they count as missing."""
    below: int
    above: int
    """Rows beyond a bound, which count as the bound."""
    varying: int = 0
    """Units whose rows have several values, in a column that is declared to have one for each unit."""


@dataclass(frozen=True, slots=True)
class SourceSurvey:
    """Exact counts of what a declaration does to a source. They are for the steward alone."""

    rows: int
    without_unit: int
    """Rows that name no unit, and are left out."""
    units: int | None
    """Units, where a column names them."""
    crowded: int
    """Units with more rows than are kept."""
    dropped: int
    """Rows of theirs that are left out."""
    columns: tuple[ColumnSurvey, ...]
    reading: tuple[str, ...] = ()
    """How a file is written that is not UTF-8 with commas, one sentence each."""


@dataclass(frozen=True, slots=True)
class GraphPreparation:
    """How a list of edges becomes a snapshot: one row for each node with an edge, its column `degree`.

    (a, b) and (b, a) are one edge; loops, copies, and rows with a missing end do not count. With a
    `max_degree` edges are considered in a keyed order, the same in every graph, and one is kept if both its
    ends have fewer than that many kept before it. Without, all are kept.
    """

    left: str
    right: str
    max_degree: int | None
    key: bytes


DEGREE = "degree"
