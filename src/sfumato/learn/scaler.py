"""A scaler to [−1, 1] by where values really lie: by their range, or by their ranks.

Because : docs/proofs/learners.md#scalers-and-bins
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin

from sfumato.errors import UsageError
from sfumato.learn.base.estimator import PrivateEstimator
from sfumato.learn.pipelines.lowered import interpolate_features
from sfumato.learn.target_range import tighten_bounds
from sfumato.oracle.blocks import COUNT, Add, CellKey, Constant, Divide, SumBlock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.curator.lower.computed import ColumnBuilder
    from sfumato.oracle.declared import Feature
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

_COUNT_SHARE, _LOOK_SHARE = Fraction(5, 100), Fraction(20, 100)
"""Shares of the spend for the number of rows, and for each of two looks at the range. Privacy needs the
histogram to have no more than what they leave."""
_CELLS = 32


class Scaler(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator):
    """Features scaled to [−1, 1] by the range that holds nearly all values, or by the ranks of values.

    With kind="range" a value is clipped to that range, which is then stretched; with kind="quantile" it is
    replaced by about the share of rows below it, twice that less 1, so that skewed features are even. Either
    way the bounds of what is learnt next are (−1, 1). Where rows are too few, declared bounds stay.

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/learners.md#scalers-and-bins
    Assumes  : the bounds are public.
    """

    def __init__(
        self,
        kind: Any = "quantile",
        *,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        bounds: Any = None,
        missing: Any = None,
        verbose: Any = False,
        budget: Any = None,
    ) -> None:
        self.kind = kind
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.bounds = bounds
        self.missing = missing
        self.verbose = verbose
        self.budget = budget

    def _learn(self, oracle: Oracle) -> None:
        if self.kind not in ("quantile", "range"):
            raise UsageError("SF-E131", "This kind of scaling is not known.", try_='"quantile" or "range"')
        (counted,) = oracle.sums([SumBlock((COUNT,), 1, 1)], share=_COUNT_SHARE)
        rows = max(1.0, float(counted.values[0, 0]))
        tight, spent = tighten_bounds(oracle, rows, _LOOK_SHARE)
        declared = tight.declared
        lows, highs = declared.middles - declared.halves, declared.middles + declared.halves
        ends = np.linspace(0.0, 1.0, 2)[:, None] * (highs - lows) + lows
        ranks = np.repeat([[0.0], [1.0]], len(lows), axis=1)
        if (
            self.kind == "quantile"
            and rows
            > oracle.noise([SumBlock((COUNT,), len(lows), len(lows))], oracle.budget.main)[0].deviation
        ):
            ends, ranks = _measure_ranks(tight, 1 - _COUNT_SHARE - spent)
        self.ends_, self.ranks_ = ends, ranks
        self.middles_ = oracle.declared.middles

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Return the rows scaled to [−1, 1]; a missing value counts as the middle of its bounds."""
        rows = self._rows(X)
        known = np.where(np.isnan(rows), self.middles_, rows)
        columns = [
            np.interp(known[:, at], self.ends_[:, at], self.ranks_[:, at]) for at in range(known.shape[1])
        ]
        return 2 * np.column_stack(columns) - 1

    def lower_features(
        self, features: Sequence[Feature], columns: ColumnBuilder, *, listed: bool
    ) -> list[Feature]:
        """Return the features scaled, as integers of a row."""
        return interpolate_features(features, columns, self.ends_, self.ranks_)


def _measure_ranks(oracle: Oracle, share: Fraction) -> tuple[Floats, Floats]:
    """Count values by cells; return points of each feature, and about the share of rows below each."""
    features = oracle.declared.features
    widths = [2 * each.bound // _CELLS + 1 for each in features]
    keys = [
        [CellKey(Divide(Add(each.value, Constant(each.bound)), Constant(width)), 2 * each.bound // width + 1)]
        for each, width in zip(features, widths, strict=True)
    ]
    ends, ranks = [], []
    for each, width, (answer,) in zip(
        features, widths, oracle.histograms(keys, [COUNT], share=share), strict=True
    ):
        # As many rows as noise may have made are added to all cells together, evenly, so that ranks increase.
        counts = np.maximum(answer.values[:, 0], 0.0) + answer.deviation / len(answer.values)
        total = np.concatenate([[0.0], np.cumsum(counts)])
        places = np.minimum(np.arange(len(total)) * width - each.bound, each.bound) / each.bound
        wanted = np.linspace(0.0, 1.0, _CELLS + 1)
        # All features have as many points, whatever the number of their cells.
        at = np.interp(wanted, total / total[-1], places)
        ends.append(each.middle + each.half * at)
        ranks.append(wanted)
    return np.column_stack(ends), np.column_stack(ranks)
