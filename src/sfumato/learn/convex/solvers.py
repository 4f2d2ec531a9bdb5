"""Minimisers of a strongly convex problem: Newton's method first, then accelerated descent, which is proven.

Because : docs/proofs/convex.md#approximate-minima
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.learn.convex.problems import ConvexProblem

    Floats = NDArray[np.float64]

# None of these matters to privacy: whatever a solver returns, the norm of its gradient is checked afterwards.
_NEWTON_STEPS = 60
_MOST_DENSE = 400
"""Number of weights up to which the Hessian is written out; beyond, it is only multiplied by directions."""
_MOST_DIRECTIONS = 250
_MARGIN = 0.01
"""Share of the tolerance that Newton's method aims for, so that the last doubles do not decide."""
_NESTEROV_STEPS = 20_000


def solve(problem: ConvexProblem, perturbation: Floats) -> Floats:
    """Return weights at which the gradient is within the problem's tolerance.

    That they are reached is proven for real numbers. Where doubles did not reach them, or a loss failed, the
    minimiser of the problem without rows is returned: an error would depend on the rows, and so be a release.
    """
    try:
        found, norm = minimize(problem, perturbation, problem.gradient_tolerance)
    except Exception:  # whatever a solver or a loss makes of rows
        norm = math.inf
    return found if norm <= problem.gradient_tolerance else -perturbation / problem.penalty


def minimize(problem: ConvexProblem, perturbation: Floats, tolerance: float) -> tuple[Floats, float]:
    """Return weights at which the gradient is about as short as the tolerance, and the gradient's norm."""
    if perturbation.size <= _MOST_DENSE:
        start = np.zeros_like(perturbation)
    else:
        start = _minimize_lbfgs(problem, perturbation)
    found = _minimize_newton(problem, perturbation, start, _MARGIN * tolerance)
    if _norm(problem.gradient(found, perturbation)) > tolerance:
        found = _minimize_nesterov(problem, perturbation, found, tolerance)
    return found, _norm(problem.gradient(found, perturbation))


def _norm(gradient: Floats) -> float:
    return float(np.linalg.norm(gradient))


# ---- Newton ------------------------------------------------------------------------------------------------


def _minimize_newton(
    problem: ConvexProblem, perturbation: Floats, weights: Floats, tolerance: float
) -> Floats:
    """Take Newton steps while they make the gradient shorter."""
    gradient = problem.gradient(weights, perturbation)
    for _ in range(_NEWTON_STEPS):
        if _norm(gradient) <= tolerance:
            break
        before, step = weights, _newton_step(problem, weights, gradient)
        weights, gradient = _line_search(problem, weights, gradient, step, perturbation)
        # Not even a tiny step helps: doubles have no shorter gradient to offer.
        if weights is before:
            break
    return weights


def _newton_step(problem: ConvexProblem, weights: Floats, gradient: Floats) -> Floats:
    """Return the solution of Hessian · step = gradient."""
    if weights.size <= _MOST_DENSE:
        found: Floats = np.asarray(np.linalg.solve(problem.hessian(weights), gradient.ravel()))
        return found.reshape(gradient.shape)
    # Far from the minimum a rough direction is enough; near it the tolerance tightens with the gradient.
    return _conjugate_gradient(problem.hessian_product(weights), gradient, min(0.1, _norm(gradient)))


def _conjugate_gradient(multiply: Callable[[Floats], Floats], right: Floats, share: float) -> Floats:
    """Solve a linear system until the residual is this share of the right side, or directions run out."""
    found, residual = np.zeros_like(right), right.copy()
    direction, square = residual.copy(), float((residual**2).sum())
    floor = square * share**2
    for _ in range(_MOST_DIRECTIONS):
        turned = multiply(direction)
        length = square / float((direction * turned).sum())
        found += length * direction
        residual -= length * turned
        before, square = square, float((residual**2).sum())
        if square <= floor:
            break
        direction = residual + square / before * direction
    return found


def _line_search(
    problem: ConvexProblem, weights: Floats, gradient: Floats, step: Floats, perturbation: Floats
) -> tuple[Floats, Floats]:
    """Halve the step until the gradient is shorter; where it never is, return the weights that came in."""
    norm = _norm(gradient)
    for halvings in range(40):
        found = weights - step / 2**halvings
        now = problem.gradient(found, perturbation)
        if _norm(now) < norm:
            return found, now
    return weights, gradient


# ---- descent -----------------------------------------------------------------------------------------------


def _minimize_lbfgs(problem: ConvexProblem, perturbation: Floats) -> Floats:
    """Return a start near the minimum, for problems with many weights."""
    from scipy.optimize import minimize as scipy_minimize

    shape = perturbation.shape
    solve: Any = scipy_minimize
    found = solve(
        lambda w: problem.value(w.reshape(shape), perturbation),
        np.zeros(perturbation.size),
        jac=lambda w: problem.gradient(w.reshape(shape), perturbation).ravel(),
        method="L-BFGS-B",
        options={"maxiter": 2000, "maxfun": 4000, "ftol": 1e-15, "gtol": 1e-9},
    )
    reached: Floats = found.x.reshape(shape)
    return reached


def _minimize_nesterov(
    problem: ConvexProblem, perturbation: Floats, weights: Floats, tolerance: float
) -> Floats:
    """Run Nesterov's accelerated descent, which converges after √κ·log(2κ‖g‖²/tolerance²) steps."""
    largest = float(np.linalg.eigvalsh(problem.rows.T @ problem.rows)[-1])
    smoothness = problem.loss.smoothness * largest + problem.penalty
    root = math.sqrt(smoothness / problem.penalty)  # of the condition number κ
    norm = _norm(problem.gradient(weights, perturbation))
    steps = math.ceil(root * max(0.0, math.log(2 * root**2) + 2 * math.log(norm / tolerance)))
    momentum, before = (root - 1) / (root + 1), weights
    for _ in range(min(steps, _NESTEROV_STEPS)):
        ahead = weights + momentum * (weights - before)
        before, weights = weights, ahead - problem.gradient(ahead, perturbation) / smoothness
        if _norm(problem.gradient(weights, perturbation)) <= tolerance:
            break
    return weights
