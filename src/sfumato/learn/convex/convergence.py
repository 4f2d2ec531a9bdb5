"""How near its minimum a convex problem is certainly solved, in doubles and whatever its rows are.

Because : docs/proofs/convex.md#convergence
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.learn.convex.descent import CONSTANT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.learn.convex.problems import ConvexProblem, ScoreLoss

    Floats = NDArray[np.float64]

# Privacy rests on these: they are numbers of the proof. Only the two limits at the end are about time.
ROW_NORM = math.hypot(1.0, CONSTANT) * (1 + 2.0**-40)
"""Bound on the norm of a row with its constant, features scaled to norm 1; 2^−40 covers what doubles add."""
_UNIT = 2.0**-53
"""Unit roundoff of doubles."""
_BLOCK = 1024
"""Rows whose gradients doubles add up; blocks are added exactly. A larger block has a larger error bound."""
_SAFETY = 1.01
"""Factor on the smoothness and the start, for what the doubles of this bound itself may be off by."""
_MOST_STEPS, _MOST_NUMBERS = 50_000, 2**25
"""Beyond these a fit would take hours, or gigabytes for rows and their Hessians."""


@dataclass(frozen=True, slots=True)
class ConvergenceBound:
    """How far from the minimum accelerated descent certainly ends, and how to run it. All of it is public."""

    distance: float
    """Distance from the minimum, in weights, that the descent ends within."""
    root: float
    """√(strong convexity / smoothness): one over the root of the condition number."""
    steps: int


def bound_convergence(
    loss: ScoreLoss, size: int, penalty: float, rows: float, perturbation: float
) -> ConvergenceBound | None:
    """Bound the descent for problems of at most so many rows, of `size` entries, and so long a perturbation.

    None is returned where nothing useful is proven.
    """
    smoothness = _SAFETY * (loss.smoothness * rows * ROW_NORM**2 + penalty)
    root = math.sqrt(penalty / smoothness)
    start = _SAFETY * (2 * rows * _loss_at_zero(loss) + perturbation**2 / penalty)
    reach = 3 * math.sqrt(start / penalty)  # the norm of every iterate is below this
    error = bound_gradient_error(loss, (rows, size, ROW_NORM), penalty * reach + smoothness * reach, reach)
    # What rounding leaves, to first order and doubled for all that is of higher order.
    floor = 2 * (4 * error / penalty + 128 * _UNIT * reach / root**2)
    # After so many steps the start has shrunk to the same size.
    steps = math.ceil(2 / root * math.log(max(2.0, reach / floor)))
    numbers = rows * (size + loss.outputs**2)
    if floor > reach / 10 or steps > _MOST_STEPS or numbers > _MOST_NUMBERS:
        return None
    return ConvergenceBound(2 * floor, root, steps)


def _loss_at_zero(loss: ScoreLoss) -> float:
    """Return the loss of a row where all weights are 0."""
    return loss.value(np.zeros((1, loss.outputs)), loss.encode_labels(np.zeros(1, dtype=np.int64)))


def descend_to_bound(problem: ConvexProblem, perturbation: Floats, public: ConvergenceBound) -> Floats:
    """Run Nesterov's accelerated descent for as many steps as are proven to end within the bound.

    The number of steps is public, and none is left out: when to stop must not depend on rows here.
    """
    weights = leading = np.zeros_like(perturbation)
    root = public.root
    for _ in range(public.steps):
        at = (weights + root * leading) / (1 + root)
        gradient = sum_gradient(problem, at, perturbation)
        weights = at - root * root / problem.penalty * gradient
        leading = (1 - root) * leading + root * at - root / problem.penalty * gradient
    return weights


# ---- gradients, and what rounding does to them -------------------------------------------------------------


def sum_gradient(problem: ConvexProblem, weights: Floats, perturbation: Floats) -> Floats:
    """Return the gradient of the objective; the sums of blocks are added exactly and rounded once."""
    rows, labels = problem.rows, problem.labels
    blocks = [slice(at, at + _BLOCK) for at in range(0, len(rows), _BLOCK)]
    parts = [problem.loss.score_gradients(rows[at] @ weights.T, labels[at]).T @ rows[at] for at in blocks]
    parts += [problem.penalty * weights, perturbation]
    # fsum rounds once, so the error bound grows with the size of a block and not with the number of rows.
    columns = np.stack(parts).reshape(len(parts), -1).T.tolist()
    found: Floats = np.array([math.fsum(column) for column in columns]).reshape(weights.shape)
    return found


def bound_gradient_norm(problem: ConvexProblem, weights: Floats, perturbation: Floats) -> float:
    """Bound the norm of the true gradient, in real numbers: what doubles say, and what they may be off by."""
    # 2^−40 covers the rounding of the norms themselves.
    norm = float(np.linalg.norm(sum_gradient(problem, weights, perturbation))) * (1 + 2.0**-40)
    reach = float(np.linalg.norm(weights)) * (1 + 2.0**-40)
    return norm + bound_gradient_error(
        problem.loss, (*problem.rows.shape, problem.row_norm), problem.penalty * reach + norm, reach
    )


def bound_gradient_error(
    loss: ScoreLoss, rows: tuple[float, int, float], single: float, reach: float
) -> float:
    """Bound the rounding error of `sum_gradient`: twice what it is to first order.

    `rows` is how many rows there are, of how many entries, and how long they are. `single` bounds the parts
    that no row is in, and `reach` the norm of the weights.
    """
    count, size, row_norm = rows
    outputs, smoothness = loss.outputs, loss.smoothness
    scores = size * _UNIT * row_norm * reach
    # The arithmetic of one score gradient: exp within 8 units of its last place, and sums over the scores.
    own = math.sqrt(outputs) * (outputs + 24 + 2 * smoothness) * _UNIT
    of_row = smoothness * scores + own + loss.lipschitz * _BLOCK * _UNIT
    return 2 * (count * row_norm * of_row + 4 * _UNIT * single)
