"""Parsing of SQL's aggregate functions: a closed list."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.curator.question.measurement import (
    MINIMUM_SHARE,
    Aggregate,
    CountOf,
    CovarianceOf,
    DistinctUnits,
    MeanOf,
    ModeOf,
    QuantileOf,
    SumOf,
    VarianceOf,
)
from sfumato.curator.question.relation import Case, Expression, Literal, Name
from sfumato.errors import PolicyError
from sfumato.queries.expressions import counts_rows, parse_condition, parse_expression
from sfumato.queries.leaves import describe_node, parse_number, refuse_other_parts, spell_name

if TYPE_CHECKING:
    from collections.abc import Callable


def parse_aggregate(item: exp.Expression) -> Aggregate:
    """Return the aggregate that a node asks for, or raise a coded refusal."""
    read = _AGGREGATES.get(type(item))  # the exact class: a subclass may mean something else
    if read is not None:
        return read(item)
    raise PolicyError(
        "SF-Q104",
        f"{describe_node(item)} is not supported in an answer.",
        known="COUNT, SUM, AVG, MEDIAN, QUANTILE, MODE, MIN, MAX, VARIANCE, STDDEV, COVAR, CORR, "
        "+ - * / on them, and the columns of GROUP BY",
        try_="SELECT ward, COUNT(*) AS n … GROUP BY ward",
    )


def is_aggregate(item: exp.Expression) -> bool:
    """Return whether a node is an aggregate of the list."""
    return type(item) in _AGGREGATES


def default_name(shown: Aggregate, node: exp.Expression) -> str:
    """Return the name of a column of the answer that was given none."""
    if shown == CountOf():
        return "count"
    if not isinstance(shown.of, Name):
        return spell_name(node)
    return f"{_sql_name(shown)}_{shown.of.column}"


def _sql_name(shown: Aggregate) -> str:
    match shown:
        case VarianceOf(root=root):
            return "stddev" if root else "variance"
        case CovarianceOf(scaled=scaled):
            return "correlation" if scaled else "covariance"
        case QuantileOf(share=share):
            return _QUANTILES.get(share, "quantile")
        case _:
            return _KINDS[type(shown)]


_KINDS: dict[type[Any], str] = {
    CountOf: "count",
    DistinctUnits: "count",
    SumOf: "sum",
    MeanOf: "avg",
    ModeOf: "mode",
}
_QUANTILES = {MINIMUM_SHARE: "min", Fraction(1, 2): "median", 1 - MINIMUM_SHARE: "max"}


def _unary_aggregate(make: Callable[[Expression], Aggregate]) -> Callable[[exp.Expression], Aggregate]:
    def read(item: exp.Expression) -> Aggregate:
        refuse_other_parts(item, "this")
        return make(_parse_argument(item.this))

    return read


def _binary_aggregate(
    make: Callable[[Expression, Expression], Aggregate],
) -> Callable[[exp.Expression], Aggregate]:
    def read(item: exp.Expression) -> Aggregate:
        refuse_other_parts(item, "this", "expression")
        return make(_parse_argument(item.this), _parse_argument(item.expression))

    return read


def _parse_argument(node: Any) -> Expression:
    if isinstance(node, exp.Distinct):
        raise PolicyError(
            "SF-Q104",
            "DISTINCT is only supported in COUNT.",
            try_="COUNT(DISTINCT patient_id), or a subquery grouped by the unit",
        )
    return parse_expression(node)


def _parse_count(item: exp.Expression) -> CountOf | DistinctUnits:
    refuse_other_parts(item, "this", "big_int")
    if isinstance(item.this, exp.Distinct):
        return DistinctUnits(_parse_distinct(item.this))
    return CountOf() if counts_rows(item.this) else CountOf(parse_expression(item.this))


def _parse_distinct(distinct: exp.Distinct) -> Expression:
    """Return the one value after DISTINCT; whether it is the unit is seen when it is lowered."""
    refuse_other_parts(distinct, "expressions")
    if len(distinct.expressions) == 1:
        return parse_expression(distinct.expressions[0])
    raise PolicyError(
        "SF-Q105", "COUNT(DISTINCT …) takes one column or expression.", try_="COUNT(DISTINCT patient_id)"
    )


def _parse_count_if(item: exp.Expression) -> CountOf:
    refuse_other_parts(item, "this")
    return CountOf(Case(((parse_condition(item.this), Literal(Fraction(1))),)))


def _parse_quantile(item: exp.Expression) -> QuantileOf:
    refuse_other_parts(item, "this", "quantile", "expression")
    # sqlglot keeps the share in one place or the other, depending on how the function is spelled.
    typed = item.args.get("quantile") or item.args.get("expression")
    return QuantileOf(parse_expression(item.this), parse_share(typed))


def _parse_within_group(item: exp.Expression) -> QuantileOf | ModeOf:
    """Return the quantile of PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY cost), or MODE() written so."""
    refuse_other_parts(item, "this", "expression")
    order = item.expression
    ordered = order.expressions[0] if isinstance(order, exp.Order) and len(order.expressions) == 1 else None
    if ordered is None or not isinstance(item.this, exp.PercentileCont | exp.PercentileDisc | exp.Mode):
        raise PolicyError(
            "SF-Q104", "WITHIN GROUP is only supported after PERCENTILE_CONT and MODE.", try_="MEDIAN(cost)"
        )
    refuse_other_parts(ordered, "this", "desc")
    if isinstance(item.this, exp.Mode):
        refuse_other_parts(item.this)
        return ModeOf(parse_expression(ordered.this))
    refuse_other_parts(item.this, "this")
    wanted = parse_share(item.this.this)  # with DESC, it is counted from the largest value
    return QuantileOf(parse_expression(ordered.this), 1 - wanted if ordered.args.get("desc") else wanted)


def parse_share(node: Any) -> Fraction:
    """Return the share of a quantile that was typed."""
    typed = parse_number(node) if isinstance(node, exp.Literal) and not node.is_string else Fraction(-1)
    return check_share(typed)


def check_share(share: Fraction) -> Fraction:
    """Return a share from 0 to 1, where the ends stand for the minimum and the maximum."""
    # Finer shares could not be told from the ends, which stand for the minimum and the maximum.
    if not 0 <= share <= 1 or share.denominator > 2**20:
        raise PolicyError(
            "SF-Q105", "The share of a quantile must be a constant from 0 to 1.", try_="QUANTILE(cost, 0.9)"
        )
    return min(max(share, MINIMUM_SHARE), 1 - MINIMUM_SHARE)


def _parse_filter(item: exp.Expression) -> Aggregate:
    """Return an aggregate with FILTER (WHERE …), written as an aggregate of a CASE."""
    refuse_other_parts(item, "this", "expression")
    refuse_other_parts(item.expression, "this")
    holds = parse_condition(item.expression.this)
    inner = parse_aggregate(item.this)
    if isinstance(inner, DistinctUnits | CovarianceOf):
        raise PolicyError("SF-Q103", "FILTER is not supported for this aggregate.", try_="WHERE")
    # COUNT(*) has no argument: a constant stands in, which is missing where the condition does not hold.
    of = Literal(Fraction(1)) if inner.of is None else inner.of
    return replace(inner, of=Case(((holds, of),)))


_AGGREGATES: dict[type[exp.Expression], Callable[[exp.Expression], Aggregate]] = {
    exp.Count: _parse_count,
    exp.CountIf: _parse_count_if,
    exp.Sum: _unary_aggregate(SumOf),
    exp.Avg: _unary_aggregate(MeanOf),
    exp.Variance: _unary_aggregate(VarianceOf),
    exp.VariancePop: _unary_aggregate(lambda of: VarianceOf(of, sample=False)),
    exp.Stddev: _unary_aggregate(lambda of: VarianceOf(of, root=True)),
    exp.StddevSamp: _unary_aggregate(lambda of: VarianceOf(of, root=True)),
    exp.StddevPop: _unary_aggregate(lambda of: VarianceOf(of, sample=False, root=True)),
    exp.CovarSamp: _binary_aggregate(CovarianceOf),
    exp.CovarPop: _binary_aggregate(lambda of, other: CovarianceOf(of, other, sample=False)),
    exp.Corr: _binary_aggregate(lambda of, other: CovarianceOf(of, other, scaled=True)),
    exp.Median: _unary_aggregate(lambda of: QuantileOf(of, Fraction(1, 2))),
    exp.Min: _unary_aggregate(lambda of: QuantileOf(of, MINIMUM_SHARE)),
    exp.Max: _unary_aggregate(lambda of: QuantileOf(of, 1 - MINIMUM_SHARE)),
    exp.Mode: _unary_aggregate(ModeOf),
    exp.Quantile: _parse_quantile,
    exp.ApproxQuantile: _parse_quantile,
    exp.PercentileCont: _parse_quantile,
    exp.PercentileDisc: _parse_quantile,
    exp.WithinGroup: _parse_within_group,
    exp.Filter: _parse_filter,
}
