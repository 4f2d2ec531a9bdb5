"""Linear regression along one direction, where the matrix of all products would drown in noise.

The direction is Σ v·y, as in the first step of partial least squares; then the target is regressed on how far
a row lies along it. That asks for d + 5 numbers in the place of d², which pure ε can afford.

Because : docs/proofs/learners.md#one-direction
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.lower.computed import divide_toward_zero, sum_values
from sfumato.learn.cells import clip_value
from sfumato.oracle.blocks import COUNT, Constant, Multiply, SumBlock, share_of
from sfumato.oracle.moments import build_cross_block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.oracle.declared import Feature
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

# Chosen with benchmarks/learners_unseen.py, on its development tables. Privacy needs the first two to add up
# to at most 1.
_DIRECTION_SHARE, _LINE_SHARE = Fraction(7, 10), Fraction(3, 10)
_LINE_SUMS = 5
_FEWEST = 50.0
"""Rows, in deviations of a count for the share of one sum of a line, from which on a line is asked for."""
_ALONG = 2**10
"""The whole number that stands for the furthest that a row is counted along the direction."""
_FURTHEST = 3.0
"""How far a row is counted along the direction, in what an even row of many features has."""
_WEIGHT = 2**12
_SHRINKAGE = 2.0
"""A slope whose square is within so many variances of its noise counts nothing."""


def rows_for_line(oracle: Oracle, share: Fraction) -> float:
    """Return from how many rows on a line says more than the mean."""
    one = share_of(oracle.budget.main, share * _LINE_SHARE / _LINE_SUMS)
    (noise,) = oracle.noise([SumBlock((COUNT,), 1, 1)], one)
    return _FEWEST * noise.deviation


def regress_along(oracle: Oracle, vector: Sequence[Feature], target: Feature, share: Fraction) -> Floats:
    """Return weights of the vector, the constant's first; the others are 0 where all is noise."""
    norm = oracle.declared.norm
    (crossed,) = oracle.sums(
        [build_cross_block(vector, target, norm, Fraction(1))], share=share * _DIRECTION_SHARE
    )
    bounds = np.array([float(each.bound) for each in vector])
    products, noise = crossed.values[1:, 0] / bounds[1:], crossed.deviation / bounds[1:]
    clear = max(0.0, 1 - float((noise**2).sum()) / max(float((products**2).sum()), 1e-300))
    # Entries within their noise count less, each by itself; where all are, none counts.
    kept = clear * products * np.maximum(0.0, 1 - noise**2 / np.maximum(products**2, 1e-300))
    direction = kept / max(float(np.linalg.norm(kept)), 1e-300)
    if not kept.any():
        # Any direction will do for a line that is flat.
        direction[0] = 1.0
    slope, mean, middle = _fit_line(oracle, vector, target, direction, share * _LINE_SHARE)
    slope = slope if kept.any() else 0.0
    return np.concatenate([[mean - slope * middle], slope * direction])


def _fit_line(
    oracle: Oracle, vector: Sequence[Feature], target: Feature, direction: Floats, share: Fraction
) -> tuple[float, float, float]:
    """Return the slope of the target along the direction, and the means of both; in bounds."""
    one, features = vector[0], vector[1:]
    integers = np.rint(direction * _WEIGHT).astype(int).tolist()
    norm = float(oracle.declared.norm or 1)
    # Of a row of this norm, an even share lies along any direction of its space.
    furthest = min(norm, _FURTHEST * norm / np.sqrt(len(vector)))
    bound = np.array([float(each.bound) for each in features])
    step = max(1, round(furthest * _WEIGHT / _ALONG))
    total = sum_values(
        [Multiply(each.value, Constant(w)) for each, w in zip(features, integers, strict=True)]
    )
    oracle, (along,) = oracle.with_columns([clip_value(divide_toward_zero(total, step), _ALONG)])
    terms = [
        Multiply(one.value, one.value),
        Multiply(one.value, along),
        Multiply(along, along),
        Multiply(one.value, target.value),
        Multiply(along, target.value),
    ]
    blocks = [SumBlock.within([each], oracle.declared.ranges, Fraction(1, _LINE_SUMS)) for each in terms]
    answers = oracle.sums(blocks, share=share)
    ones, mixed, squares, upper, lower = (float(each.values[0, 0]) for each in answers)
    # In halves of the bounds: a step of `along` is worth this much of a feature.
    worth = step / _WEIGHT / float(bound[0])
    rows = max(ones, answers[0].deviation) / one.bound**2
    # Around the mean, so that a slope of mostly noise does not carry the constant away.
    middle, mean = mixed * worth / one.bound / rows, upper / one.bound / target.bound / rows
    spread = max(0.0, squares * worth**2 - rows * middle**2) + 2 * answers[2].deviation * worth**2
    lean = lower * worth / target.bound - rows * middle * mean
    noise = answers[4].deviation * worth / target.bound
    slope = lean / spread * max(0.0, 1 - _SHRINKAGE * noise**2 / max(lean**2, 1e-300))
    return slope, mean, middle
