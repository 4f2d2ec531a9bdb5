"""A program as one SQL text: our words, stored column names, integers and hexadecimal digits, nothing else.

Every source of rows becomes a relation with the columns `unit`, `place` where it has one, and r0_c3 for the
stored column c3 of source 0. Only columns that the program uses are named.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property, singledispatchmethod
from typing import TYPE_CHECKING, Any

from sfumato.engines import program as asked
from sfumato.engines.expressions import BLOCK, Expressions, joined
from sfumato.engines.reaches import NARROW, Reaches
from sfumato.engines.rows import (
    MOST_COUNTED,
    Bounded,
    Computed,
    Counted,
    Joined,
    Largest,
    PerUnit,
    Present,
    Rows,
    Scan,
    Sizes,
    Smallest,
    Total,
    scans,
)
from sfumato.engines.values import Add, Block, Column, Constant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sfumato.engines.dialect import Dialect
    from sfumato.engines.program import Asked, Key, Term
    from sfumato.engines.values import Predicate, Value


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


def compile_program(program: Asked, layouts: Mapping[str, Layout], dialect: Dialect) -> str:
    """One SELECT. `layouts` knows every snapshot that is read."""
    _require_distinct(program)
    stored = frozenset(scan.at for scan in scans(program.rows) if isinstance(scan, Scan))
    return _Compiler(dialect, layouts, _used(program), stored, _reaches(program, layouts)).text(program)


def _require_distinct(program: Asked) -> None:
    """A number that two sources share would give one of them the other's columns and bounds."""
    known = [node.at for node in _nodes(program.rows) if isinstance(node, Scan | Sizes | PerUnit | Computed)]
    if len(known) != len(set(known)):
        raise AssertionError(known)


def _reaches(program: Asked, layouts: Mapping[str, Layout]) -> Reaches:
    """Of stored columns alone; other sources may have columns of the same names."""
    found = [scan for scan in scans(program.rows) if isinstance(scan, Scan)]
    columns = {
        (scan.at, name): reach for scan in found for name, reach in layouts[scan.snapshot].reaches.items()
    }
    reaches = Reaches(columns)
    for layer in _layers(program.rows):
        for place, value in enumerate(layer.values):
            if reaches.narrow(value):
                columns[layer.at, f"v{place}"] = reaches.bound(value)
    return reaches


def _layers(rows: Rows) -> list[Computed]:
    """Rows with computed columns, the innermost first."""
    match rows:
        case Computed(inner):
            return [*_layers(inner), rows]
        case PerUnit(inner) | Bounded(inner):
            return _layers(inner)
    return []


def _used(program: Asked) -> dict[int, set[str]]:
    """For each source of rows, the declared columns and the block that anything in the program looks at."""
    used: dict[int, set[str]] = defaultdict(set)
    for node in _nodes(program):
        if isinstance(node, Column):
            used[node.at].add(node.name)
        elif isinstance(node, Block):
            used[node.at].add(BLOCK)
    return used


def _nodes(node: Any) -> Iterator[Any]:
    if isinstance(node, tuple):
        for part in node:
            yield from _nodes(part)
    elif is_dataclass(node):
        yield node
        for each in fields(node):
            yield from _nodes(getattr(node, each.name))


_ROWS = "rows"


