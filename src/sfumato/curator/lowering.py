"""From relations in the analyst's names to sources of rows that an engine can read, with the unit followed.

At every step it is known whose row a row is and how many rows one unit can have: a filter keeps that bound, a
join multiplies it, a subquery by unit makes it one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.curator import relation as asked
from sfumato.curator.conditions import comparable
from sfumato.curator.domains import Numbers, Texts
from sfumato.curator.expressions import expression, predicate
from sfumato.curator.lowered import LARGEST, Lowered, average, coarser, literal_number, number
from sfumato.curator.scope import Field, Scope
from sfumato.curator.simplify import simplified
from sfumato.engines import rows as engine
from sfumato.engines.values import Add, AtLeast, Choose, Column, Constant, Every, Multiply, Predicate, Value
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.catalog import Table
    from sfumato.curator.domains import Domain
    from sfumato.curator.relation import Condition, Expression, Name, Relation

MOST_ROWS = 10**9
"""Of one unit, after joins."""


@dataclass(frozen=True, slots=True)
class Source:
    """Rows, what their columns are called, whose they are, and how many one unit can have."""

    rows: engine.Rows
    where: Predicate
    scope: Scope
    table: Table
    """The table whose units the rows are of; a public one where they are no one's."""
    max_rows: int
    tables: tuple[Table, ...]
    next_at: int
    apart: frozenset[Value] | None = None
    """Values that no two rows of a unit agree in, where some are known."""


def source(relation: Relation, tables: Callable[[str], Table]) -> Source:
    """The rows that a relation means. `tables` knows the catalog."""
    return _lowered(relation, tables, 0)


def _lowered(relation: Relation, tables: Callable[[str], Table], at: int) -> Source:
    match relation:
        case asked.Table(name):
            return _table(tables(name), at)
        case asked.Sizes(name):
            return _sizes(tables(name), at)
        case asked.Aliased(of, name):
            inner = _lowered(of, tables, at)
            return replace(inner, scope=inner.scope.named(name))
        case asked.Filtered(of, where):
            inner = _lowered(of, tables, at)
            return replace(inner, where=_both(inner.where, predicate(where, inner.scope)))
        case asked.Selected(of, columns):
            inner = _lowered(of, tables, at)
            chosen = tuple(_selected(name, each, inner.scope) for name, each in columns)
            return replace(inner, scope=Scope(chosen, "this subquery"))
        case asked.Joined():
            return _joined(relation, tables, at)
        case asked.PerUnit():
            return _per_unit(relation, _lowered(relation.of, tables, at))


def _both(one: Predicate, other: Predicate) -> Predicate:
    return simplified(Every((one, other)))


# ---- tables ------------------------------------------------------------------------------------------------


def _table(table: Table, at: int) -> Source:
    columns = [
        Field(
            name,
            (table.name,),
            Lowered(Column(at, name), promise.domain(), table.constant(name), promise.missing is not None),
        )
        for name, promise in table.columns.items()
    ]
    unit = [Field(table.unit.column, (table.name,), None)] if table.unit.column is not None else []
    scope = Scope((*columns, *unit), f"'{table.name}'")
    return Source(
        engine.Scan(table.snapshot_name, at), Every(), scope, table, table.unit.max_rows, (table,), at + 1
    )


def _sizes(table: Table, at: int) -> Source:
    if table.unit.column is None:
        raise PolicyError("SF-Q137", f"Each row of '{table.name}' is one person.", try_="COUNT(*)")
    rows = Lowered(Column(at, "rows"), Numbers(1, engine.MOST_COUNTED), True, True)
    scope = Scope((Field("rows", (table.name,), rows),), f"the units of '{table.name}'")
    return Source(engine.Sizes(table.snapshot_name, at), Every(), scope, table, 1, (table,), at + 1)


def _selected(name: str, each: Expression, scope: Scope) -> Field:
    if isinstance(each, asked.Name) and scope.is_unit(each):
        return Field(name, (), None)
    return Field(name, (), expression(each, scope))


# ---- joins -------------------------------------------------------------------------------------------------


def _joined(relation: asked.Joined, tables: Callable[[str], Table], at: int) -> Source:
    left = _lowered(relation.left, tables, at)
    right = _lowered(relation.right, tables, left.next_at)
    if left.table.is_public and not right.table.is_public and not relation.optional:
        left, right = right, left
    if left.table.is_public:
        raise PolicyError(
            "SF-Q138", "A join starts from a table about people.", try_="visits LEFT JOIN regions ON …"
        )
    _require_one_home(left.tables + right.tables)
    if not right.table.is_public:
        _require_one_population(left.table, right.table)
    terms = _terms(relation.on)
    return _paired(left, right, relation.using, terms, relation.optional)


