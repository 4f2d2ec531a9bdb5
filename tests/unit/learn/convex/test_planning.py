"""Bounds to plan with, held against drawn noise."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.learn import (
    choose_output_regularization,
    choose_regularization,
    excess_loss,
    objective_min_rows,
    rows_needed,
)
from sfumato.learn.convex import solvers
from sfumato.learn.convex.losses import LOGISTIC
from sfumato.learn.convex.perturbation import (
    calibrate_objective,
    output_sensitivity,
    perturb_objective,
    perturb_output,
)
from sfumato.learn.convex.problems import ConvexProblem, MarginLoss
from sfumato.privacy.neighbours import REPLACE_ONE

FORMS = {"output": perturb_output, "objective": perturb_objective}
DIMENSIONS = 4


def reach_minimum(problem: ConvexProblem, perturbation: Any) -> tuple[Any, float]:
    return solvers.minimize(problem, perturbation, problem.gradient_tolerance)


def posed(rows: int, regularization: float, seed: int = 0) -> ConvexProblem:
    """Points on the unit sphere, of which one in ten has the other label."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, DIMENSIONS))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = ((X[:, 0] > 0) ^ (rng.random(rows) < 0.1)).astype(np.int64)
    loss = MarginLoss(LOGISTIC, 2)
    return ConvexProblem(loss, X, loss.encode_labels(y), regularization * rows, 1.0)


def mean_loss(problem: ConvexProblem, weights: np.ndarray) -> float:
    return problem.value(weights, np.zeros_like(weights)) / len(problem.rows)


@pytest.mark.parametrize("method", ["output", "objective"])
@pytest.mark.parametrize(
    ("rows", "regularization", "epsilon"), [(1000, 0.05, 0.5), (3000, 0.01, 0.3), (500, 0.2, 2.0)]
)
def test_the_loss_exceeds_its_bound_no_more_often_than_is_said(
    method: str, rows: int, regularization: float, epsilon: float
) -> None:
    """At a chance of 1/10, of 100 draws at most 26 exceed it, but for one case in a million."""
    problem = posed(rows, regularization)
    assert rows >= objective_min_rows(regularization=regularization, epsilon=epsilon)
    lowest = mean_loss(problem, reach_minimum(problem, np.zeros((1, DIMENSIONS)))[0])
    bound = excess_loss(
        method, rows=rows, dimensions=DIMENSIONS, regularization=regularization, epsilon=epsilon, chance=0.1
    )
    drawn = [mean_loss(problem, FORMS[method](problem, epsilon, REPLACE_ONE)) - lowest for _ in range(100)]
    assert sum(excess > bound for excess in drawn) <= 26
    assert min(drawn) >= 0


@pytest.mark.parametrize("method", ["output", "objective"])
def test_so_many_rows_suffice(method: str) -> None:
    """Against weights of length 3 along the plane's normal; of 40 draws at a chance of 1/10, at most 16."""
    error, norm, epsilon = 0.1, 3.0, 1.0
    rows = rows_needed(method, error=error, norm=norm, dimensions=DIMENSIONS, epsilon=epsilon, chance=0.1)
    problem = posed(rows, choose_regularization(error=error, norm=norm))
    known = np.array([[norm, 0.0, 0.0, 0.0]])
    plain = replace(problem, penalty=0.0)
    drawn = [mean_loss(plain, FORMS[method](problem, epsilon, REPLACE_ONE)) for _ in range(40)]
    assert sum(loss > mean_loss(plain, known) + error for loss in drawn) <= 16


def test_from_the_minimum_of_rows_on_no_penalty_is_added() -> None:
    for regularization, epsilon in ((0.01, 0.1), (0.001, 1.0)):
        rows = objective_min_rows(regularization=regularization, epsilon=epsilon)
        for count, added in ((rows, False), (rows * 9 // 10, True)):
            problem = replace(posed(10, 1.0), penalty=regularization * count)
            assert (calibrate_objective(problem, epsilon, REPLACE_ONE).penalty > problem.penalty) == added


def test_objective_needs_fewer_rows() -> None:
    given = {"error": 0.01, "norm": 10.0, "dimensions": 10, "epsilon": 0.1}
    assert rows_needed("objective", **given) < rows_needed("output", **given) / 10


def test_bounds_fall_as_they_should() -> None:
    given = {"dimensions": 10, "regularization": 0.01, "epsilon": 0.1}
    for method in ("output", "objective"):
        few, many = (excess_loss(method, rows=rows, **given) for rows in (1000, 10_000))
        assert few / many == pytest.approx(100)
    assert excess_loss("objective", rows=1000, chance=0.1, **given) == pytest.approx(
        8 * (10 * math.log(100)) ** 2 / (0.01 * 1000**2 * 0.1**2)
    )


def test_other_methods_have_no_bound_here() -> None:
    with pytest.raises(UsageError, match="not known"):
        excess_loss("gradient", rows=10, dimensions=2, regularization=0.1, epsilon=1)
    with pytest.raises(UsageError, match="chance"):
        excess_loss("output", rows=10, dimensions=2, regularization=0.1, epsilon=1, chance=2)


@pytest.mark.parametrize(("rows", "epsilon"), [(14_000, 0.1), (2000, 0.1), (500, 3.0)])
def test_noise_is_short_beside_what_a_minimiser_can_be(rows: int, epsilon: float) -> None:
    """No rows make it longer than is said; all alike make it almost so long where the penalty is right."""
    regularization = choose_output_regularization(rows=rows, dimensions=DIMENSIONS, epsilon=epsilon)
    problem = posed(rows, regularization)
    longest = math.sqrt(0.27847 / regularization)
    noise = DIMENSIONS * output_sensitivity(problem, REPLACE_ONE) / epsilon
    assert noise == pytest.approx(0.2 * longest, rel=1e-3)
    alike = replace(
        problem, rows=np.repeat(problem.rows[:1], rows, axis=0), labels=np.ones_like(problem.labels)
    )
    for each in (problem, alike):
        assert np.linalg.norm(reach_minimum(each, np.zeros((1, DIMENSIONS)))[0]) <= longest


def test_a_minimiser_is_as_long_as_it_can_be() -> None:
    """Of rows that are all alike, at the margin where they pull the most: m = 1 + e^−m."""
    margin = 1.2784645427610738
    problem = posed(100, margin / (1 + math.exp(margin)) / margin**2)
    alike = replace(
        problem, rows=np.repeat(problem.rows[:1], 100, axis=0), labels=np.ones_like(problem.labels)
    )
    found = float(np.linalg.norm(reach_minimum(alike, np.zeros((1, DIMENSIONS)))[0]))
    assert found == pytest.approx(math.sqrt(0.2784645427610738 / (problem.penalty / 100)), rel=1e-6)
