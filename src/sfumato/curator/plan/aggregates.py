"""What a mean, a variance or a covariance is, given its sums; and between which ends it lies in any case.

The sums may be exact or noisy: nothing here knows of noise, and no price depends on anything here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.question.measurement import (
    CountOf,
    CovarianceOf,
    DistinctUnits,
    MeanOf,
    SummedAggregate,
    SumOf,
    VarianceOf,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.curator.plan.summands import Summand

    Floats = NDArray[np.float64]


def compute_aggregate(aggregate: SummedAggregate, of: Sequence[Summand], parts: Sequence[Floats]) -> Floats:
    """Return an aggregate, from what its sums are of and what they are."""
    match aggregate:
        case CountOf() | DistinctUnits() | SumOf():
            return parts[0] * float(of[0].step)
        case MeanOf():
            return (mean_deviation(of[0], *parts) + of[0].centre) * float(of[0].step)
        case VarianceOf():
            return compute_variance(aggregate, of, parts, 0)
        case CovarianceOf():
            return _covariance(aggregate, of, parts)


def aggregate_range(
    aggregate: MeanOf | VarianceOf | CovarianceOf, of: Sequence[Summand]
) -> tuple[float, float]:
    """Return the ends between which an aggregate lies, whatever the rows are."""
    match aggregate:
        case MeanOf():
            low, high = ((of[0].centre + side * of[0].bound) * float(of[0].step) for side in (-1, 1))
            return low, high
        case VarianceOf():
            most = _reach(of[1]) ** 2 * (2 if aggregate.sample else 1)
            return 0.0, math.sqrt(most) if aggregate.root else most
        case CovarianceOf():
            if aggregate.scaled:
                return -1.0, 1.0
            most = _reach(of[1]) * _reach(of[2]) * (2 if aggregate.sample else 1)
            return -most, most


def _each(sums: Floats, rows: Floats) -> Floats:
    """Return a sum by row; fewer rows than one, as noisy counts may say, are taken for one."""
    return np.asarray(sums / np.maximum(rows, 1.0))


def mean_deviation(summand: Summand, sums: Floats, rows: Floats) -> Floats:
    """Return the mean in steps from the centre, kept within what is possible."""
    return np.clip(_each(sums, rows), -summand.bound, summand.bound)


def compute_variance(
    aggregate: VarianceOf, of: Sequence[Summand], parts: Sequence[Floats], slack: float
) -> Floats:
    """Return a variance or its root. `slack` steps a square are added, which rounding may have lost."""
    squares, deviations, rows = parts
    variance = _spread(of[0], of[1], squares, deviations, rows, slack)
    if aggregate.sample:
        variance = variance * sample_factor(rows)
    return np.asarray(np.sqrt(variance) if aggregate.root else variance)


def _spread(
    square: Summand, deviation: Summand, squares: Floats, deviations: Floats, rows: Floats, slack: float
) -> Floats:
    """Return the mean square of deviations less the square of their mean, kept within what is possible.

    Only their difference is: keeping one of the two within its own bounds would pull draws to one side.
    """
    mean = _each(deviations, rows) * float(deviation.step)
    mean_square = (_each(squares, rows) + slack) * float(square.step)
    return np.clip(mean_square - mean**2, 0.0, _reach(deviation) ** 2)


def _reach(deviation: Summand) -> float:
    """Return how far a row lies from the middle of the bounds at most."""
    return float(deviation.bound * deviation.step)


def sample_factor(rows: Floats) -> Floats:
    """Return n / (n − 1); a sample has two rows at least."""
    rows = np.maximum(rows, 2.0)
    return np.asarray(rows / (rows - 1))


def _covariance(aggregate: CovarianceOf, of: Sequence[Summand], parts: Sequence[Floats]) -> Floats:
    together = mean_product(of, parts, 0)
    if aggregate.scaled:
        return np.clip(together / product_of_deviations(of, parts, (0, 0)), -1.0, 1.0)
    return together * sample_factor(parts[-1]) if aggregate.sample else together


def mean_product(of: Sequence[Summand], parts: Sequence[Floats], slack: float) -> Floats:
    """Return the mean product of deviations less the product of their means, kept within what is possible."""
    products, one, other, rows = parts[0], parts[1], parts[2], parts[-1]
    means = _each(one, rows) * _each(other, rows) * float(of[1].step * of[2].step)
    product = (_each(products, rows) + slack) * float(of[0].step)
    # Kept within what any rows give, as noise can take both terms anywhere.
    most = _reach(of[1]) * _reach(of[2])
    return np.clip(product - means, -most, most)


def product_of_deviations(
    of: Sequence[Summand], parts: Sequence[Floats], slack: tuple[float, float]
) -> Floats:
    """Return the product of both standard deviations; not a number where one of the two does not vary."""
    one = _spread(of[3], of[1], parts[3], parts[1], parts[-1], slack[0])
    other = _spread(of[4], of[2], parts[4], parts[2], parts[-1], slack[1])
    varies = (one > 0) & (other > 0)
    return np.sqrt(np.where(varies, one * other, np.nan))
