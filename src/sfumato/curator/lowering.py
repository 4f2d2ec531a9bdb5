"""From relations in the analyst's names to sources of rows that an engine can read, with the unit followed.

At every step it is known whose row a row is and how many rows one unit can have: a filter keeps that bound, a
join multiplies it, a subquery by unit makes it one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.curator import relation as asked
from sfumato.curator.conditions import comparable
from sfumato.curator.domains import Numbers, Texts
from sfumato.curator.expressions import expression, predicate
from sfumato.curator.lowered import LARGEST, Lowered, coarser, number
from sfumato.curator.scope import Field, Scope
from sfumato.curator.simplify import simplified
from sfumato.engines import rows as engine
from sfumato.engines.values import Column, Every, Predicate, Value
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from sfumato.curator.catalog import Table
    from sfumato.curator.domains import Domain
    from sfumato.curator.relation import Condition, Expression, Name, Relation

MOST_ROWS = 10**9
"""Of one unit, after joins."""
SOURCE_ROWS = 2**31
"""A unit with more rows in the source counts as having this many."""


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
            Lowered(Column(at, name), promise.domain(), promise.constant, promise.missing is not None),
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
    rows = Lowered(Column(at, "rows"), Numbers(1, SOURCE_ROWS), True, True)
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
    left = replace(left, scope=left.scope.named(relation.left_name))
    right = replace(right, scope=right.scope.named(relation.right_name))
    if left.table.is_public and not right.table.is_public and not relation.optional:
        left, right = right, left
    if left.table.is_public:
        raise PolicyError(
            "SF-Q138", "A join starts from a table about people.", try_="visits LEFT JOIN regions ON …"
        )
    same_unit = not right.table.is_public
    if same_unit:
        _require_one_population(left.table, right.table)
    return _paired(left, right, _terms(relation.on), same_unit, relation.optional)


def _require_one_population(left: Table, right: Table) -> None:
    if left.population != right.population or left.unit.column is None or right.unit.column is None:
        raise PolicyError(
            "SF-Q139",
            f"'{left.name}' and '{right.name}' are not about the same people.",
            try_='the same of="…" in sf.Unit, when the tables are registered',
        )


def _paired(
    left: Source, right: Source, terms: tuple[Condition, ...], same_unit: bool, optional: bool
) -> Source:
    """Equal units where both are about people, equal values otherwise; what else is asked filters the pairs."""
    both = left.scope.beside(right.scope)
    units = [term for term in terms if _equates_units(term, left.scope, right.scope)]
    pairs = [pair for term in terms if term not in units if (pair := _equal(term, left.scope, right.scope))]
    rest = [term for term in terms if term not in units and not _equal(term, left.scope, right.scope)]
    if same_unit and not units:
        unit = left.table.unit.column
        raise PolicyError(
            "SF-Q140", "Tables about people are joined on the unit of protection.", try_=f"USING ({unit})"
        )
    if not same_unit and not pairs:
        raise PolicyError("SF-Q140", "A public table is joined on equal columns.", try_="ON visits.ward = wards.ward")
    if optional and (rest or right.where != Every()):
        raise PolicyError(
            "SF-Q141",
            "A LEFT JOIN takes equal columns alone, and all rows of its right side.",
            try_="an inner JOIN, or a condition in WHERE",
        )
    each = right.max_rows if same_unit else _multiplicity(pairs, right)
    most = left.max_rows * max(each, 1)
    if most > MOST_ROWS:
        raise PolicyError("SF-Q142", "One unit could have too many rows after this join.", rows=f"{most:,}")
    values = tuple((one.value, other.value) for one, other in pairs)
    rows = engine.Joined(left.rows, right.rows, values, same_unit, optional)
    scope = left.scope.beside(_after_join(right.scope, same_unit, pairs, each, optional))
    filtered = [predicate(term, both) for term in rest]
    where = simplified(Every((left.where, right.where, *filtered)))
    return Source(rows, where, scope, left.table, most, left.tables + right.tables, right.next_at)


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


def _multiplicity(pairs: list[tuple[Lowered, Lowered]], right: Source) -> int:
    """How many rows of a public table one row can meet: by the column that is rarest repeated."""
    known = [
        right.table.multiplicity[other.value.name]
        for _, other in pairs
        if isinstance(other.value, Column) and isinstance(right.rows, engine.Scan)
    ]
    return min([*known, right.table.public_rows or 0])


def _after_join(
    scope: Scope, same_unit: bool, pairs: list[tuple[Lowered, Lowered]], each: int, optional: bool
) -> Scope:
    """Which columns of the right side one unit still has one value of."""
    looked_up = each <= 1 and all(one.constant for one, _ in pairs)

    def change(part: Lowered) -> Lowered:
        constant = part.constant if same_unit else looked_up
        return replace(part, constant=constant and not optional, present=part.present and not optional)

    return scope.mapped(change)


# ---- one row a unit ----------------------------------------------------------------------------------------


def _per_unit(relation: asked.PerUnit, inner: Source) -> Source:
    """Figures of a unit's rows become columns of its one row; then the rest is computed from those."""
    at, figures = inner.next_at, _Figures(inner, alone=not relation.keys)
    keys = [(name, _key(expression(each, inner.scope))) for name, each in relation.keys]
    columns = [
        Field(name, (), Lowered(Column(at, f"k{i}"), key.domain, key.constant, key.present))
        for i, (name, key) in enumerate(keys)
    ]
    computed = [(name, _replaced(each, figures.named)) for name, each in relation.columns]
    scope = Scope((*columns, *figures.fields()), "this subquery")
    shown = tuple(_shown(name, each, inner.scope, scope) for name, each in computed)
    rows = engine.PerUnit(
        inner.rows, inner.where, tuple(_value(key) for _, key in keys), tuple(figures.known), at
    )
    cells = math.prod(_size(key) + 1 for _, key in keys if not key.constant)
    return replace(
        inner,
        rows=rows,
        where=Every(),
        scope=Scope(shown, "this subquery"),
        max_rows=min(inner.max_rows, cells),
        next_at=at + 1,
    )


