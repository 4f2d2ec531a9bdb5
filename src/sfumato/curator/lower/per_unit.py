"""Lowering of GROUP BY unit: aggregates of a unit's rows become columns of its row, or of one row per key."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.domains import FreeTexts, Listed, Numbers, Periods
from sfumato.curator.lower.arithmetic import average_numbers
from sfumato.curator.lower.expressions import lower_condition, lower_expression, lower_output_column
from sfumato.curator.lower.lowered_value import (
    LARGEST,
    LoweredValue,
    add_integer,
    grid_too_fine,
    literal_number,
    multiply_by_integer,
    require_number,
    round_to_grid,
)
from sfumato.curator.lower.scope import Field, Scope
from sfumato.curator.question import relation as asked
from sfumato.engines import rows as engine
from sfumato.engines.values import (
    Add,
    AtLeast,
    Choose,
    Column,
    Constant,
    Divide,
    Every,
    Missing,
    Multiply,
)
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.catalog.domains import Domain
    from sfumato.curator.lower.row_source import RowSource
    from sfumato.curator.question.relation import Expression
    from sfumato.engines.values import Value


def lower_group_by_unit(relation: asked.GroupByUnit, inner: RowSource) -> RowSource:
    """Return one row for each unit and key: aggregates become columns, the rest is computed from them."""
    at, keys = inner.next_at, _Keys.from_expressions(relation.keys, inner)
    aggregates = _Aggregates(inner, alone=not keys.values)
    columns = tuple(
        (name, aggregates.replace_aggregates(keys.replace_keys(each))) for name, each in relation.columns
    )
    having = (
        None if relation.having is None else aggregates.replace_aggregates(keys.replace_keys(relation.having))
    )
    scope = Scope((*keys.make_fields(at), *aggregates.make_fields()), "this subquery")
    shown = tuple(lower_output_column(name, each, scope) for name, each in columns)
    where = Every() if having is None else lower_condition(having, scope)
    rows = engine.PerUnit(
        inner.rows, inner.where, tuple(key.value for key in keys.values), tuple(aggregates.known), at
    )
    # A key that is constant for a unit does not split its rows; each other one adds a cell for "missing".
    apart = {place: key for place, key in enumerate(keys.values) if not key.constant}
    cells = math.prod(_domain_size(key) + 1 for key in apart.values())
    return replace(
        inner,
        rows=rows,
        where=where,
        scope=Scope(shown, "this subquery"),
        max_rows=min(inner.max_rows, cells),
        next_at=at + 1,
        apart=frozenset(Column(at, f"k{place}") for place in apart),
        numbered=None,
    )


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys of a subquery by unit."""

    asked_for: tuple[Expression, ...]
    scope: Scope
    units: frozenset[int]
    """The places where the unit stands among the keys."""
    values: tuple[LoweredValue, ...]
    """The other keys."""

    @classmethod
    def from_expressions(cls, keys: tuple[Expression, ...], inner: RowSource) -> _Keys:
        units = frozenset(
            place
            for place, key in enumerate(keys)
            if isinstance(key, asked.Name) and inner.scope.is_unit(key)
        )
        if not units:
            unit = next((each.name for each in inner.scope.fields if each.holds is None), "patient_id")
            raise PolicyError(
                "SF-Q151",
                "A subquery with GROUP BY must group by the unit of protection.",
                why="an aggregate over several people is only available with noise",
                try_=f"GROUP BY {unit}",
            )
        others = [key for place, key in enumerate(keys) if place not in units]
        return cls(
            keys,
            inner.scope,
            units,
            tuple(_require_listed_key(lower_expression(key, inner.scope)) for key in others),
        )

    def make_fields(self, at: int) -> list[Field]:
        others = iter(enumerate(self.values))
        return [
            Field(hidden_name(f"k{place}"), (), None if place in self.units else _as_key(*next(others), at))
            for place in range(len(self.asked_for))
        ]

    def replace_keys(self, node: Any) -> Any:
        """Return an expression with repetitions of a key replaced by that key's column."""
        for place, key in enumerate(self.asked_for):
            if node == key or self._same(node, key):
                return asked.Name(hidden_name(f"k{place}"))
        # Inside an aggregate a name means the column of the single rows, not the key of the group.
        return rebuild_node(node, self.replace_keys, stop=asked.UnitAggregate)

    def _same(self, node: Any, key: Expression) -> bool:
        return (
            isinstance(node, asked.Name)
            and isinstance(key, asked.Name)
            and self.scope.name_same_column(node, key)
        )


def _as_key(place: int, key: LoweredValue, at: int) -> LoweredValue:
    return LoweredValue(Column(at, f"k{place}"), key.domain, key.constant, key.present, error=key.error)


def rebuild_node(node: Any, change: Callable[[Any], Any], stop: type[Any] | None = None) -> Any:
    """Return a value with its parts changed."""
    if isinstance(node, tuple):
        return tuple(change(part) for part in node)
    leaf = isinstance(node, asked.Name | asked.Literal | type) or (
        stop is not None and isinstance(node, stop)
    )
    if leaf or not is_dataclass(node):
        return node
    rebuilt: Any = node
    return replace(rebuilt, **{each.name: change(getattr(node, each.name)) for each in fields(node)})


def _require_listed_key(part: LoweredValue) -> LoweredValue:
    if isinstance(part.domain, FreeTexts):
        raise PolicyError(
            "SF-Q109", "A subquery cannot group by a free text.", try_="GROUP BY the unit alone"
        )
    return part


def _domain_size(part: LoweredValue) -> int:
    if isinstance(part.domain, FreeTexts):
        raise AssertionError("keys are listed values")
    return part.domain.size


