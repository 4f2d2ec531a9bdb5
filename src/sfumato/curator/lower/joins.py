"""Lowering of joins: with public tables on equal values, between tables of the same people on the unit.

A join multiplies how many rows one unit can have: by the rows that a unit has on the other side, or by how
often the public table repeats a value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sfumato.curator.catalog.domains import Numbers
from sfumato.curator.lower.conditions import make_comparable
from sfumato.curator.lower.expressions import lower_condition, lower_expression
from sfumato.curator.lower.lowered_value import LoweredValue
from sfumato.curator.lower.row_source import RowSource
from sfumato.curator.lower.simplify import simplify_predicate
from sfumato.curator.question import relation as asked
from sfumato.engines import rows as engine
from sfumato.engines.values import Add, Choose, Column, Constant, Every, Missing, Multiply, Not
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.lower.scope import Scope
    from sfumato.curator.question.relation import Condition, Expression, Name
    from sfumato.engines.values import Predicate, Value

MOST_ROWS = 10**6
"""The largest number of rows of one unit after joins: one unit must never decide whether memory runs out,
since a crash would give it away."""


def lower_join(relation: asked.Join, left: RowSource, right: RowSource) -> RowSource:
    """Return the joined rows; between two tables about people, only rows of one unit meet."""
    # The unit is followed through the left side, so people stand there; an inner join is symmetric.
    if left.table.is_public and not right.table.is_public and not relation.optional:
        left, right = right, left
    if left.table.is_public:
        raise PolicyError(
            "SF-Q140", "A join must start from a table about people.", try_="visits LEFT JOIN regions ON …"
        )
    _require_one_home(left.tables + right.tables)
    if not right.table.is_public:
        _require_one_population(left.table, right.table)
    terms = _split_conjunction(relation.on)
    return _pair_rows(left, right, relation.using, terms, relation.optional)


def _require_one_home(tables: tuple[Table, ...]) -> None:
    first, *others = tables
    other = next((table for table in others if table.home != first.home), None)
    if other is not None:
        raise PolicyError(
            "SF-Q140",
            f"'{first.name}' and '{other.name}' are kept in different databases.",
            why="an engine answers about what it holds, and data is not moved between them",
            try_="register both from the same database, or both from files",
        )


def _require_one_population(left: Table, right: Table) -> None:
    if left.population != right.population or left.unit.column is None or right.unit.column is None:
        raise PolicyError(
            "SF-Q140",
            f"'{left.name}' and '{right.name}' are not about the same people.",
            try_='the same of="…" in sf.Unit, when the tables are registered',
        )


def _pair_rows(
    left: RowSource, right: RowSource, using: tuple[str, ...], terms: tuple[Condition, ...], optional: bool
) -> RowSource:
    """Return pairs with equal units or equal values; the other conditions of the join filter the pairs."""
    same_unit, match = not right.table.is_public, _Match.from_terms(left.scope, right.scope, using, terms)
    match.require_supported(same_unit, optional, right.where == Every(), left.table)
    each = (
        right.max_rows
        if same_unit
        else count_partners([other.value for _, other in match.pairs], right.table)
    )
    most = left.max_rows * max(each, 1)  # a LEFT JOIN keeps rows without a partner
    if most > MOST_ROWS:
        raise PolicyError(
            "SF-Q158",
            "One unit could have too many rows after this join.",
            rows=f"{most:,}",
            most=f"{MOST_ROWS:,}",
        )
    values = tuple((one.value, other.value) for one, other in match.pairs)
    rows = engine.Joined(left.rows, right.rows, values, same_unit, optional)
    after = _after_join(right.scope, same_unit, match.pairs, each, optional)
    scope = left.scope.join_scope(after.hide_columns(using))
    filtered = (lower_condition(term, scope) for term in match.rest)
    where = simplify_predicate(Every((left.where, right.where, *filtered)))
    beyond = max(left.next_at, right.next_at)  # the sides may have changed places
    return RowSource(rows, where, scope, left.table, most, left.tables + right.tables, beyond)


# ---- rows of another relation that exist -------------------------------------------------------------------


def join_existing(test: asked.Exists, left: RowSource, right: RowSource) -> tuple[RowSource, LoweredValue]:
    """Return rows beside what they need to know about another relation, and 1 where it has a row for them.

    A left join with at most one partner keeps every row once: with the other relation summed up by unit, or
    with a public table in which the values that are compared do not repeat.
    """
    _require_one_home(left.tables + right.tables)
    terms = [_sort_term(term, left.scope, right.scope) for term in _split_conjunction(test.where)]
    terms += [_sort_equal(*pair, left.scope, right.scope) for pair in test.equals]
    pairs = tuple(term for term in terms if isinstance(term, tuple))
    inside = simplify_predicate(
        Every((right.where, *(term for term in terms if not isinstance(term, tuple | bool))))
    )
    if right.table.is_public:
        return _look_up(left, right, pairs, inside, unknown=bool(test.equals))
    _require_one_population(left.table, right.table)
    if True not in terms or pairs:
        raise PolicyError(
            "SF-Q140",
            "EXISTS and IN over a table about people take rows of the same unit, and no other comparison.",
            try_=f"… IN (SELECT {right.table.unit.column} …), or EXISTS with equal {left.table.unit.column}",
        )
    at = right.next_at
    counted = engine.PerUnit(right.rows, inside, (), (engine.Counted(),), at)
    rows = engine.Joined(left.rows, counted, (), same_unit=True, optional=True)
    found = Choose(Missing(Column(at, "f0")), Constant(0), Constant(1))
    return _beside(left, right, rows, at + 1), LoweredValue(found, Numbers(0, 1), True, True)


def _look_up(
    left: RowSource,
    right: RowSource,
    pairs: tuple[tuple[LoweredValue, LoweredValue], ...],
    inside: Predicate,
    *,
    unknown: bool,
) -> tuple[RowSource, LoweredValue]:
    """Return rows beside the row of a public table that agrees with them, and 1 where there is one."""
    if not pairs or count_partners([other.value for _, other in pairs], right.table) > 1:
        raise PolicyError(
            "SF-Q140",
            "EXISTS and IN over a public table need a column that has no value twice.",
            try_=f"a JOIN with {right.table.name}, or a list of values",
        )
    values = tuple((one.value, other.value) for one, other in pairs)
    rows = engine.Joined(left.rows, right.rows, values, optional=True)
    there = Every((Not(Missing(pairs[0][1].value)), inside))
    value: Value = Choose(there, Constant(1), Constant(0))
    # IN is unknown where the value is missing, and so is NOT IN; EXISTS is never unknown.
    for one, _ in pairs if unknown else ():
        value = value if one.present else Choose(Missing(one.value), Constant(None), value)
    constant = all(one.constant for one, _ in pairs)
    return _beside(left, right, rows, right.next_at), LoweredValue(value, Numbers(0, 1), constant)


def _beside(left: RowSource, right: RowSource, rows: engine.Joined, next_at: int) -> RowSource:
    return replace(left, rows=rows, tables=left.tables + right.tables, next_at=next_at)


def _sort_term(
    term: Condition, left: Scope, right: Scope
) -> bool | tuple[LoweredValue, LoweredValue] | Predicate:
    """Return a condition on the other relation's row, a pair of values to be equal, or True for the unit."""
    # As in SQL a name means a column of the subquery first.
    try:
        return lower_condition(term, right)
    except PolicyError as problem:
        if problem.code != "SF-Q107":
            raise
    match term:
        case asked.Comparison(asked.Name(table=one), "=", asked.Name(table=other)) if one or other:
            pair = True if _equates_units(term, left, right) else _find_equated(term, left, right)
            if pair is not None:
                return pair
    raise PolicyError(
        "SF-Q140",
        "A subquery in WHERE compares rows of both tables by equal columns only.",
        try_="r.patient_id = v.patient_id, or LAG(…) OVER (PARTITION BY … ORDER BY …) in a subquery",
    )


