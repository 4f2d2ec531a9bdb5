"""Sources of rows as SQL relations, and aggregates over them.

Every source becomes a relation with the columns `unit`, `place` where it has one, and r0_c3 for the stored
column c3 of source 0. Only columns that the program uses are named.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from sfumato.engines.expressions import Expressions, join_conditions
from sfumato.engines.rows import (
    MOST_COUNTED,
    Bounded,
    Computed,
    Counted,
    Joined,
    Largest,
    Ordered,
    PerUnit,
    Present,
    Scan,
    Smallest,
    Total,
    UnitSizes,
)
from sfumato.engines.used_columns import BLOCK, DIGEST
from sfumato.engines.value_ranges import NARROW
from sfumato.engines.values import Add, Column, Constant, Length, Matches, Missing, Spelled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.engines.dialect import Dialect
    from sfumato.engines.rows import Figure, Position, Rows
    from sfumato.engines.used_columns import TextTest, UsedColumns
    from sfumato.engines.value_ranges import ValueRanges
    from sfumato.engines.values import Predicate, Value

_ROWS = "rows"


@dataclass(frozen=True, slots=True)
class Layout:
    """How a snapshot lies in its engine."""

    rows: str
    """The table of its rows."""
    units: str | None
    """The table of its units; without one each row is a unit."""
    columns: Mapping[str, str]
    """From declared names to stored ones."""
    has_places: bool
    """Whether the rows of a unit are ordered, which they are where it may have several."""
    reaches: Mapping[str, int] = field(default_factory=dict)
    """How far from zero the integers of a column are, by its declared name; with these, as many values as can
    be are computed in 64 bits."""
    texts: frozenset[str] = frozenset()
    """The columns that hold texts, by their declared names."""


@dataclass(frozen=True)
class RelationWriter:
    """Writes the sources of one program, and values and aggregates over their rows, in one dialect."""

    dialect: Dialect
    layouts: Mapping[str, Layout]
    used: UsedColumns
    """What the program uses of each source."""
    stored: frozenset[int]
    """The sources whose columns are stored ones."""
    ranges: ValueRanges
    present: frozenset[Column] = frozenset()
    """Columns that are not missing in any row that aggregates are over."""
    _names: dict[tuple[int, str], str] = field(default_factory=dict)

    @cached_property
    def expressions(self) -> Expressions:
        """The writer of values and conditions over the columns of these sources."""
        return Expressions(self.dialect, self._name, self.ranges, self._find_test, self.present)

    def _find_test(self, part: Value | Predicate | Present) -> str | None:
        found = self.used.find_test(part)
        return None if found is None else "r{}_t{}".format(*found)

    def _name(self, at: int, name: str) -> str:
        """Return a column's name in every relation that has it: a number where the declared one is not ours.

        Declared names are texts that a steward typed, and no such text is written into SQL.
        """
        known = self._names.get((at, name))
        if known is None:
            known = self._names[at, name] = f"r{at}_{name if _is_ours(name) else f'n{len(self._names)}'}"
        return known

    # ---- aggregates ----

    def write_aggregate(self, figure: Figure) -> str:
        """Return a number of rows, a sum, or the least or greatest value as SQL."""
        value = self.expressions.write_value
        match figure:
            case Counted():
                return "count(*)"
            case Present(part):
                return f"count({self._find_test(figure) or value(part)})"
            case Total(Add(part, Constant(int()) as shift)):
                # Engines sum a column far faster than they sum an expression.
                return f"{self._write_total(part)} + {value(shift)} * count({value(part)})"
            case Total(part):
                return self._write_total(part)
            case Smallest(part):
                return f"min({value(part)})"
            case Largest(part):
                return f"max({value(part)})"

    def _write_total(self, value: Value) -> str:
        number = self.expressions.write_value(value)
        return f"COALESCE({self.dialect.write_total(number, self._reach(value))}, 0)"

    def _reach(self, value: Value) -> int | None:
        """Return nothing where the value may need more than 64 bits; stored columns never do."""
        if self.ranges.is_narrow(value):
            return self.ranges.reach(value)
        return NARROW if isinstance(value, Column) and value.at in self.stored else None

    # ---- relations ----

    def write_source(self, rows: Rows) -> str:
        """Return a subquery with the rows of a source, under a name of its own."""
        return f"({self._write_relation(rows)}) AS source{_number(rows)}"

    def _write_relation(self, rows: Rows) -> str:
        match rows:
            case Scan():
                return self._write_scan(rows)
            case UnitSizes():
                counted = f"least(rows, {MOST_COUNTED}) AS {self._name(rows.at, _ROWS)}"
                return f"SELECT unit, {counted} FROM {self.layouts[rows.snapshot].units}"  # noqa: S608
            case Joined():
                return self._write_join(rows)
            case PerUnit():
                return self._write_per_unit(rows)
            case Bounded():
                return self._write_bounded(rows)
            case Computed():
                return self._write_computed(rows)
            case Ordered():
                return self._write_ordered(rows)

    def _write_scan(self, rows: Scan) -> str:
        layout, used = self.layouts[rows.snapshot], self.used.columns.get(rows.at, set())
        columns = [
            f"{layout.columns[name]} AS {self._name(rows.at, name)}"
            for name in sorted(used - {BLOCK, DIGEST})
        ]
        columns += self._write_tests(rows)
        place = ["place"] if layout.has_places else []
        source = layout.rows
        # Where every row is a unit its block lies in the row itself, and there is no table of units.
        if BLOCK in used:
            columns.append(f"block AS {self._name(rows.at, BLOCK)}")
        if DIGEST in used:
            columns.append(f"{self.dialect.person} AS {self._name(rows.at, DIGEST)}")
        if used & {BLOCK, DIGEST}:
            source += f" JOIN {layout.units} USING (unit)" if layout.units else ""
        # Fenced, or a planner might carry the text and test it later.
        fence = self.dialect.fence if rows.at in self.used.tests else ""
        return f"SELECT {', '.join(['unit', *place, *columns])} FROM {source}{fence}"  # noqa: S608

    def _write_tests(self, rows: Scan) -> list[str]:
        """Test texts where they are read, so that no text goes through a join, a window or a sort."""
        stored = self.layouts[rows.snapshot].columns
        here = Expressions(self.dialect, lambda _, name: stored[name], self.ranges)
        return [
            f"{_write_outcome(here, test)} AS r{rows.at}_t{i}"
            for i, test in enumerate(self.used.tests.get(rows.at, []))
        ]

    def _write_join(self, rows: Joined) -> str:
        """The unit and the place are the left row's."""
        value = self.expressions.write_value
        pairs = [f"{value(left)} = {value(right)}" for left, right in rows.on]
        left, right = self._write_relation(rows.left), self._write_relation(rows.right)
        if rows.same_unit:
            right = self._renumber(right, rows.right, rows.left)
            pairs.append("l.unit = r.unit")
        columns = ", ".join([*(["l.place"] if self._has_places(rows.left) else []), *self._columns(rows)])
        kind = "LEFT JOIN" if rows.optional else "JOIN"
        chosen = f"l.unit{', ' if columns else ''}{columns}"
        return f"SELECT {chosen} FROM ({left}) AS l {kind} ({right}) AS r ON {join_conditions('AND', pairs)}"  # noqa: S608

    def _write_per_unit(self, rows: PerUnit) -> str:
        value = self.expressions.write_value
        keys = [f"{value(key)} AS r{rows.at}_k{i}" for i, key in enumerate(rows.keys)]
        # Figures that nothing looks at are not computed; keys always are, as they make the groups.
        used = self.used.columns.get(rows.at, set())
        figures = [
            f"CAST({self.write_aggregate(figure)} AS {self.dialect.wide}) AS r{rows.at}_f{i}"
            for i, figure in enumerate(rows.figures)
            if f"f{i}" in used
        ]
        group = ", ".join(["unit", *map(value, rows.keys)])
        place = ["min(place) AS place"] if self._has_places(rows) else []
        chosen = ", ".join(["unit", *place, *keys, *figures])
        where = self.expressions.write_condition(rows.where)
        return f"SELECT {chosen} FROM {self.write_source(rows.rows)} WHERE {where} GROUP BY {group}"  # noqa: S608

    def _write_bounded(self, rows: Bounded) -> str:
        """Groups in the order of their first row, rows in the keyed order; rows that tie look the same.

        Rows made of several have the place of one of them, or none, and then the order of their columns.
        """
        cell = ", ".join(["unit", *map(self.expressions.write_value, rows.cell)])
        # Without places all rows tie, and their columns decide.
        place = "place" if self._has_places(rows.rows) else "1"
        tied = [] if isinstance(rows.rows, Scan) else self._columns(rows.rows)
        order = ", ".join([place, *(f"{column} NULLS LAST" for column in tied)])
        chosen, where = ", ".join(self._all_columns(rows.rows)), self.expressions.write_condition(rows.where)
        ranked = f"""
            SELECT {chosen}, row_number() OVER (PARTITION BY {cell} ORDER BY {order}) AS nth_row,
                min({place}) OVER (PARTITION BY {cell}) AS first_row
            FROM {self.write_source(rows.rows)} WHERE {where}"""  # noqa: S608
        values = [self.expressions.write_value(value) for value in rows.cell]
        within = f"FROM ({ranked}) AS ranked WHERE nth_row <= {rows.rows_each:d}"
        if not values:
            return f"SELECT {chosen} {within}"
        first = ", ".join(["first_row", *(f"{value} NULLS LAST" for value in values)])
        grouped = (
            f"SELECT {chosen}, dense_rank() OVER (PARTITION BY unit ORDER BY {first}) AS nth_cell {within}"
        )
        return f"SELECT {chosen} FROM ({grouped}) AS grouped WHERE nth_cell <= {rows.groups:d}"  # noqa: S608

    def _write_computed(self, rows: Computed) -> str:
        # A stated type: what is computed from the column must not depend on how the engine typed it.
        columns = [f"{self._typed(value)} AS r{rows.at}_v{i}" for i, value in enumerate(rows.values)]
        chosen = ", ".join([*self._all_columns(rows.rows), *columns])
        return f"SELECT {chosen} FROM {self.write_source(rows.rows)}{self.dialect.fence}"  # noqa: S608

    def _write_ordered(self, rows: Ordered) -> str:
        value = self.expressions.write_value
        by = [f"{value(each)}{' DESC' if falls else ''} NULLS LAST" for each, falls in rows.order]
        columns = [
            f"CAST({self._write_position(each, rows, by)} AS {self.dialect.wide}) AS r{rows.at}_v{i}"
            for i, each in enumerate(rows.positions)
        ]
        chosen, where = ", ".join([*self._all_columns(rows.rows), *columns]), rows.where
        source = self.write_source(rows.rows)
        return f"SELECT {chosen} FROM {source} WHERE {self.expressions.write_condition(where)}"  # noqa: S608

    def _write_position(self, position: Position, rows: Ordered, by: list[str]) -> str:
        # Rows that tie in their rank have one; of other positions the keyed order decides, then the columns.
        ranked = position.function in ("rank", "dense_rank")
        place = ["place"] if self._has_places(rows.rows) else []
        tied = [] if isinstance(rows.rows, Scan) else self._columns(rows.rows)
        order = ", ".join([*by, *([] if ranked else place + [f"{column} NULLS LAST" for column in tied])])
        over = f"OVER (PARTITION BY unit ORDER BY {order or 'unit'})"
        if position.value is None:
            return f"{position.function}() {over}"
        offset = f", {position.offset:d}" if position.function in ("lag", "lead") else ""
        return f"{position.function}({self.expressions.write_value(position.value)}{offset}) {over}"

    def _typed(self, value: Value) -> str:
        kind = "BIGINT" if self.ranges.is_narrow(value) else self.dialect.wide
        return f"CAST({self.expressions.write_value(value)} AS {kind})"

    def _renumber(self, relation: str, right: Rows, left: Rows) -> str:
        """Give units of another snapshot the numbers of ours, through what both know a person by."""
        theirs, ours = _home(right), _home(left)
        if theirs == ours:
            return relation
        columns = ", ".join(["own.unit AS unit", *(f"inner_.{name}" for name in self._columns(right))])
        return (
            f"SELECT {columns} FROM ({relation}) AS inner_ "  # noqa: S608
            f"JOIN {self.layouts[theirs].units} AS other ON other.unit = inner_.unit "
            f"JOIN {self.layouts[ours].units} AS own ON own.person = other.person"
        )

    # ---- columns of a relation ----

    def _all_columns(self, rows: Rows) -> list[str]:
        return ["unit", *(["place"] if self._has_places(rows) else []), *self._columns(rows)]

    def _columns(self, rows: Rows) -> list[str]:
        """Return the columns of a source that the program uses, besides unit and place."""
        match rows:
            case Scan(_, at) | UnitSizes(_, at):
                tests = range(len(self.used.tests.get(at, [])))
                names = sorted(self.used.columns.get(at, set()))
                return [self._name(at, name) for name in names] + [f"r{at}_t{i}" for i in tests]
            case Joined(left, right):
                return self._columns(left) + self._columns(right)
            case PerUnit():
                keys = [f"r{rows.at}_k{i}" for i in range(len(rows.keys))]
                used = self.used.columns.get(rows.at, set())
                return keys + [f"r{rows.at}_f{i}" for i in range(len(rows.figures)) if f"f{i}" in used]
            case Bounded(inner):
                return self._columns(inner)
            case Computed(inner):
                return self._columns(inner) + [f"r{rows.at}_v{i}" for i in range(len(rows.values))]
            case Ordered(inner):
                return self._columns(inner) + [f"r{rows.at}_v{i}" for i in range(len(rows.positions))]

    def _has_places(self, rows: Rows) -> bool:
        match rows:
            case Scan(snapshot):
                return self.layouts[snapshot].has_places
            case UnitSizes():
                return False
            case Joined(inner) | PerUnit(inner) | Bounded(inner) | Computed(inner) | Ordered(inner):
                return self._has_places(inner)


def _write_outcome(expressions: Expressions, test: TextTest) -> str:
    match test:
        case Missing(text):
            # A row that a LEFT JOIN makes up has no outcome either, and its text is missing too.
            return f"CASE WHEN {expressions.write_value(text)} IS NOT NULL THEN 1 END"
        case Length():
            return expressions.write_value(test)
        case Matches() | Spelled():
            return f"({expressions.write_condition(test)})"


def _is_ours(name: str) -> bool:
    """Return whether a column is one that a source of rows made: k0, f12, v3."""
    return name[:1] in ("k", "f", "v") and name[1:].isdecimal() and name.isascii()


def _number(rows: Rows) -> int:
    match rows:
        case Joined(inner) | Bounded(inner):
            return _number(inner)
        case Scan() | UnitSizes() | PerUnit() | Computed() | Ordered():
            return rows.at


def _home(rows: Rows) -> str:
    """Return the snapshot whose numbers the units of these rows have."""
    match rows:
        case Scan(snapshot) | UnitSizes(snapshot):
            return snapshot
        case Joined(left) | PerUnit(left) | Bounded(left) | Computed(left) | Ordered(left):
            return _home(left)
