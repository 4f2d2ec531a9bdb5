"""k-means from noisy counts and sums: a private summary first, k-means on that, then noisy rounds of Lloyd.

Because : docs/proofs/learners.md#k-means
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClusterMixin, TransformerMixin
from sklearn.cluster import KMeans as PlainKMeans
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state

from sfumato.learn.base.estimator import Private
from sfumato.learn.trees.cells import corner, deviation, nearest
from sfumato.oracle.blocks import COUNT, Add, Block, Constant, Key, Lookup, Multiply, share_of
from sfumato.oracle.spread import Spread, spread
from sfumato.oracle.threads import use_one_thread
from sfumato.privacy.exact import whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.oracle.blocks import Value
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

_START, _CELLS, _INSIDE, _LLOYD = Fraction(15, 100), Fraction(25, 100), Fraction(25, 100), Fraction(35, 100)
_HALF = Fraction(1, 2)
_MOST_BITS = 10
_POINTS = 6
"""By so many points each cell of the summary is drawn."""


class KMeans(ClusterMixin, TransformerMixin, Private):
    """Centres that rows are near to. Which row belongs to which is not released: `predict` says it.

    Rows are counted by which side of a private mean they lie on, feature by feature; cells that noise cannot
    have made are summed up; k-means++ and Lloyd run on points drawn from those sums; then the centres are
    measured again, around themselves.

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
        self.budget = budget

    def _learn(self, oracle: Oracle) -> None:
        clusters, rounds = whole(self.n_clusters, "n_clusters"), whole(self.rounds, "rounds")
        rng = check_random_state(self.random_state)
        summary = _summary(oracle, spread(oracle, _START))
        centres, deviations = _clustered(summary, clusters, rng)
        for _ in range(rounds):
            centres, counts = _lloyd(oracle, centres, deviations, _LLOYD / rounds)
        self.cluster_centers_ = centres * oracle.declared.halves + oracle.declared.middles
        self.counts_ = counts
        self._n_features_out = clusters

    def predict(self, X: Any) -> NDArray[np.int64]:  # noqa: N803
        found: NDArray[np.int64] = pairwise_distances_argmin_min(
            _total(self._rows(X)), self.cluster_centers_
        )[0]
        return found

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int64]:  # noqa: N803
        """Fit, then say of each row where it belongs: what is said of rows is for their owner alone."""
        return self.fit(X).predict(X)

    def transform(self, X: Any) -> Floats:  # noqa: N803
        found: Floats = euclidean_distances(_total(self._rows(X)), self.cluster_centers_)
        return found

    def score(self, X: Any, y: Any = None) -> float:  # noqa: N803
        """Less the inertia of these rows; of protected rows it is not private."""
        return -float((self.transform(X).min(axis=1) ** 2).sum())


def _total(rows: Floats) -> Floats:
    return np.nan_to_num(rows, nan=0.0)


# ---- a summary ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Summary:
    """Cells that hold rows: how many, their mean and deviation, in bounds."""

    counts: Floats
    means: Floats
    deviations: Floats


@dataclass(frozen=True, slots=True)
class _Cells:
    """Rows by their side of the mean in some features, the first of which is worth 1."""

    value: Value
    chosen: NDArray[np.int64]
    counts: Floats
    noise: float

    @property
    def heavy(self) -> NDArray[np.int64]:
        """Cells that noise alone would hardly have made."""
        return np.flatnonzero(self.counts > self.noise * math.sqrt(2 * math.log(2 * len(self.counts) + 1)))


def _summary(oracle: Oracle, found: Spread) -> _Summary:
    cells = _counted(oracle, found)
    if not len(cells.heavy):
        return _Summary(np.ones(1), found.mean[None, :], found.deviation[None, :] / 2)
    return _inside(oracle, found, cells)


def _counted(oracle: Oracle, known: Spread) -> _Cells:
    """In the features that vary most, as many as the noise leaves room for."""
    features = oracle.declared.features
    (noise,) = oracle.noise([Block((COUNT,), 1, 1)], share_of(oracle.budget.main, _CELLS))
    room = int(math.log2(max(2.0, known.rows / (8 * noise.deviation))))
    bits = max(1, min(len(features), _MOST_BITS, room))
    chosen = np.argsort(-known.deviation, kind="stable")[:bits]
    cell = corner([features[at] for at in chosen], known.mean[chosen].tolist())
    (answer,) = oracle.sums([Block((COUNT,), 1, 1)], [Key(cell, 2**bits)], share=_CELLS)
    return _Cells(cell, chosen, answer.values[0], answer.deviation)


