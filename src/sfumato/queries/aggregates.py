"""Functions of SQL into aggregates: a closed list, each of one declared column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.curator.measurement import Aggregate, Count, Mean, Sum, Units, Variance
from sfumato.errors import PolicyError
from sfumato.queries.leaves import column, only, shape

if TYPE_CHECKING:
    from collections.abc import Callable


def aggregate(item: exp.Expression) -> Aggregate:
    """The aggregate that a function asks for, or a coded refusal."""
    if type(item) is exp.Count:
        return _count(item)
    if type(item) in _OF_A_NUMBER:
        only(item, "this")
        return _OF_A_NUMBER[type(item)](_argument(item))
    raise PolicyError(
        "SF-Q104",
        "An answer is made of COUNT, SUM, AVG, VARIANCE, STDDEV, arithmetic on them and grouped columns.",
        got=shape(item),
        try_="SELECT ward, COUNT(*) AS n … GROUP BY ward",
    )


def default_name(shown: Aggregate) -> str:
    """The name of a column of the answer that was given none."""
    match shown:
        case Count(None):
            return "count"
        case Variance(name, _, root):
            return f"{'stddev' if root else 'variance'}_{name}"
        case _:
            return f"{_KINDS[type(shown)]}_{shown.column}"


_KINDS: dict[type[Aggregate], str] = {Count: "count", Units: "count", Sum: "sum", Mean: "avg"}

_OF_A_NUMBER: dict[type[exp.Expression], Callable[[str], Aggregate]] = {
    exp.Sum: Sum,
    exp.Avg: Mean,
    exp.Variance: Variance,
    exp.VariancePop: lambda name: Variance(name, sample=False),
    exp.Stddev: lambda name: Variance(name, root=True),
    exp.StddevSamp: lambda name: Variance(name, root=True),
    exp.StddevPop: lambda name: Variance(name, sample=False, root=True),
}


def _count(item: exp.Count) -> Count | Units:
    only(item, "this", "big_int")
    if isinstance(item.this, exp.Distinct):
        return Units(_unit(item.this))
    return Count() if _counts_rows(item.this) else Count(_argument(item))


def _unit(distinct: exp.Distinct) -> str:
    """The one name after DISTINCT; whether it names the unit is for the catalog to say."""
    only(distinct, "expressions")
    if len(distinct.expressions) == 1 and isinstance(distinct.expressions[0], exp.Column):
        return column(distinct.expressions[0])
    raise PolicyError(
        "SF-Q105",
        "COUNT(DISTINCT …) takes the column that says whose row it is.",
        try_="COUNT(DISTINCT patient_id)",
    )


def _counts_rows(argument: Any) -> bool:
    if isinstance(argument, exp.Star):
        only(argument)
        return True
    return isinstance(argument, exp.Literal) and not argument.is_string


def _argument(item: exp.Expression) -> str:
    if isinstance(item.this, exp.Column):
        return column(item.this)
    raise PolicyError(
        "SF-Q105",
        "An aggregate takes the name of one declared column.",
        got=shape(item.this),
        try_=f"{item.key.upper()}(cost)",
    )
