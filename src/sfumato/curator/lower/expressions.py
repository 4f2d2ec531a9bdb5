"""What is computed of a row, as an engine computes it: names looked up, functions applied, bounds kept."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import date, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.domains import TRUTH, Listed, Numbers, Periods, count_periods
from sfumato.curator.lower.conditions import build_predicate
from sfumato.curator.lower.functions import apply_function, unify_domains
from sfumato.curator.lower.lowered_value import LARGEST, MISSING, LoweredValue, grid_too_fine, literal_number
from sfumato.curator.lower.scope import Field
from sfumato.curator.lower.simplify import simplify_predicate
from sfumato.curator.question import relation as asked
from sfumato.engines.values import (
    WIDEST,
    Among,
    Choose,
    Constant,
    Greatest,
    Least,
    Lookup,
    Not,
    Predicate,
    compared,
)
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from sfumato.curator.catalog.domains import Scalar
    from sfumato.curator.lower.scope import Scope
    from sfumato.curator.question.relation import Condition, Expression

FARTHEST = 2**400
"""No number is further from zero, so that squares and their sums still are doubles."""
MOST_PARTS = 5_000
"""Of one value: functions repeat their arguments, so a short text can mean a very long computation."""


def lower_expression(node: Expression, scope: Scope) -> LoweredValue:
    """What an expression computes of a row."""
    return _small(_lowered(node, scope))


def lower_condition(node: Condition, scope: Scope) -> Predicate:
    """What a condition asks of a row, in one form for all that mean the same."""
    found = build_predicate(node, lambda part: lower_expression(part, scope))
    _require_small(found)
    return simplify_predicate(found)


def _lowered(node: Expression, scope: Scope) -> LoweredValue:
    match node:
        case asked.Name():
            return scope.find_column(node)
        case asked.Literal(value):
            return lower_literal(value)
        case asked.FunctionCall(function, arguments):
            return apply_function(function, tuple(lower_expression(each, scope) for each in arguments))
        case asked.Case():
            return _case(node, scope)
        case asked.Truth(of):
            return _truth(lower_condition(of, scope))
        case asked.UnitAggregate():
            raise PolicyError(
                "SF-Q136",
                "An aggregate stands where a value of one row is expected.",
                try_="HAVING, or SELECT AVG(x) FROM (SELECT patient_id, SUM(y) AS x … GROUP BY patient_id)",
            )


def lower_literal(value: Scalar | None) -> LoweredValue:
    if value is None:
        return MISSING
    if isinstance(value, Fraction):
        return literal_number(value)
    if isinstance(value, date):
        unit = "second" if isinstance(value, datetime) else "day"
        place = int(count_periods(value, unit) // 1)
        return LoweredValue(Constant(place), Periods(place, place, unit), True, True)
    if isinstance(value, bool):
        return LoweredValue(Constant(int(value)), TRUTH, True, True)
    return LoweredValue(Constant(0), Listed((value,)), True, True)


def _case(node: asked.Case, scope: Scope) -> LoweredValue:
    conditions = [lower_condition(when, scope) for when, _ in node.branches]
    every, like_all = unify_domains(
        [lower_expression(then, scope) for _, then in node.branches]
        + [lower_expression(node.otherwise, scope)],
        "CASE",
    )
    value = every[-1].value
    for when, then in zip(reversed(conditions), reversed(every[:-1]), strict=True):
        value = Choose(when, then.value, value)
    return LoweredValue(value, like_all.domain, False, all(part.present for part in every))


def _truth(holds: Predicate) -> LoweredValue:
    """1 where true, 0 where false, missing where neither."""
    return LoweredValue(Choose(holds, Constant(1), Choose(Not(holds), Constant(0), Constant(None))), TRUTH)


def _small(part: LoweredValue) -> LoweredValue:
    _require_small(part.value)
    if isinstance(part.domain, Numbers) and part.domain.bound * part.domain.step > FARTHEST:
        raise PolicyError("SF-Q132", "This number could be too large to be shown.", try_="a smaller factor")
    return part


def _require_small(part: Any) -> None:
    if _parts(part) > MOST_PARTS:
        raise PolicyError("SF-Q113", "This computation is too long.", try_="fewer steps, or ROUND in between")


def _require_drawable(value: Any) -> None:
    """Every constant is one that an engine can be given."""
    if isinstance(value, Constant) and value.value is not None and abs(value.value) > WIDEST:
        raise grid_too_fine("This computation")
    if isinstance(value, Lookup) and any(abs(entry or 0) > LARGEST for entry in value.entries):
        raise grid_too_fine("This computation")


def _parts(node: Any) -> int:
    """How many values it is made of, counted as often as they stand there; a list counts by its length."""
    total, stack = 0, [node]
    while stack and total <= MOST_PARTS:
        each = stack.pop()
        if isinstance(each, tuple):
            stack.extend(part for part in each if is_dataclass(part))
        else:
            total += 1
            _require_drawable(each)
            parts = _written(each)
            stack.extend(part for part in parts if is_dataclass(part) or isinstance(part, tuple))
    return total


def _written(node: Any) -> list[Any]:
    """The parts of a value as often as an engine is told them: the smallest is tested, then chosen."""
    if isinstance(node, Least | Greatest):
        return 2 * compared(node)
    parts = [getattr(node, field.name) for field in fields(node)]
    return 2 * parts if isinstance(node, Among) and not node.values else parts


def lower_output_column(name: str, each: Expression, scope: Scope) -> Field:
    """A column of a subquery: the unit itself, or what is computed."""
    if isinstance(each, asked.Name) and scope.is_unit(each):
        return Field(name, (), None)
    return Field(name, (), lower_expression(each, scope))
