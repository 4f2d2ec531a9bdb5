"""Functions of SQL into aggregates: a closed list."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.curator.question.measurement import (
    LEAST,
    Aggregate,
    Count,
    Covariance,
    Mean,
    Quantile,
    Sum,
    Units,
    Variance,
)
from sfumato.curator.question.relation import Case, Expression, Literal, Name
from sfumato.errors import PolicyError
from sfumato.queries.expressions import condition, counts_rows, expression
from sfumato.queries.leaves import number, only, shape

if TYPE_CHECKING:
    from collections.abc import Callable


def aggregate(item: exp.Expression) -> Aggregate:
    """The aggregate that a function asks for, or a coded refusal."""
    for kind, read in _AGGREGATES.items():
        if type(item) is kind:
            return read(item)
    raise PolicyError(
        "SF-Q104",
        "An answer is made of COUNT, SUM, AVG, MEDIAN, QUANTILE, MIN, MAX, VARIANCE, STDDEV, COVAR, CORR, "
        "arithmetic on them, and what is grouped by.",
        got=shape(item),
        try_="SELECT ward, COUNT(*) AS n … GROUP BY ward",
    )


def is_aggregate(item: exp.Expression) -> bool:
    return type(item) in _AGGREGATES


def default_name(shown: Aggregate) -> str:
    """The name of a column of the answer that was given none."""
    if shown == Count():
        return "count"
    if not isinstance(shown.of, Name):
        raise PolicyError("SF-Q118", "A computed number needs a name.", try_="SUM(cost * 2) AS double")
    return f"{_kind(shown)}_{shown.of.column}"


def _kind(shown: Aggregate) -> str:
    match shown:
        case Variance(root=root):
            return "stddev" if root else "variance"
        case Covariance(scaled=scaled):
            return "correlation" if scaled else "covariance"
        case Quantile(share=share):
            return _QUANTILES.get(share, "quantile")
        case _:
            return _KINDS[type(shown)]


_KINDS: dict[type[Any], str] = {Count: "count", Units: "count", Sum: "sum", Mean: "avg"}
_QUANTILES = {LEAST: "min", Fraction(1, 2): "median", 1 - LEAST: "max"}


def _of_one(make: Callable[[Expression], Aggregate]) -> Callable[[exp.Expression], Aggregate]:
    def read(item: exp.Expression) -> Aggregate:
        only(item, "this")
        return make(_argument(item.this))

    return read


def _of_two(make: Callable[[Expression, Expression], Aggregate]) -> Callable[[exp.Expression], Aggregate]:
    def read(item: exp.Expression) -> Aggregate:
        only(item, "this", "expression")
        return make(_argument(item.this), _argument(item.expression))

    return read


def _argument(node: Any) -> Expression:
    if isinstance(node, exp.Distinct):
        raise PolicyError(
            "SF-Q149",
            "Only units are taken once each.",
            try_="COUNT(DISTINCT patient_id), or a subquery by unit",
        )
    return expression(node)


def _count(item: exp.Expression) -> Count | Units:
    only(item, "this", "big_int")
    if isinstance(item.this, exp.Distinct):
        return Units(_unit(item.this))
    return Count() if counts_rows(item.this) else Count(expression(item.this))


def _unit(distinct: exp.Distinct) -> Name:
    """The one name after DISTINCT; whether it names the unit is for the catalog to say."""
    only(distinct, "expressions")
    if len(distinct.expressions) == 1 and isinstance(distinct.expressions[0], exp.Column):
        name = expression(distinct.expressions[0])
        if isinstance(name, Name):
            return name
    raise PolicyError(
        "SF-Q105",
        "COUNT(DISTINCT …) takes the column that says whose row it is.",
        try_="COUNT(DISTINCT patient_id)",
    )


def _count_if(item: exp.Expression) -> Count:
    only(item, "this")
    return Count(Case(((condition(item.this), Literal(Fraction(1))),)))


def _quantile(item: exp.Expression) -> Quantile:
    only(item, "this", "quantile", "expression")
    typed = item.args.get("quantile") or item.args.get("expression")
    return Quantile(expression(item.this), share(typed))


def _within_group(item: exp.Expression) -> Quantile:
    """PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY cost)"""
    only(item, "this", "expression")
    order = item.expression
    ordered = order.expressions[0] if isinstance(order, exp.Order) and len(order.expressions) == 1 else None
    if ordered is None or not isinstance(item.this, exp.PercentileCont | exp.PercentileDisc):
        raise PolicyError("SF-Q104", "WITHIN GROUP follows PERCENTILE_CONT.", try_="MEDIAN(cost)")
    only(item.this, "this")
    only(ordered, "this", "desc")
    wanted = share(item.this.this)
    return Quantile(expression(ordered.this), 1 - wanted if ordered.args.get("desc") else wanted)


def share(node: Any) -> Fraction:
    typed = number(node) if isinstance(node, exp.Literal) and not node.is_string else Fraction(-1)
    return checked_share(typed)


def checked_share(share: Fraction) -> Fraction:
    """The ends mean the least and the largest value."""
    if not 0 <= share <= 1 or share.denominator > 2**20:
        raise PolicyError("SF-Q150", "A quantile is of a share from 0 to 1.", try_="QUANTILE(cost, 0.9)")
    return min(max(share, LEAST), 1 - LEAST)


def _filtered(item: exp.Expression) -> Aggregate:
    """FILTER (WHERE …): only rows for which the condition holds."""
    only(item, "this", "expression")
    only(item.expression, "this")
    holds = condition(item.expression.this)
    inner = aggregate(item.this)
    if isinstance(inner, Units | Covariance):
        raise PolicyError("SF-Q103", "FILTER cannot be asked here.", try_="WHERE")
    of = Literal(Fraction(1)) if inner.of is None else inner.of
    return _with(inner, Case(((holds, of),)))


def _with(inner: Any, of: Expression) -> Aggregate:
    from dataclasses import replace

    changed: Aggregate = replace(inner, of=of)
    return changed


_AGGREGATES: dict[type[exp.Expression], Callable[[exp.Expression], Aggregate]] = {
    exp.Count: _count,
    exp.CountIf: _count_if,
    exp.Sum: _of_one(Sum),
    exp.Avg: _of_one(Mean),
    exp.Variance: _of_one(Variance),
    exp.VariancePop: _of_one(lambda of: Variance(of, sample=False)),
    exp.Stddev: _of_one(lambda of: Variance(of, root=True)),
    exp.StddevSamp: _of_one(lambda of: Variance(of, root=True)),
    exp.StddevPop: _of_one(lambda of: Variance(of, sample=False, root=True)),
    exp.CovarSamp: _of_two(Covariance),
    exp.CovarPop: _of_two(lambda of, other: Covariance(of, other, sample=False)),
    exp.Corr: _of_two(lambda of, other: Covariance(of, other, scaled=True)),
    exp.Median: _of_one(lambda of: Quantile(of, Fraction(1, 2))),
    exp.Min: _of_one(lambda of: Quantile(of, LEAST)),
    exp.Max: _of_one(lambda of: Quantile(of, 1 - LEAST)),
    exp.Quantile: _quantile,
    exp.ApproxQuantile: _quantile,
    exp.PercentileCont: _quantile,
    exp.PercentileDisc: _quantile,
    exp.WithinGroup: _within_group,
    exp.Filter: _filtered,
}