def _inside(oracle: Oracle, known: Spread, cells: _Cells) -> _Summary:
    """The mean and the deviation of the rows in each heavy cell, measured from the mean of all.

    What a cell's place says of them is known already, and is kept as far as the noise reaches.
    """
    declared, heavy = oracle.declared, cells.heavy
    places = np.full(len(cells.counts), -1)
    places[heavy] = np.arange(len(heavy))
    key = Key(Lookup(cells.value, tuple(places.tolist())), len(heavy))
    reaches = _reaches(declared, 3 * known.deviation)
    values = [
        deviation(each, Constant(0), [float(mean)], reach)
        for each, mean, reach in zip(declared.features, known.mean, reaches, strict=True)
    ]
    squares = [
        Add(Multiply(value, value), Constant(-(reach**2 // 2)))
        for value, reach in zip(values, reaches, strict=True)
    ]
    sums, second = oracle.sums(
        [_bounded(values, reaches, _HALF), _halved(squares, reaches)], [key], share=_INSIDE
    )
    kept = np.maximum(cells.counts[heavy], 1.0)[:, None]
    bounds, smallest = declared.bounds, float(declared.bounds.min())
    guess, width = _guess(known, cells)
    means = _blend(sums.values.T / bounds / kept, sums.deviation / smallest / kept, guess, width)
    half = np.array([float(reach**2 // 2) for reach in reaches]) / bounds**2
    found = second.values.T / bounds**2 / kept + half - means**2
    square = _blend(found, second.deviation / smallest**2 / kept, width**2, width**2)
    limit = known.deviation**2
    return _Summary(
        kept[:, 0], np.clip(means + known.mean, -1, 1), np.sqrt(np.clip(square, 0.01 * limit, limit))
    )


def _guess(known: Spread, cells: _Cells) -> tuple[Floats, Floats]:
    """Where the rows of each heavy cell lie if features are normal: off the mean, and how widely."""
    sides = np.zeros((len(cells.heavy), len(known.mean)))
    sides[:, cells.chosen] = 2.0 * ((cells.heavy[:, None] >> np.arange(len(cells.chosen))) & 1) - 1
    return 0.8 * sides * known.deviation, np.where(sides == 0, 1.0, 0.6) * known.deviation


def _blend(found: Floats, noise: Floats, guess: Floats, width: Floats) -> Floats:
    """A measured number and a guess, each by how sure it is."""
    return guess + width**2 / (width**2 + noise**2) * (found - guess)


def _reaches(declared: Declared, widths: Floats) -> list[int]:
    """So many steps off a centre, and no more, are counted."""
    return [
        max(1, round(min(1.0, width) * each.bound))
        for each, width in zip(declared.features, widths.tolist(), strict=True)
    ]


def _bounded(values: Sequence[Value], reaches: list[int], share: Fraction) -> Block:
    return Block(tuple(values), sum(reaches), sum(reach**2 for reach in reaches), share)


def _halved(squares: Sequence[Value], reaches: list[int]) -> Block:
    """Squares measured from half their largest value."""
    halves = [(reach**2 + 1) // 2 for reach in reaches]
    return Block(tuple(squares), sum(halves), sum(half**2 for half in halves), _HALF)


# ---- centres -----------------------------------------------------------------------------------------------


def _clustered(summary: _Summary, clusters: int, rng: Any) -> tuple[Floats, Floats]:
    """k-means on points drawn from the summary: no row is in them. Centres, and how far points lie around."""
    cells, features = summary.means.shape
    each = max(_POINTS, -(-4 * clusters // cells))
    noise = rng.normal(size=(cells, each // 2 + 1, features)) * summary.deviations[:, None, :]
    points = np.concatenate([summary.means[:, None] + noise, summary.means[:, None] - noise], axis=1)
    weights = np.repeat(summary.counts / points.shape[1], points.shape[1])
    flat = np.clip(points.reshape(-1, features), -1, 1)
    with use_one_thread():
        found = PlainKMeans(clusters, n_init=3, random_state=rng).fit(flat, sample_weight=weights)
    away = flat - found.cluster_centers_[found.labels_]
    return found.cluster_centers_, np.sqrt(np.average(away**2, axis=0, weights=weights)) + 1e-3


def _lloyd(oracle: Oracle, centres: Floats, deviations: Floats, share: Fraction) -> tuple[Floats, Floats]:
    """Each centre moves by the mean of what its rows lie off it, cut off where few rows are."""
    declared = oracle.declared
    cell, reaches = nearest(declared.features, centres), _reaches(declared, 2.5 * deviations)
    values = [
        deviation(each, cell, centres[:, at].tolist(), reaches[at])
        for at, each in enumerate(declared.features)
    ]
    blocks = [Block((COUNT,), 1, 1, Fraction(1, 5)), _bounded(values, reaches, Fraction(4, 5))]
    counts, sums = oracle.sums(blocks, [Key(cell, len(centres))], share=share)
    rows = np.maximum(counts.values[0], 1.0)[:, None]
    moves = sums.values.T / declared.bounds / rows
    noise = sums.deviation / float(declared.bounds.min()) / rows
    steps = np.array(reaches) / declared.bounds
    moves = np.clip(_blend(moves, noise, np.zeros(1), deviations), -steps, steps)
    return np.clip(centres + moves, -1, 1), rows[:, 0]