@dataclass(frozen=True)
class _Compiler:
    dialect: Dialect
    layouts: Mapping[str, Layout]
    used: Mapping[int, set[str]]
    _stored: frozenset[int]
    """The sources whose columns are stored ones."""
    _reaches: Reaches
    _names: dict[tuple[int, str], str] = field(default_factory=dict)

    # ---- what is asked ----

    @singledispatchmethod
    def text(self, program: Any) -> str:
        raise TypeError(type(program).__name__)

    @text.register
    def _(self, program: asked.Program) -> str:
        """Cells that have any row: the cell's number, then the sum of each term as a wide integer."""
        source = self._source(program.rows)
        sums = [self._wide(self._sum(term)) for term in program.terms]
        chosen = ", ".join([self._cell(program.keys), *sums])
        return f"SELECT {chosen} FROM {source} {self._inside(program)} {self._grouped(program.keys)}"  # noqa: S608

    @text.register
    def _(self, program: asked.Tally) -> str:
        source, value = self._source(program.rows), self._value(program.value)
        inside = self._inside(program, self._below(program.value, program.size))
        place = f"{self._cell(program.keys)} * {program.size} + {value}"
        chosen, grouped = self.dialect.tally(place, program.span)
        return f"SELECT {chosen} FROM {source} {inside} {grouped}".rstrip()  # noqa: S608

    @text.register
    def _(self, program: asked.Tallies) -> str:
        """A row becomes a list of places, one a value, of which those that are missing fall out."""
        source, cell, many = self._source(program.rows), self._cell(program.keys), len(program.values)
        places = [
            f"CASE WHEN {self._below(value, program.size)} THEN "
            f"CAST(({cell} * {many} + {at}) * {program.size} + {self._value(value)} AS BIGINT) END"
            for at, value in enumerate(program.values)
        ]
        each = f"SELECT {self.dialect.each(places)} AS place FROM {source} {self._inside(program)}"  # noqa: S608
        return f"SELECT place, count(*) FROM ({each}) AS places WHERE place IS NOT NULL GROUP BY place"  # noqa: S608

    @text.register
    def _(self, program: asked.Keyed) -> str:
        """Each combination of keys, then its units, then the sum of each term as a wide integer."""
        source, keys = self._source(program.rows), [self._value(key) for key in program.keys]
        sums = [self._wide(self._sum(term)) for term in (asked.Units(), *program.terms)]
        known = joined("AND", [self._where(program.where), *(f"{key} IS NOT NULL" for key in keys)])
        group = ", ".join(str(i + 1) for i in range(len(keys)))
        return f"SELECT {', '.join([*keys, *sums])} FROM {source} WHERE {known} GROUP BY {group}"  # noqa: S608

    @text.register
    def _(self, program: asked.People) -> str:
        figures = ", ".join(self._wide(self._figure(figure)) for figure in program.figures)
        source = self._source(program.rows)
        return f"SELECT {figures} FROM {source} WHERE {self._where(program.where)} GROUP BY unit"  # noqa: S608

    def _inside(self, program: asked.Program | asked.Tally | asked.Tallies, *more: str) -> str:
        """Keys are not missing and not outside: no stored code can make a cell that is not there."""
        keys = [self._below(key.value, key.size) for key in program.keys]
        return f"WHERE {joined('AND', [self._where(program.where), *keys, *more])}"

    def _below(self, value: Value, size: int) -> str:
        """From 0 to size − 1; engines know the ends of a column, and not those of a sum."""
        part, shift = _shifted(value)
        return f"{self._value(part)} BETWEEN {-shift} AND {size - 1 - shift}"

    def _cell(self, keys: Sequence[Key]) -> str:
        """The position in the product of the keys, the last fastest."""
        cell = "CAST(0 AS BIGINT)"
        for key in keys:
            cell = f"({cell} * {key.size} + {self._value(key.value)})"
        return cell if all(map(self._is_stored, keys)) else f"CAST({cell} AS BIGINT)"

    def _grouped(self, keys: Sequence[Key]) -> str:
        """By stored columns where keys are columns, shifted or not: their small integers group fastest."""
        if not keys:
            return self.dialect.everything
        parts = [_shifted(key.value)[0] for key in keys]
        if all(isinstance(part, Column) for part in parts):
            return "GROUP BY " + ", ".join(map(self._value, parts))
        return "GROUP BY 1"

    def _is_stored(self, key: Key) -> bool:
        """Computed columns are wide, and a cell's number is not."""
        return isinstance(key.value, Column) and key.value.at in self._stored

    def _sum(self, term: Term) -> str:
        if isinstance(term, asked.Units):
            return "count(DISTINCT unit)"
        return self._figure(term)

    def _figure(self, figure: Any) -> str:
        match figure:
            case Counted():
                return "count(*)"
            case Present(value):
                return f"count({self._value(value)})"
            case Total(Add(value, Constant(int()) as more)):
                counted = f"{self._value(more)} * count({self._value(value)})"
                return f"{self._total(value)} + {counted}"
            case Total(value):
                return self._total(value)
            case Smallest(value):
                return f"min({self._value(value)})"
            case Largest(value):
                return f"max({self._value(value)})"
        raise TypeError(type(figure).__name__)

    def _total(self, value: Value) -> str:
        return f"COALESCE({self.dialect.total(self._value(value), self._reach(value))}, 0)"

    def _reach(self, value: Value) -> int | None:
        """Nothing where the value may need more than 64 bits; stored columns never do."""
        if self._reaches.narrow(value):
            return self._reaches.bound(value)
        return NARROW if isinstance(value, Column) and value.at in self._stored else None

    # ---- where rows come from ----

    def _source(self, rows: Rows) -> str:
        return f"({self._relation(rows)}) AS source{_number(rows)}"

    @singledispatchmethod
    def _relation(self, rows: Any) -> str:
        raise TypeError(type(rows).__name__)

    @_relation.register
    def _(self, rows: Scan) -> str:
        layout = self.layouts[rows.snapshot]
        wanted = sorted(self.used.get(rows.at, set()) - {BLOCK})
        columns = [f"{layout.columns[name]} AS {self._name(rows.at, name)}" for name in wanted]
        place = ["place"] if layout.has_places else []
        source = layout.rows
        if BLOCK in self.used.get(rows.at, set()):
            columns.append(f"block AS {self._name(rows.at, BLOCK)}")
            source += f" JOIN {layout.units} USING (unit)" if layout.units else ""
        return f"SELECT {', '.join(['unit', *place, *columns])} FROM {source}"  # noqa: S608

    @_relation.register
    def _(self, rows: Sizes) -> str:
        counted = f"least(rows, {MOST_COUNTED}) AS {self._name(rows.at, _ROWS)}"
        return f"SELECT unit, {counted} FROM {self.layouts[rows.snapshot].units}"  # noqa: S608

    @_relation.register
    def _(self, rows: Joined) -> str:
        """The unit and the place are the left row's."""
        pairs = [f"{self._value(left)} = {self._value(right)}" for left, right in rows.on]
        left, right = self._relation(rows.left), self._relation(rows.right)
        if rows.same_unit:
            right = self._renumbered(right, rows.right, rows.left)
            pairs.append("l.unit = r.unit")
        columns = ", ".join([*(["l.place"] if self._placed(rows.left) else []), *self._columns(rows)])
        kind = "LEFT JOIN" if rows.optional else "JOIN"
        chosen = f"l.unit{', ' if columns else ''}{columns}"
        return f"SELECT {chosen} FROM ({left}) AS l {kind} ({right}) AS r ON {joined('AND', pairs)}"  # noqa: S608

    @_relation.register
    def _(self, rows: PerUnit) -> str:
        keys = [f"{self._value(key)} AS r{rows.at}_k{i}" for i, key in enumerate(rows.keys)]
        wanted = self.used.get(rows.at, set())
        figures = [
            f"{self._wide(self._figure(figure))} AS r{rows.at}_f{i}"
            for i, figure in enumerate(rows.figures)
            if f"f{i}" in wanted
        ]
        group = ", ".join(["unit", *(self._value(key) for key in rows.keys)])
        place = ["min(place) AS place"] if self._placed(rows) else []
        chosen = ", ".join(["unit", *place, *keys, *figures])
        where = self._where(rows.where)
        return f"SELECT {chosen} FROM {self._source(rows.rows)} WHERE {where} GROUP BY {group}"  # noqa: S608

    @_relation.register
    def _(self, rows: Bounded) -> str:
        """Groups in the order of their first row, rows in the keyed order; rows that tie look the same.

        Rows made of several have the place of one of them, or none, and then the order of their columns.
        """
        cell = ", ".join(["unit", *(self._value(value) for value in rows.cell)])
        place = "place" if self._placed(rows.rows) else "1"
        tied = [] if isinstance(rows.rows, Scan) else self._columns(rows.rows)
        order = ", ".join([place, *(f"{column} NULLS LAST" for column in tied)])
        kept = ", ".join(self._kept(rows.rows))
        ranked = f"""
            SELECT {kept}, row_number() OVER (PARTITION BY {cell} ORDER BY {order}) AS nth_row,
                min({place}) OVER (PARTITION BY {cell}) AS first_row
            FROM {self._source(rows.rows)} WHERE {self._where(rows.where)}"""  # noqa: S608
        values = [self._value(value) for value in rows.cell]
        within = f"FROM ({ranked}) AS ranked WHERE nth_row <= {rows.rows_each:d}"
        if not values:
            return f"SELECT {kept} {within}"
        first = ", ".join(["first_row", *(f"{value} NULLS LAST" for value in values)])
        grouped = (
            f"SELECT {kept}, dense_rank() OVER (PARTITION BY unit ORDER BY {first}) AS nth_cell {within}"
        )
        return f"SELECT {kept} FROM ({grouped}) AS grouped WHERE nth_cell <= {rows.groups:d}"  # noqa: S608

    @_relation.register
    def _(self, rows: Computed) -> str:
        columns = [f"{self._typed(value)} AS r{rows.at}_v{i}" for i, value in enumerate(rows.values)]
        chosen = ", ".join([*self._kept(rows.rows), *columns])
        return f"SELECT {chosen} FROM {self._source(rows.rows)}{self.dialect.fence}"  # noqa: S608

    def _typed(self, value: Value) -> str:
        return (
            f"CAST({self._value(value)} AS {'BIGINT' if self._reaches.narrow(value) else self.dialect.wide})"
        )

    def _renumbered(self, relation: str, right: Rows, left: Rows) -> str:
        """Units of another snapshot by the numbers of ours, through what both know a person by."""
        theirs, ours = _home(right), _home(left)
        if theirs == ours:
            return relation
        columns = ", ".join(["own.unit AS unit", *(f"inner_.{name}" for name in self._columns(right))])
        return (
            f"SELECT {columns} FROM ({relation}) AS inner_ "  # noqa: S608
            f"JOIN {self.layouts[theirs].units} AS other ON other.unit = inner_.unit "
            f"JOIN {self.layouts[ours].units} AS own ON own.person = other.person"
        )

    def _kept(self, rows: Rows) -> list[str]:
        return ["unit", *(["place"] if self._placed(rows) else []), *self._columns(rows)]

    def _columns(self, rows: Rows) -> list[str]:
        """The columns of a source that the program uses, besides unit and place."""
        match rows:
            case Scan(_, at) | Sizes(_, at):
                return [self._name(at, name) for name in sorted(self.used.get(at, set()))]
            case Joined(left, right):
                return self._columns(left) + self._columns(right)
            case PerUnit():
                keys = [f"r{rows.at}_k{i}" for i in range(len(rows.keys))]
                figures = [f"r{rows.at}_f{i}" for i in range(len(rows.figures))]
                return keys + [name for name in figures if name[len(f"r{rows.at}_") :] in self.used[rows.at]]
            case Bounded():
                return self._columns(rows.rows)
            case Computed():
                return self._columns(rows.rows) + [f"r{rows.at}_v{i}" for i in range(len(rows.values))]

    def _placed(self, rows: Rows) -> bool:
        match rows:
            case Scan(snapshot):
                return self.layouts[snapshot].has_places
            case Sizes():
                return False
            case Joined(left):
                return self._placed(left)
            case PerUnit(inner) | Bounded(inner) | Computed(inner):
                return self._placed(inner)

    # ---- values ----

    @cached_property
    def _expressions(self) -> Expressions:
        return Expressions(self.dialect, self._name, self._reaches)

    def _value(self, value: Value) -> str:
        return self._expressions.value(value)

    def _where(self, predicate: Predicate) -> str:
        return self._expressions.condition(predicate)

    def _wide(self, number: str) -> str:
        return f"CAST({number} AS {self.dialect.wide})"

    def _name(self, at: int, name: str) -> str:
        """A column's name in every relation that has it: a number where the declared one is not ours."""
        known = self._names.get((at, name))
        if known is None:
            known = self._names[at, name] = f"r{at}_{name if _ours(name) else f'n{len(self._names)}'}"
        return known


def _shifted(value: Value) -> tuple[Value, int]:
    """A value as another plus a constant."""
    match value:
        case Add(part, Constant(int(shift))):
            return part, shift
    return value, 0


def _ours(name: str) -> bool:
    """Whether a column is one that a source of rows made: k0, f12, v3."""
    return name[:1] in ("k", "f", "v") and name[1:].isdecimal() and name.isascii()


def _number(rows: Rows) -> int:
    match rows:
        case Scan(_, at) | Sizes(_, at):
            return at
        case Joined(left) | Bounded(left):
            return _number(left)
        case PerUnit() | Computed():
            return rows.at


def _home(rows: Rows) -> str:
    """The snapshot whose numbers the units of these rows have."""
    match rows:
        case Scan(snapshot) | Sizes(snapshot):
            return snapshot
        case Joined(left) | PerUnit(left) | Bounded(left) | Computed(left):
            return _home(left)
