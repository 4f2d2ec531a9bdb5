"""Output and objective perturbation for one's own arrays: noise on the minimiser, or on what is minimised.

The methods are proven for real numbers and computed with doubles: idealised arithmetic. How far from the
minimum a solver stops is bounded by the norm of the gradient there, and covered by noise.

Because : docs/proofs/convex.md
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from sfumato.learn.convex.solvers import solve
from sfumato.privacy.gaussian import delta_of, mu_of
from sfumato.privacy.neighbours import ADD_REMOVE, Neighbours

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.learn.convex.problems import ConvexProblem

    Floats = NDArray[np.float64]

# The shares below divide ε and δ, so privacy holds for any values; benchmarks/convex.py compares the results.
_LOG_DET_SHARE = 4.0
"""The determinant of the Hessian may use one part in so many of ε; the perturbation has the rest."""
_SOLVER_EPSILON, _SOLVER_DELTA = 0.01, 0.1
"""Shares of ε and δ for the noise that covers how far from the minimum a solver stops."""


# ---- noise -------------------------------------------------------------------------------------------------


def draw_uniform(count: int) -> Floats:
    """Draw numbers strictly between 0 and 1 from the operating system's randomness."""
    # 52 bits and a half: neither 0 nor 1 comes out, whose normal quantiles are infinite.
    bits = np.frombuffer(secrets.token_bytes(8 * count), dtype=np.uint64) >> np.uint64(12)
    found: Floats = (bits.astype(np.float64) + 0.5) * 2.0**-52
    return found


def draw_normal(shape: tuple[int, ...]) -> Floats:
    """Draw independent standard normal numbers."""
    found: Floats = ndtri(draw_uniform(math.prod(shape))).reshape(shape)
    return found


def draw_spherical(shape: tuple[int, ...], scale: float) -> Floats:
    """Draw a vector with density ∝ exp(−‖b‖ / scale): a uniform direction, and a Gamma-distributed length."""
    direction = draw_normal(shape)
    # A sum of exponential lengths, one for each number, is Gamma distributed.
    length = -scale * float(np.log(draw_uniform(math.prod(shape))).sum())
    found: Floats = direction * (length / float(np.linalg.norm(direction)))
    return found


# ---- output perturbation -----------------------------------------------------------------------------------


def _rows_changed(neighbours: Neighbours) -> int:
    """Replacing a row removes one and adds another, which moves a sum twice as far."""
    return 2 if neighbours is Neighbours.REPLACE_ONE else 1


def output_sensitivity(problem: ConvexProblem, neighbours: Neighbours = ADD_REMOVE) -> float:
    """Bound how far one row can move the weights that a solver finds (ℓ2), by strong convexity."""
    gradient = _rows_changed(neighbours) * problem.loss.lipschitz * problem.row_norm
    return (gradient + 2 * problem.gradient_tolerance) / problem.penalty


def perturb_output(problem: ConvexProblem, epsilon: float, neighbours: Neighbours = ADD_REMOVE) -> Floats:
    """Return the minimiser with noise for its sensitivity; ε-DP."""
    found = solve(problem, _unperturbed(problem))
    return found + draw_spherical(found.shape, output_sensitivity(problem, neighbours) / epsilon)


def _unperturbed(problem: ConvexProblem) -> Floats:
    return np.zeros((problem.loss.outputs, problem.rows.shape[1]))


# ---- objective perturbation --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ObjectiveNoise:
    """How an objective is to be perturbed: the scale of the noise and the penalty beside it. Public."""

    scale: float
    penalty: float


def raise_penalty(problem: ConvexProblem, room: float) -> float:
    """Return the least penalty, from the problem's on, with which a row raises log det by `room` at most."""
    square, increase = problem.row_norm**2, problem.loss.log_det_increase
    if increase(square / problem.penalty) <= room:
        return problem.penalty
    low, high = problem.penalty, problem.penalty
    while increase(square / high) > room:
        low, high = high, 2 * high
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if increase(square / middle) > room else (low, middle)
    return high  # the end at which the bound holds


def calibrate_objective(
    problem: ConvexProblem, epsilon: float, neighbours: Neighbours = ADD_REMOVE
) -> ObjectiveNoise:
    """Return spherical noise for the part of ε that the determinant leaves, at least three quarters of it."""
    penalty = raise_penalty(problem, epsilon / _LOG_DET_SHARE)
    # Only what the row norm can really add is taken off ε, which may be less than the quarter.
    left = epsilon - problem.loss.log_det_increase(problem.row_norm**2 / penalty)
    gradient = _rows_changed(neighbours) * problem.loss.lipschitz * problem.row_norm
    return ObjectiveNoise(gradient / left, penalty)


