"""How estimators price and run output and objective perturbation, on own arrays and behind the curator."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.plan.spend import GaussianSpend, PureSpend
from sfumato.errors import PolicyError, UsageError
from sfumato.learn.convex import perturbation
from sfumato.learn.convex.convergence import ROW_NORM
from sfumato.learn.convex.descent import CONSTANT, LearnedWeights
from sfumato.learn.convex.objective_release import STEP, ObjectiveRelease, bound_count_error
from sfumato.learn.convex.problems import ConvexProblem
from sfumato.oracle.blocks import COUNT, SumBlock
from sfumato.oracle.declared import require_labels
from sfumato.oracle.fit_budget import FitBudget
from sfumato.privacy.events import ApproxDP, Pure
from sfumato.privacy.exact import parse_exact, parse_positive

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.learn.convex.problems import ScoreLoss
    from sfumato.oracle.over_arrays import ArrayOracle
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

# Privacy depends on neither; benchmarks/learners.py measures fits with both.
_PENALTY = 1.0
"""Penalty where none is given and the noise does not ask for more."""
_FEW_WEIGHTS = 64
_STRENGTH, _STRENGTH_OF_MANY = 0.03, 0.3
"""Penalties of objective perturbation over the mean length of its noise; the second for one score of more
than so many weights. `python benchmarks/learners_unseen.py --choose` measures them on development tables."""
_COUNT_SHARE = Fraction(1, 50)
"""Share of ε for the number of rows, behind the curator."""


def price_method(budget: FitBudget, method: str) -> FitBudget:
    """Return the budget with the price that the perturbation method is proven for."""
    if method == "gaussian":
        if budget.epsilon is None or not budget.delta:
            raise UsageError(
                "SF-N316",
                "Gaussian objective perturbation needs a delta.",
                try_='epsilon=1.0, delta=1e-6, or method="objective"',
            )
        # Behind the curator rows are counted first, as pure ε; the price of the whole is the same there.
        counting = FitBudget.of({"epsilon": budget.epsilon, "delta": budget.delta}, _COUNT_SHARE)
        return replace(counting, whole=ApproxDP(budget.epsilon, budget.delta), words=budget.words)
    if isinstance(budget.main, GaussianSpend):
        raise UsageError(
            "SF-N316",
            "Output and objective perturbation cost pure ε and take no delta and no rho.",
            try_='epsilon=1.0 alone, or method="gaussian" with a delta',
        )
    return replace(budget, whole=Pure(budget.alone.epsilon))


# ---- own arrays --------------------------------------------------------------------------------------------


def fit_own_rows(
    oracle: ArrayOracle,
    loss: ScoreLoss,
    method: str,
    penalty: float | None,
    offset: Floats | float,
    left: Fraction,
) -> LearnedWeights:
    """Learn weights by perturbation, from rows whose norm is clipped already and a constant beside them.

    All scores start from `offset`, which is public. The fit has the share `left` of pure ε.
    """
    norm, budget = oracle.declared.norm, oracle.budget
    if norm is None:
        raise AssertionError("rows are clipped before")
    (event,) = budget.events
    if left < 1:
        event = Pure(budget.alone.epsilon * left)
        budget = replace(budget, alone=PureSpend(budget.alone.epsilon * left))
    features, codes = oracle.read_rows(event)
    # Rows of norm 1 at most, so that the Lipschitz constant of the loss bounds their gradients.
    rows = np.hstack([features / norm, np.full((len(features), 1), CONSTANT)])
    strength = penalty or _choose_penalty(budget, loss, method, rows.shape[1])
    problem = ConvexProblem(loss, rows, loss.encode_labels(codes), strength, ROW_NORM, offset)
    weights = _perturb(problem, budget, method)
    weights[:, -1] += offset / CONSTANT
    return LearnedWeights(weights, CONSTANT, norm, math.nan, 1)


def _perturb(problem: ConvexProblem, budget: FitBudget, method: str) -> Floats:
    if method == "gaussian" and budget.epsilon is not None:
        epsilon, delta = float(budget.epsilon), float(budget.delta)
        return perturbation.perturb_objective_gaussian(problem, epsilon, delta)
    epsilon = float(budget.alone.epsilon)
    if method == "objective":
        return perturbation.perturb_objective(problem, epsilon)
    return perturbation.perturb_output(problem, epsilon)


def _choose_penalty(budget: FitBudget, loss: ScoreLoss, method: str, size: int) -> float:
    """Return a penalty that grows with the noise, by what is public."""
    if method == "gaussian":
        return _PENALTY
    numbers = loss.outputs * size
    noise = numbers / float(budget.alone.epsilon)
    many = loss.outputs == 1 and numbers > _FEW_WEIGHTS
    objective = _STRENGTH_OF_MANY if many else _STRENGTH
    return max(_PENALTY, noise * (1.0 if method == "output" else objective))


# ---- behind the curator ------------------------------------------------------------------------------------


def plan_release(oracle: Oracle, loss: str, width: Any, penalty: float | None) -> ObjectiveRelease:
    """Return what is to be released of rows whose norm is clipped already, for one row so far."""
    declared, budget = oracle.declared, oracle.budget
    if oracle.rows_per_unit > 1 or oracle.replaced:
        raise PolicyError(
            "SF-E132",
            "Gaussian objective perturbation is proven for units of one row that are added or removed.",
            try_='rows_per_unit=1, or method="gradient"',
        )
    if declared.norm is None or budget.epsilon is None:
        raise AssertionError("rows are clipped before, and there is an ε")
    return ObjectiveRelease(
        loss,
        parse_positive(width, "width"),
        len(require_labels(declared).classes),
        len(declared.features) + 1,
        declared.norm,
        parse_exact(penalty or _PENALTY, "penalty"),
        1,
        budget.epsilon * (1 - _COUNT_SHARE),
        budget.delta,
    )


def count_rows(oracle: Oracle, asked: ObjectiveRelease) -> tuple[ObjectiveRelease, float]:
    """Return the release for as many rows as there almost surely are, and their noisy number."""
    budget, block = oracle.budget, SumBlock((COUNT,), 1, 1)
    if budget.aside is None:
        raise AssertionError("rows are counted by a part of ε")
    (answer,) = oracle.sums([block], out_of=budget.aside)
    rows = float(answer.values[0, 0])
    # Once for the noise of this count, once for that of the test, and once for the test's own margin.
    most = math.ceil(rows) + 3 * bound_count_error(asked.epsilon, asked.delta)
    return replace(asked, rows=max(1, most)), max(1.0, rows)


def fit_release(oracle: Oracle, asked: ObjectiveRelease) -> LearnedWeights:
    """Release the weights and return them."""
    return LearnedWeights(oracle.release_objective(asked) * STEP, CONSTANT, asked.norm, math.nan, 1)
