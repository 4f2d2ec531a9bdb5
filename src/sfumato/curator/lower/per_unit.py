"""Subqueries by unit: figures of a unit's rows become columns of its one row, or of one row a key."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.domains import FreeTexts, Numbers
from sfumato.curator.lower.arithmetic import average_numbers
from sfumato.curator.lower.expressions import lower_condition, lower_expression, lower_output_column
from sfumato.curator.lower.lowered_value import (
    LARGEST,
    LoweredValue,
    coarsen_grid,
    literal_number,
    require_number,
)
from sfumato.curator.lower.scope import Field, Scope
from sfumato.curator.question import relation as asked
from sfumato.engines import rows as engine
from sfumato.engines.values import AtLeast, Choose, Column, Constant, Every
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.curator.catalog.domains import Domain
    from sfumato.curator.lower.row_source import RowSource
    from sfumato.curator.question.relation import Expression


def lower_group_by_unit(relation: asked.GroupByUnit, inner: RowSource) -> RowSource:
    """Figures of a unit's rows become columns of its one row; then the rest is computed from those."""
    at, keys = inner.next_at, _Keys.of(relation.keys, inner)
    figures = _Figures(inner, alone=not keys.values)
    columns = tuple((name, figures.read(keys.read(each))) for name, each in relation.columns)
    having = None if relation.having is None else figures.read(keys.read(relation.having))
    scope = Scope((*keys.fields(at), *figures.fields()), "this subquery")
    shown = tuple(lower_output_column(name, each, scope) for name, each in columns)
    where = Every() if having is None else lower_condition(having, scope)
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
    scope: Scope
    units: frozenset[int]
    """The places where the unit stands."""
    values: tuple[LoweredValue, ...]

    @classmethod
    def of(cls, keys: tuple[Expression, ...], inner: RowSource) -> _Keys:
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
        return cls(
            keys, inner.scope, units, tuple(_key(lower_expression(key, inner.scope)) for key in others)
        )

    def fields(self, at: int) -> list[Field]:
        others = iter(enumerate(self.values))
        return [
            Field(_hidden(f"k{place}"), (), None if place in self.units else _as_key(*next(others), at))
            for place in range(len(self.asked_for))
        ]

    def read(self, node: Any) -> Any:
        """The same expression, with what says a key again replaced by that key."""
        for place, key in enumerate(self.asked_for):
            if node == key or self._same(node, key):
                return asked.Name(_hidden(f"k{place}"))
        return _rebuilt(node, self.read, stop=asked.UnitAggregate)

    def _same(self, node: Any, key: Expression) -> bool:
        return (
            isinstance(node, asked.Name)
            and isinstance(key, asked.Name)
            and self.scope.name_same_column(node, key)
        )


def _as_key(place: int, key: LoweredValue, at: int) -> LoweredValue:
    return LoweredValue(Column(at, f"k{place}"), key.domain, key.constant, key.present)


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


def _key(part: LoweredValue) -> LoweredValue:
    if isinstance(part.domain, FreeTexts):
        raise PolicyError(
            "SF-Q109", "A subquery is grouped by listed values.", try_="GROUP BY the unit alone"
        )
    return part


def _size(part: LoweredValue) -> int:
    if isinstance(part.domain, FreeTexts):
        raise AssertionError("keys are listed values")
    return part.domain.size


@dataclass(slots=True)
class _Figures:
    """What a subquery by unit computes of a unit's rows, under names that no one can type."""

    inner: RowSource
    alone: bool
    known: dict[engine.Figure, Column] = field(default_factory=dict)
    """The columns of the unit's one row, each once: the same integers may stand for different numbers."""
    computed: list[LoweredValue] = field(default_factory=list)

    def fields(self) -> list[Field]:
        return [Field(_hidden(f"f{i}"), (), part) for i, part in enumerate(self.computed)]

    def read(self, node: Any) -> Any:
        """The same expression, with figures of the unit's rows replaced by names."""
        if not isinstance(node, asked.UnitAggregate):
            return _rebuilt(node, self.read)
        self.computed.append(self._figure(node))
        return asked.Name(_hidden(f"f{len(self.computed) - 1}"))

    def _figure(self, node: asked.UnitAggregate) -> LoweredValue:
        """A figure, computed from the columns."""
        if node.of is None:
            return self._column(engine.Counted(), Numbers(1, self.inner.max_rows))
        part = lower_expression(node.of, self.inner.scope)
        if node.figure == "count":
            return self._present(part)
        if node.figure in ("min", "max"):
            return self._end(node.figure, part)
        total, domain = self._sum(part)
        if node.figure == "avg":
            ends = (literal_number(end * domain.step) for end in (domain.low, domain.high))
            return average_numbers(total, self._present(part), *ends)
        return total if part.present else _unless_none(total, self._present(part))

    def _present(self, part: LoweredValue) -> LoweredValue:
        if part.present:
            return self._column(engine.Counted(), Numbers(1, self.inner.max_rows))
        return self._column(engine.Present(part.value), Numbers(0, self.inner.max_rows))

    def _end(self, figure: str, part: LoweredValue) -> LoweredValue:
        if isinstance(part.domain, FreeTexts):
            raise PolicyError("SF-Q114", "Texts have no least and no largest.", try_="a number or a date")
        kind = engine.Smallest if figure == "min" else engine.Largest
        return self._column(kind(part.value), part.domain, part.present)

    def _sum(self, part: LoweredValue) -> tuple[LoweredValue, Numbers]:
        """The sum, and the bounds of each summand; coarser where rows could add up to too much."""
        part, domain = require_number(part, "What SUM takes")
        most = self.inner.max_rows
        part = coarsen_grid(part, domain, (domain.bound * most).bit_length() - LARGEST.bit_length() + 1)
        part, domain = require_number(part, "What SUM takes")
        total = Numbers(min(0, domain.low) * most, max(0, domain.high) * most, domain.step)
        return self._column(engine.Total(part.value), total), domain

    def _column(self, figure: engine.Figure, domain: Domain, present: bool = True) -> LoweredValue:
        column = self.known.setdefault(figure, Column(self.inner.next_at, f"f{len(self.known)}"))
        return LoweredValue(column, domain, self.alone, present)


def _unless_none(total: LoweredValue, there: LoweredValue) -> LoweredValue:
    """A sum, missing where all that was summed is."""
    value = Choose(AtLeast(there.value, 1), total.value, Constant(None))
    return total.derive_value(value, total.domain, there, total=False)


def _hidden(name: str) -> str:
    return f"\0{name}"
