"""Lowering of what a row has among the rows of its unit: the row before it by time, or its number.

Only rows of one unit are sorted together, so a row still depends on its unit alone, and no unit has more rows
than before. Because : docs/proofs/relations.md#histories
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.domains import FreeTexts, Listed, Numbers
from sfumato.curator.lower.expressions import lower_expression
from sfumato.curator.lower.lowered_value import LoweredValue
from sfumato.curator.lower.per_unit import hidden_name, rebuild_node
from sfumato.curator.lower.scope import Field, Scope
from sfumato.curator.question import relation as asked
from sfumato.engines import rows as engine
from sfumato.engines.values import Among, AtMost, Column, Every
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.curator.lower.row_source import RowSource
    from sfumato.engines.values import Predicate, Value

    NamedExpression = tuple[str, asked.Expression]

_NUMBERED = ("row_number", "rank", "dense_rank")


def lower_positions(
    columns: Sequence[NamedExpression], source: RowSource
) -> tuple[RowSource, tuple[NamedExpression, ...]]:
    """Return rows with a column for each window that some columns use, and those columns with its name."""
    found: list[asked.UnitWindow] = []

    def replace_window(node: Any) -> Any:
        if not isinstance(node, asked.UnitWindow):
            return rebuild_node(node, replace_window)
        if node not in found:
            found.append(node)
        return asked.Name(hidden_name(f"w{found.index(node)}"))

    spelled = tuple((name, replace_window(each)) for name, each in columns)
    if not found:
        return source, spelled
    for place, orders in enumerate(dict.fromkeys(window.order for window in found)):
        source = _add_positions(source, found, orders, place)
    return source, spelled


def _add_positions(
    source: RowSource, windows: list[asked.UnitWindow], order: tuple[Any, ...], nth: int
) -> RowSource:
    """Return rows with a column for each window of one order."""
    chosen = [(place, window) for place, window in enumerate(windows) if window.order == order]
    positions = [_lower_window(window, source) for _, window in chosen]
    by = tuple((_require_order(lower_expression(each, source.scope)), falls) for each, falls in order)
    at = source.next_at
    rows = engine.Ordered(source.rows, source.where, by, tuple(each for each, _ in positions), at)
    fields = tuple(
        Field(hidden_name(f"w{place}"), (), replace(part, value=Column(at, f"v{i}")))
        for i, ((place, _), (_, part)) in enumerate(zip(chosen, positions, strict=True))
    )
    numbers = [i for i, (_, window) in enumerate(chosen) if window.function == "row_number"]
    return replace(
        source,
        rows=rows,
        where=Every(),
        scope=Scope((*source.scope.fields, *fields), source.scope.about),
        next_at=at + 1,
        numbered=Column(at, f"v{numbers[0]}") if numbers else source.numbered,
    )


def _lower_window(window: asked.UnitWindow, source: RowSource) -> tuple[engine.Position, LoweredValue]:
    """Return a position, and what is known of its values."""
    units = [each for each in window.unit if isinstance(each, asked.Name) and source.scope.is_unit(each)]
    if len(window.unit) != 1 or not units:
        unit = next((each.name for each in source.scope.fields if each.holds is None), "patient_id")
        raise PolicyError(
            "SF-Q151",
            "A window over rows must be split by the unit of protection.",
            why="a row may be compared with other rows of the same unit only",
            try_=f"OVER (PARTITION BY {unit} ORDER BY …)",
        )
    if window.function in _NUMBERED or window.of is None:
        part = LoweredValue(Column(0, ""), Numbers(1, source.max_rows), False, True)
        return engine.Position(window.function), part
    part = lower_expression(window.of, source.scope)
    if isinstance(part.domain, FreeTexts):
        raise PolicyError(
            "SF-Q110", "A free text of another row is not supported.", try_="numbers, dates or listed texts"
        )
    present = window.function == "first_value" and part.present
    kept = replace(part.with_value(part.value), constant=False, present=present)
    return engine.Position(window.function, part.value, window.offset), kept


def _require_order(part: LoweredValue) -> Value:
    domain = part.domain
    texts = isinstance(domain, Listed) and any(isinstance(each, str) for each in domain.values)
    if texts or isinstance(domain, FreeTexts):
        raise PolicyError("SF-Q110", "Rows cannot be sorted by a text.", try_="ORDER BY a date or a number")
    if isinstance(domain, Listed) and list(domain.numbers) != sorted(domain.numbers):
        raise PolicyError(
            "SF-Q110",
            "The list of this column is not in ascending order.",
            try_="ORDER BY a date or a number",
        )
    return part.value


def bound_numbered_rows(where: Predicate, numbered: Column | None) -> int | None:
    """Return how many rows of a unit a condition on their number keeps at most, where it says so."""
    parts = where.parts if isinstance(where, Every) else (where,)
    for part in parts:
        match part:
            case Among(column, values) if column == numbered:
                return max(1, len(values))
            case AtMost(column, most) if column == numbered:
                return max(1, most)
    return None
