"""Scores of the runs of a search: which rows are scored on, how well a model meets each, and their noisy sum.

What a row adds to a score is decided by that row and the model alone, so one row moves the sum by at most 1.

Because : docs/proofs/search.md
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier

from sfumato.noise.sampling.bits import OS
from sfumato.oracle.arrays.features import encode_labels, to_numbers
from sfumato.oracle.arrays.integer_rows import ONE, check_bounds
from sfumato.oracle.blocks import SumBlock, calibrate_noise
from sfumato.oracle.row_by_row import compute_row_by_row

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.curator.plan.spend import Spend
    from sfumato.oracle.over_held_rows import RowLayout

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

_TESTED = 4
"""One row in so many is scored on and not learnt from. Privacy holds for any share."""
_QUALITY = ONE
"""The whole number that stands for a row that is met perfectly."""


def draw_test_rows(rows: int) -> NDArray[np.bool_]:
    """Draw for each row, whatever the others are, whether it is scored on."""
    # 4 divides 2^64, so the chance is exactly 1 in 4.
    words = OS.words(rows)
    return np.asarray(words % np.uint64(_TESTED) == 0)


def round_qualities(quality: Floats, rows: int) -> Ints:
    """Return how well each row is met, from 0 to 1, in whole steps rounded down; 0 where it is unknown."""
    if quality.shape != (rows,):
        raise AssertionError("a row adds one number to the score")
    known = np.clip(np.nan_to_num(quality, nan=0.0), 0.0, 1.0)
    return np.floor(known * _QUALITY).astype(np.int64)


def release_score(qualities: Ints, spend: Spend) -> float:
    """Return the noisy share of rows that are met, from the quality of each.

    A row adds its quality to one sum and what it lacks to another, together 1: both have the noise of one.
    """
    noise = calibrate_noise(SumBlock((), _QUALITY, _QUALITY**2), spend, 1, False)
    met = int(qualities.sum())
    sums = noise.release(np.array([met, len(qualities) * _QUALITY - met]))
    # Fewer rows than the noise could have made say little, whichever share of them is met.
    rows = max(float(sums[0]) + float(sums[1]), 2 * noise.deviation, float(_QUALITY))
    return min(1.0, max(0.0, float(sums[0]) / rows))


def score_own_rows(fitted: Any, rows: Any, targets: Any) -> Ints:
    """Return in whole steps how well a model meets each of one's own rows."""
    guessed = compute_row_by_row(fitted.predict, rows)
    if is_classifier(fitted):
        listed = fitted.classes_.tolist()
        true = encode_labels(targets, listed)
        met = np.asarray((true == encode_labels(guessed, listed)) & (true >= 0), dtype=np.float64)
        return round_qualities(met, len(rows))
    lows, highs = check_bounds(fitted.target_bounds, 1)
    clipped = np.clip(to_numbers(targets), lows[0], highs[0])
    # In units of the target's bounds, so that a squared error is at most 1.
    off = (guessed - clipped) / (highs[0] - lows[0])
    return round_qualities(np.asarray(1.0 - off**2, dtype=np.float64), len(rows))


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """Rows of a table, held in memory, that models are scored on."""

    layout: RowLayout
    rows: Any
    """Features as `predict` takes them."""
    goals: Ints

    @classmethod
    def of(cls, layout: RowLayout, rows: Ints) -> ScoredRows:
        """Read rows that are given as one row a figure and one column a unit."""
        return cls(layout, layout.decode_features(rows), rows[-1])

    def qualities(self, model: Any) -> Ints:
        """Return in whole steps how well a model meets each row."""
        guessed = compute_row_by_row(model.predict, self.rows)
        return round_qualities(self._quality(guessed), len(self.goals))

    def _quality(self, guessed: Any) -> Floats:
        """1 for the right class; 1 less the squared error, where the bounds are 1 apart."""
        target = self.layout.target
        if isinstance(target, int):
            return np.asarray(guessed == self.goals, dtype=np.float64)
        off = (guessed - target.decode(self.goals)) / (2 * float(target.half))
        return np.asarray(1.0 - off * off, dtype=np.float64)
