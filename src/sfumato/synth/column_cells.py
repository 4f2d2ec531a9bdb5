"""The cells of a column: which values share one, what a row's value becomes, and values drawn back.

Cells follow from declarations alone. On own frames and on every engine a value lies in the same cell, because
both put it on the declared grid first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.catalog.columns import (
    DateColumn,
    ListedColumn,
    NumberColumn,
    TextColumn,
    between,
    one_of,
)
from sfumato.curator.catalog.domains import FreeTexts, Listed, Numbers, Periods
from sfumato.curator.lower.computed import sum_values
from sfumato.errors import UsageError
from sfumato.oracle.arrays.coded_rows import find_missing
from sfumato.oracle.arrays.features import encode_labels, to_numbers
from sfumato.oracle.blocks import Add, AtLeast, Choose, Constant, Divide, Either, Missing
from sfumato.privacy.canonical import tagged
from sfumato.privacy.exact import parse_exact, parse_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.curator.catalog.columns import DeclaredColumn
    from sfumato.curator.catalog.domains import Domain
    from sfumato.oracle.blocks import Value

    Ints = NDArray[np.int64]

MOST_CELLS = 2048
"""The most cells of one column. Privacy does not depend on it."""
FINE = 1024
"""Cells among which the ends of bins are bought, where they are."""
BINS = 32
"""Bins of a column of numbers for which no number was named. Privacy does not depend on it."""
QUANTILES = "quantiles"


@tagged("Cells", "name", "domain", "cuts", "nullable", "merged")
@dataclass(frozen=True, slots=True)
class ColumnCells:
    """The cells of one column: each begins at a cut, an integer of the domain; missing values come last."""

    name: str
    domain: Numbers | Listed | Periods
    cuts: tuple[int, ...]
    """The least integer of each cell, ascending; the first is the least of the domain."""
    nullable: bool
    merged: int = 0
    """Into how many bins its cells are merged, at quantiles that are bought; 0 for none."""

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(self.cuts) + self.nullable

    # ---- from rows to cells ----

    def lower(self, value: Value) -> Value:
        """Return the cell of a row as an engine computes it, from the integer of its value."""
        first, width = self.cuts[0], self._width
        if not width:
            # How many cuts it reaches; a sum of tests is never missing, so missing values are sought first.
            reached = [Choose(AtLeast(value, cut), Constant(1), Constant(0)) for cut in self.cuts[1:]]
            cell = sum_values(reached)
            absent = Choose(Missing(value), Constant(len(self.cuts)), cell)
            return absent if self.nullable else cell
        shifted = Add(value, Constant(-first)) if first else value
        cell = shifted if width == 1 else Divide(shifted, Constant(width))
        return Either(cell, Constant(len(self.cuts))) if self.nullable else cell

    @property
    def _width(self) -> int:
        """The width that all cells have but the last, which may be narrower; 0 if there is none."""
        widths = {after - cut for cut, after in pairwise(self.cuts)}
        last = self.domain.high + 1 - self.cuts[-1]
        if not widths:
            return last
        width = widths.pop()
        return width if not widths and last <= width else 0

    def encode(self, values: Any) -> Ints:
        """Return the cell of each value of an own column. Nothing that a row holds is an error."""
        places, missing = _read_places(self.domain, values)
        cells = np.searchsorted(np.array(self.cuts), places, side="right") - 1
        # Without a cell for missing values they count in the first one.
        return np.where(missing, len(self.cuts) if self.nullable else 0, cells)

    # ---- from cells to values ----

    def decode(self, cells: Ints, random: np.random.Generator) -> Any:
        """Return values of the declared type, drawn evenly within their cells."""
        import pyarrow as pa

        edges = np.array([*self.cuts, self.domain.high + 1])
        missing = cells >= len(self.cuts)
        at = np.where(missing, 0, cells)
        places = edges[at] + np.floor(random.random(len(at)) * (edges[at + 1] - edges[at])).astype(np.int64)
        if isinstance(self.domain, Numbers):
            whole = self.domain.whole
            step = int(self.domain.step) if whole else float(self.domain.step)
            return pa.array(places * step, type=pa.int64() if whole else pa.float64(), mask=missing)
        used, back = np.unique(places, return_inverse=True)
        values: list[Any] = [self.domain.show_value(int(place)) for place in used]
        at_values: Any = pa.array(back.reshape(-1), mask=missing)
        return pa.array(values, type=self._type()).take(at_values)

    def _type(self) -> Any:
        import pyarrow as pa

        if isinstance(self.domain, Periods):
            return pa.timestamp("s") if self.domain.unit == "second" else pa.date32()
        return None

    def show_cells(self) -> list[Any]:
        """Return what each cell is called: a value, the ends of a bin, or None for missing values."""
        ends = [*self.cuts[1:], self.domain.high + 1]
        shown = self.domain.show_value
        named: list[Any] = [
            shown(cut) if end == cut + 1 else (shown(cut), shown(end - 1))
            for cut, end in zip(self.cuts, ends, strict=True)
        ]
        return [*named, None] if self.nullable else named


# ---- what is declared --------------------------------------------------------------------------------------


def declare_cells(name: str, domain: Domain, nullable: bool, bins: Any) -> ColumnCells:
    """Return the cells of a column with this domain. `bins` says how numbers and dates are divided."""
    if isinstance(domain, FreeTexts):
        raise _no_domain(name)
    if isinstance(domain, Listed):
        if domain.size > MOST_CELLS:
            raise _too_many(name, domain.size)
        return ColumnCells(name, domain, tuple(range(domain.size)), nullable)
    asked, merged = bins, 0
    if asked == QUANTILES or (isinstance(asked, tuple | list) and asked and asked[0] == QUANTILES):
        merged = BINS if asked == QUANTILES else parse_whole(asked[1], "bins")
        asked = FINE
    if asked is None:
        # Few whole numbers have a cell each; others are divided evenly.
        asked = domain.size if domain.known and domain.size <= 128 else BINS
    if isinstance(asked, int):
        count = parse_whole(asked, "bins")
        if count > MOST_CELLS:
            raise _too_many(name, count)
        width = -(-domain.size // count)
        cuts = tuple(range(domain.low, domain.high + 1, width))
        return ColumnCells(name, domain, cuts, nullable, min(merged, len(cuts)))
    return ColumnCells(name, domain, _read_cuts(name, domain, asked), nullable)


def _read_cuts(name: str, domain: Numbers | Periods, asked: Any) -> tuple[int, ...]:
    """Return the cuts that were typed as numbers, in steps of the domain."""
    try:
        typed = [parse_exact(each, "bins") for each in asked]
    except (TypeError, UsageError):
        typed = []
    if not typed or not isinstance(domain, Numbers):
        raise UsageError(
            "SF-E110",
            f"The bins of '{name}' are neither a number of bins nor the numbers at which they begin.",
            try_='bins={"age": 16}, bins={"age": [18, 65]} or bins={"age": "quantiles"}',
        )
    places = {
        -(-each.numerator * domain.step.denominator // (each.denominator * domain.step.numerator))
        for each in typed
    }
    inside = sorted(each for each in places if domain.low < each <= domain.high)
    return (domain.low, *inside)


def read_own_declaration(name: str, declared: Any) -> tuple[Domain, bool]:
    """Return the domain of an own column, and whether values may be missing, from what was declared of it."""
    column = _read_column(name, declared)
    return column.domain, column.missing is None


def _read_column(name: str, declared: Any) -> DeclaredColumn:
    if isinstance(declared, NumberColumn | DateColumn | ListedColumn | TextColumn):
        return declared
    try:
        values = [each.item() if isinstance(each, np.generic) else each for each in declared]
    except TypeError:
        values = []
    if isinstance(declared, tuple) and len(values) == 2 and not isinstance(values[0], str | bool):
        bounded: DeclaredColumn = between(*values)
        return bounded
    if values and not isinstance(declared, str | Mapping):
        return one_of(*dict.fromkeys(values))
    raise _no_domain(name)


def _no_domain(name: str) -> UsageError:
    return UsageError(
        "SF-E101",
        f"Nothing is declared of the values of '{name}', so it cannot be synthesised.",
        why="values, bins and bounds that are read from rows would reveal some of them",
        try_=f'bounds={{"{name}": sf.between(0, 110, step=1)}} or sf.one_of("A", "B"), or other columns',
    )


def _too_many(name: str, count: int) -> UsageError:
    return UsageError(
        "SF-E230",
        f"'{name}' has too many values to have a cell each.",
        asked=f"{count:,}",
        most=f"{MOST_CELLS:,}",
        try_=f'fewer bins, such as bins={{"{name}": 64}}; or leave the column out',
    )


# ---- own columns -------------------------------------------------------------------------------------------


def _read_places(domain: Numbers | Listed | Periods, values: Any) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the integers that own values stand for, and which of them are missing."""
    given = np.asarray(values)
    if isinstance(domain, Listed):
        # Dates and complex numbers do not compare with texts and integers, so they are looked up one by one.
        given = given.astype(object) if given.dtype.kind in "mMc" else given
        found = np.where(find_missing(given), -1, encode_labels(given, tuple(domain.show_values())))
        return np.maximum(found, 0), found < 0
    numbers = _count_periods(domain, given) if isinstance(domain, Periods) else to_numbers(given)
    missing = np.isnan(numbers)
    step = 1.0 if isinstance(domain, Periods) else float(domain.step)
    nearest = np.floor(np.clip(np.where(missing, 0.0, numbers / step), -(2.0**60), 2.0**60) + 0.5)
    return np.clip(nearest.astype(np.int64), domain.low, domain.high), missing


def _count_periods(domain: Periods, values: NDArray[Any]) -> NDArray[np.float64]:
    unit = "s" if domain.unit == "second" else "D"
    try:
        with np.errstate(all="ignore"):
            moments = values.astype(f"datetime64[{unit}]")
    except (TypeError, ValueError, OverflowError):
        moments = np.array([_moment(each, unit) for each in values.tolist()], dtype=f"datetime64[{unit}]")
    return np.where(np.isnat(moments), np.nan, moments.astype(np.int64).astype(np.float64))


def _moment(value: Any, unit: str) -> Any:
    """Return a value as a date, or none where it is no date, such as an integer that no calendar reaches."""
    try:
        found = np.array(value, dtype=f"datetime64[{unit}]")
    except (TypeError, ValueError, OverflowError):
        found = np.array([])
    # A row that holds a list holds no date.
    return found if found.ndim == 0 else np.array("NaT", dtype=f"datetime64[{unit}]")
