"""Gaussian objective perturbation behind the curator: tilt and output noise are drawn exactly.

The output's noise covers how steep the problem still is where a solver stops, which is bounded with all that
doubles may have done to it. So nothing is assumed of the solver, and little of floating point.

Because : docs/proofs/convex.md#whole-minima
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.learn.descent import CONSTANT
from sfumato.learn.losses import LOGISTIC, huber
from sfumato.learn.perturbation import LONGEST, gaussian_tilt
from sfumato.learn.problems import Chances, OfMargins, Problem
from sfumato.learn.solvers import minimum
from sfumato.noise import Gaussian
from sfumato.noise.record import through
from sfumato.privacy.events import ApproxDP
from sfumato.privacy.exact import raised
from sfumato.privacy.gaussian import mu_of

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.learn.perturbation import Tilted
    from sfumato.learn.problems import Joint

    Floats = NDArray[np.float64]

STEP = 2.0**-30
"""Of released weights."""
_FURTHEST = 2.0**12
_STEEP = 1e-6
_ASIDE_EPSILON, _ASIDE_DELTA = 0.05, 0.1
_FINEST = 38
"""The tilt has about so many binary digits in a deviation."""
_UNIT = 2.0**-53
_BLOCK = 256
"""So many rows are added up by doubles; blocks of them exactly."""


@dataclass(frozen=True, slots=True)
class Minima:
    """Weights of a linear classifier, near a minimum with a Gaussian tilt, on a grid, with their own noise.

    Privacy
    -------
    Protects : one row, add/remove.
    Costs    : ApproxDP(epsilon, delta).
    Because  : docs/proofs/convex.md#whole-minima
    Assumes  : rows are integer vectors no longer than `norm`; basic operations of doubles are rounded as IEEE
               754 says and exp is within 8 units of its last place; how long a fit takes is not observed.
    """

    loss: str
    """logistic, huber or chances."""
    width: Fraction
    """Of the rounded hinge."""
    classes: int
    norm: int
    penalty: Fraction
    epsilon: Fraction
    delta: Fraction

    def event(self) -> ApproxDP:
        return ApproxDP(self.epsilon, self.delta)

    @property
    def joint(self) -> Joint:
        if self.loss == "chances":
            return Chances(self.classes)
        return OfMargins(LOGISTIC if self.loss == "logistic" else huber(self.width), self.classes)

    def release(self, exact: NDArray[Any]) -> list[list[int]]:
        """Of rows as columns, the class last: one list a score, in steps, the constant's weight last."""
        found: list[list[int]] = through(self, exact, None, lambda: self._drawn(exact))
        return found

    def _drawn(self, exact: NDArray[Any]) -> list[list[int]]:
        whole = self._problem(np.asarray(exact, dtype=np.float64).T)
        public, mu = _calibrated(self)
        problem = replace(whole, penalty=public.penalty)
        tilt, rounding = _tilt(public, (self.joint.outputs, whole.rows.shape[1]))
        allowed = _STEEP * max(1.0, problem.penalty)
        weights, _ = minimum(problem, tilt, allowed / 10)
        if not steepness(problem, weights, tilt) <= allowed:
            weights = -tilt / problem.penalty
        steps = np.rint(np.clip(weights, -_FURTHEST, _FURTHEST) / STEP).astype(np.int64)
        away = (allowed + rounding) / problem.penalty / STEP + math.sqrt(steps.size) / 2
        released: list[list[int]] = Gaussian(raised(2 * away / mu)).release(steps).tolist()
        return released

    def _problem(self, table: Floats) -> Problem:
        """Rows in lengths of the longest, and the constant; these doubles are the data from here on."""
        features, codes = table[:, :-1] / self.norm, table[:, -1].astype(np.int64)
        rows = np.hstack([features, np.full((len(features), 1), CONSTANT)])
        return Problem(self.joint, rows, self.joint.marks(codes), float(self.penalty), LONGEST)


@lru_cache(maxsize=16)
def _calibrated(minima: Minima) -> tuple[Tilted, float]:
    """The tilt; and μ of the noise on the output, for what is set aside."""
    epsilon, delta = float(minima.epsilon), float(minima.delta)
    nothing = Problem(minima.joint, np.zeros((0, 1)), np.zeros((0, 1)), float(minima.penalty), LONGEST)
    tilt = gaussian_tilt(nothing, epsilon * (1 - _ASIDE_EPSILON), delta * (1 - _ASIDE_DELTA))
    return tilt, mu_of(epsilon * _ASIDE_EPSILON, delta * _ASIDE_DELTA)


def _tilt(public: Tilted, shape: tuple[int, int]) -> tuple[Floats, float]:
    """Normal numbers rounded to a grid, drawn exactly; and how far rounding moved all of them at most."""
    step = 2.0 ** (math.frexp(public.scale)[1] - _FINEST)
    drawn = Gaussian(raised(public.scale / step)).release(np.zeros(shape, dtype=np.int64))
    return drawn.astype(np.float64) * step, math.sqrt(math.prod(shape)) * step / 2


def steepness(problem: Problem, weights: Floats, tilt: Floats) -> float:
    """How steep the problem is at most, as real numbers: what doubles say, and what they may be off by."""
    rows, marks = problem.rows, problem.marks
    parts = [
        problem.joint.pulls(rows[at : at + _BLOCK] @ weights.T, marks[at : at + _BLOCK]).T
        @ rows[at : at + _BLOCK]
        for at in range(0, len(rows), _BLOCK)
    ]
    parts += [problem.penalty * weights, tilt]
    whole = np.array(
        [[math.fsum(each) for each in zip(*row, strict=True)] for row in zip(*parts, strict=True)]
    )
    return float(np.linalg.norm(whole)) * (1 + 2.0**-40) + _off(problem, weights, whole)


def _off(problem: Problem, weights: Floats, slope: Floats) -> float:
    """Twice what scores, pulls, sums in a block and single products may be off by, to first order."""
    joint, longest, size = problem.joint, problem.longest, float(np.linalg.norm(weights))
    scores = weights.shape[1] * _UNIT * longest * size
    pulls = joint.curvature * scores + math.sqrt(joint.outputs) * (joint.outputs + 24) * _UNIT
    rows = len(problem.rows) * longest * (pulls + joint.steepness * _BLOCK * _UNIT)
    single = problem.penalty * size + float(np.linalg.norm(slope))
    return float(2 * (rows + 4 * _UNIT * single))
