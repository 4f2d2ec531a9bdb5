"""Fitted transformers as integers of a row, so that an engine computes what the next step learns from.

What a transformer learnt is public once it was paid for. Each feature that comes out is computed from one
row, and is clipped to its bound at last, so that its range rests on nothing else.

Because : docs/proofs/learners.md#pipelines
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.learn.cells import clip_value, locate_bin
from sfumato.oracle.arrays.integer_rows import ONE, check_bounds
from sfumato.oracle.blocks import Add, Constant, Divide, Greatest, Least, Lookup, Multiply
from sfumato.oracle.coded_columns import code_columns
from sfumato.oracle.declared import Feature

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.curator.lower.computed import ColumnBuilder

    Floats = NDArray[np.float64]

_BOUND = 2 * ONE
"""The integer that stands for 1 in a scaled feature, near to those of numbers. Privacy does not depend on
it."""


_WIDEST = 2**20
"""How many times wider than a feature its bounds can be declared. Privacy does not depend on it."""


def shift_features(features: Sequence[Feature], centres: Floats, scales: Floats) -> list[Feature]:
    """Return features less a centre and divided by a scale: their integers stand for other numbers."""
    return [
        replace(each, middle=(each.middle - centre) / scale, half=each.half / scale)
        for each, centre, scale in zip(features, centres.tolist(), scales.tolist(), strict=True)
    ]


def interpolate_features(
    features: Sequence[Feature], columns: ColumnBuilder, ends: Floats, ranks: Floats
) -> list[Feature]:
    """Return features from −1 to 1, by straight lines through points: where they are, and their ranks."""
    starts = [
        np.maximum.accumulate(_to_steps(each, ends[:, at])).tolist() for at, each in enumerate(features)
    ]
    heights = [
        np.rint((2 * ranks[:, at] - 1) * _BOUND).astype(np.int64).tolist() for at in range(len(features))
    ]
    # Which part of the line a row is on becomes a column, as it is looked up four times.
    parts = columns.add_columns(
        [locate_bin(each.value, cuts[1:-1]) for each, cuts in zip(features, starts, strict=True)]
    )
    lines = [
        _interpolate(each, part, *points)
        for each, part, *points in zip(features, parts, starts, heights, strict=True)
    ]
    found = columns.add_columns([clip_value(line, _BOUND) for line in lines])
    return [
        Feature(each.name, column, _BOUND, 0.0, 1.0) for each, column in zip(features, found, strict=True)
    ]


def _to_steps(feature: Feature, points: Floats, reach: int = 1) -> NDArray[np.int64]:
    """Return points as integers of a feature, within so many times its bounds."""
    found = np.rint((points - feature.middle) / feature.half * feature.bound)
    return np.clip(found, -feature.bound * reach, feature.bound * reach).astype(np.int64)


def _interpolate(feature: Feature, part: Any, starts: list[int], heights: list[int]) -> Any:
    """Return low + (x − start) · rise / run on the part of the line that x is on, rounded down."""
    pairs = list(pairwise(starts))
    # Two points in one place are a step, on which no row is.
    runs = tuple(max(1, end - start) for start, end in pairs)
    rises = tuple(high - low for low, high in pairwise(heights))
    inside = Least(Greatest(feature.value, Constant(starts[0])), Constant(starts[-1]))
    beyond = Greatest(Add(inside, Lookup(part, tuple(-start for start, _ in pairs))), Constant(0))
    climbed = Divide(Multiply(beyond, Lookup(part, rises)), Lookup(part, runs))
    return Add(Lookup(part, tuple(heights[:-1])), climbed)


def bin_features(
    features: Sequence[Feature], columns: ColumnBuilder, edges: Floats, *, listed: bool
) -> list[Feature]:
    """Return the number of each feature's bin, as a number or, for what learns from lists, as a place."""
    cuts = [
        [math.ceil(edge) for edge in ((own - each.middle) / each.half * each.bound).tolist()]
        for each, own in zip(features, edges, strict=True)
    ]
    places = columns.add_columns(
        [locate_bin(each.value, own) for each, own in zip(features, cuts, strict=True)]
    )
    most = max(1, edges.shape[1])
    if listed:
        values = tuple(range(edges.shape[1] + 1))
        return [
            Feature(each.name, place, most, 0.0, 1.0, values)
            for each, place in zip(features, places, strict=True)
        ]
    times = max(1, 2 * ONE // most)
    centred = [
        clip_value(Add(Multiply(place, Constant(2 * times)), Constant(-times * most)), times * most)
        for place in places
    ]
    found = columns.add_columns(centred)
    return [
        Feature(each.name, column, times * most, most / 2, most / 2)
        for each, column in zip(features, found, strict=True)
    ]


def narrow_features(features: Sequence[Feature], columns: ColumnBuilder, bounds: Any) -> list[Feature]:
    """Return features within the bounds that a later step declares, measured from the middle of those.

    The bounds may be wider than what can occur: learners start at their middle, as on own arrays.
    """
    found = list(features)
    if bounds is None:
        return found
    lows, highs = read_bounds(bounds, len(features))
    for at, each in enumerate(features):
        low, high = _to_steps(each, np.array([lows[at], highs[at]]), _WIDEST).tolist()
        if (low, high) != (-each.bound, each.bound):
            found[at] = _narrow(each, columns, (low + high) // 2, max(1, (high - low) // 2))
    return found


def read_bounds(bounds: Any, features: int) -> tuple[Floats, Floats]:
    """Return the lows and highs of all features that a later step declares; a dictionary has their places."""
    if not isinstance(bounds, Mapping):
        return check_bounds(bounds, features)
    coded = code_columns([f"x{at}" for at in range(features)], bounds, None)
    return np.array([each.low for each in coded]), np.array([each.high for each in coded])


def _narrow(feature: Feature, columns: ColumnBuilder, centre: int, reach: int) -> Feature:
    # Features share one noise, so the steps of one with few are counted as several.
    times = max(1, 2 * ONE // reach)
    clipped = clip_value(Add(feature.value, Constant(-centre)), reach)
    (column,) = columns.add_columns([Multiply(clipped, Constant(times))])
    unit = feature.half / feature.bound
    return Feature(
        feature.name, column, times * reach, feature.middle + unit * centre, unit * reach, feature.categories
    )
