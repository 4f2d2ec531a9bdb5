"""A tiny engine for one cell: the exact sums of made-up rows, given as stored integers."""

from collections.abc import Callable
from typing import Any

import pytest

from sfumato.curator.plan.plan import QuestionPlan
from sfumato.engines.program import Counted, CountedUnits, Present, Total
from sfumato.engines.values import Add, Choose, Column, Constant, Divide, Lookup, Missing, Multiply

Row = dict[str, int | None]


def _value(of: Any, row: Row) -> int | None:
    match of:
        case Column(_, name):
            return row[name]
        case Constant(value):
            return value
        case Lookup(part, entries):
            at = _value(part, row)
            return None if at is None else entries[at]
        case Choose(Missing(part), then, otherwise):
            return _value(then if _value(part, row) is None else otherwise, row)
    left, right = _value(of.left, row), _value(of.right, row)
    if left is None or right is None:
        return None
    return {Add: left + right, Multiply: left * right, Divide: left // (right or 1)}[type(of)]


def _sum(term: Any, rows: list[Row]) -> int:
    match term:
        case Total(value):
            return sum(_value(value, row) or 0 for row in rows)
        case Present(value):
            return sum(_value(value, row) is not None for row in rows)
        case Counted():
            return len(rows)
        case CountedUnits():
            return len(rows) - len(rows) // 3
    raise AssertionError(term)


@pytest.fixture(scope="session")
def exact_sums() -> Callable[[QuestionPlan, list[Row]], list[int]]:
    return lambda plan, rows: [_sum(each.term, rows) for each in plan.summands]


@pytest.fixture(scope="session")
def exact_coordinates() -> Callable[[QuestionPlan, list[Row]], list[int]]:
    """The sums that a shape is computed from, in its order."""
    return lambda plan, rows: [_sum(each.term, rows) for each in plan.measured[0].sums]
