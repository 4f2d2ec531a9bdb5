"""Where a strongly convex problem is as flat as was asked for: Newton's steps, and a descent that is proven.

Because : docs/proofs/convex.md#approximate-minima
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.learn.convex.problems import Problem

    Floats = NDArray[np.float64]

_ROUNDS = 60
_LARGE = 400
"""Beyond so many weights, second derivatives are not written out."""
_DIRECTIONS = 250
_SAFE = 0.01
"""Newton's steps go on to so much of what is allowed."""
_MOST = 20_000


def minimum(problem: Problem, tilt: Floats, within: float) -> tuple[Floats, float]:
    """Weights, and how steep the problem with this tilt is there."""
    start = np.zeros_like(tilt) if tilt.size <= _LARGE else _descended(problem, tilt)
    found = _newton(problem, tilt, start, _SAFE * within)
    if _length(problem.slope(found, tilt)) > within:
        found = _accelerated(problem, tilt, found, within)
    return found, _length(problem.slope(found, tilt))


def _length(slope: Floats) -> float:
    return float(np.linalg.norm(slope))


# ---- Newton ------------------------------------------------------------------------------------------------


def _newton(problem: Problem, tilt: Floats, weights: Floats, floor: float) -> Floats:
    """While steps make the slope shorter."""
    slope = problem.slope(weights, tilt)
    for _ in range(_ROUNDS):
        if _length(slope) <= floor:
            break
        before = weights
        weights, slope = _stepped(problem, weights, slope, _step(problem, weights, slope), tilt)
        if weights is before:
            break
    return weights


def _step(problem: Problem, weights: Floats, slope: Floats) -> Floats:
    if weights.size <= _LARGE:
        found: Floats = np.asarray(np.linalg.solve(problem.curve(weights), slope.ravel()))
        return found.reshape(slope.shape)
    return _conjugate(problem.curved(weights), slope, min(0.1, _length(slope)))


def _conjugate(times: Callable[[Floats], Floats], right: Floats, share: float) -> Floats:
    """The step, by conjugate directions, until what is left is so small a share of the slope."""
    found, left = np.zeros_like(right), right.copy()
    direction, square = left.copy(), float((left**2).sum())
    floor = square * share**2
    for _ in range(_DIRECTIONS):
        turned = times(direction)
        pace = square / float((direction * turned).sum())
        found += pace * direction
        left -= pace * turned
        before, square = square, float((left**2).sum())
        if square <= floor:
            break
        direction = left + square / before * direction
    return found


def _stepped(
    problem: Problem, weights: Floats, slope: Floats, step: Floats, tilt: Floats
) -> tuple[Floats, Floats]:
    """As far as makes the slope shorter, as a short enough step does in a problem this convex."""
    length = _length(slope)
    for halves in range(40):
        found = weights - step / 2**halves
        now = problem.slope(found, tilt)
        if _length(now) < length:
            return found, now
    return weights, slope


# ---- descent -----------------------------------------------------------------------------------------------


def _descended(problem: Problem, tilt: Floats) -> Floats:
    """Near the minimum, for many weights."""
    from scipy.optimize import minimize

    shape = tilt.shape
    solve: Any = minimize
    found = solve(
        lambda w: problem.value(w.reshape(shape), tilt),
        np.zeros(tilt.size),
        jac=lambda w: problem.slope(w.reshape(shape), tilt).ravel(),
        method="L-BFGS-B",
        options={"maxiter": 2000, "maxfun": 4000, "ftol": 1e-15, "gtol": 1e-9},
    )
    reached: Floats = found.x.reshape(shape)
    return reached


def _accelerated(problem: Problem, tilt: Floats, weights: Floats, within: float) -> Floats:
    """Nesterov's descent, which arrives after √κ·log(2κ‖g‖²/within²) steps."""
    largest = float(np.linalg.eigvalsh(problem.rows.T @ problem.rows)[-1])
    curvature = problem.joint.curvature * largest + problem.penalty
    root = math.sqrt(curvature / problem.penalty)
    length = _length(problem.slope(weights, tilt))
    steps = math.ceil(root * max(0.0, math.log(2 * root**2) + 2 * math.log(length / within)))
    momentum, before = (root - 1) / (root + 1), weights
    for _ in range(min(steps, _MOST)):
        ahead = weights + momentum * (weights - before)
        before, weights = weights, ahead - problem.slope(ahead, tilt) / curvature
        if _length(problem.slope(weights, tilt)) <= within:
            break
    return weights