@dataclass(slots=True)
class _Aggregates:
    """The aggregates of a unit's rows, as columns under names that no one can type."""

    inner: RowSource
    alone: bool
    known: dict[engine.Figure, Column] = field(default_factory=dict)
    """The columns of the unit's row, each once: one column may serve several aggregates."""
    computed: list[LoweredValue] = field(default_factory=list)

    def make_fields(self) -> list[Field]:
        return [Field(hidden_name(f"f{i}"), (), part) for i, part in enumerate(self.computed)]

    def replace_aggregates(self, node: Any) -> Any:
        """Return an expression with aggregates of the unit's rows replaced by names of columns."""
        if not isinstance(node, asked.UnitAggregate):
            return rebuild_node(node, self.replace_aggregates)
        self.computed.append(self._aggregate(node))
        return asked.Name(hidden_name(f"f{len(self.computed) - 1}"))

    def _aggregate(self, node: asked.UnitAggregate) -> LoweredValue:
        """Return an aggregate, computed from the columns."""
        if node.of is None:  # a unit without rows has no row here, so it counts at least 1
            return self._column(engine.Counted(), Numbers(1, self.inner.max_rows))
        part = lower_expression(node.of, self.inner.scope)
        if node.by is not None:
            return self._value_at_end(node.figure, part, lower_expression(node.by, self.inner.scope))
        if node.figure == "count":
            return self._present(part)
        if node.figure in ("min", "max"):
            return self._end(node.figure, part)
        total, domain = self._sum(part)
        if node.figure == "avg":
            # An average is off by no more than each of its summands.
            total = replace(total, error=total.error / self.inner.max_rows)
            ends = (literal_number(end * domain.step) for end in (domain.low, domain.high))
            return average_numbers(total, self._present(part), *ends)
        # SQL's SUM is NULL, not 0, where every summand is.
        return total if part.present else _unless_none(total, self._present(part))

    def _present(self, part: LoweredValue) -> LoweredValue:
        if part.present:
            return self._column(engine.Counted(), Numbers(1, self.inner.max_rows))
        return self._column(engine.Present(part.value), Numbers(0, self.inner.max_rows))

    def _end(self, figure: str, part: LoweredValue) -> LoweredValue:
        if isinstance(part.domain, FreeTexts):
            raise PolicyError(
                "SF-Q110", "MIN and MAX are not supported for texts.", try_="a number or a date"
            )
        kind = engine.Smallest if figure == "min" else engine.Largest
        return replace(self._column(kind(part.value), part.domain, part.present), error=part.error)

    def _value_at_end(self, figure: str, part: LoweredValue, by: LoweredValue) -> LoweredValue:
        """Return a value of the row where another is least or greatest: both as one integer, taken apart.

        Rows that tie have different integers unless their values are the same, so the unit's rows decide.
        """
        domain, order = _require_sizes(part, by)
        counts_missing = figure in ("first", "last") and not part.present
        size = domain.size + counts_missing
        if order.size * size > LARGEST:
            raise grid_too_fine("A value by time")
        place: Value = add_integer(part.value, -domain.low)
        if counts_missing:
            place = Choose(Missing(part.value), Constant(domain.size), place)
        packed = Add(multiply_by_integer(add_integer(by.value, -order.low), size), place)
        kind = engine.Smallest if figure in ("arg_min", "first") else engine.Largest
        column = self._column(kind(packed), Numbers(0, order.size * size - 1)).value
        rest = Add(column, Multiply(Divide(column, Constant(size)), Constant(-size)))
        value = add_integer(rest, domain.low)
        if counts_missing:
            value = Choose(AtLeast(rest, domain.size), Constant(None), value)
        return LoweredValue(value, domain, self.alone, part.present and by.present, error=part.error)

    def _sum(self, part: LoweredValue) -> tuple[LoweredValue, Numbers]:
        """Return the sum and the bounds of each summand, on a coarser grid where the rows could overflow."""
        part, domain = require_number(part, "The argument of SUM")
        most = self.inner.max_rows
        # The whole sum of a unit must stay below LARGEST, whatever its rows say.
        part = round_to_grid(part, domain, (domain.bound * most).bit_length() - LARGEST.bit_length() + 1)
        part, domain = require_number(part, "The argument of SUM")
        # A unit may have fewer rows than `most`, or only missing values, so 0 is always within the bounds.
        total = Numbers(min(0, domain.low) * most, max(0, domain.high) * most, domain.step)
        return replace(self._column(engine.Total(part.value), total), error=part.error * most), domain

    def _column(self, figure: engine.Figure, domain: Domain, present: bool = True) -> LoweredValue:
        column = self.known.setdefault(figure, Column(self.inner.next_at, f"f{len(self.known)}"))
        return LoweredValue(column, domain, self.alone, present)


def _require_sizes(
    part: LoweredValue, by: LoweredValue
) -> tuple[Numbers | Listed | Periods, Numbers | Periods]:
    """Return the domains of a value and of the number or time that orders it."""
    if not isinstance(by.domain, Numbers | Periods):
        raise PolicyError("SF-Q110", "Rows are sorted by a date or a number here.", try_="arg_min(cost, day)")
    if isinstance(part.domain, FreeTexts):
        raise PolicyError(
            "SF-Q110", "A free text cannot be taken from a row.", try_="numbers, dates or listed texts"
        )
    return part.domain, by.domain


def _unless_none(total: LoweredValue, there: LoweredValue) -> LoweredValue:
    """Return a sum that is missing where every summand is."""
    value = Choose(AtLeast(there.value, 1), total.value, Constant(None))
    return total.derive_value(value, total.domain, there, total=False, error=total.error)


def hidden_name(name: str) -> str:
    """Return a name that no one can type."""
    # The parser refuses the zero character, so no analyst can name these columns.
    return f"\0{name}"
