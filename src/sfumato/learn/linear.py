"""Linear regression from noisy sums of products (Wang's AdaSSP, with rows of one length and a ridge floor).

Because : docs/proofs/learners.md#linear-regression
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.statistics import Add, Block, Constant, Greatest, Least, Multiply
from sfumato.learn.declared import ONE, Feature, View
from sfumato.learn.moments import cross, gram, matrix
from sfumato.learn.supervised import PrivateRegressor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.curator.spend import Pure
    from sfumato.learn.oracle import Oracle

    Floats = NDArray[np.float64]

_ASIDE = Fraction(8, 100)
_PRODUCTS, _CROSS = Fraction(1, 2), Fraction(1, 2)
_ONE = 0.2
"""Of √d: what is the same in all rows, beside features from −1 to 1."""
_REACH = 0.5
_MIDDLE = 0.6
"""Targets beyond so much of their bounds are cut off when their mean is taken."""
_FEW = 7.0
_PRIOR = 0.25
_SURE = 2.0


class LinearRegression(PrivateRegressor):
    """Least squares with an intercept; where there are too few rows for the noise, the private mean.

    Privacy
    -------
    Protects : one row (own arrays) or one unit (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/learners.md#linear-regression
    Assumes  : the bounds of features and target are public.
    """

    aside = _ASIDE

    def __init__(
        self,
        *,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        bounds: Any = None,
        row_norm: Any = None,
        target_bounds: Any = None,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.bounds = bounds
        self.row_norm = row_norm
        self.target_bounds = target_bounds
        self.budget = budget

    def _learn(self, oracle: Oracle) -> None:
        target = oracle.declared.target
        if not isinstance(target, Feature):
            raise AssertionError(target)
        first = _middle(oracle, oracle.purse.aside or oracle.purse.alone)
        solved = _solved(oracle, first)
        if solved is None:
            again = first.and_another(_middle(oracle, oracle.purse.alone))
            self.coef_ = np.zeros(len(oracle.declared.features))
            self.intercept_ = target.middle + target.half * again.shrunk
        else:
            self.coef_ = solved.weights
            self.intercept_ = solved.offset
        self.target_bounds_ = np.array([target.middle - target.half, target.middle + target.half])

    def predict(self, X: Any) -> Floats:  # noqa: N803
        """A row with something missing is met by the middle of the bounds."""
        with np.errstate(invalid="ignore"):
            rows = self._rows(X) @ self.coef_ + self.intercept_
        known = np.nan_to_num(rows, nan=float(self.target_bounds_.mean()))
        found: Floats = np.clip(known, *self.target_bounds_)
        return found


# ---- the mean ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Middle:
    """How many rows there are and what their target is on average, in bounds, from noisy numbers."""

    upper: float
    lower: float
    variance: float
    """Of either."""

    @property
    def rows(self) -> float:
        return max(1.0, self.upper + self.lower)

    @property
    def mean(self) -> float:
        return min(_MIDDLE, max(-_MIDDLE, _MIDDLE * (self.upper - self.lower) / self.rows))

    @property
    def shrunk(self) -> float:
        """Drawn to the middle of the bounds as far as the noise reaches."""
        noise = 2 * self.variance * _MIDDLE**2 / self.rows**2
        return self.mean * _PRIOR**2 / (_PRIOR**2 + noise)

    def and_another(self, other: _Middle) -> _Middle:
        """Both together, each by how sure it is."""
        weight = other.variance / (self.variance + other.variance)
        upper = weight * self.upper + (1 - weight) * other.upper
        lower = weight * self.lower + (1 - weight) * other.lower
        return _Middle(upper, lower, weight * self.variance)


def _middle(oracle: Oracle, amount: Pure) -> _Middle:
    """Σ (1 + y)/2 and Σ (1 − y)/2, y in its bounds: a row adds 1 to both together."""
    target: Any = oracle.declared.target
    reach = max(1, math.floor(_MIDDLE * target.bound))
    cut = Greatest(Least(target.value, Constant(reach)), Constant(-reach))
    terms = (Add(cut, Constant(reach)), Add(Multiply(cut, Constant(-1)), Constant(reach)))
    block = Block(terms, 2 * reach, (2 * reach) ** 2)
    (answer,) = oracle.sums([block], out_of=amount)
    upper, lower = (answer.values[:, 0] / (2 * reach)).tolist()
    return _Middle(upper, lower, (answer.deviation / (2 * reach)) ** 2)


# ---- the regression ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Solved:
    weights: Floats
    offset: float


def _solved(oracle: Oracle, middle: _Middle) -> _Solved | None:
    """Rows (one, features) are made as long as `one`, the shortest they can be: then none has more noise.

    None where rows drown in it, which is decided by what is released already.
    """
    one = _ONE * math.sqrt(len(oracle.declared.features))
    rows = oracle.around(View(one, one=one, target_centre=middle.mean, target_reach=_REACH))
    declared, target = rows.declared, rows.declared.target
    if declared.one is None or not isinstance(target, Feature):
        raise AssertionError(declared)
    vector = [declared.one, *declared.features]
    blocks = [gram(vector, declared.norm, _PRODUCTS), cross(vector, target, declared.norm, _CROSS)]
    if middle.rows < _needed(rows, blocks[0], one):
        return None
    products, crossed = rows.sums(blocks)
    squares, noise = matrix(products, vector)
    bounds = np.array([float(each.bound) for each in vector]) * target.bound
    found = _ridge(squares, crossed.values[:, 0] / bounds, noise, crossed.deviation / float(bounds.min()))
    weights = found * target.half / np.array([each.half for each in vector])
    return _Solved(
        weights[1:], target.middle + float(weights[0]) * one - float(weights[1:] @ declared.middles)
    )


def _needed(rows: Oracle, products: Block, one: float) -> float:
    """So many rows that a direction they lie in evenly stands out of the noise of the matrix."""
    (noise,) = rows.noise([products], rows.purse.main)
    size = len(rows.declared.features) + 1
    return _FEW * noise.deviation / (7 * one**2 * ONE**2) * math.sqrt(size)


def _ridge(squares: Floats, right: Floats, noise: float, sure: float) -> Floats:
    """With a ridge as high as the noise of the matrix, and less of directions that are mostly noise."""
    values, vectors = np.linalg.eigh(squares)
    along = vectors.T @ right
    kept = np.maximum(0.0, 1 - _SURE * sure**2 / np.maximum(along**2, 1e-300))
    floor = noise * math.sqrt(len(right))
    found: Floats = vectors @ (along * kept / (np.maximum(values, 0.0) + floor))
    return found
