"""Cells that rows are grouped by, as integers of a row: sides of thresholds, bins, nearest centroids.

Every function returns a `Value`, which an engine or NumPy computes in whole numbers; thresholds and centroids
are rounded to the grid of the feature first, so that all of them agree on which cell a row is in.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from sfumato.oracle.blocks import (
    Add,
    AtLeast,
    Choose,
    Constant,
    Greatest,
    Least,
    Less,
    Lookup,
    Multiply,
    Not,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.oracle.declared import Feature


def reaches_threshold(value: Value, threshold: int) -> Value:
    """Return 1 from the threshold on, 0 below."""
    return Choose(AtLeast(value, threshold), Constant(1), Constant(0))


def locate_orthant(features: Sequence[Feature], thresholds: Sequence[float]) -> Value:
    """Return on which side of each threshold a row lies, as the bits of a number, the lowest bit first."""
    cell: Value = Constant(0)
    for place, (feature, at) in enumerate(zip(features, thresholds, strict=True)):
        side = reaches_threshold(feature.value, round(at * feature.bound))
        cell = Add(cell, Multiply(side, Constant(2**place)))
    return cell


def locate_bin(value: Value, cuts: Sequence[int]) -> Value:
    """Return how many of the cuts, in ascending order, a value reaches."""
    if not cuts:
        return Constant(0)
    return reduce(Add, (reaches_threshold(value, cut) for cut in cuts[1:]), reaches_threshold(value, cuts[0]))


def locate_nearest(features: Sequence[Feature], centroids: NDArray[np.float64]) -> Value:
    """Return which of these centroids, in bounds, a row is nearest to; the first of equals.

    Compared are ‖c‖² − 2·c·v, which is ‖v − c‖² less ‖v‖², in whole numbers.
    """
    points = np.rint(centroids * np.array([feature.bound for feature in features])).astype(np.int64)
    distances = [_relative_distance(features, point.tolist()) for point in points]
    chosen: Value = Constant(len(distances) - 1)
    least = distances[-1]  # of this centroid and those after it
    for place in reversed(range(len(distances) - 1)):
        chosen = Choose(Not(Less(least, distances[place])), Constant(place), chosen)
        least = Least(distances[place], least)
    return chosen


def _relative_distance(features: Sequence[Feature], point: Sequence[int]) -> Value:
    start: Value = Constant(sum(each * each for each in point))
    parts = (Multiply(feature.value, Constant(-2 * at)) for feature, at in zip(features, point, strict=True))
    return reduce(Add, parts, start)


def clip_deviation(feature: Feature, cell: Value, centroids: Sequence[float], reach: int) -> Value:
    """Return how far a feature lies from the centroid of the row's cell, clipped to ±reach."""
    shifts = tuple(-round(centroid * feature.bound) for centroid in centroids)
    shift = Lookup(cell, shifts) if len(shifts) > 1 else Constant(shifts[0])
    return clip_value(Add(feature.value, shift), reach)


def clip_value(value: Value, reach: int) -> Value:
    """Return the value clipped to ±reach."""
    return Greatest(Least(value, Constant(reach)), Constant(-reach))