def perturb_objective(problem: ConvexProblem, epsilon: float, neighbours: Neighbours = ADD_REMOVE) -> Floats:
    """Minimise a perturbed objective, and add noise for how far from its minimum a solver stops; ε-DP."""
    noise = calibrate_objective(problem, epsilon * (1 - _SOLVER_EPSILON), neighbours)
    convex = replace(problem, penalty=noise.penalty)
    shape = problem.loss.outputs, problem.rows.shape[1]
    found = solve(convex, draw_spherical(shape, noise.scale))
    return found + draw_spherical(shape, _solver_sensitivity(convex) / (epsilon * _SOLVER_EPSILON))


def _solver_sensitivity(problem: ConvexProblem) -> float:
    """Bound the distance between two points where solvers stop that have one and the same minimum."""
    return 2 * problem.gradient_tolerance / problem.penalty


# ---- Gaussian objective perturbation -----------------------------------------------------------------------


_CELLS, _FURTHEST = 2**13, 16.0
"""Cells of the integral for δ, and where it ends, in standard deviations. Any values give an upper bound."""


def gaussian_objective_delta(mu: float, log_det: float, epsilon: float, dimensions: int = 1) -> float:
    """Bound δ of a Gaussian perturbation whose deviation is 1/μ of the longest gradient of a row.

    A row raises log det of the Hessian by at most `log_det`; its score gradients lie in so many `dimensions`.
    """
    left = epsilon - log_det
    if dimensions > 1:
        return _integrate_delta(mu, left, dimensions)
    if left >= mu * mu / 2:
        return 2 * delta_of(mu, left)
    from scipy.special import ndtr

    return float(1 - 2 * math.exp(left) * ndtr(-mu))


def _integrate_delta(mu: float, left: float, dimensions: int) -> float:
    """Bound E(1 − e^(left − μ²/2 − μχ))₊ from above, χ the norm of so many standard normals."""
    from scipy.special import gammaincc

    lowest = max(0.0, (left - mu * mu / 2) / mu) if mu else math.inf
    if math.isinf(lowest):
        return 0.0
    ends = lowest + np.linspace(0.0, _FURTHEST + math.sqrt(dimensions), _CELLS + 1)
    beyond = gammaincc(dimensions / 2, ends**2 / 2)
    # The integrand grows, so its value at the upper end of a cell bounds it; beyond the last cell 1 does.
    lost = -np.expm1(np.minimum(0.0, left - mu * mu / 2 - mu * ends[1:]))
    return float((lost * (beyond[:-1] - beyond[1:])).sum() + beyond[-1])


def calibrate_gaussian_objective(problem: ConvexProblem, epsilon: float, delta: float) -> ObjectiveNoise:
    """Return the least Gaussian noise that is (ε, δ)-DP; at most a quarter of ε is the determinant's."""
    penalty = raise_penalty(problem, epsilon / _LOG_DET_SHARE)
    log_det = problem.loss.log_det_increase(problem.row_norm**2 / penalty)
    low, high = 0.0, mu_of(epsilon, delta)
    for _ in range(60):
        middle = (low + high) / 2
        found = gaussian_objective_delta(middle, log_det, epsilon, problem.loss.gradient_dimensions)
        low, high = (middle, high) if found <= delta else (low, middle)
    # The lower end of the bisection is the one whose δ was seen to hold.
    return ObjectiveNoise(problem.loss.lipschitz * problem.row_norm / low, penalty)


def perturb_objective_gaussian(problem: ConvexProblem, epsilon: float, delta: float) -> Floats:
    """Minimise an objective with Gaussian perturbation, and add noise for where a solver stops; (ε, δ)-DP."""
    noise = calibrate_gaussian_objective(
        problem, epsilon * (1 - _SOLVER_EPSILON), delta * (1 - _SOLVER_DELTA)
    )
    convex = replace(problem, penalty=noise.penalty)
    shape = problem.loss.outputs, problem.rows.shape[1]
    found = solve(convex, noise.scale * draw_normal(shape))
    width = _solver_sensitivity(convex) / mu_of(epsilon * _SOLVER_EPSILON, delta * _SOLVER_DELTA)
    return found + width * draw_normal(shape)
