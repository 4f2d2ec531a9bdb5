"""The aggregates that people type without SQL: sf.count(), sf.sum("cost"), sf.mean("cost * 2")."""

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
    ModeOf,
    QuantileOf,
    SumOf,
    VarianceOf,
)
from sfumato.curator.question.relation import Case, Comparison, Conjunction, Expression, Literal, Name
from sfumato.errors import UsageError
from sfumato.privacy.exact import parse_exact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.privacy.exact import Number

# A plain name needs no parser, so sqlglot is not imported for it.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)


def count(column: str | None = None) -> CountOf:
    """Count rows; with a column or an expression, only those where it is not missing."""
    return CountOf(None if column is None else parse_column(column))


def units(column: str) -> DistinctUnits:
    """Count the different units of protection that have a row; `column` is the unit's column."""
    return DistinctUnits(Name(require_name(column)))


def distinct(column: str) -> DistinctUnits:
    """Count the different values of a column or an expression."""
    return DistinctUnits(parse_column(column))


def sum(column: str) -> SumOf:
    """Sum a declared column or an expression."""
    return SumOf(parse_column(column))


def mean(column: str) -> MeanOf:
    """Average a column or an expression over the rows where it is not missing."""
    return MeanOf(parse_column(column))


def variance(column: str) -> VarianceOf:
    """Compute the sample variance of a column or an expression."""
    return VarianceOf(parse_column(column))


def stddev(column: str) -> VarianceOf:
    """Compute the sample standard deviation of a column or an expression."""
    return VarianceOf(parse_column(column), root=True)


def covariance(column: str, other: str) -> CovarianceOf:
    """Compute the sample covariance of two columns."""
    return CovarianceOf(parse_column(column), parse_column(other))


def correlation(column: str, other: str) -> CovarianceOf:
    """Compute the correlation of two columns, between −1 and 1."""
    return CovarianceOf(parse_column(column), parse_column(other), scaled=True)


def quantile(column: str, share: Number) -> QuantileOf:
    """Find a value that about this share of the rows lies below."""
    wanted = parse_exact(share, "share")
    if not 0 <= wanted <= 1 or wanted.denominator > 2**20:
        raise UsageError(
            "SF-Q105", "The share of a quantile must lie between 0 and 1.", try_='sf.quantile("cost", 0.9)'
        )
    # `min` and `max` of this module hide Python's own.
    return QuantileOf(
        parse_column(column), builtins.min(builtins.max(wanted, MINIMUM_SHARE), 1 - MINIMUM_SHARE)
    )


def median(column: str) -> QuantileOf:
    """Find a value that about half of the rows lie below."""
    return quantile(column, Fraction(1, 2))


def mode(column: str) -> ModeOf:
    """Find about the most frequent of the listed values of a column or an expression."""
    return ModeOf(parse_column(column))


def min(column: str) -> QuantileOf:
    """Find about the smallest value: the lowest quantile."""
    return quantile(column, 0)


def max(column: str) -> QuantileOf:
    """Find about the largest value: the highest quantile."""
    return quantile(column, 1)


def bins(column: str, edges: Sequence[Number]) -> Case:
    """Return a key for group_by: the bin between two edges that a number lies in.

    A bin holds its lower edge; the last one holds its upper edge too.
    """
    cuts = [parse_exact(edge, "edge") for edge in edges]
    if len(cuts) < 2 or any(one >= other for one, other in itertools.pairwise(cuts)):
        raise UsageError("SF-Q124", "edges must be at least two ascending numbers.", try_="[0, 18, 65, 110]")
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
                Literal(f"[{_show_edge(low)}, {_show_edge(high)}{']' if place == last else ')'}"),
            )
            for place, (low, high) in enumerate(itertools.pairwise(cuts))
        )
    )


def _show_edge(number: Fraction) -> str:
    return str(number.numerator) if number.denominator == 1 else f"{float(number):g}"


def require_name(name: Any) -> str:
    """Return the name of a table or column; anything but a string is refused."""
    if isinstance(name, str):
        # A subclass may compare as it likes; this is the text itself.
        return str.__str__(name)
    raise UsageError("SF-Q124", "Names of tables and columns must be strings.", try_='sf.mean("cost")')


def parse_column(text: str) -> Expression:
    """Return a column by its name, or an expression that SQL writes."""
    text = require_name(text)
    if _PLAIN.match(text):
        return Name(text)
    from sfumato.queries.sql import parse_expression_text  # sqlglot comes with the first expression

    return parse_expression_text(text)
