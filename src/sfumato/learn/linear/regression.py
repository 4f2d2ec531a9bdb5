"""Linear regression from noisy sums of products (Wang's AdaSSP, with rows of one length and a ridge floor).

Because : docs/proofs/learners.md#linear-regression
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.learn.base.supervised import PrivateRegressor
from sfumato.oracle.blocks import Add, Constant, Greatest, Least, Multiply, SumBlock, share_of
from sfumato.oracle.declared import Feature
from sfumato.oracle.integer_rows import ONE, RowTransform
from sfumato.oracle.moments import build_cross_block, build_gram_block, read_gram_matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.curator.plan.noisy_sum import NoisySum
    from sfumato.curator.plan.spend import PureSpend
    from sfumato.oracle.protocol import Oracle, SumAnswer

    Floats = NDArray[np.float64]

_ASIDE = Fraction(6, 100)
_FIRST = Fraction(1, 1000)
"""Of the rest: what a first look at all products has. Where rows are many, no second is needed."""
_CLEAR, _CLOSE = 0.002, 1e-5
"""A first look is enough where its noise costs so much of what is explained, or of the bounds squared."""
_PRODUCTS, _CROSS = Fraction(1, 2), Fraction(1, 2)
_ONE = 0.2
"""Of √d: what is the same in all rows, beside features from −1 to 1."""
_REACH = 0.5
_MIDDLE, _SKEW = 0.6, 0.2
"""Targets beyond so much of their bounds, or more, are cut off when their mean is taken. Cutting at c moves
the mean of targets that fill their bounds by about _SKEW·(1 − c)²."""
_FEW = 7.0
_PRIOR = 0.25
_SURE = 2.0


class LinearRegression(PrivateRegressor):
    """Least squares with an intercept; where there are too few rows for the noise, the private mean.

    Where rows are many, a thousandth of the spend says all in one scan, and the rest is not spent.

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

    first = _FIRST

    def _learn(self, oracle: Oracle) -> None:
        target = oracle.declared.target
        if not isinstance(target, Feature):
            raise AssertionError(target)
        middle, solved = _looked(oracle, target)
        if solved is None:
            solved = _solved(oracle, middle)
        if solved is None:
            again = _middle(oracle, middle)
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
    cut: float
    """Targets beyond so much of their bounds were cut off."""

    @property
    def rows(self) -> float:
        return max(1.0, self.upper + self.lower)

    @property
    def fewest(self) -> float:
        """A deviation of the noise less than there seem to be."""
        return self.rows - math.sqrt(2 * self.variance)

    @property
    def mean(self) -> float:
        return min(self.cut, max(-self.cut, self.cut * (self.upper - self.lower) / self.rows))

    @property
    def shrunk(self) -> float:
        """Drawn to the middle of the bounds as far as the noise reaches."""
        noise = 2 * self.variance * self.cut**2 / self.rows**2
        return self.mean * _PRIOR**2 / (_PRIOR**2 + noise)


def _cut_for(variance: float, rows: float) -> float:
    """Where to cut targets off: noise grows with it, and what cutting does falls; so that both are small."""
    cuts = np.linspace(_MIDDLE, 1.0, 41)
    lost = cuts**2 * 2 * variance / rows**2 + (_SKEW * (1 - cuts) ** 2) ** 2
    return float(cuts[lost.argmin()])


def _steps(target: Feature, cut: float) -> int:
    return max(1, math.floor(cut * target.bound))


def _sides(target: Feature, amount: PureSpend, cut: float) -> SumBlock:
    """Σ (1 + y)/2 and Σ (1 − y)/2, y in its bounds: a row adds 1 to both together."""
    reach = _steps(target, cut)
    kept = Greatest(Least(target.value, Constant(reach)), Constant(-reach))
    terms = (Add(kept, Constant(reach)), Add(Multiply(kept, Constant(-1)), Constant(reach)))
    return SumBlock(terms, 2 * reach, (2 * reach) ** 2, out_of=amount)


def _middle_of(answer: SumAnswer, target: Feature, cut: float) -> _Middle:
    whole = 2 * _steps(target, cut)
    upper, lower = (answer.values[:, 0] / whole).tolist()
    return _Middle(upper, lower, (answer.deviation / whole) ** 2, cut)


def _middle(oracle: Oracle, first: _Middle) -> _Middle:
    """Once more, with all that is left, which is so much more that a first one says no more of the mean."""
    target: Any = oracle.declared.target
    amount = oracle.budget.alone
    (noise,) = oracle.noise([_sides(target, amount, 1.0)], amount)
    cut = _cut_for((noise.deviation / (2 * _steps(target, 1.0))) ** 2, first.rows)
    (answer,) = oracle.sums([_sides(target, amount, cut)])
    return _middle_of(answer, target, cut)


# ---- the regression ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Solved:
    weights: Floats
    offset: float


