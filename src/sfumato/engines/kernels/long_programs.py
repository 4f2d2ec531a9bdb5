"""Programs that are summed by NumPy because their SQL would be long.

Which those are follows from the program and the declared bounds alone, and the sums are the same either way.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any

from sfumato.engines.kernels.cell_sums import SumsOfCells
from sfumato.engines.kernels.column_facts import EXACT, LARGEST, ColumnFacts
from sfumato.engines.program import CellKey, CellSums, Counted, Total
from sfumato.engines.rows import Computed
from sfumato.engines.values import (
    Add,
    Among,
    AtLeast,
    AtMost,
    Choose,
    Column,
    Constant,
    Divide,
    Either,
    Every,
    Greatest,
    Least,
    Less,
    Lookup,
    Missing,
    Multiply,
    Not,
    Same,
    Some,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.engines.program import EngineProgram
    from sfumato.engines.rows import Rows
    from sfumato.engines.value_ranges import ValueRanges
    from sfumato.engines.values import Value

_LONG = 256
"""Parts of expressions, as SQL would repeat them, from which on NumPy is faster than planning the SQL
(benchmarks/fits.py). Privacy does not depend on it."""
_MOST_CELLS = 2**16
"""Cells that NumPy goes through for every window of rows."""
_COMPUTED = (Column, Constant, Add, Multiply, Divide, Least, Greatest, Either, Lookup, Choose)
_DECIDED = (AtLeast, AtMost, Among, Less, Same, Missing, Not, Every, Some)
_SUMMED = (CellKey, Counted, Total)


@dataclass(frozen=True, slots=True)
class ColumnProgram:
    """A program of sums, and the columns that an engine reads for it."""

    program: CellSums
    rows: Rows
    """The rows without their computed columns."""
    columns: tuple[Column, ...]
    """Columns of those rows, all of which are read."""
    facts: ColumnFacts
    layers: tuple[Value, ...]
    parts: int

    def begin(self) -> SumsOfCells:
        """Return the sums of no rows, to which batches are added."""
        return SumsOfCells(self.program, self.facts, self.layers, self.parts)


def find_column_program(program: EngineProgram[Any], ranges: ValueRanges) -> ColumnProgram | None:
    """Return how NumPy computes a program whose SQL is long, or None where an engine's SQL is to be used."""
    if not isinstance(program, CellSums) or program.cells > _MOST_CELLS:
        return None
    rows, computed = _split_layers(program.rows)
    parts = _Parts(computed)
    asked = (*program.keys, *program.terms)
    if sum(map(parts.measure, asked)) + parts.layers < _LONG or not _can_compute(parts, ranges):
        return None
    # Rows are chosen before anything is computed of them.
    if any(column in computed for column in _Parts({}).list_columns(program.where)):
        return None
    columns = tuple(dict.fromkeys(each for each in parts.columns if each not in computed))
    used = set(parts.columns)
    layers = tuple(value for column, value in computed.items() if column in used)
    facts = ColumnFacts(ranges, computed, missing=True)
    for value in layers:
        facts.can_miss(value)
    return ColumnProgram(program, rows, columns, facts, layers, max(1, len(parts.known)))


def _split_layers(rows: Rows) -> tuple[Rows, dict[Column, Value]]:
    """Return rows without their computed columns, and the values of those, the innermost first."""
    layers = []
    while isinstance(rows, Computed):
        layers.append(rows)
        rows = rows.rows
    named = [
        (Column(layer.at, f"v{place}"), value)
        for layer in reversed(layers)
        for place, value in enumerate(layer.values)
    ]
    return rows, dict(named)


def _can_compute(parts: _Parts, ranges: ValueRanges) -> bool:
    """Return whether all parts are of the kinds that NumPy computes, in numbers that it holds."""
    for part in parts.known.values():
        if isinstance(part, _COMPUTED):
            if ranges.reach(part) >= (EXACT if isinstance(part, Column) else LARGEST):
                return False
        elif not isinstance(part, (*_DECIDED, *_SUMMED)):
            return False
    return bool(parts.columns)


class _Parts:
    """The different parts of a program, and how long it is when each is written wherever it is used."""

    def __init__(self, computed: dict[Column, Value]) -> None:
        self.known: dict[int, Any] = {}
        self.columns: list[Column] = []
        self._sizes: dict[int, int] = {}
        self.layers = sum(map(self.measure, computed.values()))

    def measure(self, part: Any) -> int:
        """Return how many parts a part has, those that are used twice counted twice."""
        if id(part) not in self._sizes:
            self.known[id(part)] = part
            if isinstance(part, Column):
                self.columns.append(part)
            self._sizes[id(part)] = 1 + sum(map(self.measure, _inner(part)))
        return self._sizes[id(part)]

    def list_columns(self, part: Any) -> list[Column]:
        """Return the columns that a part looks at."""
        self.measure(part)
        return self.columns


def _inner(part: Any) -> Iterator[Any]:
    """Yield the values and conditions that a part is made of."""
    if isinstance(part, Column | Constant):
        return
    for name in _field_names(part.__class__):
        inner = getattr(part, name)
        if isinstance(inner, tuple):
            # Not the entries of a list: there are thousands, and none of them is a part.
            yield from inner if isinstance(part, Every | Some) else ()
        elif not isinstance(inner, int | str | type(None)):
            yield inner


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))
