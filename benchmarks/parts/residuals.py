"""Marginals reconstructed from residuals in closed form, to be compared with a model on a junction tree.

A marginal is a sum of residuals, one for each subset of its columns: what is left of the counts of the subset
when all that fewer columns show is taken out. Noise of one deviation in a marginal is independent noise in
its residuals, so measurements of several marginals are combined residual by residual, each by its exactness,
and any other marginal is put together from those that are known; what no measurement shows counts as 0.
(Xiao and others, *An Optimal and Scalable Matrix Mechanism for Noisy Marginals*, 2023; Mullins and others,
*Efficient and Private Marginal Reconstruction with Local Non-Negativity*, 2024, GReM-MLE.)
Counts below 0 are then cut off and the rest scaled to the number of rows, marginal by marginal.
"""

from __future__ import annotations

import math
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.synth.graphical_model import estimate_total
from sfumato.synth.selection import model_measurements

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from sfumato.synth.graphical_model import NoisyMarginal
    from sfumato.synth.kernel import ReleasedMarginals

    Floats = NDArray[np.float64]
    Clique = tuple[int, ...]


class ResidualReconstruction:
    """Released marginals as residuals, from which other marginals are put together."""

    def __init__(self, released: ReleasedMarginals, weights: Sequence[Floats]) -> None:
        measured = model_measurements(released.measured, released.sizes, released.merged)
        self.sizes, self.total = released.sizes, estimate_total(measured)
        self.residuals = self._combine(measured)
        self._spread = [
            _spread_map(*each) for each in zip(released.merged, released.bins, weights, strict=True)
        ]

    def _combine(self, measured: Iterable[NoisyMarginal]) -> dict[Clique, Floats]:
        sums: dict[Clique, Any] = {}
        exactness: dict[Clique, float] = {}
        for each in measured:
            # Merged cells of a single column have several deviations, of which the mean square is taken.
            variance = float(np.mean(np.square(each.deviation)))
            for part in _subsets(each.columns):
                left_out = math.prod(self.sizes[at] for at in each.columns if at not in part)
                weight = 1 / (variance * left_out)
                sums[part] = sums.get(part, 0.0) + weight * _residual(each, part)
                exactness[part] = exactness.get(part, 0.0) + weight
        return {part: found / exactness[part] for part, found in sums.items()}

    def marginal(self, columns: Clique) -> Floats:
        """Return the shares of rows in the cells of a marginal, none below 0, in unmerged cells."""
        shape = [self.sizes[at] for at in columns]
        found = np.zeros(shape)
        for part in _subsets(columns):
            if part in self.residuals:
                known = self.residuals[part]
                rest = math.prod(self.sizes[at] for at in columns if at not in part)
                found += known.reshape([self.sizes[at] if at in part else 1 for at in columns]) / rest
        found = np.maximum(found, 0.0)
        for axis, at in enumerate(columns):
            found = np.moveaxis(np.tensordot(self._spread[at], found, axes=(1, axis)), 0, axis)
        return found.ravel() / max(float(found.sum()), 1e-300)


def _subsets(columns: Clique) -> Iterable[Clique]:
    return chain.from_iterable(combinations(columns, size) for size in range(len(columns) + 1))


def _residual(measured: NoisyMarginal, part: Clique) -> Floats:
    """Return the counts of a subset of the columns, with all that fewer of them show taken out."""
    axes = tuple(at for at, column in enumerate(measured.columns) if column not in part)
    found: Floats = measured.counts.sum(axis=axes)
    for axis in range(found.ndim):
        found = found - found.mean(axis=axis, keepdims=True)
    return found


def _spread_map(merged: Any, bins: Any, weights: Floats) -> Floats:
    """Return which share of a merged cell lies in each cell of the column, as tables are drawn."""
    shares = np.zeros((len(bins), int(merged.max()) + 1))
    each_bin = np.bincount(bins)
    for cell, at in enumerate(bins):
        shares[cell, merged[at]] = weights[at] / each_bin[at]
    whole = shares.sum(axis=0)
    return shares / np.where(whole > 0, whole, 1.0)
