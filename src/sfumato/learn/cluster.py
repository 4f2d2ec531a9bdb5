"""k-means from noisy counts and sums: a private summary first, k-means on that, then noisy rounds of Lloyd.

Because : docs/proofs/learners.md#k-means
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.cluster import KMeans as PlainKMeans
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state

from sfumato.learn.base.estimator import PrivateEstimator
from sfumato.learn.cells import clip_deviation, locate_nearest, locate_orthant
from sfumato.oracle.blocks import COUNT, Add, CellKey, Constant, Lookup, Multiply, SumBlock, share_of
from sfumato.oracle.feature_spread import FeatureSpread, measure_spread
from sfumato.oracle.threads import use_one_thread
from sfumato.privacy.events import list_moves
from sfumato.privacy.exact import parse_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.oracle.blocks import Value
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

# Shares of the spend: where rows lie, how many are in each cell, their means there, and rounds of Lloyd.
# Privacy needs them to add up to at most 1, and nothing else of the numbers here, which were chosen with
# benchmarks/learners.py.
_SPREAD, _CELLS, _MOMENTS, _LLOYD = Fraction(15, 100), Fraction(25, 100), Fraction(25, 100), Fraction(35, 100)
_HALF = Fraction(1, 2)
_MOST_BITS = 10
"""The summary has at most 2^10 cells."""
_POINTS = 6
"""Points that stand for a cell of the summary when plain k-means runs on it."""


class KMeans(ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin, PrivateEstimator):
    """Centroids that rows are near to. Which row belongs to which is not released: `predict` says it.

    Rows are counted by which side of a private mean they lie on, feature by feature; cells that noise cannot
    have made are summed up; k-means++ and Lloyd run on points drawn from those sums; then the centroids
    are measured again by noisy rounds of Lloyd.

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/learners.md#k-means
    Assumes  : the bounds are public.
    """

    def __init__(
        self,
        n_clusters: Any = 8,
        *,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        bounds: Any = None,
        row_norm: Any = None,
        rounds: Any = 2,
        random_state: Any = 0,
        missing: Any = None,
        verbose: Any = False,
        budget: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.bounds = bounds
        self.row_norm = row_norm
        self.rounds = rounds
        self.random_state = random_state
        self.missing = missing
        self.verbose = verbose
        self.budget = budget

    def _learn(self, oracle: Oracle) -> None:
        clusters, rounds = parse_whole(self.n_clusters, "n_clusters"), parse_whole(self.rounds, "rounds")
        rng = check_random_state(self.random_state)
        summary = _summarize(oracle, measure_spread(oracle, _SPREAD))
        centroids, deviations = _cluster_summary(summary, clusters, rng)
        for _ in range(rounds):
            centroids, counts = _lloyd_round(oracle, centroids, deviations, _LLOYD / rounds)
        self.cluster_centers_ = centroids * oracle.declared.halves + oracle.declared.middles
        self.counts_ = counts
        self.middles_ = oracle.declared.middles
        self._n_features_out = clusters

    def predict(self, X: Any) -> NDArray[np.int64]:  # noqa: N803
        """Return the cluster of each row."""
        found: NDArray[np.int64] = pairwise_distances_argmin_min(self._known_rows(X), self.cluster_centers_)[
            0
        ]
        return found

    def _known_rows(self, X: Any) -> Floats:  # noqa: N803
        """Return rows in which a missing number counts as the middle of its bounds, as in the fit."""
        rows = self._rows(X)
        # Models of earlier versions do not know the middles of their features.
        found: Floats = np.where(np.isnan(rows), getattr(self, "middles_", 0.0), rows)
        return found

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int64]:  # noqa: N803
        """Fit, and return the cluster of each row, which is not private: it is for the rows' owner alone."""
        return self.fit(X).predict(X)

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Return the distance of each row to each centroid."""
        found: Floats = euclidean_distances(self._known_rows(X), self.cluster_centers_)
        return found

    def score(self, X: Any, y: Any = None) -> float:  # noqa: N803
        """Return minus the inertia of these rows; of protected rows it is not private."""
        return -float((self.transform(X).min(axis=1) ** 2).sum())


# ---- a private summary of the rows -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Summary:
    """The cells that hold rows: how many rows, their mean and their deviation, in bounds."""

    counts: Floats
    means: Floats
    deviations: Floats


@dataclass(frozen=True, slots=True)
class _CellCounts:
    """Noisy counts of rows by the side of the mean that they lie on, in some of the features."""

    value: Value
    chosen: NDArray[np.int64]
    counts: Floats
    noise: float

    @property
    def heavy(self) -> NDArray[np.int64]:
        """Cells whose count noise alone would hardly have made."""
        return np.flatnonzero(self.counts > self.noise * math.sqrt(2 * math.log(2 * len(self.counts) + 1)))


def _summarize(oracle: Oracle, known: FeatureSpread) -> _Summary:
    cells = _count_cells(oracle, known)
    if not len(cells.heavy):
        return _Summary(np.ones(1), known.mean[None, :], known.deviation[None, :] / 2)
    return _measure_cells(oracle, known, cells)


def _count_cells(oracle: Oracle, known: FeatureSpread) -> _CellCounts:
    """Count rows by their side of the mean, in as many of the widest features as noise leaves room for."""
    features = oracle.declared.features
    (noise,) = oracle.noise([SumBlock((COUNT,), 1, 1)], share_of(oracle.budget.main, _CELLS))
    # A cell should hold eight deviations of its noise on average.
    room = int(math.log2(max(2.0, known.rows / (8 * noise.deviation))))
    bits = max(1, min(len(features), _MOST_BITS, room))
    chosen = np.argsort(-known.deviation, kind="stable")[:bits]
    cell = locate_orthant([features[at] for at in chosen], known.mean[chosen].tolist())
    (answer,) = oracle.sums([SumBlock((COUNT,), 1, 1)], [CellKey(cell, 2**bits)], share=_CELLS)
    return _CellCounts(cell, chosen, answer.values[0], answer.deviation)


def _measure_cells(oracle: Oracle, known: FeatureSpread, cells: _CellCounts) -> _Summary:
    """Measure the mean and the deviation of the rows in each heavy cell, around the mean of all rows.

    The place of a cell gives a prior for both, which counts as far as the noise reaches.
    """
    declared, heavy = oracle.declared, cells.heavy
    places = np.full(len(cells.counts), -1)
    # Rows of all other cells go to the place −1, which is no cell and is not summed.
    places[heavy] = np.arange(len(heavy))
    key = CellKey(Lookup(cells.value, tuple(places.tolist())), len(heavy))
    reaches = _clip_steps(declared, 3 * known.deviation)
    values = [
        clip_deviation(each, Constant(0), [float(mean)], reach)
        for each, mean, reach in zip(declared.features, known.mean, reaches, strict=True)
    ]
    squares = [
        Add(Multiply(value, value), Constant(-(reach**2 // 2)))
        for value, reach in zip(values, reaches, strict=True)
    ]
    sums, second = oracle.sums(
        [_clipped_block(values, reaches, _HALF), _centred_block(squares, reaches)], [key], share=_MOMENTS
    )
    rows = np.maximum(cells.counts[heavy], 1.0)[:, None]
    bounds, smallest = declared.bounds, float(declared.bounds.min())
    prior, width = _cell_prior(known, cells)
    means = _posterior_mean(sums.values.T / bounds / rows, sums.deviation / smallest / rows, prior, width)
    half = np.array([float(reach**2 // 2) for reach in reaches]) / bounds**2
    found = second.values.T / bounds**2 / rows + half - means**2
    square = _posterior_mean(found, second.deviation / smallest**2 / rows, width**2, width**2)
    # A cell is no wider than all rows together, and never a point.
    limit = known.deviation**2
    return _Summary(
        rows[:, 0], np.clip(means + known.mean, -1, 1), np.sqrt(np.clip(square, 0.01 * limit, limit))
    )


def _cell_prior(known: FeatureSpread, cells: _CellCounts) -> tuple[Floats, Floats]:
    """Return mean and deviation of the rows in each heavy cell if features are normal, around the mean."""
    # Half of a normal distribution has its mean at 0.8 deviations and a deviation of 0.6.
    sides = np.zeros((len(cells.heavy), len(known.mean)))
    sides[:, cells.chosen] = 2.0 * ((cells.heavy[:, None] >> np.arange(len(cells.chosen))) & 1) - 1
    return 0.8 * sides * known.deviation, np.where(sides == 0, 1.0, 0.6) * known.deviation


def _posterior_mean(found: Floats, noise: Floats, prior: Floats, width: Floats) -> Floats:
    """Weigh a measured number and a prior mean by the inverses of their variances."""
    return prior + width**2 / (width**2 + noise**2) * (found - prior)


def _clip_steps(declared: Declared, widths: Floats) -> list[int]:
    """Return how many steps from a centroid each feature is clipped to."""
    return [
        max(1, round(min(1.0, width) * each.bound))
        for each, width in zip(declared.features, widths.tolist(), strict=True)
    ]


def _clipped_block(values: Sequence[Value], reaches: list[int], share: Fraction) -> SumBlock:
    """Return the sums of values that are clipped to these reaches, which bound what a row adds."""
    squares = sum(reach**2 for reach in reaches)
    return SumBlock(tuple(values), sum(reaches), squares, share, moves=list_moves(reaches))


def _centred_block(squares: Sequence[Value], reaches: list[int]) -> SumBlock:
    """Return the sums of squares less half their largest value, which halves what a row adds."""
    halves = [(reach**2 + 1) // 2 for reach in reaches]
    norm_squared = sum(half**2 for half in halves)
    return SumBlock(tuple(squares), sum(halves), norm_squared, _HALF, moves=list_moves(halves))


# ---- centroids ---------------------------------------------------------------------------------------------


def _cluster_summary(summary: _Summary, clusters: int, rng: Any) -> tuple[Floats, Floats]:
    """Run plain k-means on points drawn from the summary; return centroids, and the deviation around them.

    The points are made of noisy sums and public coins: no row is among them.
    """
    cells, features = summary.means.shape
    each = max(_POINTS, -(-4 * clusters // cells))
    # Points come in pairs around the mean of a cell, so that their own mean is exact.
    noise = rng.normal(size=(cells, each // 2 + 1, features)) * summary.deviations[:, None, :]
    points = np.concatenate([summary.means[:, None] + noise, summary.means[:, None] - noise], axis=1)
    weights = np.repeat(summary.counts / points.shape[1], points.shape[1])
    flat = np.clip(points.reshape(-1, features), -1, 1)
    with use_one_thread():
        found = PlainKMeans(clusters, n_init=3, random_state=rng).fit(flat, sample_weight=weights)
    away = flat - found.cluster_centers_[found.labels_]
    return found.cluster_centers_, np.sqrt(np.average(away**2, axis=0, weights=weights)) + 1e-3


def _lloyd_round(
    oracle: Oracle, centroids: Floats, deviations: Floats, share: Fraction
) -> tuple[Floats, Floats]:
    """Move each centroid by the noisy mean deviation of its rows; return centroids and counts of rows.

    Deviations are clipped where few rows are, so that the noise is for the bulk and not for the bounds.
    """
    declared = oracle.declared
    cell, reaches = locate_nearest(declared.features, centroids), _clip_steps(declared, 2.5 * deviations)
    values = [
        clip_deviation(each, cell, centroids[:, at].tolist(), reaches[at])
        for at, each in enumerate(declared.features)
    ]
    blocks = [SumBlock((COUNT,), 1, 1, Fraction(1, 5)), _clipped_block(values, reaches, Fraction(4, 5))]
    counts, sums = oracle.sums(blocks, [CellKey(cell, len(centroids))], share=share)
    rows = np.maximum(counts.values[0], 1.0)[:, None]
    moves = sums.values.T / declared.bounds / rows
    noise = sums.deviation / float(declared.bounds.min()) / rows
    steps = np.array(reaches) / declared.bounds
    moves = np.clip(_posterior_mean(moves, noise, np.zeros(1), deviations), -steps, steps)
    return np.clip(centroids + moves, -1, 1), rows[:, 0]
