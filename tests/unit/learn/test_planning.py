"""Bounds to plan with, held against drawn noise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sfumato.errors import UsageError
from sfumato.learn import excess_loss, least_rows, output_shrink, rows_needed, shrink_for
from sfumato.learn.convex.losses import LOGISTIC
from sfumato.learn.convex.perturbation import Neighbouring, objective, objective_tilt, output, output_scale
from sfumato.learn.convex.problems import OfMargins, Problem

REPLACED = Neighbouring(replaced=True)
FORMS = {"output": output, "objective": objective}
DIMENSIONS = 4


def posed(rows: int, shrink: float, seed: int = 0) -> Problem:
    """Points on the unit sphere, of which one in ten has the other label."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, DIMENSIONS))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = ((X[:, 0] > 0) ^ (rng.random(rows) < 0.1)).astype(np.int64)
    joint = OfMargins(LOGISTIC, 2)
    return Problem(joint, X, joint.marks(y), shrink * rows, 1.0)


def mean_loss(problem: Problem, weights: np.ndarray) -> float:
    return problem.value(weights, np.zeros_like(weights)) / len(problem.rows)


@pytest.mark.parametrize("method", ["output", "objective"])
@pytest.mark.parametrize(
    ("rows", "shrink", "epsilon"), [(1000, 0.05, 0.5), (3000, 0.01, 0.3), (500, 0.2, 2.0)]
)
def test_the_loss_exceeds_its_bound_no_more_often_than_is_said(
    method: str, rows: int, shrink: float, epsilon: float
) -> None:
    """At a chance of 1/10, of 100 draws at most 26 exceed it, but for one case in a million."""
    problem = posed(rows, shrink)
    assert rows >= least_rows(shrink=shrink, epsilon=epsilon)
    lowest = mean_loss(problem, problem.minimum(np.zeros((1, DIMENSIONS)))[0])
    bound = excess_loss(method, rows=rows, dimensions=DIMENSIONS, shrink=shrink, epsilon=epsilon, chance=0.1)
    drawn = [mean_loss(problem, FORMS[method](problem, epsilon, REPLACED)) - lowest for _ in range(100)]
    assert sum(excess > bound for excess in drawn) <= 26
    assert min(drawn) >= 0


@pytest.mark.parametrize("method", ["output", "objective"])
def test_so_many_rows_suffice(method: str) -> None:
    """Against weights of length 3 along the plane's normal; of 40 draws at a chance of 1/10, at most 16."""
    error, norm, epsilon = 0.1, 3.0, 1.0
    rows = rows_needed(method, error=error, norm=norm, dimensions=DIMENSIONS, epsilon=epsilon, chance=0.1)
    problem = posed(rows, shrink_for(error=error, norm=norm))
    known = np.array([[norm, 0.0, 0.0, 0.0]])
    plain = replace(problem, penalty=0.0)
    drawn = [mean_loss(plain, FORMS[method](problem, epsilon, REPLACED)) for _ in range(40)]
    assert sum(loss > mean_loss(plain, known) + error for loss in drawn) <= 16


def test_from_least_rows_on_no_penalty_is_added() -> None:
    for shrink, epsilon in ((0.01, 0.1), (0.001, 1.0)):
        rows = least_rows(shrink=shrink, epsilon=epsilon)
        for count, added in ((rows, False), (rows * 9 // 10, True)):
            problem = replace(posed(10, 1.0), penalty=shrink * count)
            assert (objective_tilt(problem, epsilon, REPLACED).penalty > problem.penalty) == added


def test_objective_needs_fewer_rows() -> None:
    given = {"error": 0.01, "norm": 10.0, "dimensions": 10, "epsilon": 0.1}
    assert rows_needed("objective", **given) < rows_needed("output", **given) / 10


def test_bounds_fall_as_they_should() -> None:
    given = {"dimensions": 10, "shrink": 0.01, "epsilon": 0.1}
    for method in ("output", "objective"):
        few, many = (excess_loss(method, rows=rows, **given) for rows in (1000, 10_000))
        assert few / many == pytest.approx(100)
    assert excess_loss("objective", rows=1000, chance=0.1, **given) == pytest.approx(
        8 * (10 * math.log(100)) ** 2 / (0.01 * 1000**2 * 0.1**2)
    )


def test_other_methods_have_no_bound_here() -> None:
    with pytest.raises(UsageError, match="not known"):
        excess_loss("gradient", rows=10, dimensions=2, shrink=0.1, epsilon=1)
    with pytest.raises(UsageError, match="chance"):
        excess_loss("output", rows=10, dimensions=2, shrink=0.1, epsilon=1, chance=2)


@pytest.mark.parametrize(("rows", "epsilon"), [(14_000, 0.1), (2000, 0.1), (500, 3.0)])
def test_noise_is_short_beside_what_a_minimiser_can_be(rows: int, epsilon: float) -> None:
    """No rows make it longer than is said; all alike make it almost so long where the penalty is right."""
    shrink = output_shrink(rows=rows, dimensions=DIMENSIONS, epsilon=epsilon)
    problem = posed(rows, shrink)
    longest = math.sqrt(0.27847 / shrink)
    noise = DIMENSIONS * output_scale(problem, REPLACED) / epsilon
    assert noise == pytest.approx(0.2 * longest, rel=1e-3)
    alike = replace(
        problem, rows=np.repeat(problem.rows[:1], rows, axis=0), marks=np.ones_like(problem.marks)
    )
    for each in (problem, alike):
        assert np.linalg.norm(each.minimum(np.zeros((1, DIMENSIONS)))[0]) <= longest


def test_a_minimiser_is_as_long_as_it_can_be() -> None:
    """Of rows that are all alike, at the margin where they pull the most: m = 1 + e^−m."""
    margin = 1.2784645427610738
    problem = posed(100, margin / (1 + math.exp(margin)) / margin**2)
    alike = replace(problem, rows=np.repeat(problem.rows[:1], 100, axis=0), marks=np.ones_like(problem.marks))
    found = float(np.linalg.norm(alike.minimum(np.zeros((1, DIMENSIONS)))[0]))
    assert found == pytest.approx(math.sqrt(0.2784645427610738 / (problem.penalty / 100)), rel=1e-6)