def _sort_equal(
    one: Expression, other: Expression, left: Scope, right: Scope
) -> bool | tuple[LoweredValue, LoweredValue]:
    """Return the two values that IN compares, or True for the unit of both."""
    match one, other:
        case asked.Name(), asked.Name() if left.is_unit(one) and right.is_unit(other):
            return True
    return make_comparable(lower_expression(one, left), lower_expression(other, right))


# ---- conditions of a join ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Match:
    """The conditions of a join on a pair of rows: the same unit, equal values, and others."""

    units: bool
    pairs: tuple[tuple[LoweredValue, LoweredValue], ...]
    rest: tuple[Condition, ...]

    @classmethod
    def from_terms(
        cls, left: Scope, right: Scope, using: tuple[str, ...], terms: tuple[Condition, ...]
    ) -> _Match:
        units, pairs, rest = False, [], []
        for name in map(asked.Name, using):
            if left.is_unit(name) and right.is_unit(name):
                units = True
            else:
                pairs.append(make_comparable(left.find_column(name), right.find_column(name)))
        for term in terms:
            # Whatever is not an equality of one value of each side filters the pairs later.
            pair = _find_equated(term, left, right)
            if _equates_units(term, left, right):
                units = True
            elif pair is not None:
                pairs.append(pair)
            else:
                rest.append(term)
        return cls(units, tuple(pairs), tuple(rest))

    def require_supported(self, same_unit: bool, optional: bool, whole: bool, table: Table) -> None:
        if same_unit and not self.units:
            raise PolicyError(
                "SF-Q140",
                "Tables about people must be joined on the unit of protection.",
                try_=f"USING ({table.unit.column})",
            )
        if not same_unit and not self.pairs:
            raise PolicyError(
                "SF-Q140",
                "A public table must be joined on equal columns.",
                try_="ON visits.ward = wards.ward",
            )
        if optional and (self.rest or not whole):
            raise PolicyError(
                "SF-Q140",
                "A LEFT JOIN supports only equal columns, and a right side without conditions.",
                try_="an inner JOIN, or a condition in WHERE",
            )


