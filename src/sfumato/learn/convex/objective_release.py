"""Gaussian objective perturbation behind the curator: perturbation and output noise are drawn exactly.

An exact minimiser would give away a perturbation that lies on a grid, so the released weights have noise of
their own. It covers how far from the minimum they may lie, by a bound on the gradient or by the proof that a
descent converges, both of which include all that doubles may have done. Nothing is assumed of a solver.

Because : docs/proofs/convex.md#exact-release
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.learn.convex.convergence import (
    ROW_NORM,
    ConvergenceBound,
    bound_convergence,
    bound_gradient_norm,
    descend_to_bound,
)
from sfumato.learn.convex.descent import CONSTANT
from sfumato.learn.convex.losses import LOGISTIC, huber
from sfumato.learn.convex.perturbation import calibrate_gaussian_objective
from sfumato.learn.convex.problems import ConvexProblem, MarginLoss, SoftmaxLoss
from sfumato.learn.convex.solvers import minimize
from sfumato.noise import GaussianNoise, LaplaceNoise
from sfumato.noise.additive import LARGEST, SMALLEST
from sfumato.noise.audit_hook import observed
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events import ApproxDP
from sfumato.privacy.exact import round_up
from sfumato.privacy.gaussian import mu_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.learn.convex.perturbation import ObjectiveNoise
    from sfumato.learn.convex.problems import ScoreLoss

    Floats = NDArray[np.float64]

STEP = 2.0**-30
"""Grid of the released weights."""
_LARGEST_WEIGHT = 2.0**12
# Shares of ε and δ. Privacy holds for any that add up to at most 1; these leave the perturbation nearly all.
_TEST, _PERTURBATION_EPSILON, _OUTPUT_EPSILON = Fraction(1, 50), 0.93, 0.05
_PERTURBATION_DELTA, _OUTPUT_DELTA = 0.88, 0.1
"""The rest of δ is for more rows or a longer perturbation than is assumed, and for doubles."""
_BINARY_DIGITS = 38
"""Binary digits of the perturbation within one standard deviation, about."""


def bound_count_error(epsilon: Fraction, delta: Fraction) -> int:
    """Bound how many rows there are beyond a noisy count of them, for the test in `ObjectiveRelease`."""
    return math.ceil(_log_failure(epsilon, delta) * _test_noise(epsilon).scale)


def _log_failure(epsilon: Fraction, delta: Fraction) -> float:
    """Return −log of the chance allowed for more rows than assumed, and again for a longer perturbation."""
    return math.log(400 / delta) + float(epsilon)


def _test_noise(epsilon: Fraction) -> LaplaceNoise:
    return LaplaceNoise(max(SMALLEST, 1 / (epsilon * _TEST)))


@tagged("Minima", "loss", "width", "classes", "size", "norm", "penalty", "rows", "epsilon", "delta")
@dataclass(frozen=True, slots=True)
class ObjectiveRelease:
    """Weights of a linear classifier near the minimum of a perturbed objective, on a grid, with added noise.

    Privacy
    -------
    Protects : one row, add/remove.
    Costs    : ApproxDP(epsilon, delta).
    Because  : docs/proofs/convex.md#exact-release
    Assumes  : rows are integer vectors no longer than `norm`; basic operations of doubles are rounded as IEEE
               754 says and exp is within 8 units of its last place; how long a fit takes is not observed.
    """

    loss: str
    """logistic, huber, or chances for softmax. The name is part of what requests are hashed by: it stays."""
    width: Fraction
    """Width of the smoothed hinge."""
    classes: int
    size: int
    """Entries of a row, with its constant."""
    norm: int
    penalty: Fraction
    rows: int
    """Number of rows that convergence is proven for. Where there are more, or nearly, no row is used."""
    epsilon: Fraction
    delta: Fraction

    @property
    def passes(self) -> int:
        """About how often it goes over the rows."""
        return 200 * self.classes

    def event(self) -> ApproxDP:
        return ApproxDP(self.epsilon, self.delta)

    @property
    def score_loss(self) -> ScoreLoss:
        if self.loss == "chances":
            return SoftmaxLoss(self.classes)
        return MarginLoss(LOGISTIC if self.loss == "logistic" else huber(self.width), self.classes)

    @property
    def converges(self) -> bool:
        """Say whether convergence is proven for so many rows; else this is not to be released."""
        return _calibrate(self).convergence is not None

    def release(self, exact: NDArray[Any]) -> list[list[int]]:
        """Release weights for rows given as columns, the class last.

        There is one list a score, in steps of the grid, with the weight of the constant last.
        """
        found: list[list[int]] = observed(self, exact, None, lambda: self._draw(exact))
        return found

    def _draw(self, exact: NDArray[Any]) -> list[list[int]]:
        public = _calibrate(self)
        if public.convergence is None:
            raise AssertionError("convergence is asked for before")
        # The test comes first: everything after it may assume that there are at most `rows` rows.
        few = self._test_rows(exact.shape[1])
        rows = np.asarray(exact, dtype=np.float64).T if few else np.zeros((0, self.size))
        problem = replace(self._problem(rows), penalty=public.noise.penalty)
        with np.errstate(all="ignore"):  # a warning would depend on rows
            weights = _solve_within(problem, public.draw_perturbation(), public.convergence)
        # Clipping and rounding bring two neighbours no further apart than the noise below allows for.
        steps = np.rint(np.clip(weights, -_LARGEST_WEIGHT, _LARGEST_WEIGHT) / STEP).astype(np.int64)
        released: list[list[int]] = GaussianNoise(public.width).release(steps).tolist()
        return released

    def _test_rows(self, rows: int) -> bool:
        """Test with noise that there are at most as many rows as assumed; passed almost never if not."""
        (seen,) = _test_noise(self.epsilon).release(np.array([rows]), l1=1)
        return int(seen) + bound_count_error(self.epsilon, self.delta) <= self.rows

    def _problem(self, table: Floats) -> ConvexProblem:
        """Return the problem with rows scaled to norm 1; these doubles are the data from here on."""
        features, codes = table[:, :-1] / self.norm, table[:, -1].astype(np.int64)
        rows = np.hstack([features, np.full((len(features), 1), CONSTANT)])
        loss = self.score_loss
        return ConvexProblem(loss, rows, loss.encode_labels(codes), float(self.penalty), ROW_NORM)


def _solve_within(problem: ConvexProblem, perturbation: Floats, public: ConvergenceBound) -> Floats:
    """Return weights within the public distance of the minimum, by their gradient or else by the proof."""
    allowed = public.distance * problem.penalty
    with suppress(Exception):  # whatever a solver makes of rows
        found, _ = minimize(problem, perturbation, allowed / 10)
        if bound_gradient_norm(problem, found, perturbation) <= allowed:
            return found
    return descend_to_bound(problem, perturbation, public)


# ---- what is public ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Calibration:
    noise: ObjectiveNoise
    grid: float
    """Grid of the perturbation."""
    shape: tuple[int, int]
    convergence: ConvergenceBound | None
    width: Fraction
    """Deviation of the output's noise, in steps."""

    def draw_perturbation(self) -> Floats:
        """Draw normal numbers rounded to the grid, exactly."""
        deviation = round_up(self.noise.scale / self.grid)
        drawn = GaussianNoise(deviation).release(np.zeros(self.shape, dtype=np.int64))
        return drawn.astype(np.float64) * self.grid


