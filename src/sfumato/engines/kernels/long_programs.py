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
    from collections.abc import Callable, Iterable, Mapping

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
    ready: Mapping[Column, Value]
    """Computed columns that batches hold already."""
    facts: ColumnFacts
    layers: tuple[Value, ...]
    """The values of other computed columns, the innermost first."""
    parts: int
    """Number of different values that are computed."""

    def begin(self) -> SumsOfCells:
        """Return the sums of no rows, to which batches are added."""
        return SumsOfCells(self.program, self.facts, self.layers, self.parts)


def find_column_program(
    program: EngineProgram[Any],
    find_ranges: Callable[[], ValueRanges],
    known: Mapping[int, Value] | None = None,
) -> ColumnProgram | None:
    """Return how NumPy computes a program whose SQL is long, or None where an engine's SQL is to be used.

    `find_ranges` steps through the program, so it is called only where the SQL is long. `known` are the
    values, by identity, that are held of every row already.
    """
    if not isinstance(program, CellSums) or program.cells > _MOST_CELLS:
        return None
    rows, computed = _split_layers(program.rows)
    asked = (*program.keys, *program.terms)
    parts = _Parts()
    if sum(map(parts.measure, (*computed.values(), *asked))) < _LONG:
        return None
    ranges = find_ranges()
    if not _can_compute(parts.known.values(), ranges):
        return None
    # Rows are chosen before anything is computed of them.
    if not _list_used([program.where], {})[0].isdisjoint(computed):
        return None
    ready = {column: value for column, value in computed.items() if id(value) in (known or {})}
    fresh = {column: value for column, value in computed.items() if column not in ready}
    used, count = _list_used(asked, fresh)
    # A number of rows needs no column: SQL leaves out what nothing looks at.
    if not used:
        return None
    layers = tuple(value for column, value in fresh.items() if column in used)
    facts = ColumnFacts(ranges, fresh, missing=True)
    # In order, so that none is looked for by a call within a call for every layer.
    for value in layers:
        facts.can_miss(value)
    ready = {column: value for column, value in ready.items() if column in used}
    # In an order of their own: that of a set differs from one process to the next.
    columns = tuple(sorted(used - computed.keys(), key=lambda column: (column.at, column.name)))
    return ColumnProgram(program, rows, columns, ready, facts, layers, count)


def _list_used(asked: Iterable[Any], computed: Mapping[Column, Value]) -> tuple[set[Column], int]:
    """Return the columns that parts look at, also for computed ones, and the number of different parts."""
    waiting, seen, columns = list(asked), set[int](), set[Column]()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, Column):
            columns.add(part)
            waiting += [computed[part]] if part in computed else []
        waiting += _inner(part)
    return columns, len(seen)


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


def _can_compute(parts: Iterable[Any], ranges: ValueRanges) -> bool:
    """Return whether parts are of the kinds that NumPy computes, in numbers that it holds."""
    for part in parts:
        if isinstance(part, _COMPUTED):
            if ranges.reach(part) >= (EXACT if isinstance(part, Column) else LARGEST):
                return False
        elif not isinstance(part, (*_DECIDED, *_SUMMED)):
            return False
    return True


class _Parts:
    """The different parts of a program, and how long it is when each is written wherever it is used."""

    def __init__(self) -> None:
        self.known: dict[int, Any] = {}
        self._sizes: dict[int, int] = {}

    def measure(self, part: Any) -> int:
        """Return how many parts a part has, those that are used twice counted twice."""
        if id(part) not in self._sizes:
            self.known[id(part)] = part
            inner = [self._sizes.get(id(each)) or self.measure(each) for each in _inner(part)]
            self._sizes[id(part)] = 1 + sum(inner)
        return self._sizes[id(part)]


def _inner(part: Any) -> list[Any]:
    """Return the values and conditions that a part is made of."""
    found: list[Any] = []
    if isinstance(part, Column | Constant):
        return found
    for name in _field_names(part.__class__):
        inner = getattr(part, name)
        if isinstance(inner, tuple):
            # Not the entries of a list: there are thousands, and none of them is a part.
            found += inner if isinstance(part, Every | Some) else ()
        elif not isinstance(inner, int | str | type(None)):
            found.append(inner)
    return found


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))