def _require_one_home(tables: tuple[Table, ...]) -> None:
    first, *others = tables
    other = next((table for table in others if table.home != first.home), None)
    if other is not None:
        raise PolicyError(
            "SF-Q157",
            f"'{first.name}' and '{other.name}' are kept in different databases.",
            why="an engine answers about what it holds, and data is not moved between them",
            try_="register both from the same database, or both from files",
        )


def _require_one_population(left: Table, right: Table) -> None:
    if left.population != right.population or left.unit.column is None or right.unit.column is None:
        raise PolicyError(
            "SF-Q139",
            f"'{left.name}' and '{right.name}' are not about the same people.",
            try_='the same of="…" in sf.Unit, when the tables are registered',
        )


def _paired(
    left: Source, right: Source, using: tuple[str, ...], terms: tuple[Condition, ...], optional: bool
) -> Source:
    """Equal units where both are about people, else equal values; what else is asked filters the pairs."""
    same_unit, match = not right.table.is_public, _Match.of(left.scope, right.scope, using, terms)
    match.check(same_unit, optional, right.where == Every(), left.table)
    each = right.max_rows if same_unit else _multiplicity(match.pairs, right)
    most = left.max_rows * max(each, 1)
    if most > MOST_ROWS:
        raise PolicyError("SF-Q142", "One unit could have too many rows after this join.", rows=f"{most:,}")
    values = tuple((one.value, other.value) for one, other in match.pairs)
    rows = engine.Joined(left.rows, right.rows, values, same_unit, optional)
    after = _after_join(right.scope, same_unit, match.pairs, each, optional)
    scope = left.scope.beside(after.hiding(using))
    filtered = (predicate(term, scope) for term in match.rest)
    where = simplified(Every((left.where, right.where, *filtered)))
    return Source(rows, where, scope, left.table, most, left.tables + right.tables, right.next_at)


@dataclass(frozen=True, slots=True)
class _Match:
    """What a join asks of a pair: the same unit, equal values, and the rest."""

    units: bool
    pairs: tuple[tuple[Lowered, Lowered], ...]
    rest: tuple[Condition, ...]

    @classmethod
    def of(cls, left: Scope, right: Scope, using: tuple[str, ...], terms: tuple[Condition, ...]) -> _Match:
        units, pairs, rest = False, [], []
        for name in map(asked.Name, using):
            if left.is_unit(name) and right.is_unit(name):
                units = True
            else:
                pairs.append(comparable(left.column(name), right.column(name)))
        for term in terms:
            pair = _equal(term, left, right)
            if _equates_units(term, left, right):
                units = True
            elif pair is not None:
                pairs.append(pair)
            else:
                rest.append(term)
        return cls(units, tuple(pairs), tuple(rest))

    def check(self, same_unit: bool, optional: bool, whole: bool, table: Table) -> None:
        if same_unit and not self.units:
            raise PolicyError(
                "SF-Q140",
                "Tables about people are joined on the unit of protection.",
                try_=f"USING ({table.unit.column})",
            )
        if not same_unit and not self.pairs:
            raise PolicyError(
                "SF-Q140", "A public table is joined on equal columns.", try_="ON visits.ward = wards.ward"
            )
        if optional and (self.rest or not whole):
            raise PolicyError(
                "SF-Q141",
                "A LEFT JOIN takes equal columns alone, and all rows of its right side.",
                try_="an inner JOIN, or a condition in WHERE",
            )


def _terms(condition: Condition) -> tuple[Condition, ...]:
    """What is joined by AND."""
    if isinstance(condition, asked.AllOf):
        return tuple(term for part in condition.parts for term in _terms(part))
    return (condition,)


def _equates_units(term: Condition, left: Scope, right: Scope) -> bool:
    match term:
        case asked.Comparison(asked.Name() as one, "=", asked.Name() as other):
            straight = left.is_unit(one) and right.is_unit(other)
            return straight or (left.is_unit(other) and right.is_unit(one))
    return False


def _equal(term: Condition, left: Scope, right: Scope) -> tuple[Lowered, Lowered] | None:
    """Two values, one of each side, that must be equal; none where the term says something else."""
    match term:
        case asked.Comparison(one, "=", other):
            for first, second in ((one, other), (other, one)):
                if _is_of(first, left) and _is_of(second, right):
                    return comparable(expression(first, left), expression(second, right))
    return None


