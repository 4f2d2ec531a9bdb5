"""Textbook forms for one's own arrays: noise on the minimiser, or on the problem that it solves.

They are proven for real numbers, and computed with doubles: idealised arithmetic. What a solver leaves of the
way to the minimum is bounded, and covered by noise.

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

    from sfumato.learn.convex.problems import Problem

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
    """How far one row can move what a solver finds of the minimiser of a problem this convex."""
    pull = neighbouring.times * problem.joint.steepness * problem.longest
    return (pull + 2 * problem.remainder) / problem.penalty


def output(problem: Problem, epsilon: float, neighbouring: Neighbouring = ADD_REMOVE) -> Floats:
    """The minimiser, moved by noise for all that one row can move it. Pure ε."""
    found = problem.near(_level(problem))
    return found + spherical(found.shape, output_scale(problem, neighbouring) / epsilon)


def gaussian_output(problem: Problem, multiplier: float) -> Floats:
    """The same with Gaussian noise, so many times as wide as one row moves it."""
    found = problem.near(_level(problem))
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
    """Almost the minimiser of a problem with a random tilt, with noise for how far off it is. Pure ε."""
    tilt = objective_tilt(problem, epsilon * (1 - _ASIDE_EPSILON), neighbouring)
    convex = replace(problem, penalty=tilt.penalty)
    shape = problem.joint.outputs, problem.rows.shape[1]
    found = convex.near(spherical(shape, tilt.scale))
    return found + spherical(shape, _cover(convex) / (epsilon * _ASIDE_EPSILON))


def _cover(problem: Problem) -> float:
    """How far apart two solvers can stop that have one and the same minimum."""
    return 2 * problem.remainder / problem.penalty


# ---- Gaussian tilts ----------------------------------------------------------------------------------------


_CELLS, _FURTHEST = 2**13, 16.0
"""Of the law of the tilt along a row, in deviations."""


def tilt_delta(mu: float, log_det: float, epsilon: float, freedom: int = 1) -> float:
    """δ of a Gaussian tilt, where a row pulls by μ deviations at most and raises log det so much.

    `freedom` is in how many directions it can pull.
    """
    left = epsilon - log_det
    if freedom > 1:
        return _tilt_delta_of_several(mu, left, freedom)
    if left >= mu * mu / 2:
        return 2 * delta_of(mu, left)
    from scipy.special import ndtr

    return float(1 - 2 * math.exp(left) * ndtr(-mu))


def _tilt_delta_of_several(mu: float, left: float, freedom: int) -> float:
    """E(1 − e^(left − μ²/2 − μχ))₊ for χ as long as so many normals: each cell by its upper end."""
    from scipy.special import gammaincc

    lowest = max(0.0, (left - mu * mu / 2) / mu) if mu else math.inf
    if math.isinf(lowest):
        return 0.0
    ends = lowest + np.linspace(0.0, _FURTHEST + math.sqrt(freedom), _CELLS + 1)
    beyond = gammaincc(freedom / 2, ends**2 / 2)
    lost = -np.expm1(np.minimum(0.0, left - mu * mu / 2 - mu * ends[1:]))
    return float((lost * (beyond[:-1] - beyond[1:])).sum() + beyond[-1])


def gaussian_tilt(problem: Problem, epsilon: float, delta: float) -> Tilted:
    """The least noise that is (ε, δ)-private; a quarter of ε at most is the determinant's."""
    penalty = penalty_for(problem, epsilon / _QUARTER)
    log_det = problem.joint.log_det(problem.longest**2 / penalty)
    low, high = 0.0, mu_of(epsilon, delta)
    for _ in range(60):
        middle = (low + high) / 2
        found = tilt_delta(middle, log_det, epsilon, problem.joint.freedom)
        low, high = (middle, high) if found <= delta else (low, middle)
    return Tilted(problem.joint.steepness * problem.longest / low, penalty)


def gaussian(problem: Problem, epsilon: float, delta: float) -> Floats:
    """An approximate minimum of a problem with a Gaussian tilt, with noise for how approximate it is."""
    tilt = gaussian_tilt(problem, epsilon * (1 - _ASIDE_EPSILON), delta * (1 - _ASIDE_DELTA))
    convex = replace(problem, penalty=tilt.penalty)
    shape = problem.joint.outputs, problem.rows.shape[1]
    found = convex.near(tilt.scale * normal(shape))
    width = _cover(convex) / mu_of(epsilon * _ASIDE_EPSILON, delta * _ASIDE_DELTA)
    return found + width * normal(shape)
