"""What an engine is asked to do, as frozen values over the integers of a prepared snapshot.

The curator writes these; an engine turns them into its own SQL and returns exact integers. Nothing here
holds a float, a name or a text that an analyst typed: column names and values come from the catalog.
Predicates follow SQL's three-valued logic on columns that may be missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# ---- preparing: from a source to integers ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grid:
    """A number stored as the nearest multiple of 2^exponent, clipped to [low, high]; no number as missing."""

    name: str
    low: int
    high: int
    exponent: int


@dataclass(frozen=True, slots=True)
class Codes:
    """A value stored as its position in a public list of texts, numbers or booleans; others as missing."""

    name: str
    values: tuple[str, ...] | tuple[float, ...] | tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Preparation:
    """How a source becomes a snapshot: each unit keeps its first `max_rows` rows in a keyed hash order.

    With no unit column every row is a unit of its own and all rows are kept.
    """

    unit: str | None
    max_rows: int
    columns: tuple[Grid | Codes, ...]
    key: bytes


# ---- asking: which rows, into which cells, summing what ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class AtLeast:
    """column ≥ value"""

    column: str
    value: int


@dataclass(frozen=True, slots=True)
class AtMost:
    """column ≤ value"""

    column: str
    value: int


@dataclass(frozen=True, slots=True)
class Among:
    """column is one of these codes; with no codes, false wherever the column is not missing."""

    column: str
    codes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """column is missing; never unknown."""

    column: str


@dataclass(frozen=True, slots=True)
class Not:
    part: Predicate


@dataclass(frozen=True, slots=True)
class Every:
    """All parts hold; true when there are none."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """At least one part holds; false when there are none."""

    parts: tuple[Predicate, ...]


Predicate = AtLeast | AtMost | Among | Missing | Not | Every | Some


@dataclass(frozen=True, slots=True)
class Rows:
    """1 for every row."""


@dataclass(frozen=True, slots=True)
class Units:
    """Not a sum over rows: how many different units the rows are of. Without a unit column, as Rows."""


@dataclass(frozen=True, slots=True)
class Present:
    """1 where the column is not missing, else 0."""

    column: str


@dataclass(frozen=True, slots=True)
class Value:
    """The stored integer less `centre`; 0 where missing."""

    column: str
    centre: int = 0


LARGEST_SQUARE = 2**62
"""So that no sum of squares can overflow, whatever the centre and the shift."""


@dataclass(frozen=True, slots=True)
class Square:
    """⌊(stored integer − centre)² / 2^shift⌋, but at most LARGEST_SQUARE; 0 where missing."""

    column: str
    centre: int
    shift: int


@dataclass(frozen=True, slots=True)
class Weight:
    """The integer that belongs to the column's code; 0 where missing."""

    column: str
    weights: tuple[int, ...]


Term = Rows | Units | Present | Value | Square | Weight


@dataclass(frozen=True, slots=True)
class Key:
    """Group by a column of codes 0 … size − 1; rows where it is missing or outside belong to no cell."""

    column: str
    size: int


@dataclass(frozen=True, slots=True)
class Program:
    """Each term over the rows of each cell. Cells are the product of the keys, the last fastest."""

    snapshot: str
    where: Predicate
    keys: tuple[Key, ...]
    terms: tuple[Term, ...]

    @property
    def cells(self) -> int:
        cells = 1
        for key in self.keys:
            cells *= key.size
        return cells


class Engine(Protocol):
    """Holds prepared snapshots and runs programs on them."""

    def prepare(self, source: Any, preparation: Preparation, snapshot: str) -> None:
        """Make the snapshot durable under this name, or leave nothing behind."""

    def run(self, program: Program) -> NDArray[np.int64] | NDArray[np.object_]:
        """One row a term, one column a cell; every cell present, exact."""

    def erase(self, snapshot: str) -> None:
        """Remove a snapshot and what belongs to it."""
