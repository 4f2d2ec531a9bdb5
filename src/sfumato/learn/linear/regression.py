"""Linear regression from noisy sums of products (Wang's AdaSSP, with rows of one norm and a ridge floor).

Because : docs/proofs/learners.md#linear-regression
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.plan.spend import PureSpend
from sfumato.learn.base.supervised import PrivateRegressor
from sfumato.learn.cells import clip_value
from sfumato.learn.first_look import wants_look
from sfumato.learn.linear.normal_equations import NormalEquations
from sfumato.learn.linear.one_direction import regress_along, rows_for_line
from sfumato.learn.target_range import (
    build_mean_block,
    locate_target,
    read_mean,
    share_for_look,
    tighten_bounds,
)
from sfumato.oracle.arrays.integer_rows import ONE, RowTransform
from sfumato.oracle.blocks import Add, Constant, Multiply, SumBlock, share_of
from sfumato.oracle.declared import Feature
from sfumato.oracle.moments import (
    MomentMatrix,
    build_cross_block,
    build_gram_block,
    read_gram_matrix,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.curator.plan.noisy_sum import NoisyBlock
    from sfumato.learn.target_range import TargetRange
    from sfumato.oracle.protocol import Oracle, SumAnswer

    Floats = NDArray[np.float64]

# Chosen with benchmarks/learners.py. Privacy needs the shares of products and of cross products to add up to
# at most 1, and nothing else of the numbers here.
_ASIDE = Fraction(6, 100)
"""Share of the spend for the first mean of the target, as pure ε."""
_FIRST = Fraction(1, 1000)
"""Share of the rest for a first look at all products. Where rows are many, no second is needed."""
_PRODUCTS, _CROSS = Fraction(1, 2), Fraction(1, 2)
_CONSTANT = 0.2
"""The constant beside features from −1 to 1, in √d."""
_TARGET_CLIP = 0.5
"""Targets are clipped to this share of their bounds, around their mean, before they are multiplied."""
_MEAN_CLIP, _SKEW = 0.6, 0.2
"""Targets are clipped to at least this share of their bounds when their mean is taken. Clipping to c moves
the mean of targets that fill their bounds by about _SKEW·(1 − c)²."""
_MIN_SIGNAL = 7.0
"""Signal-to-noise ratio of the matrix of products from which on it is asked for."""
_PRIOR = 0.25
"""Prior deviation of the mean of the target, in bounds."""
_LOOK_SHARE = Fraction(3, 100)
"""Least share of the spend for each look at where targets lie; and the share for each look at features."""
_MOST_LOOK = Fraction(1, 4)
"""Largest share for a look at targets. Where rows are so few that one needs more, the mean alone is asked."""
_MANY_ROWS = 2.0
"""Rows, in those that the products need, from which on all of them are asked for."""


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
        scaling: Any = "auto",
        missing: Any = None,
        verbose: Any = False,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.bounds = bounds
        self.row_norm = row_norm
        self.target_bounds = target_bounds
        self.scaling = scaling
        self.missing = missing
        self.verbose = verbose
        self.budget = budget

    first = _FIRST

    def _learn(self, oracle: Oracle) -> None:
        target = oracle.declared.target
        if not isinstance(target, Feature):
            raise AssertionError(target)
        mean, found = _look_first(oracle, target)
        if found is None and wants_look(oracle, self.scaling):
            found = _look_closer(oracle, mean, target)
        elif found is None:
            found = _look_again(oracle, mean)
        if found is None:
            again = _ask_mean(oracle, mean)
            self.coef_ = np.zeros(len(oracle.declared.features))
            self.intercept_ = target.middle + target.half * again.shrunk
        else:
            self.coef_ = found.weights
            self.intercept_ = found.intercept
        # Whether bounds were tightened depends on noise; that there are such attributes does not.
        no_bounds = np.full(len(self.coef_), np.inf)
        tight = None if found is None else found.within
        low, high = (-no_bounds, no_bounds) if tight is None else tight
        self.low_: Floats = low
        self.high_: Floats = high
        self.middles_ = oracle.declared.middles
        self.target_bounds_ = np.array([target.middle - target.half, target.middle + target.half])

    def predict(self, X: Any) -> Floats:  # noqa: N803
        """Return predictions within the bounds of the target; a missing number counts as in the fit."""
        rows = self._rows(X)
        with np.errstate(invalid="ignore"):
            # Models of earlier versions do not know the middles of their features.
            middles = getattr(self, "middles_", np.nan)
            known = np.where(np.isnan(rows), middles, rows)
            if hasattr(self, "low_"):
                # What lies outside of the bounds that were learnt within was clipped there, too.
                known = np.clip(known, self.low_, self.high_)
            scores = known @ self.coef_ + self.intercept_
        # An infinite number times a weight of 0 is none.
        guessed = np.nan_to_num(scores, nan=float(self.target_bounds_.mean()))
        found: Floats = np.clip(guessed, *self.target_bounds_)
        return found


# ---- the mean ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _TargetMean:
    """A noisy number of rows and mean of their targets, in bounds, from Σ (1 + y)/2 and Σ (1 − y)/2."""

    upper: float
    lower: float
    variance: float
    """Variance of the noise of either sum."""
    clip: float
    """Targets were clipped to this share of their bounds."""

    @property
    def rows(self) -> float:
        return max(1.0, self.upper + self.lower)

    @property
    def fewest(self) -> float:
        """The number of rows less one deviation of its noise."""
        return self.rows - math.sqrt(2 * self.variance)

    @property
    def mean(self) -> float:
        return min(self.clip, max(-self.clip, self.clip * (self.upper - self.lower) / self.rows))

    @property
    def noise(self) -> float:
        """Deviation of the noise of the mean."""
        return math.sqrt(2 * self.variance) * self.clip / self.rows

    @property
    def shrunk(self) -> float:
        """The mean, shrunk towards the middle of the bounds as far as the noise reaches."""
        return self.mean * _PRIOR**2 / (_PRIOR**2 + self.noise**2)


def _choose_clip(variance: float, rows: float) -> float:
    """Return the clipping bound with the least squared error: noise grows with it, and bias falls."""
    clips = np.linspace(_MEAN_CLIP, 1.0, 41)
    error = clips**2 * 2 * variance / rows**2 + (_SKEW * (1 - clips) ** 2) ** 2
    return float(clips[error.argmin()])


def _clip_steps(target: Feature, clip: float) -> int:
    return max(1, math.floor(clip * target.bound))


def _mean_block(target: Feature, amount: PureSpend, clip: float) -> SumBlock:
    """Return Σ (1 + y)/2 and Σ (1 − y)/2, y in its bounds: a row adds 1 to both together.

    Their sum is the number of rows, so count and mean come from one noise for a contribution of 1.
    """
    reach = _clip_steps(target, clip)
    clipped = clip_value(target.value, reach)
    # Neither term is ever negative, so the ℓ1 norm of both is their sum, 2·reach, whatever the row.
    terms = (Add(clipped, Constant(reach)), Add(Multiply(clipped, Constant(-1)), Constant(reach)))
    return SumBlock(terms, 2 * reach, (2 * reach) ** 2, out_of=amount)


def _read_mean(answer: SumAnswer, target: Feature, clip: float) -> _TargetMean:
    whole = 2 * _clip_steps(target, clip)
    upper, lower = (answer.values[:, 0] / whole).tolist()
    return _TargetMean(upper, lower, (answer.deviation / whole) ** 2, clip)


def _ask_mean(oracle: Oracle, first: _TargetMean) -> _TargetMean:
    """Ask for the mean once more with all that is left, so much more that the first adds nothing to it."""
    target: Any = oracle.declared.target
    amount = oracle.budget.alone
    (noise,) = oracle.noise([_mean_block(target, amount, 1.0)], amount)
    clip = _choose_clip((noise.deviation / (2 * _clip_steps(target, 1.0))) ** 2, first.rows)
    (answer,) = oracle.sums([_mean_block(target, amount, clip)])
    return _read_mean(answer, target, clip)


# ---- the regression ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Coefficients:
    weights: Floats
    intercept: float
    within: tuple[Floats, Floats] | None = None
    """Lows and highs that features were clipped to, where those are not the declared ones."""


def _look_first(oracle: Oracle, target: Feature) -> tuple[_TargetMean, _Coefficients | None]:
    """Ask for the mean of the target and products in one scan; solve them where their noise is small."""
    view = _RegressionView.of(oracle, 0.0, 1.0)
    block = _mean_block(target, oracle.budget.aside or oracle.budget.alone, _MEAN_CLIP)
    if not view.drawable(_FIRST):
        return _read_mean(view.rows.sums([block])[0], target, _MEAN_CLIP), None
    system, (answer,) = view.ask(_FIRST, block)
    mean = _read_mean(answer, target, _MEAN_CLIP)
    weights = system.solve()
    return mean, view.rescale(weights) if system.is_clear(weights, mean.rows) else None


def _look_again(oracle: Oracle, mean: _TargetMean) -> _Coefficients | None:
    """Ask for products around the mean with the rest; None where rows are known to drown in the noise."""
    view = _RegressionView.of(oracle, mean.mean, _TARGET_CLIP)
    # By released numbers alone: too few rows would drown in the noise of the matrix.
    if not view.drawable(1 - _FIRST) or mean.fewest < view.rows_needed(1 - _FIRST):
        return None
    return view.rescale(view.ask(1 - _FIRST)[0].solve())


def _look_closer(oracle: Oracle, mean: _TargetMean, target: Feature) -> _Coefficients | None:
    """Find where targets and features lie, then ask for all products, along one direction, or for the mean.

    None where rows are too few to find targets, by what was released: nothing more was asked then.
    """
    share = share_for_look(oracle, mean.fewest, _LOOK_SHARE)
    if share > _MOST_LOOK:
        return None
    # From here on pure ε can no longer take the place of the rest.
    found, spent = locate_target(oracle, target, mean.rows, share)
    tight, more = tighten_bounds(oracle, mean.rows, _LOOK_SHARE)
    left = 1 - _FIRST - spent - more
    centre, reach = found.centre / target.bound, found.reach / target.bound
    # Targets that fill their bounds are clipped as if nothing were known of them.
    if reach > _TARGET_CLIP:
        centre, reach = mean.mean, _TARGET_CLIP
    view = _RegressionView.of(tight, centre, reach)
    if view.drawable(left) and mean.fewest > view.rows_for_all(left):
        # The first mean may be off by what was clipped for it, too.
        doubt = math.hypot(mean.noise, 1 - mean.clip) / reach
        weights = view.ask(left)[0].solve_or_average((mean.mean - centre) / reach, doubt)
    elif mean.fewest > rows_for_line(oracle, left):
        weights = regress_along(view.rows, view.vector, view.target, left)
    else:
        return _ask_mean_within(oracle, target, found, left)
    middles, halves = tight.declared.middles, tight.declared.halves
    return replace(view.rescale(weights), within=(middles - halves, middles + halves))


def _ask_mean_within(oracle: Oracle, target: Feature, found: TargetRange, share: Fraction) -> _Coefficients:
    """Ask for the mean of targets within their range alone, where rows are too few for anything else."""
    (answer,) = oracle.sums([build_mean_block(target, found)], share=share)
    mean = found.centre + found.reach * read_mean(answer, found).shrunk
    none = np.zeros(len(oracle.declared.features))
    return _Coefficients(none, target.middle + target.half * mean / target.bound)


@dataclass(frozen=True, slots=True)
class _RegressionView:
    """Rows (one, features) scaled to the norm `one`, the least they can have: no row needs more noise."""

    rows: Oracle
    one: float
    vector: list[Feature]
    target: Feature

    @classmethod
    def of(cls, oracle: Oracle, centre: float, reach: float) -> _RegressionView:
        """Return the view with targets clipped to `reach` around `centre`, in bounds."""
        one = _CONSTANT * oracle.declared.diagonal
        rows = oracle.transform_rows(RowTransform(one, one=one, target_centre=centre, target_reach=reach))
        declared, target = rows.declared, rows.declared.target
        if declared.one is None or not isinstance(target, Feature):
            raise AssertionError(declared)
        return cls(rows, one, [declared.one, *declared.features], target)

    @property
    def _matrix(self) -> MomentMatrix | None:
        """What is asked for by pure ε: all products with one noise; None where there are two."""
        if not isinstance(self.rows.budget.main, PureSpend):
            return None
        return MomentMatrix(self.vector, self.target, self.rows.declared.norm)

    @property
    def blocks(self) -> list[SumBlock]:
        """What is asked for: products and cross products, in one block or in two."""
        if self._matrix is not None:
            return [self._matrix.build_block(_PRODUCTS + _CROSS)]
        norm = self.rows.declared.norm
        return [
            build_gram_block(self.vector, norm, _PRODUCTS),
            build_cross_block(self.vector, self.target, norm, _CROSS),
        ]

    def noise(self, share: Fraction) -> NoisyBlock:
        """Return the noise of the products for this share of the spend."""
        return self.rows.noise(self.blocks[:1], share_of(self.rows.budget.main, share))[0]

    def drawable(self, share: Fraction) -> bool:
        """Say whether noise for this share is narrow enough to be drawn exactly, which is public."""
        return self.rows.can_draw(self.blocks, share_of(self.rows.budget.main, share))

    def rows_needed(self, share: Fraction) -> float:
        """Return how many rows let an even direction of theirs stand out of the noise of the matrix."""
        weight = 7 if self._matrix is None else self._matrix.weights[0] ** 2
        deviation = self.noise(share).deviation / (weight * self.one**2 * ONE**2)
        return _MIN_SIGNAL * deviation * math.sqrt(len(self.vector))

    def rows_for_all(self, share: Fraction) -> float:
        """Return from how many rows on all products say more than those along one direction."""
        return _MANY_ROWS * self.rows_needed(share)

    def ask(self, share: Fraction, *more: SumBlock) -> tuple[NormalEquations, list[SumAnswer]]:
        """Ask for all products, and for more blocks; return the noisy normal equations and other answers."""
        found = self.rows.sums([*self.blocks, *more], share=share)
        own = len(found) - len(more)
        return self._read(*found[:own]), found[own:]

    def _read(self, products: SumAnswer, *more: SumAnswer) -> NormalEquations:
        """Return the noisy normal equations, in bounds."""
        if self._matrix is not None:
            return NormalEquations(*self._matrix.read(products), joint=True)
        (crossed,) = more
        squares, noise = read_gram_matrix(products, self.vector)
        unit = np.array([float(each.bound) for each in self.vector]) * self.target.bound
        return NormalEquations(
            squares, noise, crossed.values[:, 0] / unit, crossed.deviation / float(unit.min())
        )

    def rescale(self, found: Floats) -> _Coefficients:
        """Return coefficients in the features' own units."""
        weights = found * self.target.half / np.array([each.half for each in self.vector])
        middles = float(weights[1:] @ self.rows.declared.middles)
        return _Coefficients(weights[1:], self.target.middle + float(weights[0]) * self.one - middles)
