"""Lowering of expressions: names are looked up, functions applied, and bounds follow from bounds."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from datetime import date, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.calendar import count_periods
from sfumato.curator.catalog.domains import TRUTH, Listed, Numbers, Periods
from sfumato.curator.lower.conditions import build_predicate
from sfumato.curator.lower.functions import apply_function, unify_domains
from sfumato.curator.lower.lowered_value import LARGEST, MISSING, LoweredValue, grid_too_fine, literal_number
from sfumato.curator.lower.reals import as_real, choose_real, settle_real
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
    Power,
    Predicate,
    RealFunction,
    Whole,
    flatten_extremes,
)
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from sfumato.curator.catalog.domains import Scalar
    from sfumato.curator.lower.scope import Scope
    from sfumato.curator.question.relation import Condition, Expression

FARTHEST = 2**400
"""The largest magnitude of a number: squares of such numbers and their sums still fit a double."""
MOST_PARTS = 5_000
"""The largest number of parts of one value. Functions repeat their arguments, so a short text can mean a very
long computation; no promise of privacy rests on the limit."""
MOST_LEVELS = 150
"""The deepest nesting of one value, which a CASE of as many branches has: what writes and hashes values must
not fail after the charge."""


def lower_expression(node: Expression, scope: Scope) -> LoweredValue:
    """Return what an expression computes from a row."""
    return _limit_size(_lower_node(node, scope))


def lower_condition(node: Condition, scope: Scope) -> Predicate:
    """Return the predicate of a condition, in one form for all conditions that mean the same."""
    # Checked before it is simplified, since simplifying walks through all of it.
    found = build_predicate(node, lambda part: lower_expression(part, scope))
    _require_small(found)
    return simplify_predicate(found)


def _lower_node(node: Expression, scope: Scope) -> LoweredValue:
    match node:
        case asked.Name():
            return scope.find_column(node)
        case asked.Literal(value):
            return lower_literal(value)
        case asked.FunctionCall(function, arguments):
            return apply_function(function, tuple(lower_expression(each, scope) for each in arguments))
        case asked.Case():
            return _lower_case(node, scope)
        case asked.Truth(of):
            return _lower_truth(lower_condition(of, scope))
        case asked.UnitWindow():
            raise PolicyError(
                "SF-Q151",
                "A window over the rows of a unit belongs into a subquery.",
                try_="SELECT AVG(x) FROM (SELECT LAG(y) OVER (PARTITION BY … ORDER BY …) AS x FROM …)",
            )
        case asked.UnitAggregate():
            raise PolicyError(
                "SF-Q151",
                "An aggregate is not allowed where a value of one row is expected.",
                try_="HAVING, or SELECT AVG(x) FROM (SELECT patient_id, SUM(y) AS x … GROUP BY patient_id)",
            )


def lower_literal(value: Scalar | None) -> LoweredValue:
    """Return a constant with the domain that holds it alone."""
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


def _lower_case(node: asked.Case, scope: Scope) -> LoweredValue:
    conditions = [lower_condition(when, scope) for when, _ in node.branches]
    parts = [lower_expression(then, scope) for _, then in node.branches]
    parts.append(lower_expression(node.otherwise, scope))
    # Which branch is taken may differ from row to row, so the result is never constant for a unit.
    present, unified = all(part.present for part in parts), unify_domains(parts, "CASE")
    if unified is None:
        reals = [as_real(part, "A value of CASE") for part in parts]
        found = reals[-1]
        for when, each in zip(reversed(conditions), reversed(reals[:-1]), strict=True):
            found = choose_real(when, each, found)
        return replace(settle_real(found), constant=False, present=present)
    every, domain = unified
    value = every[-1].value
    # The first branch that is true decides, so it is wrapped around the others last.
    for when, then in zip(reversed(conditions), reversed(every[:-1]), strict=True):
        value = Choose(when, then.value, value)
    return LoweredValue(value, domain, False, present, error=max(part.error for part in every))


def _lower_truth(holds: Predicate) -> LoweredValue:
    """Return 1 where a condition is true, 0 where it is false, missing where it is unknown."""
    return LoweredValue(Choose(holds, Constant(1), Choose(Not(holds), Constant(0), Constant(None))), TRUTH)


def _limit_size(part: LoweredValue) -> LoweredValue:
    _require_small(part.value)
    if isinstance(part.domain, Numbers) and part.domain.bound * part.domain.step > FARTHEST:
        raise PolicyError("SF-Q158", "This number could be too large to show.", try_="a smaller factor")
    return part


def _require_small(part: Any) -> None:
    parts, levels = _measure_size(part)
    if parts > MOST_PARTS:
        raise PolicyError("SF-Q113", "This computation is too long.", try_="fewer steps, or ROUND in between")
    if levels > MOST_LEVELS:
        raise PolicyError(
            "SF-Q113",
            "This computation is nested too deeply.",
            most=f"{MOST_LEVELS} levels or branches of CASE",
            try_="a column declared by sf.one_of(…), or fewer branches",
        )


def _require_representable(value: Any) -> None:
    """Refuse constants that no engine could be given."""
    if isinstance(value, Constant) and value.value is not None and abs(value.value) > WIDEST:
        raise grid_too_fine("This computation")
    if isinstance(value, Lookup) and any(abs(entry or 0) > LARGEST for entry in value.entries):
        raise grid_too_fine("This computation")


def _measure_size(node: Any) -> tuple[int, int]:
    """Return how many parts a value is written with, one that is repeated each time, and its levels."""
    total, deepest, stack = 0, 0, [(node, 1)]
    # A loop instead of recursion: what is checked here may be nested deeper than Python's stack.
    while stack and total <= MOST_PARTS and deepest <= MOST_LEVELS:
        each, level = stack.pop()
        if isinstance(each, tuple):
            stack.extend((part, level) for part in each if is_dataclass(part))
        else:
            total, deepest = total + 1, max(deepest, level)
            _require_representable(each)
            parts = _written_parts(each)
            stack.extend((part, level + 1) for part in parts if is_dataclass(part) or isinstance(part, tuple))
    return total, deepest


def _written_parts(node: Any) -> list[Any]:
    """Return the parts of a value as often as SQL writes them."""
    if isinstance(node, Least | Greatest):
        return (1 if node.skips else 2) * flatten_extremes(node)
    parts = [getattr(node, field.name) for field in fields(node)]
    # What is checked, or has a value for some numbers only, is written three times and twice.
    if isinstance(node, Whole) and node.checked:
        return 3 * parts
    if isinstance(node, RealFunction | Power) and not node.total:
        return 2 * parts
    # An empty list of values is written as a test that is false, and unknown where the value is missing.
    return 2 * parts if isinstance(node, Among) and not node.values else parts


def lower_output_column(name: str, each: Expression, scope: Scope) -> Field:
    """Return a column of a subquery: the unit itself, or what is computed."""
    if isinstance(each, asked.Name) and scope.is_unit(each):
        return Field(name, (), None)
    return Field(name, (), lower_expression(each, scope))
