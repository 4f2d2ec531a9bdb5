"""What people write instead of COUNT, SUM and AVG: sf.count(), sf.sum("cost"), sf.mean("cost * 2")."""

from __future__ import annotations

import builtins
import itertools
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.curator.question.measurement import (
    MINIMUM_SHARE,
    CountOf,
    CovarianceOf,
    DistinctUnits,
    MeanOf,
    QuantileOf,
    SumOf,
    VarianceOf,
)
from sfumato.curator.question.relation import Case, Comparison, Conjunction, Expression, Literal, Name
from sfumato.errors import UsageError
from sfumato.privacy.exact import exact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.privacy.exact import Number

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)


def count(column: str | None = None) -> CountOf:
    """How many rows; with a column or an expression, how many where it is not missing."""
    return CountOf(None if column is None else parse_column(column))


def units(column: str) -> DistinctUnits:
    """How many different units of protection have a row; `column` says whose row it is."""
    return DistinctUnits(Name(require_name(column)))


def sum(column: str) -> SumOf:
    """The sum of a declared column or an expression of them."""
    return SumOf(parse_column(column))


def mean(column: str) -> MeanOf:
    """The average over the rows where it is not missing."""
    return MeanOf(parse_column(column))


def variance(column: str) -> VarianceOf:
    """The sample variance."""
    return VarianceOf(parse_column(column))


def stddev(column: str) -> VarianceOf:
    """The sample standard deviation."""
    return VarianceOf(parse_column(column), root=True)


def covariance(column: str, other: str) -> CovarianceOf:
    """The sample covariance of two columns."""
    return CovarianceOf(parse_column(column), parse_column(other))


def correlation(column: str, other: str) -> CovarianceOf:
    """The correlation of two columns, between −1 and 1."""
    return CovarianceOf(parse_column(column), parse_column(other), scaled=True)


def quantile(column: str, share: Number) -> QuantileOf:
    """A value that about this share of the rows lies below."""
    wanted = exact(share, "share")
    if not 0 <= wanted <= 1 or wanted.denominator > 2**20:
        raise UsageError("SF-Q150", "A quantile is of a share from 0 to 1.", try_='sf.quantile("cost", 0.9)')
    return QuantileOf(
        parse_column(column), builtins.min(builtins.max(wanted, MINIMUM_SHARE), 1 - MINIMUM_SHARE)
    )


def median(column: str) -> QuantileOf:
    """A value that about half of the rows lie below."""
    return quantile(column, Fraction(1, 2))


def min(column: str) -> QuantileOf:
    """About the least value: the lowest quantile."""
    return quantile(column, 0)


def max(column: str) -> QuantileOf:
    """About the largest value: the highest quantile."""
    return quantile(column, 1)


def bins(column: str, edges: Sequence[Number]) -> Case:
    """For group_by: the stretch between two edges that a number lies in. The last holds its upper edge."""
    cuts = [exact(edge, "edge") for edge in edges]
    if len(cuts) < 2 or any(one >= other for one, other in itertools.pairwise(cuts)):
        raise UsageError("SF-Q125", "Edges ascend, and there are at least two.", try_="[0, 18, 65, 110]")
    part, last = parse_column(column), len(cuts) - 2
    return Case(
        tuple(
            (
                Conjunction(
                    (
                        Comparison(part, ">=", Literal(low)),
                        Comparison(part, "<=" if place == last else "<", Literal(high)),
                    )
                ),
                Literal(f"[{_shown(low)}, {_shown(high)}{']' if place == last else ')'}"),
            )
            for place, (low, high) in enumerate(itertools.pairwise(cuts))
        )
    )


def _shown(number: Fraction) -> str:
    return str(number.numerator) if number.denominator == 1 else f"{float(number):g}"


def require_name(name: Any) -> str:
    """The name of a table or column, if it is a text."""
    if isinstance(name, str):
        return name
    raise UsageError("SF-Q124", "Tables and columns are named by texts.", try_='sf.mean("cost")')


def parse_column(text: str) -> Expression:
    """A column's name, or an expression as SQL writes it."""
    if _PLAIN.match(require_name(text)):
        return Name(text)
    from sfumato.queries.sql import parse_expression_text  # sqlglot comes with the first expression

    return parse_expression_text(text)
