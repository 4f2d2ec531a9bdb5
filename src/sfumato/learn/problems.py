"""Regularised convex problems over one's own rows, as real numbers: what textbook forms minimise.

Because : docs/proofs/convex.md#losses
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.learn.losses import Loss

    Floats = NDArray[np.float64]

_ROUNDS = 60
_LARGE = 400
"""Beyond so many weights, second derivatives are not written out."""


class Joint(Protocol):
    """The loss of a row as a function of its scores, and what proofs need to know of it."""

    @property
    def outputs(self) -> int: ...

    @property
    def steepness(self) -> float:
        """No row pulls its scores further than this, in all."""

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

    def minimum(self, tilt: Floats, start: Floats | None = None) -> tuple[Floats, float]:
        """Where the problem with a tilt has its minimum, and how steep it still is there."""
        weights = np.zeros_like(tilt) if start is None else start
        if tilt.size > _LARGE:
            return self._descended(weights, tilt)
        floor = 1e-12 * max(1.0, self.penalty, len(self.rows))
        slope = self.slope(weights, tilt)
        for _ in range(_ROUNDS):
            if float(np.linalg.norm(slope)) <= floor:
                break
            step: Floats = np.asarray(np.linalg.solve(self._curve(weights), slope.ravel())).reshape(
                tilt.shape
            )
            weights, slope = self._stepped(weights, slope, step, tilt)
        return weights, float(np.linalg.norm(slope))

    def _stepped(self, weights: Floats, slope: Floats, step: Floats, tilt: Floats) -> tuple[Floats, Floats]:
        """As far as makes the slope shorter, as a short enough step does in a problem this convex."""
        length, found, now = float(np.linalg.norm(slope)), weights, slope
        for halves in range(40):
            found = weights - step / 2**halves
            now = self.slope(found, tilt)
            if float(np.linalg.norm(now)) < length:
                return found, now
        return weights, slope

    def _curve(self, weights: Floats) -> Floats:
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

    def _descended(self, weights: Floats, tilt: Floats) -> tuple[Floats, float]:
        from scipy.optimize import minimize

        shape = tilt.shape
        solve: Any = minimize
        found = solve(
            lambda w: self.value(w.reshape(shape), tilt),
            weights.ravel(),
            jac=lambda w: self.slope(w.reshape(shape), tilt).ravel(),
            method="L-BFGS-B",
            options={"maxiter": 2000, "maxfun": 4000, "ftol": 1e-15, "gtol": 1e-9},
        )
        reached = found.x.reshape(shape)
        return reached, float(np.linalg.norm(self.slope(reached, tilt)))
