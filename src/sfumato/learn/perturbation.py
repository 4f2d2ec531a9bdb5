"""Textbook forms for one's own arrays: noise on the minimiser, or on the problem that it solves.

They are proven for real numbers and exact minimisers, and computed with doubles: idealised arithmetic. The
Gaussian form covers what its solver leaves by noise of its own.

Because : docs/proofs/convex.md
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from sfumato.privacy.gaussian import delta_of, mu_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.learn.problems import Problem

    Floats = NDArray[np.float64]

_QUARTER = 4.0
_ASIDE_EPSILON, _ASIDE_DELTA = 0.01, 0.1
"""Of ε and δ: what covers the solver's remainder."""


# ---- noise -------------------------------------------------------------------------------------------------


def uniform(count: int) -> Floats:
    """Between 0 and 1, neither of them, from the operating system's randomness."""
    bits = np.frombuffer(secrets.token_bytes(8 * count), dtype=np.uint64) >> np.uint64(12)
    found: Floats = (bits.astype(np.float64) + 0.5) * 2.0**-52
    return found


def normal(shape: tuple[int, ...]) -> Floats:
    found: Floats = ndtri(uniform(math.prod(shape))).reshape(shape)
    return found


def spherical(shape: tuple[int, ...], scale: float) -> Floats:
    """With a density ∝ exp(−‖b‖ / scale): any direction, and a length that is Gamma of as many as numbers."""
    direction = normal(shape)
    length = -scale * float(np.log(uniform(math.prod(shape))).sum())
    found: Floats = direction * (length / float(np.linalg.norm(direction)))
    return found


# ---- the forms ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Neighbouring:
    """One row is added or removed; or, `replaced`, made another. Then it moves a sum twice as far."""

    replaced: bool = False

    @property
    def times(self) -> int:
        return 2 if self.replaced else 1


ADD_REMOVE = Neighbouring()


def output_scale(problem: Problem, neighbouring: Neighbouring = ADD_REMOVE) -> float:
    """How far one row can move the minimiser of a problem this convex."""
    return neighbouring.times * problem.joint.steepness * problem.longest / problem.penalty


def output(problem: Problem, epsilon: float, neighbouring: Neighbouring = ADD_REMOVE) -> Floats:
    """The minimiser, moved by noise for all that one row can move it. Pure ε."""
    found, _ = problem.minimum(_level(problem))
    return found + spherical(found.shape, output_scale(problem, neighbouring) / epsilon)


def gaussian_output(problem: Problem, multiplier: float) -> Floats:
    """The same with Gaussian noise, so many times as wide as one row moves it."""
    found, _ = problem.minimum(_level(problem))
    return found + multiplier * output_scale(problem) * normal(found.shape)


def _level(problem: Problem) -> Floats:
    return np.zeros((problem.joint.outputs, problem.rows.shape[1]))


@dataclass(frozen=True, slots=True)
class Tilted:
    """How a problem is to be changed: by how much noise, and with what penalty. Public."""

    scale: float
    penalty: float


def penalty_for(problem: Problem, room: float) -> float:
    """The least penalty, from the problem's own on, with which a row raises log det by `room` at most."""
    ratio = problem.longest**2
    if problem.joint.log_det(ratio / problem.penalty) <= room:
        return problem.penalty
    low, high = problem.penalty, problem.penalty
    while problem.joint.log_det(ratio / high) > room:
        low, high = high, 2 * high
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if problem.joint.log_det(ratio / middle) > room else (low, middle)
    return high


def objective_tilt(problem: Problem, epsilon: float, neighbouring: Neighbouring = ADD_REMOVE) -> Tilted:
    """Noise of which a row's pull uses what the determinant leaves of ε, three quarters of it at least."""
    penalty = penalty_for(problem, epsilon / _QUARTER)
    left = epsilon - problem.joint.log_det(problem.longest**2 / penalty)
    return Tilted(neighbouring.times * problem.joint.steepness * problem.longest / left, penalty)


def objective(problem: Problem, epsilon: float, neighbouring: Neighbouring = ADD_REMOVE) -> Floats:
    """The minimiser of a problem with a random tilt. Pure ε."""
    tilt = objective_tilt(problem, epsilon, neighbouring)
    shape = problem.joint.outputs, problem.rows.shape[1]
    found, _ = replace(problem, penalty=tilt.penalty).minimum(spherical(shape, tilt.scale))
    return found


# ---- Gaussian tilts ----------------------------------------------------------------------------------------


def tilt_delta(mu: float, log_det: float, epsilon: float) -> float:
    """δ of a Gaussian tilt, where a row pulls by μ deviations at most and raises log det so much."""
    left = epsilon - log_det
    if left >= mu * mu / 2:
        return 2 * delta_of(mu, left)
    from scipy.special import ndtr

    return float(1 - 2 * math.exp(left) * ndtr(-mu))


def gaussian_tilt(problem: Problem, epsilon: float, delta: float) -> Tilted:
    """The least noise that is (ε, δ)-private; a quarter of ε at most is the determinant's."""
    penalty = penalty_for(problem, epsilon / _QUARTER)
    log_det = problem.joint.log_det(problem.longest**2 / penalty)
    low, high = 0.0, mu_of(epsilon, delta)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tilt_delta(middle, log_det, epsilon) <= delta else (low, middle)
    return Tilted(problem.joint.steepness * problem.longest / low, penalty)


def gaussian(problem: Problem, epsilon: float, delta: float) -> Floats:
    """An approximate minimum of a problem with a Gaussian tilt, with noise for how approximate it is."""
    tilt = gaussian_tilt(problem, epsilon * (1 - _ASIDE_EPSILON), delta * (1 - _ASIDE_DELTA))
    convex = replace(problem, penalty=tilt.penalty)
    shape = problem.joint.outputs, problem.rows.shape[1]
    found, steep = convex.minimum(tilt.scale * normal(shape))
    allowed = remainder(convex)
    if not steep <= allowed:
        raise ArithmeticError("the solver did not come near enough to the minimum")
    width = 2 * allowed / convex.penalty / mu_of(epsilon * _ASIDE_EPSILON, delta * _ASIDE_DELTA)
    return found + width * normal(shape)


def remainder(problem: Problem) -> float:
    """How steep the problem may still be where a solver stops; public."""
    return 1e-6 * max(1.0, problem.penalty)
