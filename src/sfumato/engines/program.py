"""What an engine is asked for, and the exact integers it answers with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato.engines.rows import Counted, Figure, Present, Rows, Total
from sfumato.privacy.canonical import tagged

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.engines.snapshot import GraphPreparation, Preparation
    from sfumato.engines.values import Predicate, Value

    Integers = NDArray[np.int64] | NDArray[np.object_]

__all__ = [
    "CellHistogram",
    "CellHistograms",
    "CellKey",
    "CellSums",
    "Counted",
    "CountedUnits",
    "Engine",
    "HistogramCounts",
    "KeyedSums",
    "Present",
    "SumsByKey",
    "Term",
    "Total",
    "UnitFigures",
]


@tagged("Units")
@dataclass(frozen=True, slots=True)
class CountedUnits:
    """Not a sum over rows: how many different units the rows are of. Without a unit column, as Counted."""


Term = Counted | Present | Total | CountedUnits


@tagged("Key", "value", "size")
@dataclass(frozen=True, slots=True)
class CellKey:
    """Group by an integer from 0 to size − 1; rows where it is missing or outside belong to no cell."""

    value: Value
    size: int


@tagged("Program", "rows", "where", "keys", "terms")
@dataclass(frozen=True, slots=True)
class CellSums:
    """Each term over the rows of each cell. Cells are the product of the keys, the last fastest.

    Answered by one row a term, one column a cell; every cell is there.
    """

    rows: Rows
    where: Predicate
    keys: tuple[CellKey, ...]
    terms: tuple[Term, ...]

    @property
    def cells(self) -> int:
        return math.prod(key.size for key in self.keys)


@tagged("Tally", "rows", "where", "keys", "value", "size")
@dataclass(frozen=True, slots=True)
class CellHistogram:
    """How often each integer from 0 to size − 1 occurs in each cell. Answered by `Tallied`."""

    rows: Rows
    where: Predicate
    keys: tuple[CellKey, ...]
    value: Value
    size: int

    @property
    def cells(self) -> int:
        return math.prod(key.size for key in self.keys)

    @property
    def span(self) -> int:
        """Every cell and integer has a place below this: cell · size + integer."""
        return self.cells * self.size


@tagged("Tallies", "rows", "where", "keys", "values", "size")
@dataclass(frozen=True, slots=True)
class CellHistograms:
    """The same of several values at once, from one scan. Answered by `Tallied`, for which value v of cell c
    is the cell c · values + v. Where a value is missing or outside, the row is not counted for it."""

    rows: Rows
    where: Predicate
    keys: tuple[CellKey, ...]
    values: tuple[Value, ...]
    size: int

    @property
    def cells(self) -> int:
        return math.prod(key.size for key in self.keys)


@dataclass(frozen=True, slots=True)
class HistogramCounts:
    """The answer to `Tally`: ascending places, which are cell · size + integer.

    With `counts` each place that occurs is there once; without, once for every row.
    """

    places: NDArray[Any]
    """Of an integer type that holds the span of the tally."""
    counts: NDArray[np.int64] | None
    size: int

    def triplets(self) -> NDArray[np.int64]:
        """Three rows: cell, integer and how often, for what occurs."""
        places, counts = self.places, self.counts
        if counts is None:
            places, counts = np.unique(places, return_counts=True)
        return np.stack([*np.divmod(places.astype(np.int64), self.size), counts])


@tagged("Keyed", "rows", "where", "keys", "terms")
@dataclass(frozen=True, slots=True)
class KeyedSums:
    """Each term over the rows of each combination of keys that occurs, and how many units it has.

    What is answered is not public: only keys that were bought may be shown. Missing keys belong to no cell.
    """

    rows: Rows
    where: Predicate
    keys: tuple[Value, ...]
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class SumsByKey:
    """The answer to `Keyed`, in no particular order: a tuple of keys, the units, and a row a term."""

    keys: list[tuple[Any, ...]]
    units: Integers
    sums: Integers


@tagged("People", "rows", "where", "figures")
@dataclass(frozen=True, slots=True)
class UnitFigures:
    """Figures of each unit: one row a figure, one column a unit with any row, in no particular order."""

    rows: Rows
    where: Predicate
    figures: tuple[Figure, ...]


EngineProgram = CellSums | CellHistogram | CellHistograms | KeyedSums | UnitFigures


class Engine(Protocol):
    """Holds prepared snapshots and answers what is asked of them."""

    def prepare(self, source: Any, preparation: Preparation | GraphPreparation, snapshot: str) -> None:
        """Make the snapshot durable under this name, or leave nothing behind."""

    def run(self, program: EngineProgram) -> Any:
        """Exact integers, in the shape that the program says."""

    def erase(self, snapshot: str) -> None:
        """Remove a snapshot and what belongs to it."""