def _split_conjunction(condition: Condition) -> tuple[Condition, ...]:
    """Return the terms of a conjunction."""
    if isinstance(condition, asked.Conjunction):
        return tuple(term for part in condition.parts for term in _split_conjunction(part))
    return (condition,)


def _equates_units(term: Condition, left: Scope, right: Scope) -> bool:
    match term:
        case asked.Comparison(asked.Name() as one, "=", asked.Name() as other):
            straight = left.is_unit(one) and right.is_unit(other)
            return straight or (left.is_unit(other) and right.is_unit(one))
    return False


def _find_equated(term: Condition, left: Scope, right: Scope) -> tuple[LoweredValue, LoweredValue] | None:
    """Return two values, one of each side, that a term equates, or None."""
    match term:
        case asked.Comparison(one, "=", other):
            for first, second in ((one, other), (other, one)):
                if _names_column(first, left) and _names_column(second, right):
                    return make_comparable(lower_expression(first, left), lower_expression(second, right))
    return None


def _names_column(node: Expression, scope: Scope) -> bool:
    return isinstance(node, asked.Name) and _has_column(node, scope)


def _has_column(name: Name, scope: Scope) -> bool:
    try:
        scope.find_column(name)
    except PolicyError:  # also where it is ambiguous: lowering the term will say so
        return False
    return True


def count_partners(values: Sequence[Value], table: Table) -> int:
    """Return how many rows of a public table have these values at most, by the one that repeats least."""
    # Rows that agree in several columns agree in each, so the smallest bound holds for all of them.
    if table.public_rows is None:
        raise AssertionError(table)
    columns = [_determining_column(value) for value in values]
    known = [table.multiplicity[column.name] for column in columns if column is not None]
    return min([*known, table.public_rows])


def _determining_column(value: Value) -> Column | None:
    """Return the column that determines a value and is determined by it, if that is plain to see."""
    match value:
        case Column():
            return value
        # Adding a constant and multiplying by one other than zero map different values to different ones.
        case Add(inner, Constant(int())):
            return _determining_column(inner)
        case Multiply(inner, Constant(int(factor))) if factor:
            return _determining_column(inner)
    return None


def _after_join(
    scope: Scope,
    same_unit: bool,
    pairs: tuple[tuple[LoweredValue, LoweredValue], ...],
    each: int,
    optional: bool,
) -> Scope:
    """Return the right side's columns, with what is still constant for a unit and never missing."""
    # A public table that is looked up by something constant adds constants; anything else may vary by row.
    looked_up = each <= 1 and all(one.constant for one, _ in pairs)

    def change(part: LoweredValue) -> LoweredValue:
        constant = part.constant if same_unit else looked_up
        return replace(part, constant=constant and not optional, present=part.present and not optional)

    return (scope.without_unit() if optional else scope).map_columns(change)
