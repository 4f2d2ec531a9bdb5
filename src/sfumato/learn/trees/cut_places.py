"""Where features are worth splitting: about where rows lie, by private counts or by moments.

Because : docs/proofs/learners.md#boosting
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from sfumato.learn.target_range import locate_values
from sfumato.oracle.blocks import COUNT, Add, CellKey, Constant, Divide

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.learn.target_range import TargetRange
    from sfumato.oracle.declared import Feature
    from sfumato.oracle.feature_spread import FeatureSpread
    from sfumato.oracle.protocol import Oracle, SumAnswer

    Floats = NDArray[np.float64]

# Chosen with benchmarks/learners_unseen.py, on its development tables; privacy depends on none of these.
_CELLS = 24
"""Cells that the range of a feature is counted by."""
_LOOKS = 2
"""Looks at where the range lies."""
LOOK_SHARE = Fraction(3, 100)
"""Share of the spend for each look."""
_SHARES = np.linspace(0.0, 1.0, 33)


class CutPlaces(ABC):
    """Where each feature is worth splitting, in bounds."""

    features: int

    @abstractmethod
    def find_places(self, feature: int, deviations: Floats) -> Floats:
        """Return about where so many deviations above the middle lie: as many rows lie below as if normal."""


@dataclass(frozen=True, slots=True)
class MomentPlaces(CutPlaces):
    """Places by the mean and deviation; an indicator is split between 0 and 1."""

    known: FeatureSpread

    @property
    def features(self) -> int:  # type: ignore[override]
        return len(self.known.mean)

    def find_places(self, feature: int, deviations: Floats) -> Floats:
        away = self.known.cut_deviation[feature] * deviations
        found: Floats = np.clip(self.known.cut_mean[feature] + away, -1, 1)
        return found


@dataclass(frozen=True, slots=True)
class QuantilePlaces(CutPlaces):
    """Places by quantiles: one row a feature, one column for each of the shares."""

    quantiles: Floats

    @property
    def features(self) -> int:  # type: ignore[override]
        return len(self.quantiles)

    def find_places(self, feature: int, deviations: Floats) -> Floats:
        found: Floats = np.interp(ndtr(deviations), _SHARES, self.quantiles[feature])
        return found


def locate_features(oracle: Oracle, rows: float, share: Fraction) -> tuple[CutPlaces | None, Fraction]:
    """Count rows by cells of where each feature lies; return quantiles, and what the looks before cost.

    Nothing is counted, for `share`, where so few rows could not be told from noise.
    """
    features = oracle.declared.features
    ranges, spent = locate_values(oracle, features, rows, LOOK_SHARE, _LOOKS)
    if not spent:
        return None, spent
    widths = [max(1, -(-2 * each.reach // _CELLS)) for each in ranges]
    keys = [
        [
            CellKey(
                Divide(Add(each.clip(of), Constant(each.reach)), Constant(width)), 2 * each.reach // width + 1
            )
        ]
        for of, each, width in zip(features, ranges, widths, strict=True)
    ]
    answers = oracle.histograms(keys, [COUNT], share=share)
    found = [
        _read_quantiles(*each)
        for each in zip(features, ranges, widths, (answer for (answer,) in answers), strict=True)
    ]
    return QuantilePlaces(np.array(found)), spent


def _read_quantiles(feature: Feature, found: TargetRange, width: int, answer: SumAnswer) -> Floats:
    """Return the quantiles of one feature; as much as noise makes of a cell is taken for nothing."""
    if feature.group:
        return np.full(len(_SHARES), 0.5)
    counts = np.maximum(answer.values[:, 0] - answer.deviation, 0.0) + 1e-9
    ends = np.minimum(np.arange(len(counts) + 1) * width, 2 * found.reach) - found.reach + found.centre
    below = np.concatenate([[0.0], np.cumsum(counts)]) / counts.sum()
    quantiles: Floats = np.clip(np.interp(_SHARES, below, ends) / feature.bound, -1, 1)
    return quantiles
