"""Places of a row, as integers that rows can be grouped by: halves of the box, nearest centres, bins."""

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


def bit(value: Value, threshold: int) -> Value:
    """1 from the threshold on, 0 below."""
    return Choose(AtLeast(value, threshold), Constant(1), Constant(0))


def corner(features: Sequence[Feature], thresholds: Sequence[float]) -> Value:
    """On which side of each threshold a row lies, as the digits of a binary number; the first is worth 1."""
    cell: Value = Constant(0)
    for place, (feature, at) in enumerate(zip(features, thresholds, strict=True)):
        side = bit(feature.value, round(at * feature.bound))
        cell = Add(cell, Multiply(side, Constant(2**place)))
    return cell


def bins(value: Value, cuts: Sequence[int]) -> Value:
    """How many of the cuts, in ascending order, a value reaches."""
    return reduce(Add, (bit(value, cut) for cut in cuts[1:]), bit(value, cuts[0])) if cuts else Constant(0)


def nearest(features: Sequence[Feature], centres: NDArray[np.float64]) -> Value:
    """Which of these points, in bounds, a row is nearest to; the first of equals.

    ‖v − c‖² less what is the same for all: ‖c‖² − 2·c·v, in whole numbers.
    """
    points = np.rint(centres * np.array([feature.bound for feature in features])).astype(np.int64)
    scores = [_score(features, point.tolist()) for point in points]
    chosen: Value = Constant(len(scores) - 1)
    least = scores[-1]  # of the later ones
    for place in reversed(range(len(scores) - 1)):
        chosen = Choose(Not(Less(least, scores[place])), Constant(place), chosen)
        least = Least(scores[place], least)
    return chosen


def _score(features: Sequence[Feature], point: Sequence[int]) -> Value:
    start: Value = Constant(sum(each * each for each in point))
    parts = (Multiply(feature.value, Constant(-2 * at)) for feature, at in zip(features, point, strict=True))
    return reduce(Add, parts, start)


def deviation(feature: Feature, cell: Value, centres: Sequence[float], reach: int) -> Value:
    """How far a feature lies from the centre of the row's cell, cut off at ±reach."""
    shifts = tuple(-round(centre * feature.bound) for centre in centres)
    shift = Lookup(cell, shifts) if len(shifts) > 1 else Constant(shifts[0])
    return clipped(Add(feature.value, shift), reach)


def clipped(value: Value, reach: int) -> Value:
    return Greatest(Least(value, Constant(reach)), Constant(-reach))
