"""How near its minimum a convex problem is solved for certain, in doubles, whatever its rows are.

Because : docs/proofs/convex.md#arrival
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.learn.convex.descent import CONSTANT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.learn.convex.problems import Joint, Problem

    Floats = NDArray[np.float64]

LONGEST = math.hypot(1.0, CONSTANT) * (1 + 2.0**-40)
"""Of a row with its constant, in lengths of the longest; doubles add less than that."""
_UNIT = 2.0**-53
_BLOCK = 1024
"""So many rows are added up by doubles; blocks of them exactly."""
_ROOM = 1.01
_MOST_STEPS, _MOST_NUMBERS = 50_000, 2**25
"""Beyond these a fit would take hours, or gigabytes of rows and of their second derivatives."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """All of it public."""

    within: float
    """So near the minimum, in weights."""
    pace: float
    """One over the root of how much steeper the problem grows at most than at least."""
    steps: int


def arrival(joint: Joint, size: int, penalty: float, rows: float, tilt: float) -> Arrival | None:
    """Of problems with at most so many rows of this size, and a tilt at most so long; or none is proven."""
    most = _ROOM * (joint.curvature * rows * LONGEST**2 + penalty)
    pace = math.sqrt(penalty / most)
    start = _ROOM * (2 * rows * _at_nothing(joint) + tilt**2 / penalty)
    reach = 3 * math.sqrt(start / penalty)
    off = slope_off(joint, (rows, size, LONGEST), penalty * reach + most * reach, reach)
    floor = 2 * (4 * off / penalty + 128 * _UNIT * reach / pace**2)
    steps = math.ceil(2 / pace * math.log(max(2.0, reach / floor)))
    numbers = rows * (size + joint.outputs**2)
    if floor > reach / 10 or steps > _MOST_STEPS or numbers > _MOST_NUMBERS:
        return None
    return Arrival(2 * floor, pace, steps)


def _at_nothing(joint: Joint) -> float:
    """The loss of a row where all weights are 0."""
    return joint.value(np.zeros((1, joint.outputs)), joint.marks(np.zeros(1, dtype=np.int64)))


def arrived(problem: Problem, tilt: Floats, public: Arrival) -> Floats:
    """Nesterov's steps, as many as are proven to arrive."""
    weights = ahead = np.zeros_like(tilt)
    pace = public.pace
    for _ in range(public.steps):
        at = (weights + pace * ahead) / (1 + pace)
        slope = slope_of(problem, at, tilt)
        weights = at - pace * pace / problem.penalty * slope
        ahead = (1 - pace) * ahead + pace * at - pace / problem.penalty * slope
    return weights


# ---- slopes, and what doubles make of them -----------------------------------------------------------------


def slope_of(problem: Problem, weights: Floats, tilt: Floats) -> Floats:
    """Of the tilted problem; sums of blocks are rounded once."""
    rows, marks = problem.rows, problem.marks
    blocks = [slice(at, at + _BLOCK) for at in range(0, len(rows), _BLOCK)]
    parts = [problem.joint.pulls(rows[at] @ weights.T, marks[at]).T @ rows[at] for at in blocks]
    parts += [problem.penalty * weights, tilt]
    columns = np.stack(parts).reshape(len(parts), -1).T.tolist()
    found: Floats = np.array([math.fsum(column) for column in columns]).reshape(weights.shape)
    return found


def steepness(problem: Problem, weights: Floats, tilt: Floats) -> float:
    """How steep the problem is at most, as real numbers: what doubles say, and what they may be off by."""
    steep = float(np.linalg.norm(slope_of(problem, weights, tilt))) * (1 + 2.0**-40)
    reach = float(np.linalg.norm(weights)) * (1 + 2.0**-40)
    return steep + slope_off(
        problem.joint, (*problem.rows.shape, problem.longest), problem.penalty * reach + steep, reach
    )


def slope_off(joint: Joint, rows: tuple[float, int, float], single: float, reach: float) -> float:
    """Twice what scores, pulls, sums in a block and single numbers may be off by, to first order.

    `rows`: how many, of how many numbers, and how long. `reach`: how long the weights are.
    """
    count, size, longest = rows
    outputs, curvature = joint.outputs, joint.curvature
    scores = size * _UNIT * longest * reach
    own = math.sqrt(outputs) * (outputs + 24 + 2 * curvature) * _UNIT
    pulls = curvature * scores + own + joint.steepness * _BLOCK * _UNIT
    return 2 * (count * longest * pulls + 4 * _UNIT * single)
