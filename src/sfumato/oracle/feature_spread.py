"""How many rows there are and where each feature lies: what several learners ask first."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.oracle.blocks import COUNT, Add, Constant, Multiply, SumBlock
from sfumato.oracle.moments import build_sum_block

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

_USUAL = 0.35
"""The deviation of a feature, in bounds, where nothing is known of it."""


@dataclass(frozen=True, slots=True)
class FeatureSpread:
    """In bounds. Where noise drowns a number, it is drawn to the middle, or to what is usual."""

    rows: float
    mean: Floats
    deviation: Floats


def measure_spread(oracle: Oracle, share: Fraction) -> FeatureSpread:
    declared = oracle.declared
    squares = [
        Add(Multiply(each.value, each.value), Constant(-(each.bound**2 // 2))) for each in declared.features
    ]
    blocks = [
        SumBlock((COUNT,), 1, 1, Fraction(1, 10)),
        build_sum_block(declared.features, declared.norm, Fraction(5, 10)),
        SumBlock.within(squares, declared.spans, Fraction(4, 10)),
    ]
    counts, sums, second = oracle.sums(blocks, share=share)
    rows = max(1.0, float(counts.values[0, 0]))
    smallest = float(declared.bounds.min())
    mean = sums.values[:, 0] / declared.bounds / rows
    noise = sums.deviation / smallest / rows
    mean = np.clip(mean * max(0.0, 1 - len(mean) * noise**2 / float(mean @ mean + 1e-300)), -0.9, 0.9)
    square = second.values[:, 0] / declared.bounds**2 / rows + 0.5 - mean**2
    unsure = (second.deviation / smallest**2 / rows) ** 2
    square = (square * _USUAL**4 + _USUAL**2 * unsure) / (_USUAL**4 + unsure)
    return FeatureSpread(rows, mean, np.sqrt(np.clip(square, 1e-4, 1.0)))
