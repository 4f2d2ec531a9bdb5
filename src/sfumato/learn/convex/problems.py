"""Regularised convex problems over one's own rows, as real numbers: what textbook forms minimise.

Because : docs/proofs/convex.md#losses
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sfumato.learn.convex.solvers import minimum

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.learn.convex.losses import Loss

    Floats = NDArray[np.float64]


class Joint(Protocol):
    """The loss of a row as a function of its scores, and what proofs need to know of it."""

    @property
    def outputs(self) -> int: ...

    @property
    def steepness(self) -> float:
        """No row pulls its scores further than this, in all."""

    @property
    def curvature(self) -> float:
        """No second derivative by scores is larger in any direction."""

    @property
    def freedom(self) -> int:
        """In so many directions of the scores a row can pull."""

    def log_det(self, ratio: float) -> float:
        """By how much a row can raise log det of the second derivatives.

        `ratio` is the square of the longest row, over the penalty.
        """

    def marks(self, codes: NDArray[np.int64]) -> Floats:
        """What is to be known of each row's class; all nothing for rows of no class."""

    def value(self, scores: Floats, marks: Floats) -> float: ...

    def pulls(self, scores: Floats, marks: Floats) -> Floats: ...

    def curve(self, scores: Floats, marks: Floats) -> Floats:
        """The second derivatives of every row by two of its scores: rows × outputs × outputs."""


@dataclass(frozen=True, slots=True)
class OfMargins:
    """One score for two classes; else one for each class, against all others, and the losses added up."""

    loss: Loss
    classes: int

    @property
    def outputs(self) -> int:
        return 1 if self.classes == 2 else self.classes

    @property
    def steepness(self) -> float:
        return self.loss.steepness * math.sqrt(self.outputs)

    @property
    def curvature(self) -> float:
        return self.loss.curvature

    @property
    def freedom(self) -> int:
        return self.outputs

    def log_det(self, ratio: float) -> float:
        return self.outputs * math.log1p(self.loss.curvature * ratio)

    def marks(self, codes: NDArray[np.int64]) -> Floats:
        own = np.arange(1, 2) if self.outputs == 1 else np.arange(self.classes)
        found: Floats = 2.0 * (codes[:, None] == own) - 1.0
        found *= ((codes >= 0) & (codes < self.classes))[:, None]
        return found

    def value(self, scores: Floats, marks: Floats) -> float:
        return float((self.loss.value(scores * marks) * np.abs(marks)).sum())

    def pulls(self, scores: Floats, marks: Floats) -> Floats:
        found: Floats = self.loss.slope(scores * marks) * marks
        return found

    def curve(self, scores: Floats, marks: Floats) -> Floats:
        """By differences of the slope, which is as smooth as is needed of a direction to go."""
        step, margins = 1e-5, scores * marks
        second = (self.loss.slope(margins + step) - self.loss.slope(margins - step)) / (2 * step)
        found: Floats = np.maximum(second * np.abs(marks), 0.0)[:, :, None] * np.eye(self.outputs)
        return found


@dataclass(frozen=True, slots=True)
class Chances:
    """The logarithm of the chance that scores give to a row's own class."""

    classes: int

    @property
    def outputs(self) -> int:
        return self.classes

    @property
    def steepness(self) -> float:
        return math.sqrt(2)

    @property
    def curvature(self) -> float:
        """v·(diag(p) − ppᵀ)·v is the variance of v, at most a quarter of (2·max|v|)² and half of ‖v‖²."""
        return 0.5

    @property
    def freedom(self) -> int:
        """Pulls add up to nothing."""
        return self.classes - 1

    def log_det(self, ratio: float) -> float:
        """diag(p) − ppᵀ has K − 1 positive eigenvalues, which add up to 1 − Σp² ≤ 1 − 1/K."""
        return (self.classes - 1) * math.log1p(ratio / self.classes)

    def marks(self, codes: NDArray[np.int64]) -> Floats:
        found: Floats = (codes[:, None] == np.arange(self.classes)).astype(np.float64)
        return found

    def value(self, scores: Floats, marks: Floats) -> float:
        highest = scores.max(axis=1, keepdims=True)
        whole = np.log(np.exp(scores - highest).sum(axis=1, keepdims=True)) + highest
        return float(((whole - scores) * marks).sum())

    def pulls(self, scores: Floats, marks: Floats) -> Floats:
        found: Floats = self._chances(scores) * marks.sum(axis=1, keepdims=True) - marks
        return found

    def curve(self, scores: Floats, marks: Floats) -> Floats:
        chances = self._chances(scores)
        found: Floats = chances[:, :, None] * np.eye(self.classes) - chances[:, :, None] * chances[:, None, :]
        found *= marks.sum(axis=1)[:, None, None]
        return found

    def _chances(self, scores: Floats) -> Floats:
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        found: Floats = odds / odds.sum(axis=1, keepdims=True)
        return found


@dataclass(frozen=True, slots=True)
class Problem:
    """Σ loss + penalty/2·‖w‖² over rows none of which is longer than `longest`."""

    joint: Joint
    rows: Floats
    marks: Floats
    penalty: float
    longest: float

    def slope(self, weights: Floats, tilt: Floats) -> Floats:
        pulls = self.joint.pulls(self.rows @ weights.T, self.marks)
        found: Floats = pulls.T @ self.rows + self.penalty * weights + tilt
        return found

    def value(self, weights: Floats, tilt: Floats) -> float:
        loss = self.joint.value(self.rows @ weights.T, self.marks)
        return loss + self.penalty / 2 * float((weights**2).sum()) + float((tilt * weights).sum())

    def curved(self, weights: Floats) -> Callable[[Floats], Floats]:
        """The second derivatives at some weights, as what they make of a direction."""
        curve = self.joint.curve(self.rows @ weights.T, self.marks)

        def times(direction: Floats) -> Floats:
            turned = np.einsum("nkl,nl->nk", curve, self.rows @ direction.T)
            found: Floats = turned.T @ self.rows + self.penalty * direction
            return found

        return times

    def curve(self, weights: Floats) -> Floats:
        """The same, written out."""
        outputs, size = weights.shape
        curve = self.joint.curve(self.rows @ weights.T, self.marks)
        found = np.zeros((outputs, size, outputs, size))
        for one in range(outputs):
            for other in range(one + 1):
                part = (self.rows * curve[:, one, other][:, None]).T @ self.rows
                found[one, :, other, :] = found[other, :, one, :] = part
        whole: Floats = found.reshape(outputs * size, outputs * size)
        whole[np.diag_indices_from(whole)] += self.penalty
        return whole

    @property
    def remainder(self) -> float:
        """How steep the problem may still be where a solver stops; public."""
        return 1e-8 * max(1.0, self.penalty)

    def minimum(self, tilt: Floats) -> tuple[Floats, float]:
        """Where the problem with a tilt has its minimum, and how steep it still is there."""
        return minimum(self, tilt, self.remainder)

    def near(self, tilt: Floats) -> Floats:
        """Weights at which the problem is as flat as its remainder says.

        That they are reached is proven for real numbers. If doubles did not, rows would count nowhere: an
        error would be a release too.
        """
        found, steep = self.minimum(tilt)
        return found if steep <= self.remainder else -tilt / self.penalty
