"""The number of rows, and the mean and deviation of each feature: what several learners ask first."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.oracle.blocks import COUNT, Add, Constant, Multiply, SumBlock, share_of
from sfumato.oracle.moments import build_sum_block

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.oracle.declared import Declared
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

_USUAL = 0.35
"""The deviation that is assumed where noise drowns what was measured. Learners that use it are compared in
benchmarks/learners.py; privacy does not depend on it."""


@dataclass(frozen=True, slots=True)
class FeatureSpread:
    """Moments of features from −1 to 1. Where noise drowns one, it is shrunk to what is usual."""

    rows: float
    mean: Floats
    deviation: Floats
    indicators: NDArray[np.bool_]
    """Which features are 0 or 1."""

    @property
    def cut_mean(self) -> Floats:
        """The middle of where a feature is worth splitting; an indicator is split between 0 and 1."""
        return np.where(self.indicators, 0.5, self.mean)

    @property
    def cut_deviation(self) -> Floats:
        """How far from there."""
        return np.where(self.indicators, 0.0, self.deviation)


def _spread_blocks(declared: Declared) -> list[SumBlock]:
    squares = [
        Add(Multiply(each.value, each.value), Constant(-(each.bound**2 // 2))) for each in declared.features
    ]
    return [
        SumBlock((COUNT,), 1, 1, Fraction(1, 10)),
        build_sum_block(declared.features, declared.norm, Fraction(5, 10)),
        SumBlock.within(squares, declared.ranges, Fraction(4, 10)),
    ]


def can_measure_spread(oracle: Oracle, share: Fraction) -> bool:
    """Say whether noise for this share of the budget is narrow enough to be drawn exactly; public."""
    return oracle.can_draw(_spread_blocks(oracle.declared), share_of(oracle.budget.main, share))


def measure_spread(oracle: Oracle, share: Fraction) -> FeatureSpread:
    """Ask for the number of rows, sums and squares of all features, for this share of the budget."""
    declared = oracle.declared
    counts, sums, second = oracle.sums(_spread_blocks(declared), share=share)
    rows = max(1.0, float(counts.values[0, 0]))
    smallest = float(declared.bounds.min())
    mean = sums.values[:, 0] / declared.bounds / rows
    noise = sums.deviation / smallest / rows
    # As James and Stein do: means that noise alone could have made are shrunk to the middle of the bounds.
    mean = np.clip(mean * max(0.0, 1 - len(mean) * noise**2 / float(mean @ mean + 1e-300)), -0.9, 0.9)
    square = second.values[:, 0] / declared.bounds**2 / rows + 0.5 - mean**2
    # A weighted mean of what was measured and what is usual, by how sure either is.
    unsure = (second.deviation / smallest**2 / rows) ** 2
    square = (square * _USUAL**4 + _USUAL**2 * unsure) / (_USUAL**4 + unsure)
    return FeatureSpread(rows, mean, np.sqrt(np.clip(square, 1e-4, 1.0)), declared.indicators)