@lru_cache(maxsize=16)
def _calibrate(asked: ObjectiveRelease) -> _Calibration:
    epsilon, delta = float(asked.epsilon), float(asked.delta)
    loss = asked.score_loss
    empty = ConvexProblem(loss, np.zeros((0, 1)), np.zeros((0, 1)), float(asked.penalty), ROW_NORM)
    noise = calibrate_gaussian_objective(empty, epsilon * _PERTURBATION_EPSILON, delta * _PERTURBATION_DELTA)
    shape = loss.outputs, asked.size
    root = math.sqrt(math.prod(shape))
    # A power of two, so that multiplying a drawn integer by it is exact.
    grid = 2.0 ** (math.frexp(noise.scale)[1] - _BINARY_DIGITS)
    rounding = root * grid / 2
    # So many normal numbers have a longer norm almost never (docs/proofs/convex.md#exact-release).
    longest = root + math.sqrt(2 * _log_failure(asked.epsilon, asked.delta))
    found = bound_convergence(loss, asked.size, noise.penalty, asked.rows, noise.scale * longest + rounding)
    away = 0.0 if found is None else found.distance + rounding / noise.penalty
    mu = mu_of(epsilon * _OUTPUT_EPSILON, delta * _OUTPUT_DELTA)
    # Both neighbours lie within `away` of one point, and rounding adds half a step in each weight.
    width = round_up(2 * (away / STEP + root / 2) / mu)
    return _Calibration(noise, grid, shape, found if width <= LARGEST else None, width)
