"""Compile a program to one SQL text: our words, stored column names, integers and hexadecimal digits.

Nothing else is ever written into it, so no name and no text that anyone typed reaches an engine as SQL.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.engines.expressions import join_conditions
from sfumato.engines.program import (
    CellHistogram,
    CellHistograms,
    CellSums,
    CountedUnits,
    CountedValues,
    KeyedSums,
    UnitFigures,
)
from sfumato.engines.relations import Layout, RelationWriter
from sfumato.engines.rows import (
    Bounded,
    Computed,
    Joined,
    Ordered,
    PerUnit,
    Present,
    Scan,
    Total,
    UnitSizes,
    list_scans,
)
from sfumato.engines.used_columns import find_used
from sfumato.engines.value_ranges import ValueRanges
from sfumato.engines.values import WIDEST, Add, Choose, Column, Constant, Divide, Either, Missing, Multiply

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.engines.dialect import Dialect
    from sfumato.engines.kernels.long_programs import ColumnProgram
    from sfumato.engines.program import CellKey, EngineProgram, Term
    from sfumato.engines.rows import Rows
    from sfumato.engines.values import Value

__all__ = ["Layout", "compile_columns", "compile_program", "find_ranges"]


def compile_program(program: EngineProgram[Any], layouts: Mapping[str, Layout], dialect: Dialect) -> str:
    """Return one SELECT. `layouts` knows every snapshot that is read."""
    return _ProgramWriter(_write_relations(program, layouts, dialect)).write_program(program)


def compile_columns(
    found: ColumnProgram, columns: Sequence[Column], layouts: Mapping[str, Layout], dialect: Dialect
) -> str:
    """Return one SELECT of these columns, for all rows that a program uses."""
    relations = _write_relations(found.program, layouts, dialect)
    for column in columns:
        relations.used.columns[column.at].add(column.name)
    chosen = ", ".join(map(relations.expressions.write_value, columns))
    where = relations.expressions.write_condition(found.program.where)
    return f"SELECT {chosen} FROM {relations.write_source(found.rows)} WHERE {where}"  # noqa: S608


def _write_relations(
    program: EngineProgram[Any], layouts: Mapping[str, Layout], dialect: Dialect
) -> RelationWriter:
    _require_distinct(program.rows)
    at = {scan.at: layouts[scan.snapshot] for scan in list_scans(program.rows) if isinstance(scan, Scan)}
    used = find_used(program, lambda column: column.name in at[column.at].texts)
    return RelationWriter(dialect, layouts, used, frozenset(at), find_ranges(program.rows, layouts))


# ---- what a program looks at -------------------------------------------------------------------------------


def _require_distinct(rows: Rows) -> None:
    """Raise where two sources share a number: one of them would be given the other's columns and bounds."""
    known = _numbers(rows)
    if len(known) != len(set(known)):
        raise AssertionError(known)


def _numbers(rows: Rows) -> list[int]:
    match rows:
        case Joined(left, right):
            return _numbers(left) + _numbers(right)
        case Bounded(inner):
            return _numbers(inner)
        case PerUnit(inner) | Computed(inner) | Ordered(inner):
            return [*_numbers(inner), rows.at]
        case Scan() | UnitSizes():
            return [rows.at]


def find_ranges(rows: Rows, layouts: Mapping[str, Layout]) -> ValueRanges:
    """Return ranges over stored columns, and over computed ones that are narrow.

    Columns of other sources may have the names of stored ones, so nothing is taken to be known of them.
    """
    columns = {
        Column(scan.at, name): (-reach, reach)
        for scan in list_scans(rows)
        if isinstance(scan, Scan)
        for name, reach in layouts[scan.snapshot].reaches.items()
    }
    ranges = ValueRanges(columns, unknown=(-WIDEST, WIDEST))
    for layer in _layers(rows):
        for place, value in enumerate(layer.values):
            if ranges.is_narrow(value):
                columns[Column(layer.at, f"v{place}")] = ranges.find(value)
    return ranges


