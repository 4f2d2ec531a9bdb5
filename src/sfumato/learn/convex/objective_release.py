"""Gaussian objective perturbation behind the curator: tilt and output noise are drawn exactly.

The output's noise covers how far from the minimum weights may be for which a bound on the slope, or the proof
of a descent, holds with all that doubles may have done. Nothing is assumed of a solver.

Because : docs/proofs/convex.md#whole-minima
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.learn.convex.convergence import LONGEST, Arrival, arrival, arrived, steepness
from sfumato.learn.convex.descent import CONSTANT
from sfumato.learn.convex.losses import LOGISTIC, huber
from sfumato.learn.convex.perturbation import gaussian_tilt
from sfumato.learn.convex.problems import Chances, OfMargins, Problem
from sfumato.learn.convex.solvers import minimum
from sfumato.noise import GaussianNoise, LaplaceNoise
from sfumato.noise.audit_hook import observed
from sfumato.noise.scales import LARGEST, SMALLEST
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events import ApproxDP
from sfumato.privacy.exact import round_up
from sfumato.privacy.gaussian import mu_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.learn.convex.perturbation import Tilted
    from sfumato.learn.convex.problems import Joint

    Floats = NDArray[np.float64]

STEP = 2.0**-30
"""Of released weights."""
_FURTHEST = 2.0**12
_TEST, _TILT_EPSILON, _OUTPUT_EPSILON = Fraction(1, 50), 0.93, 0.05
_TILT_DELTA, _OUTPUT_DELTA = 0.88, 0.1
"""Of δ; the rest is for more rows or a longer tilt than is said, and for doubles."""
_FINEST = 38
"""The tilt has about so many binary digits in a deviation."""


def beyond(epsilon: Fraction, delta: Fraction) -> int:
    """How many rows there may be beyond a noisy count of them, for the test in `ObjectiveRelease`."""
    return math.ceil(_unlikely(epsilon, delta) * _tested(epsilon).scale)


def _unlikely(epsilon: Fraction, delta: Fraction) -> float:
    """−log of how likely it may be that rows are more than is said; as likely, that a tilt is longer."""
    return math.log(400 / delta) + float(epsilon)


def _tested(epsilon: Fraction) -> LaplaceNoise:
    """The noise of the test."""
    return LaplaceNoise(max(SMALLEST, 1 / (epsilon * _TEST)))


@tagged("Minima", "loss", "width", "classes", "size", "norm", "penalty", "rows", "epsilon", "delta")
@dataclass(frozen=True, slots=True)
class ObjectiveRelease:
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
    size: int
    """Of a row, with its constant."""
    norm: int
    penalty: Fraction
    rows: int
    """If there are more, or nearly as many, they count nowhere."""
    epsilon: Fraction
    delta: Fraction

    def event(self) -> ApproxDP:
        return ApproxDP(self.epsilon, self.delta)

    @property
    def joint(self) -> Joint:
        if self.loss == "chances":
            return Chances(self.classes)
        return OfMargins(LOGISTIC if self.loss == "logistic" else huber(self.width), self.classes)

    @property
    def arrives(self) -> bool:
        """Whether it is proven for so many rows; else it is not to be released."""
        return _calibrated(self).arrival is not None

    def release(self, exact: NDArray[Any]) -> list[list[int]]:
        """Of rows as columns, the class last: one list a score, in steps, the constant's weight last."""
        found: list[list[int]] = observed(self, exact, None, lambda: self._drawn(exact))
        return found

    def _drawn(self, exact: NDArray[Any]) -> list[list[int]]:
        public = _calibrated(self)
        if public.arrival is None:
            raise AssertionError("asked for before")
        few = self._few(exact.shape[1])
        rows = np.asarray(exact, dtype=np.float64).T if few else np.zeros((0, self.size))
        problem = replace(self._problem(rows), penalty=public.tilted.penalty)
        with np.errstate(all="ignore"):  # a warning would depend on rows
            weights = _near(problem, public.tilt(), public.arrival)
        steps = np.rint(np.clip(weights, -_FURTHEST, _FURTHEST) / STEP).astype(np.int64)
        released: list[list[int]] = GaussianNoise(public.width).release(steps).tolist()
        return released

    def _few(self, rows: int) -> bool:
        """Whether there are at most as many as is said: never, almost, if there are not."""
        (seen,) = _tested(self.epsilon).release(np.array([rows]), l1=1)
        return int(seen) + beyond(self.epsilon, self.delta) <= self.rows

    def _problem(self, table: Floats) -> Problem:
        """Rows in lengths of the longest, and the constant; these doubles are the data from here on."""
        features, codes = table[:, :-1] / self.norm, table[:, -1].astype(np.int64)
        rows = np.hstack([features, np.full((len(features), 1), CONSTANT)])
        return Problem(self.joint, rows, self.joint.marks(codes), float(self.penalty), LONGEST)


def _near(problem: Problem, tilt: Floats, public: Arrival) -> Floats:
    """No further from the minimum than is public: as seen by the slope, else as proven."""
    allowed = public.within * problem.penalty
    try:
        found, _ = minimum(problem, tilt, allowed / 10)
        if steepness(problem, found, tilt) <= allowed:
            return found
    except (np.linalg.LinAlgError, ArithmeticError, ValueError):  # whatever a solver makes of rows
        pass
    return arrived(problem, tilt, public)


# ---- what is public ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Calibrated:
    tilted: Tilted
    grid: float
    """Of the tilt."""
    shape: tuple[int, int]
    arrival: Arrival | None
    width: Fraction
    """Of the output's noise, in steps."""

    def tilt(self) -> Floats:
        """Normal numbers rounded to the grid, drawn exactly."""
        drawn = GaussianNoise(round_up(self.tilted.scale / self.grid)).release(
            np.zeros(self.shape, dtype=np.int64)
        )
        return drawn.astype(np.float64) * self.grid


@lru_cache(maxsize=16)
def _calibrated(asked: ObjectiveRelease) -> _Calibrated:
    epsilon, delta = float(asked.epsilon), float(asked.delta)
    nothing = Problem(asked.joint, np.zeros((0, 1)), np.zeros((0, 1)), float(asked.penalty), LONGEST)
    tilted = gaussian_tilt(nothing, epsilon * _TILT_EPSILON, delta * _TILT_DELTA)
    shape = asked.joint.outputs, asked.size
    grid = 2.0 ** (math.frexp(tilted.scale)[1] - _FINEST)
    rounding = math.sqrt(math.prod(shape)) * grid / 2
    longest = math.sqrt(math.prod(shape)) + math.sqrt(2 * _unlikely(asked.epsilon, asked.delta))
    found = arrival(asked.joint, asked.size, tilted.penalty, asked.rows, tilted.scale * longest + rounding)
    away = 0.0 if found is None else found.within + rounding / tilted.penalty
    mu = mu_of(epsilon * _OUTPUT_EPSILON, delta * _OUTPUT_DELTA)
    width = round_up(2 * (away / STEP + math.sqrt(math.prod(shape)) / 2) / mu)
    return _Calibrated(tilted, grid, shape, found if width <= LARGEST else None, width)
