"""Scaling and binning by private statistics.

Because : docs/proofs/learners.md#scalers-and-bins
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin

from sfumato.errors import UsageError
from sfumato.learn.base.estimator import PrivateEstimator
from sfumato.learn.pipelines.lowered import bin_features, shift_features
from sfumato.oracle.blocks import COUNT, Add, CellKey, Constant, Divide, Multiply, SumBlock
from sfumato.oracle.moments import build_sum_block
from sfumato.privacy.exact import parse_exact, parse_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.curator.lower.computed import ColumnBuilder
    from sfumato.oracle.declared import Feature
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

_COUNTS, _SUMS, _SQUARES = Fraction(1, 10), Fraction(5, 10), Fraction(4, 10)
"""Shares of the spend; privacy needs them to add up to at most 1."""
_HALF = Fraction(1, 2)
_CELLS = 64
"""Equal cells of the bounds that are counted to find where bins should end. Privacy does not depend on it."""


class FeatureTransformer(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator):
    """Base class of transformers that return one column for each feature."""

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the features; a column of categories has become several."""
        if hasattr(self, "columns_"):
            return np.array(self._list_features(), dtype=object)
        found: NDArray[Any] = super().get_feature_names_out(input_features)
        return found


class StandardScaler(FeatureTransformer):
    """Features less their private mean, divided by their private standard deviation.

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/learners.md#scalers-and-bins
    Assumes  : the bounds are public.
    """

    def __init__(
        self,
        *,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        bounds: Any = None,
        row_norm: Any = None,
        missing: Any = None,
        verbose: Any = False,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.bounds = bounds
        self.row_norm = row_norm
        self.missing = missing
        self.verbose = verbose
        self.budget = budget

    def _learn(self, oracle: Oracle) -> None:
        declared = oracle.declared
        squares = [
            Add(Multiply(each.value, each.value), Constant(-(each.bound**2 // 2)))
            for each in declared.features
        ]
        blocks = [
            SumBlock((COUNT,), 1, 1, _COUNTS),
            build_sum_block(declared.features, declared.norm, _SUMS),
            SumBlock.within(squares, declared.ranges, _SQUARES),
        ]
        counts, sums, second = oracle.sums(blocks)
        rows = max(1.0, float(counts.values[0, 0]))
        mean = np.clip(sums.values[:, 0] / declared.bounds / rows, -1.0, 1.0)
        noise = second.deviation / declared.bounds**2 / rows
        variance = np.clip(second.values[:, 0] / declared.bounds**2 / rows + 0.5 - mean**2, 1e-4, 1.0)
        self.mean_ = mean * declared.halves + declared.middles
        # A variance below its own noise may be 0 in truth, and would blow the feature up.
        self.var_ = np.maximum(variance, np.minimum(noise, 1.0)) * declared.halves**2
        self.scale_ = np.sqrt(self.var_)

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Return the rows scaled."""
        found: Floats = (self._rows(X) - self.mean_) / self.scale_
        return found

    def inverse_transform(self, X: Any) -> Floats:  # noqa: N803
        """Return scaled rows in the features' own units."""
        found: Floats = np.asarray(X, dtype=np.float64) * self.scale_ + self.mean_
        return found

    def lower_features(
        self, features: Sequence[Feature], columns: ColumnBuilder, *, listed: bool
    ) -> list[Feature]:
        """Return the features scaled, as integers of a row."""
        return shift_features(features, self.mean_, self.scale_)


class RobustScaler(FeatureTransformer):
    """Features less their private median, divided by the private range between two quantiles; by pure ε.

    Outliers do not move it, as they do a mean. Where the range is less than a step, a feature is not scaled.

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove.
    Costs    : epsilon, for the whole fit.
    Because  : docs/proofs/learners.md#scalers-and-bins
    Assumes  : the bounds are public.
    """

    def __init__(
        self,
        *,
        epsilon: Any = None,
        bounds: Any = None,
        row_norm: Any = None,
        quantile_range: Any = (25, 75),
        missing: Any = None,
        verbose: Any = False,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.row_norm = row_norm
        self.quantile_range = quantile_range
        self.missing = missing
        self.verbose = verbose
        self.budget = budget

    def _learn(self, oracle: Oracle) -> None:
        declared = oracle.declared
        found = oracle.quantiles(
            [each.value for each in declared.features], _parse_range(self.quantile_range)
        )
        low, middle, high = np.array(found, dtype=np.float64)[:, :, 0].T
        steps = declared.halves / declared.bounds
        self.center_ = middle * steps + declared.middles
        self.scale_ = np.where(high > low, high - low, declared.bounds) * steps

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Return the rows scaled."""
        found: Floats = (self._rows(X) - self.center_) / self.scale_
        return found

    def inverse_transform(self, X: Any) -> Floats:  # noqa: N803
        """Return scaled rows in the features' own units."""
        found: Floats = np.asarray(X, dtype=np.float64) * self.scale_ + self.center_
        return found

    def lower_features(
        self, features: Sequence[Feature], columns: ColumnBuilder, *, listed: bool
    ) -> list[Feature]:
        """Return the features scaled, as integers of a row."""
        return shift_features(features, self.center_, self.scale_)


def _parse_range(quantile_range: Any) -> tuple[Fraction, Fraction, Fraction]:
    """Return the shares of rows below the low end, the median and the high end, from two percentages."""
    try:
        low, high = (parse_exact(each, "quantile_range") / 100 for each in quantile_range)
    except (TypeError, ValueError):
        # Falls through to the error below, whatever was given.
        low = high = _HALF
    if not 0 < low < _HALF < high < 1:
        raise UsageError(
            "SF-E118",
            "A range of quantiles lies around 50, between 0 and 100.",
            try_="quantile_range=(25, 75)",
        )
    return low, _HALF, high


class Bins(FeatureTransformer):
    """Features replaced by the number of their bin; bins hold about equally many rows, by noisy counts.

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/learners.md#scalers-and-bins
    Assumes  : the bounds are public.
    """

    def __init__(
        self,
        n_bins: Any = 8,
        *,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        bounds: Any = None,
        missing: Any = None,
        verbose: Any = False,
        budget: Any = None,
    ) -> None:
        self.n_bins = n_bins
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.bounds = bounds
        self.missing = missing
        self.verbose = verbose
        self.budget = budget

    def _learn(self, oracle: Oracle) -> None:
        wanted, declared = parse_whole(self.n_bins, "n_bins"), oracle.declared
        widths = [2 * each.bound // _CELLS + 1 for each in declared.features]
        keys = [[_locate_cell(each, width)] for each, width in zip(declared.features, widths, strict=True)]
        found = oracle.histograms(keys, [COUNT])
        shares = np.arange(1, wanted) / wanted
        self.edges_ = np.array(
            [
                each.middle + each.half * _place_edges(counts.values[:, 0], width / each.bound, shares)
                for each, width, (counts,) in zip(declared.features, widths, found, strict=True)
            ]
        )

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Return the bin of every feature, from 0 on."""
        rows = self._rows(X)
        columns = [np.searchsorted(edges, rows[:, at], side="right") for at, edges in enumerate(self.edges_)]
        return np.column_stack(columns).astype(np.float64)

    def lower_features(
        self, features: Sequence[Feature], columns: ColumnBuilder, *, listed: bool
    ) -> list[Feature]:
        """Return the bins of all features, as integers of a row."""
        return bin_features(features, columns, self.edges_, listed=listed)


def _locate_cell(feature: Feature, width: int) -> CellKey:
    """Return which of the equal cells, so many steps wide, a feature lies in."""
    place = Divide(Add(feature.value, Constant(feature.bound)), Constant(width))
    return CellKey(place, 2 * feature.bound // width + 1)


def _place_edges(counts: Floats, width: float, shares: Floats) -> Floats:
    """Return the points, in bounds, below which these shares of the rows lie, if even within each cell."""
    # A little is added to each count: quantiles are interpolated, which needs sums that increase.
    total = np.concatenate([[0.0], np.cumsum(np.maximum(counts, 0.0) + 1e-9)])
    ends = -1 + width * np.arange(len(total))
    found: Floats = np.minimum(np.interp(shares * total[-1], total, ends), 1.0)
    return found