def _looked(oracle: Oracle, target: Feature) -> tuple[_Middle, _Solved | None]:
    """The mean of the target, and products, from one scan; solved where noise is small in them."""
    view = _View.of(oracle, 0.0, 1.0)
    sides, blocks = _sides(target, oracle.budget.aside or oracle.budget.alone, _MIDDLE), view.blocks
    if not view.drawable(_FIRST):
        return _middle_of(view.rows.sums([sides])[0], target, _MIDDLE), None
    *found, answer = view.rows.sums([*blocks, sides], share=_FIRST)
    middle, system = _middle_of(answer, target, _MIDDLE), view.system(*found)
    weights = system.solved()
    return middle, view.solved(weights) if system.clear(weights, middle.rows) else None


def _solved(oracle: Oracle, middle: _Middle) -> _Solved | None:
    """Around the mean of the target, by the rest; None where rows drown in noise, as is known already."""
    view = _View.of(oracle, middle.mean, _REACH)
    if middle.fewest < view.needed(1 - _FIRST):
        return None
    return view.solved(view.system(*view.rows.sums(view.blocks, share=1 - _FIRST)).solved())


@dataclass(frozen=True, slots=True)
class _View:
    """Rows (one, features) are made as long as `one`, the shortest they can be: then none has more noise."""

    rows: Oracle
    one: float
    vector: list[Feature]
    target: Feature

    @classmethod
    def of(cls, oracle: Oracle, centre: float, reach: float) -> _View:
        one = _ONE * math.sqrt(len(oracle.declared.features))
        rows = oracle.transform_rows(RowTransform(one, one=one, target_centre=centre, target_reach=reach))
        declared, target = rows.declared, rows.declared.target
        if declared.one is None or not isinstance(target, Feature):
            raise AssertionError(declared)
        return cls(rows, one, [declared.one, *declared.features], target)

    @property
    def blocks(self) -> list[SumBlock]:
        norm = self.rows.declared.norm
        return [
            build_gram_block(self.vector, norm, _PRODUCTS),
            build_cross_block(self.vector, self.target, norm, _CROSS),
        ]

    def noise(self, share: Fraction) -> NoisySum[int]:
        """Of the products."""
        return self.rows.noise(self.blocks[:1], share_of(self.rows.budget.main, share))[0]

    def drawable(self, share: Fraction) -> bool:
        """Whether noise for this share is not wider than what is drawn exactly; public."""
        try:
            return bool(self.rows.noise(self.blocks, share_of(self.rows.budget.main, share)))
        except UsageError:
            return False

    def needed(self, share: Fraction) -> float:
        """So many rows that a direction they lie in evenly stands out of the noise of the matrix."""
        deviation = self.noise(share).deviation / (7 * self.one**2 * ONE**2)
        return _FEW * deviation * math.sqrt(len(self.vector))

    def system(self, products: SumAnswer, crossed: SumAnswer) -> _System:
        squares, noise = read_gram_matrix(products, self.vector)
        unit = np.array([float(each.bound) for each in self.vector]) * self.target.bound
        return _System(squares, noise, crossed.values[:, 0] / unit, crossed.deviation / float(unit.min()))

    def solved(self, found: Floats) -> _Solved:
        """In the features' own measure."""
        weights = found * self.target.half / np.array([each.half for each in self.vector])
        middles = float(weights[1:] @ self.rows.declared.middles)
        return _Solved(weights[1:], self.target.middle + float(weights[0]) * self.one - middles)


@dataclass(frozen=True, slots=True)
class _System:
    """Noisy products, the noisy right side, and the deviations of their noise; in bounds."""

    squares: Floats
    noise: float
    right: Floats
    sure: float

    def solved(self) -> Floats:
        """With a ridge as high as the noise of the matrix, and less of directions that are mostly noise."""
        values, vectors = np.linalg.eigh(self.squares)
        along = vectors.T @ self.right
        kept = np.maximum(0.0, 1 - _SURE * self.sure**2 / np.maximum(along**2, 1e-300))
        found: Floats = vectors @ (along * kept / (np.maximum(values, 0.0) + self.floor))
        return found

    @property
    def floor(self) -> float:
        return self.noise * math.sqrt(len(self.right))

    def clear(self, weights: Floats, rows: float) -> bool:
        """Whether noise costs little of what is explained: Σ A⁻¹ (σ² of the right side and of A·w), a row."""
        values = np.maximum(np.linalg.eigvalsh(self.squares), 0.0) + self.floor
        lost = float((1 / values).sum()) * (self.sure**2 + self.noise**2 * float(weights @ weights)) / rows
        lost += self.floor**2 * float(weights[1:] @ weights[1:]) / float(values.min()) / rows
        mean = float(self.squares[0] @ weights) / rows
        explained = float(weights @ self.squares @ weights) / rows - mean**2
        return lost < max(_CLOSE, _CLEAR * explained)