def _is_of(node: Expression, scope: Scope) -> bool:
    return isinstance(node, asked.Name) and _known(node, scope)


def _known(name: Name, scope: Scope) -> bool:
    try:
        scope.column(name)
    except PolicyError:
        return False
    return True


def _multiplicity(pairs: tuple[tuple[Lowered, Lowered], ...], right: Source) -> int:
    """How many rows of a public table one row can meet: by the column whose values are repeated least."""
    if right.table.public_rows is None:
        raise AssertionError(right.table)
    columns = [_told_apart_by(other.value) for _, other in pairs]
    known = [right.table.multiplicity[column.name] for column in columns if column is not None]
    return min([*known, right.table.public_rows])


def _told_apart_by(value: Value) -> Column | None:
    """The column that has different values wherever this has, if that is plain."""
    match value:
        case Column():
            return value
        case Add(inner, Constant(int())):
            return _told_apart_by(inner)
        case Multiply(inner, Constant(int(factor))) if factor:
            return _told_apart_by(inner)
    return None


def _after_join(
    scope: Scope, same_unit: bool, pairs: tuple[tuple[Lowered, Lowered], ...], each: int, optional: bool
) -> Scope:
    """Which columns of the right side one unit still has one value of."""
    looked_up = each <= 1 and all(one.constant for one, _ in pairs)

    def change(part: Lowered) -> Lowered:
        constant = part.constant if same_unit else looked_up
        return replace(part, constant=constant and not optional, present=part.present and not optional)

    return (scope.without_unit() if optional else scope).mapped(change)


# ---- one row a unit ----------------------------------------------------------------------------------------


def _per_unit(relation: asked.PerUnit, inner: Source) -> Source:
    """Figures of a unit's rows become columns of its one row; then the rest is computed from those."""
    at, keys = inner.next_at, _Keys.of(relation.keys, inner)
    figures = _Figures(inner, alone=not keys.values)
    columns = tuple((name, figures.read(keys.read(each))) for name, each in relation.columns)
    having = None if relation.having is None else figures.read(keys.read(relation.having))
    scope = Scope((*keys.fields(at), *figures.fields()), "this subquery")
    shown = tuple(_selected(name, each, scope) for name, each in columns)
    where = Every() if having is None else predicate(having, scope)
    rows = engine.PerUnit(
        inner.rows, inner.where, tuple(key.value for key in keys.values), tuple(figures.known), at
    )
    apart = {place: key for place, key in enumerate(keys.values) if not key.constant}
    cells = math.prod(_size(key) + 1 for key in apart.values())
    return replace(
        inner,
        rows=rows,
        where=where,
        scope=Scope(shown, "this subquery"),
        max_rows=min(inner.max_rows, cells),
        next_at=at + 1,
        apart=frozenset(Column(at, f"k{place}") for place in apart),
    )


@dataclass(frozen=True, slots=True)
class _Keys:
    """What a subquery by unit is grouped by, besides the unit."""

    asked_for: tuple[Expression, ...]
    units: frozenset[int]
    """The places where the unit stands."""
    values: tuple[Lowered, ...]

    @classmethod
    def of(cls, keys: tuple[Expression, ...], inner: Source) -> _Keys:
        units = frozenset(
            place
            for place, key in enumerate(keys)
            if isinstance(key, asked.Name) and inner.scope.is_unit(key)
        )
        if not units:
            unit = next((each.name for each in inner.scope.fields if each.holds is None), "patient_id")
            raise PolicyError(
                "SF-Q151",
                "The groups of a subquery are units of protection.",
                why="what is computed of many people together is only known with noise",
                try_=f"GROUP BY {unit}",
            )
        others = [key for place, key in enumerate(keys) if place not in units]
        return cls(keys, units, tuple(_key(expression(key, inner.scope)) for key in others))

    def fields(self, at: int) -> list[Field]:
        others = iter(enumerate(self.values))
        return [
            Field(_hidden(f"k{place}"), (), None if place in self.units else _as_key(*next(others), at))
            for place in range(len(self.asked_for))
        ]

    def read(self, node: Any) -> Any:
        """The same expression, with what says a key again replaced by that key."""
        for place, key in enumerate(self.asked_for):
            if node == key or _same_name(node, key):
                return asked.Name(_hidden(f"k{place}"))
        return _rebuilt(node, self.read, stop=asked.OfUnit)


