"""What an engine is asked for, and the exact integers it answers with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

import numpy as np

from sfumato.engines.rows import Counted, Figure, Present, Rows, Total
from sfumato.privacy.canonical import tagged, written_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sfumato.engines.snapshot import GraphPreparation, Preparation, SourceSurvey
    from sfumato.engines.values import Predicate, Value

    Integers = NDArray[np.int64] | NDArray[np.object_]
    """64-bit integers where all of them fit, else Python's own."""

__all__ = [
    "CellHistogram",
    "CellHistograms",
    "CellKey",
    "CellSums",
    "Counted",
    "CountedUnits",
    "CountedValues",
    "Engine",
    "EngineProgram",
    "HistogramCounts",
    "IntegerKeys",
    "KeyedSums",
    "Present",
    "SumsByKey",
    "Term",
    "Total",
    "UnitFigures",
]

Answer = TypeVar("Answer")
"""What a program is answered with."""

# ---- terms and keys ----------------------------------------------------------------------------------------


@tagged("Units")
@dataclass(frozen=True, slots=True)
class CountedUnits:
    """How many different units the rows are of. Without a unit column every row is one."""


@tagged("Distinct", "value", "size")
@dataclass(frozen=True, slots=True)
class CountedValues:
    """How many different values there are, missing ones left out; at most `size`, if that is known."""

    value: Value
    size: int | None = None


Term = Counted | Present | Total | CountedUnits | CountedValues


# A key without a place for missing values is written as it was before there was such a place.
def _write_key(key: CellKey) -> dict[str, Any]:
    nulls = {"nulls": True} if key.nulls else {}
    return {"": "Key", "value": key.value, "size": key.size, **nulls}


@written_by(_write_key)
@dataclass(frozen=True, slots=True)
class CellKey:
    """Group by an integer from 0 to size − 1; rows where it is missing or outside belong to no cell.

    With `nulls` the last place, size − 1, is for rows where the value is missing, and no value has it.
    """

    value: Value
    size: int
    nulls: bool = False


# ---- answers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HistogramCounts:
    """Answers histograms: ascending places, which are cell · size + integer.

    With `counts` each place that occurs is there once; without, once for every row.
    """

    places: NDArray[Any]
    """Integers of a type that holds every place of the histogram."""
    counts: NDArray[np.int64] | None
    size: int

    def triplets(self) -> NDArray[np.int64]:
        """Return three rows: cell, integer and how often, for what occurs."""
        # DuckDB hands rows over uncounted, which is faster than counting them there.
        places, counts = self.places, self.counts
        if counts is None:
            places, counts = np.unique(places, return_counts=True)
        return np.stack([*np.divmod(places.astype(np.int64), self.size), counts])


class IntegerKeys(Sequence[tuple[int, ...]]):
    """Keys of integers alone, a row each: a list of tuples takes ten times the memory."""

    def __init__(self, words: NDArray[np.int64]) -> None:
        self.words = words

    def __len__(self) -> int:
        return len(self.words)

    @overload
    def __getitem__(self, place: int) -> tuple[int, ...]: ...

    @overload
    def __getitem__(self, place: slice) -> IntegerKeys: ...

    def __getitem__(self, place: int | slice) -> tuple[int, ...] | IntegerKeys:
        if isinstance(place, slice):
            return IntegerKeys(self.words[place])
        return tuple(self.words[place].tolist())

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return map(tuple, self.words.tolist())


@dataclass(frozen=True, slots=True)
class SumsByKey:
    """Answers `KeyedSums`, in no particular order: a tuple of keys, the units, and a row a term."""

    keys: Sequence[tuple[Any, ...]]
    units: Integers
    sums: Integers


# ---- programs ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EngineProgram(Generic[Answer]):
    """One of the programs below, over the rows that satisfy `where`."""

    rows: Rows
    where: Predicate


@dataclass(frozen=True, slots=True)
class _CellProgram(EngineProgram[Answer]):
    """Cells are the product of the keys, the last fastest."""

    keys: tuple[CellKey, ...]

    @property
    def cells(self) -> int:
        return math.prod(key.size for key in self.keys)


@tagged("Program", "rows", "where", "keys", "terms")
@dataclass(frozen=True, slots=True)
class CellSums(_CellProgram["Integers"]):
    """Each term over the rows of each cell: one row a term, one column a cell; every cell is there."""

    terms: tuple[Term, ...]


@tagged("Tally", "rows", "where", "keys", "value", "size")
@dataclass(frozen=True, slots=True)
class CellHistogram(_CellProgram[HistogramCounts]):
    """How often each integer from 0 to size − 1 occurs in each cell."""

    value: Value
    size: int

    @property
    def span(self) -> int:
        """Every cell and integer has a place below this: cell · size + integer."""
        return self.cells * self.size


@tagged("Tallies", "rows", "where", "keys", "values", "size")
@dataclass(frozen=True, slots=True)
class CellHistograms(_CellProgram[HistogramCounts]):
    """Histograms of several values, from one scan.

    Value v of cell c is the cell c · values + v of the answer. Where a value is missing or outside, the
    row is not counted for it.
    """

    values: tuple[Value, ...]
    size: int


def _write_keyed(program: KeyedSums) -> dict[str, Any]:
    asked = {"keys": program.keys, "terms": program.terms}
    nulls = {"nulls": program.nulls} if program.nulls else {}
    return {"": "Keyed", "rows": program.rows, "where": program.where, **asked, **nulls}


@written_by(_write_keyed)
@dataclass(frozen=True, slots=True)
class KeyedSums(EngineProgram[SumsByKey]):
    """Each term over the rows of each combination of keys that occurs, and how many units it has.

    The answer is not public: only keys that were discovered with noise may be shown. Rows where a key is
    missing belong to no cell, unless its place is among `nulls`: there missing is a key like any other.
    """

    keys: tuple[Value, ...]
    terms: tuple[Term, ...]
    nulls: tuple[int, ...] = ()


@tagged("People", "rows", "where", "figures")
@dataclass(frozen=True, slots=True)
class UnitFigures(EngineProgram["Integers"]):
    """Figures of each unit: one row a figure, one column a unit with any row, in no particular order."""

    figures: tuple[Figure, ...]


class Engine(Protocol):
    """Holds prepared snapshots and answers programs over them."""

    def prepare(
        self, source: Any, preparation: Preparation | GraphPreparation, snapshot: str, *, survey: bool = False
    ) -> SourceSurvey | None:
        """Make the snapshot durable under this name, or leave nothing behind.

        With `survey` return exact counts of what was read, for the steward alone; of a graph there are none.
        """

    def survey(self, source: Any, preparation: Preparation) -> SourceSurvey:
        """Return the counts that `prepare` would, and keep nothing."""

    def list_columns(self, source: Any) -> dict[str, str]:
        """Return what kind of values each column of a source has, by the source's own types and no row."""

    def list_required(self, source: Any) -> frozenset[str]:
        """Return the columns that the source declares to have a value in every row."""

    def check(self, program: EngineProgram[Any]) -> None:
        """Raise EngineError unless the snapshots of a program can be opened now. No row is read."""

    def run(self, program: EngineProgram[Answer]) -> Answer:
        """Return exact integers, in the shape that the program says.

        EngineError says that nothing was read, which follows from public facts alone.
        """

    def erase(self, snapshot: str) -> None:
        """Remove a snapshot and what belongs to it."""