def _layers(rows: Rows) -> list[Computed]:
    """Return the sources with computed columns, the innermost first."""
    match rows:
        case Computed(inner):
            return [*_layers(inner), rows]
        case PerUnit(inner) | Bounded(inner) | Ordered(inner):
            return _layers(inner)
    return []


# ---- programs ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ProgramWriter:
    relations: RelationWriter

    def write_program(self, program: EngineProgram[Any]) -> str:
        """Return the SELECT of a program."""
        match program:
            case CellSums():
                return self._write_sums(program)
            case CellHistogram():
                return self._write_tally(program)
            case CellHistograms():
                return self._write_tallies(program)
            case KeyedSums():
                return self._write_keyed(program)
            case UnitFigures():
                figures = ", ".join(
                    self._wide(self.relations.write_aggregate(each)) for each in program.figures
                )
                source = self.relations.write_source(program.rows)
                where = self.relations.expressions.write_condition(program.where)
                return f"SELECT {figures} FROM {source} WHERE {where} GROUP BY unit"  # noqa: S608
        raise TypeError(type(program).__name__)

    def _write_sums(self, program: CellSums) -> str:
        """Select cells that have any row: the cell's number, then the sum of each term as a wide integer."""
        source = self.relations.write_source(program.rows)
        needed = _needed_columns(program.terms)
        terms = replace(self, relations=replace(self.relations, present=frozenset(needed)))
        sums = [self._wide(terms._write_term(term)) for term in program.terms]
        chosen = ", ".join([self._cell(program.keys), *sums])
        inside = self._inside(program, *(f"{self._value(column)} IS NOT NULL" for column in needed))
        return f"SELECT {chosen} FROM {source} {inside} {self._grouped(program.keys)}"  # noqa: S608

    def _write_tally(self, program: CellHistogram) -> str:
        source, value = self.relations.write_source(program.rows), self._value(program.value)
        inside = self._inside(program, self._below(program.value, program.size))
        place = f"{self._cell(program.keys)} * {program.size} + {value}"
        chosen, grouped = self.relations.dialect.write_histogram(place, program.span)
        return f"SELECT {chosen} FROM {source} {inside} {grouped}".rstrip()  # noqa: S608

    def _write_tallies(self, program: CellHistograms) -> str:
        """Make of a row a list of places, one a value, of which those that are missing fall out."""
        source, cell = self.relations.write_source(program.rows), self._cell(program.keys)
        many = len(program.values)
        places = [
            f"CASE WHEN {self._below(value, program.size)} THEN "
            f"CAST(({cell} * {many} + {at}) * {program.size} + {self._value(value)} AS BIGINT) END"
            for at, value in enumerate(program.values)
        ]
        place = self.relations.dialect.write_each(places)
        each = f"SELECT {place} AS place FROM {source} {self._inside(program)}"  # noqa: S608
        return f"SELECT place, count(*) FROM ({each}) AS places WHERE place IS NOT NULL GROUP BY place"  # noqa: S608

    def _write_keyed(self, program: KeyedSums) -> str:
        """Select each combination of keys, its units, and the sum of each term as a wide integer."""
        source, keys = self.relations.write_source(program.rows), [self._value(key) for key in program.keys]
        sums = [self._wide(self._write_term(term)) for term in (CountedUnits(), *program.terms)]
        where = self.relations.expressions.write_condition(program.where)
        present = [f"{key} IS NOT NULL" for place, key in enumerate(keys) if place not in program.nulls]
        known = join_conditions("AND", [where, *present])
        # By position, so that a long expression is written once.
        group = ", ".join(str(i + 1) for i in range(len(keys)))
        return f"SELECT {', '.join([*keys, *sums])} FROM {source} WHERE {known} GROUP BY {group}"  # noqa: S608

    def _write_term(self, term: Term) -> str:
        if isinstance(term, CountedUnits):
            return "count(DISTINCT unit)"
        if isinstance(term, CountedValues):
            return f"count(DISTINCT {self._value(term.value)})"
        return self.relations.write_aggregate(term)

    # ---- cells ----

    def _inside(self, program: CellSums | CellHistogram | CellHistograms, *more: str) -> str:
        """Keep rows whose keys are neither missing nor outside: no stored code makes a cell of its own."""
        where = self.relations.expressions.write_condition(program.where)
        keys = [self._inside_key(key) for key in program.keys]
        return f"WHERE {join_conditions('AND', [where, *keys, *more])}"

    def _inside_key(self, key: CellKey) -> str:
        if not key.nulls:
            return self._below(key.value, key.size)
        missing = f"{self._value(_shifted(key.value)[0])} IS NULL"
        return f"{missing} OR {self._below(key.value, key.size - 1)}"

    def _below(self, value: Value, size: int) -> str:
        """Test for 0 to size − 1. Shifts move to the bounds: engines know ends of columns, not of sums."""
        part, shift = _shifted(value)
        return f"{self._value(part)} BETWEEN {-shift} AND {size - 1 - shift}"

    def _cell(self, keys: Sequence[CellKey]) -> str:
        """Return the position of a row's cell in the product of the keys, the last fastest."""
        cell = "CAST(0 AS BIGINT)"
        for key in keys:
            cell = f"({cell} * {key.size} + {self._place(key)})"
        return cell if all(map(self._is_stored, keys)) else f"CAST({cell} AS BIGINT)"

    def _place(self, key: CellKey) -> str:
        """Return the place of a row in one key: the last one where the value is missing and has a place."""
        return self._value(Either(key.value, Constant(key.size - 1)) if key.nulls else key.value)

    def _grouped(self, keys: Sequence[CellKey]) -> str:
        """Group by stored columns where keys are columns, shifted or not: small integers group fastest."""
        if not keys:
            return self.relations.dialect.everything
        parts = [_shifted(key.value)[0] for key in keys]
        # The order of GROUP BY does not matter: the cell's number is selected and says where sums belong.
        if all(isinstance(part, Column) for part in parts):
            return "GROUP BY " + ", ".join(map(self._value, parts))
        return "GROUP BY 1"

    def _is_stored(self, key: CellKey) -> bool:
        """Return whether a key is a stored column; computed ones are wide, and a cell's number is not."""
        return isinstance(key.value, Column) and key.value.at in self.relations.stored and not key.nulls

    def _value(self, value: Value) -> str:
        return self.relations.expressions.write_value(value)

    def _wide(self, number: str) -> str:
        return f"CAST({number} AS {self.relations.dialect.wide})"