def _as_key(place: int, key: Lowered, at: int) -> Lowered:
    return Lowered(Column(at, f"k{place}"), key.domain, key.constant, key.present)


def _same_name(node: Any, key: Expression) -> bool:
    if not isinstance(node, asked.Name) or not isinstance(key, asked.Name):
        return False
    return node.column.casefold() == key.column.casefold() and None in (node.table, key.table)


def _rebuilt(node: Any, change: Callable[[Any], Any], stop: type[Any] | None = None) -> Any:
    """The same value with its parts changed."""
    if isinstance(node, tuple):
        return tuple(change(part) for part in node)
    leaf = isinstance(node, asked.Name | asked.Literal | type) or (
        stop is not None and isinstance(node, stop)
    )
    if leaf or not is_dataclass(node):
        return node
    rebuilt: Any = node
    return replace(rebuilt, **{each.name: change(getattr(node, each.name)) for each in fields(node)})


def _key(part: Lowered) -> Lowered:
    if isinstance(part.domain, Texts):
        raise PolicyError(
            "SF-Q109", "A subquery is grouped by listed values.", try_="GROUP BY the unit alone"
        )
    return part


def _size(part: Lowered) -> int:
    return 10**9 if isinstance(part.domain, Texts) else part.domain.size


@dataclass(slots=True)
class _Figures:
    """What a subquery by unit computes of a unit's rows, under names that no one can type."""

    inner: Source
    alone: bool
    known: dict[engine.Figure, Lowered] = field(default_factory=dict)
    """The columns of the unit's one row, each once."""
    computed: list[Lowered] = field(default_factory=list)

    def fields(self) -> list[Field]:
        return [Field(_hidden(f"f{i}"), (), part) for i, part in enumerate(self.computed)]

    def read(self, node: Any) -> Any:
        """The same expression, with figures of the unit's rows replaced by names."""
        if not isinstance(node, asked.OfUnit):
            return _rebuilt(node, self.read)
        self.computed.append(self._figure(node))
        return asked.Name(_hidden(f"f{len(self.computed) - 1}"))

    def _figure(self, node: asked.OfUnit) -> Lowered:
        """A figure, computed from the columns."""
        if node.of is None:
            return self._column(engine.Counted(), Numbers(1, self.inner.max_rows))
        part = expression(node.of, self.inner.scope)
        if node.figure == "count":
            return self._present(part)
        if node.figure in ("min", "max"):
            return self._end(node.figure, part)
        total, domain = self._sum(part)
        if node.figure == "avg":
            ends = (literal_number(end * domain.step) for end in (domain.low, domain.high))
            return average(total, self._present(part), *ends)
        return total if part.present else _unless_none(total, self._present(part))

    def _present(self, part: Lowered) -> Lowered:
        if part.present:
            return self._column(engine.Counted(), Numbers(1, self.inner.max_rows))
        return self._column(engine.Present(part.value), Numbers(0, self.inner.max_rows))

    def _end(self, figure: str, part: Lowered) -> Lowered:
        if isinstance(part.domain, Texts):
            raise PolicyError("SF-Q114", "Texts have no least and no largest.", try_="a number or a date")
        kind = engine.Smallest if figure == "min" else engine.Largest
        return self._column(kind(part.value), part.domain, part.present)

    def _sum(self, part: Lowered) -> tuple[Lowered, Numbers]:
        """The sum, and the bounds of each summand; coarser where rows could add up to too much."""
        part, domain = number(part, "What SUM takes")
        most = self.inner.max_rows
        part = coarser(part, domain, (domain.bound * most).bit_length() - LARGEST.bit_length() + 1)
        part, domain = number(part, "What SUM takes")
        total = Numbers(min(0, domain.low) * most, max(0, domain.high) * most, domain.step)
        return self._column(engine.Total(part.value), total), domain

    def _column(self, figure: engine.Figure, domain: Domain, present: bool = True) -> Lowered:
        if figure not in self.known:
            column = Column(self.inner.next_at, f"f{len(self.known)}")
            self.known[figure] = Lowered(column, domain, self.alone, present)
        return self.known[figure]


def _unless_none(total: Lowered, there: Lowered) -> Lowered:
    """A sum, missing where all that was summed is."""
    value = Choose(AtLeast(there.value, 1), total.value, Constant(None))
    return total.then(value, total.domain, there, total=False)


def _hidden(name: str) -> str:
    return f"\0{name}"
