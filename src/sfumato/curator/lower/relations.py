"""Lowering of relations: from the analyst's names to rows that an engine can read, with the unit followed.

At every step it is known whose row a row is and how many rows one unit can have: a filter keeps that bound, a
join multiplies it, a subquery by unit makes it one.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.curator.catalog.domains import Numbers
from sfumato.curator.lower.expressions import lower_condition, lower_output_column
from sfumato.curator.lower.histories import bound_numbered_rows, lower_positions
from sfumato.curator.lower.joins import join_existing, lower_join
from sfumato.curator.lower.lowered_value import LoweredValue
from sfumato.curator.lower.per_unit import hidden_name, lower_group_by_unit
from sfumato.curator.lower.row_source import RowSource
from sfumato.curator.lower.scope import Field, Scope
from sfumato.curator.lower.simplify import simplify_predicate
from sfumato.curator.question import relation as asked
from sfumato.engines import rows as engine
from sfumato.engines.values import Column, Every, Predicate
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.catalog.domains import Domain
    from sfumato.curator.question.relation import Condition, Expression, Relation


ONE = Fraction(1)
MOST_TABLES = 16
"""The largest number of tables that one question reads, one that it reads again each time."""
MOST_LEVELS = 120
"""The deepest nesting of subqueries, filters and joins."""


def lower_relation(relation: Relation, tables: Callable[[str], Table]) -> RowSource:
    """Return the rows that a relation means. `tables` finds a table in the catalog."""
    require_few_tables(relation)
    return _lower_node(relation, tables, 0)


def list_names(relation: Relation, tables: Callable[[str], Table]) -> frozenset[str]:
    """Return the names, in lower case, that mean a column of a relation without a table before them."""
    try:
        scope = lower_relation(relation, tables).scope
    except PolicyError:  # whoever resolves the question says what is wrong with its rows
        return frozenset()
    return frozenset(each.name.casefold() for each in scope.fields if not each.hidden)


def require_few_tables(relation: Relation) -> None:
    """Refuse a relation that reads very many tables, before anything is done with it."""
    found, levels = asked.measure_relation(relation)
    if found > MOST_TABLES:
        raise PolicyError(
            "SF-Q113",
            f"A question may read at most {MOST_TABLES} tables.",
            got=f"{found:,}" if found < 10**6 else "over a million",
            why="a subquery or WITH that is named twice is read twice",
            try_="fewer joins",
        )
    if levels > MOST_LEVELS:
        raise PolicyError(
            "SF-Q113", f"Rows may be nested at most {MOST_LEVELS} levels deep.", try_="one WHERE"
        )


def _lower_node(relation: Relation, tables: Callable[[str], Table], at: int) -> RowSource:
    match relation:
        case asked.BaseTable(name):
            return _lower_table(tables(name), at)
        case asked.UnitRowCounts(name):
            return _lower_unit_row_counts(tables(name), at)
        case asked.Alias(of, name):
            inner = _lower_node(of, tables, at)
            return replace(inner, scope=inner.scope.with_table_name(name))
        case asked.Filter(of, where):
            return _lower_filter(_lower_node(of, tables, at), where, tables)
        case asked.Projection(of, columns):
            inner, chosen = _lower_columns(_lower_node(of, tables, at), columns)
            return replace(inner, scope=Scope(chosen, "this subquery"))
        case asked.Extension(of, columns):
            inner, chosen = _lower_columns(_lower_node(of, tables, at), columns)
            return replace(inner, scope=Scope((*inner.scope.fields, *chosen), inner.scope.about))
        case asked.Join():
            # Scans are numbered from left to right, so that columns of both sides stay apart.
            left = _lower_node(relation.left, tables, at)
            return lower_join(relation, left, _lower_node(relation.right, tables, left.next_at))
        case asked.GroupByUnit():
            return lower_group_by_unit(relation, _lower_node(relation.of, tables, at))


def _lower_columns(
    inner: RowSource, columns: tuple[tuple[str, Expression], ...]
) -> tuple[RowSource, tuple[Field, ...]]:
    """Return the rows with what windows need, and the columns that are computed from them."""
    widened, spelled = lower_positions(columns, inner)
    return widened, tuple(lower_output_column(name, each, widened.scope) for name, each in spelled)


def _lower_filter(inner: RowSource, where: Condition, tables: Callable[[str], Table]) -> RowSource:
    """Return the rows for which a condition holds; one on a unit's row numbers says how many it has."""
    beside, scope, spelled = inner, inner.scope, where
    for test in asked.list_exists(where):
        other = _lower_node(test.of, tables, beside.next_at)
        beside, found = join_existing(test, beside, other)
        name = hidden_name(f"e{beside.next_at}")
        scope = Scope((*scope.fields, Field(name, (), found)), scope.about)
        spelled = _replace_test(spelled, test, asked.Comparison(asked.Name(name), ">=", asked.Literal(ONE)))
    met = _conjoin(beside.where, lower_condition(spelled, scope))
    most = bound_numbered_rows(met, beside.numbered)
    rows = beside.max_rows if most is None else min(beside.max_rows, most)
    return replace(beside, where=met, max_rows=rows)


def _replace_test(condition: Condition, test: asked.Exists, by: Condition) -> Condition:
    match condition:
        case asked.Exists():
            return by if condition is test else condition
        case asked.Negation(part):
            return asked.Negation(_replace_test(part, test, by))
        case asked.Conjunction(parts):
            return asked.Conjunction(tuple(_replace_test(part, test, by) for part in parts))
        case asked.Disjunction(parts):
            return asked.Disjunction(tuple(_replace_test(part, test, by) for part in parts))
    return condition


def _conjoin(one: Predicate, other: Predicate) -> Predicate:
    return simplify_predicate(Every((one, other)))


# ---- tables ------------------------------------------------------------------------------------------------


def _lower_table(table: Table, at: int) -> RowSource:
    columns = [
        Field(
            name,
            (table.name,),
            LoweredValue(
                Column(at, name),
                promise.domain,
                table.is_constant(name),
                promise.missing is not None,
                error=_lost_on_grid(promise.domain),
            ),
        )
        for name, promise in table.columns.items()
    ]
    unit = [Field(table.unit.column, (table.name,), None)] if table.unit.column is not None else []
    scope = Scope((*columns, *unit), f"'{table.name}'")
    return RowSource(
        engine.Scan(table.snapshot_name, at), Every(), scope, table, table.unit.max_rows, (table,), at + 1
    )


def _lost_on_grid(domain: Domain) -> float:
    """Return half a step of a grid that sfumato chose: values on a declared one are multiples of its step."""
    return float(domain.step / 2) if isinstance(domain, Numbers) and domain.rounded else 0.0


def _lower_unit_row_counts(table: Table, at: int) -> RowSource:
    if table.unit.column is None:
        raise PolicyError("SF-Q127", f"Each row of '{table.name}' is a unit of its own.", try_="COUNT(*)")
    # One row for each unit, so its count is constant; no unit is here without a row.
    rows = LoweredValue(Column(at, "rows"), Numbers(1, engine.MOST_COUNTED), True, True)
    scope = Scope((Field("rows", (table.name,), rows),), f"the units of '{table.name}'")
    return RowSource(engine.UnitSizes(table.snapshot_name, at), Every(), scope, table, 1, (table,), at + 1)