class _Needed:
    """Finds columns of which each makes a value missing by being missing; there may be others."""

    def __init__(self) -> None:
        self.tested: set[Column] = set()
        """Those that a value tests for, beside using them."""
        self._known: dict[int, frozenset[Column]] = {}
        """By identity: one part may be shared by many others."""

    def find(self, value: Value) -> frozenset[Column]:
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = self._learn(value)
        return known

    def _learn(self, value: Value) -> frozenset[Column]:
        match value:
            case Column():
                return frozenset({value})
            case Choose(Missing(one), Constant(None), other):
                self.tested |= self.find(one)
                return self.find(one) | self.find(other)
            case Add(one, other) | Multiply(one, other) | Divide(one, other):
                return self.find(one) | self.find(other)
        return frozenset()


def _needed_columns(terms: Sequence[Term]) -> list[Column]:
    """Return columns without which a row adds to no term, if terms test for them.

    Leaving such rows out once is faster than testing for them in each term, as correlations do.
    """
    needed, nothing = _Needed(), frozenset[Column]()
    each = [needed.find(term.value) if isinstance(term, Present | Total) else nothing for term in terms]
    common = nothing.union(*each[:1]).intersection(*each)
    return sorted(common & needed.tested, key=lambda column: (column.at, column.name))


def _shifted(value: Value) -> tuple[Value, int]:
    """Return a value as another plus a constant."""
    match value:
        case Add(part, Constant(int(shift))):
            return part, shift
    return value, 0
