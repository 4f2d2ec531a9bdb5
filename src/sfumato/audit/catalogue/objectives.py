"""Convex learners that perturb an objective or its minimiser, sampled on problems of one weight.

Their noise is drawn in real numbers, so a replay does not see it. With one weight the minima for many
perturbations are found at once, by halving, where the solver would take a thousand times as long. Doubles are
taken for the real numbers that they stand for, as the guarantee of these learners does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.audit.catalogue.entries import CatalogueEntry
from sfumato.audit.entry import run
from sfumato.privacy.events import ApproxDP

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.audit.verdict import Verdict
    from sfumato.learn.convex.problems import ConvexProblem

    Floats = NDArray[np.float64]
    Release = Callable[[ConvexProblem, int], Floats]

_EPSILON, _DELTA = 1.0, 0.01
_LONGEST = 100.0
"""Length of the row that is added; formulas that are right for 1 alone fail here."""
_SAMPLES = 20_000
_HALVINGS = 60
_FARTHEST = 1e4
_DIGITS = 9
"""Decimal digits that are looked at: the last bits of doubles are not what is claimed."""


def _neighbours(penalty: float) -> tuple[ConvexProblem, ConvexProblem]:
    """Return the problem without rows and with one row that is as long as may be."""
    from sfumato.learn.convex.losses import LOGISTIC
    from sfumato.learn.convex.problems import ConvexProblem, MarginLoss

    loss = MarginLoss(LOGISTIC, 2)
    row, label = np.array([[_LONGEST]]), loss.encode_labels(np.array([1]))
    beside = ConvexProblem(loss, row, label, penalty, _LONGEST)
    return replace(beside, rows=beside.rows[:0], labels=beside.labels[:0]), beside


def _minimise(problem: ConvexProblem, perturbations: Floats) -> Floats:
    """Return the weight at which each perturbed objective has its minimum."""
    low, high = np.full(len(perturbations), -_FARTHEST), np.full(len(perturbations), _FARTHEST)
    column, labels = problem.rows[:, 0], problem.labels[:, 0]
    for _ in range(_HALVINGS):
        weights = (low + high) / 2
        slopes = problem.loss.score_gradients(weights[:, None] * column, labels) @ column
        rising = slopes + problem.penalty * weights + perturbations > 0
        low, high = np.where(rising, low, weights), np.where(rising, weights, high)
    found: Floats = (low + high) / 2
    return found


def _draw_spherical(count: int, scale: float) -> Floats:
    from sfumato.learn.convex.perturbation import draw_spherical

    return np.array([draw_spherical((1,), scale)[0] for _ in range(count)])


def _perturb_objective(problem: ConvexProblem, count: int) -> Floats:
    from sfumato.learn.convex.perturbation import calibrate_objective

    noise = calibrate_objective(problem, _EPSILON)
    return _minimise(replace(problem, penalty=noise.penalty), _draw_spherical(count, noise.scale))


def _perturb_objective_gaussian(problem: ConvexProblem, count: int) -> Floats:
    from sfumato.learn.convex.perturbation import calibrate_gaussian_objective, draw_normal

    noise = calibrate_gaussian_objective(problem, _EPSILON, _DELTA)
    return _minimise(replace(problem, penalty=noise.penalty), noise.scale * draw_normal((count,)))


def _perturb_output(problem: ConvexProblem, count: int) -> Floats:
    from sfumato.learn.convex.perturbation import output_sensitivity

    noise = _draw_spherical(count, output_sensitivity(problem) / _EPSILON)
    found: Floats = _minimise(problem, np.zeros(1)) + noise
    return found


def _attack(release: Release, delta: float, penalty: float, effort: int, alpha: float) -> Verdict:
    def sampler(problem: ConvexProblem) -> Any:
        return lambda count: np.round(release(problem, count), _DIGITS)

    one, other = map(sampler, _neighbours(penalty))
    found: Verdict = run((one, other), ApproxDP(_EPSILON, delta), samples=effort * _SAMPLES, alpha=alpha)
    return found


def list_objectives() -> list[CatalogueEntry]:
    """Return an entry for every way to perturb a convex problem."""
    # A row moves a minimum farthest, for what is paid, where the penalty outweighs it.
    made: list[tuple[str, Release, float, float]] = [
        ("objective perturbation", _perturb_objective, 0, _LONGEST),
        ("objective perturbation, Gaussian", _perturb_objective_gaussian, _DELTA, _LONGEST),
        ("output perturbation", _perturb_output, 0, 100 * _LONGEST**2),
    ]
    return [
        CatalogueEntry("learner", name, lambda *given, w=what: _attack(*w, *given), "sklearn")
        for name, *what in made
    ]