def _shown(name: str, each: Expression, inner: Scope, scope: Scope) -> Field:
    if isinstance(each, asked.Name) and inner.is_unit(each):
        return Field(name, (), None)
    return Field(name, (), expression(each, scope))


def _replaced(node: Any, change: Callable[[asked.OfUnit], Expression]) -> Any:
    """The same expression with every figure of the unit's rows replaced."""
    if isinstance(node, asked.OfUnit):
        return change(node)
    if isinstance(node, tuple):
        return tuple(_replaced(part, change) for part in node)
    if is_dataclass(node) and not isinstance(node, asked.Name | asked.Literal | type):
        return replace(
            node, **{each.name: _replaced(getattr(node, each.name), change) for each in fields(node)}
        )
    return node


def _key(part: Lowered) -> Lowered:
    if isinstance(part.domain, Texts):
        raise PolicyError("SF-Q109", "A subquery is grouped by listed values.", try_="GROUP BY the unit alone")
    return part


def _value(part: Lowered) -> Value:
    return part.value  # type: ignore[return-value]


def _size(part: Lowered) -> int:
    return 10**9 if isinstance(part.domain, Texts) else part.domain.size


@dataclass(slots=True)
class _Figures:
    """The figures that a subquery by unit needs, each once, as columns whose names no one can type."""

    inner: Source
    alone: bool
    known: dict[engine.Figure, Lowered] = field(default_factory=dict)

    def fields(self) -> list[Field]:
        return [Field(_hidden(i), (), part) for i, part in enumerate(self.known.values())]

    def named(self, node: asked.OfUnit) -> Expression:
        """The expression that computes this figure from the columns."""
        if node.of is None:
            return self._column(engine.Counted(), Numbers(1, self.inner.max_rows))
        part = expression(node.of, self.inner.scope)
        if node.figure == "count":
            return self._present(part)
        if node.figure in ("min", "max"):
            return self._end(node.figure, part)
        total = self._sum(part)
        return total if node.figure == "sum" else asked.Call("divide", (total, self._present(part)))

    def _present(self, part: Lowered) -> Expression:
        return self._column(engine.Present(part.value), Numbers(0, self.inner.max_rows))

    def _end(self, figure: str, part: Lowered) -> Expression:
        if isinstance(part.domain, Texts):
            raise PolicyError("SF-Q114", "Texts have no least and no largest.", try_="a number or a date")
        kind = engine.Smallest if figure == "min" else engine.Largest
        return self._column(kind(_value(part)), part.domain, part.present)

    def _sum(self, part: Lowered) -> Expression:
        """Coarser where so many rows could add up to too much."""
        part, domain = number(part, "What SUM takes")
        most = self.inner.max_rows
        part = coarser(part, domain, (domain.bound * most).bit_length() - LARGEST.bit_length() + 1)
        part, domain = number(part, "What SUM takes")
        total = Numbers(min(0, domain.low) * most, max(0, domain.high) * most, domain.step)
        return self._column(engine.Total(_value(part)), total)

    def _column(self, figure: engine.Figure, domain: Domain, present: bool = True) -> Expression:
        if figure not in self.known:
            column = Column(self.inner.next_at, f"f{len(self.known)}")
            self.known[figure] = Lowered(column, domain, self.alone, present)
        return asked.Name(_hidden(list(self.known).index(figure)))


def _hidden(place: int) -> str:
    return f"\0{place}"
