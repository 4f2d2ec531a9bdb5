"""Forms of perturbation as estimators use them: what they cost, and what they learn from."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.plan.spend import GaussianSpend
from sfumato.errors import PolicyError, UsageError
from sfumato.learn.convex import perturbation
from sfumato.learn.convex.convergence import LONGEST
from sfumato.learn.convex.descent import CONSTANT, Found
from sfumato.learn.convex.objective_release import STEP, ObjectiveRelease, beyond
from sfumato.learn.convex.problems import Problem
from sfumato.oracle.blocks import COUNT, Block
from sfumato.oracle.fit_budget import FitBudget
from sfumato.oracle.gradients import labels
from sfumato.privacy.events import ApproxDP, Pure
from sfumato.privacy.exact import exact, positive

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.learn.convex.problems import Joint
    from sfumato.oracle.over_arrays import ArrayOracle
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

_PENALTY = 1.0
_COUNTED = Fraction(1, 50)
"""Of ε, behind the curator."""


def priced(budget: FitBudget, form: str) -> FitBudget:
    """The same budget, priced as the form is proven."""
    if form == "gaussian":
        if budget.epsilon is None or not budget.delta:
            raise UsageError(
                "SF-E134", "This form has a delta.", try_='epsilon=1.0, delta=1e-6, or method="objective"'
            )
        counting = FitBudget.of({"epsilon": budget.epsilon, "delta": budget.delta}, _COUNTED)
        return replace(counting, whole=ApproxDP(budget.epsilon, budget.delta), words=budget.words)
    if form == "objective" and budget.delta:
        raise UsageError(
            "SF-E134", "Objective perturbation is of pure ε.", try_='no delta, or method="gaussian" with one'
        )
    if isinstance(budget.main, GaussianSpend) and form == "output":
        return budget
    return replace(budget, whole=Pure(budget.alone.epsilon))


def learned(oracle: ArrayOracle, joint: Joint, form: str, penalty: float | None) -> Found:
    """From rows that are shortened already, and from the constant beside them."""
    norm = oracle.declared.norm
    if norm is None:
        raise AssertionError("rows are shortened before")
    (event,) = oracle.budget.events
    features, codes = oracle.plain(event)
    rows = np.hstack([features / norm, np.full((len(features), 1), CONSTANT)])
    problem = Problem(
        joint,
        rows,
        joint.marks(codes),
        penalty or _penalty(oracle.budget, joint, form, rows.shape[1]),
        LONGEST,
    )
    return Found(_weights(problem, oracle.budget, form), CONSTANT, norm, math.nan, 1)


def minima(oracle: Oracle, loss: str, width: Any, penalty: float | None) -> ObjectiveRelease:
    """What is to be released behind the curator, of rows that are shortened already; of none so far."""
    declared, budget = oracle.declared, oracle.budget
    if oracle.rows_per_unit > 1 or oracle.replaced:
        raise PolicyError(
            "SF-E142",
            "This form is proven for units of one row that are added or removed.",
            try_='rows_per_unit=1, or method="gradient"',
        )
    if declared.norm is None or budget.epsilon is None:
        raise AssertionError("rows are shortened before, and there is an ε")
    return ObjectiveRelease(
        loss,
        positive(width, "width"),
        len(labels(declared).classes),
        len(declared.features) + 1,
        declared.norm,
        exact(penalty or _PENALTY, "penalty"),
        1,
        budget.epsilon * (1 - _COUNTED),
        budget.delta,
    )


def counted(oracle: Oracle, asked: ObjectiveRelease) -> tuple[ObjectiveRelease, float]:
    """The same, of as many rows as there are, almost surely; and how many were counted, with noise."""
    budget, block = oracle.budget, Block((COUNT,), 1, 1)
    if budget.aside is None:
        raise AssertionError("rows are counted by a part of ε")
    (answer,) = oracle.sums([block], out_of=budget.aside)
    rows = float(answer.values[0, 0])
    most = math.ceil(rows) + 3 * beyond(asked.epsilon, asked.delta)  # 1 for each noise, and 1 in the test
    return replace(asked, rows=max(1, most)), max(1.0, rows)


def released(oracle: Oracle, asked: ObjectiveRelease) -> Found:
    return Found(oracle.release_objective(asked) * STEP, CONSTANT, asked.norm, math.nan, 1)


def _weights(problem: Problem, budget: FitBudget, form: str) -> Floats:
    if form == "gaussian" and budget.epsilon is not None:
        return perturbation.gaussian(problem, float(budget.epsilon), float(budget.delta))
    epsilon = float(budget.alone.epsilon)
    if form == "objective":
        return perturbation.objective(problem, epsilon)
    if isinstance(budget.main, GaussianSpend):
        return perturbation.gaussian_output(problem, float(budget.main.multiplier))
    return perturbation.output(problem, epsilon)


def _penalty(budget: FitBudget, joint: Joint, form: str, size: int) -> float:
    """Noise on the minimiser wants one that makes it about 1 long; noise on the problem needs less."""
    if form != "output":
        return _PENALTY
    numbers = joint.outputs * size
    if isinstance(budget.main, GaussianSpend):
        return max(_PENALTY, math.sqrt(numbers) * float(budget.main.multiplier))
    return max(_PENALTY, numbers / float(budget.alone.epsilon))
