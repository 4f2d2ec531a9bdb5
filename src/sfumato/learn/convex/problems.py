"""Regularised convex problems over one's own rows, in real numbers: what perturbation methods minimise.

Because : docs/proofs/convex.md#losses
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.learn.convex.losses import Loss

    Floats = NDArray[np.float64]
    Codes = NDArray[np.int64]


class ScoreLoss(Protocol):
    """The loss of a row as a function of its scores, and the constants that proofs need of it.

    Labels are encoded once, by `encode_labels`, as a matrix with one column a score.
    """

    @property
    def outputs(self) -> int:
        """Number of scores of a row."""

    @property
    def lipschitz(self) -> float:
        """Lipschitz constant by the scores: no row's score gradient is longer than this."""

    @property
    def smoothness(self) -> float:
        """Largest eigenvalue that the Hessian by the scores can have."""

    @property
    def gradient_dimensions(self) -> int:
        """Dimension of the space that score gradients lie in."""

    def log_det_increase(self, ratio: float) -> float:
        """Bound by how much one row raises the log determinant of the objective's Hessian.

        `ratio` is the largest squared norm of a row, over the penalty.
        """

    def encode_labels(self, codes: Codes) -> Floats:
        """Return the labels as `value` and the derivatives want them; all 0 for rows of no class."""

    def value(self, scores: Floats, labels: Floats) -> float:
        """Return the loss of all rows, added up."""

    def score_gradients(self, scores: Floats, labels: Floats) -> Floats:
        """Return the gradient of every row's loss by its scores: rows × outputs."""

    def score_hessians(self, scores: Floats, labels: Floats) -> Floats:
        """Return the Hessian of every row's loss by its scores: rows × outputs × outputs."""


@dataclass(frozen=True, slots=True)
class MarginLoss:
    """A loss of margins: one score for two classes; else one for each class against the rest, added up."""

    loss: Loss
    classes: int

    @property
    def outputs(self) -> int:
        return 1 if self.classes == 2 else self.classes

    @property
    def lipschitz(self) -> float:
        return self.loss.lipschitz * math.sqrt(self.outputs)

    @property
    def smoothness(self) -> float:
        return self.loss.smoothness

    @property
    def gradient_dimensions(self) -> int:
        return self.outputs

    def log_det_increase(self, ratio: float) -> float:
        return self.outputs * math.log1p(self.loss.smoothness * ratio)

    def encode_labels(self, codes: Codes) -> Floats:
        """Return +1 for a row's own class and −1 for others; 0 for rows of no class."""
        own = np.arange(1, 2) if self.outputs == 1 else np.arange(self.classes)
        found: Floats = 2.0 * (codes[:, None] == own) - 1.0
        found *= ((codes >= 0) & (codes < self.classes))[:, None]
        return found

    def value(self, scores: Floats, labels: Floats) -> float:
        return float((self.loss.value(scores * labels) * np.abs(labels)).sum())

    def score_gradients(self, scores: Floats, labels: Floats) -> Floats:
        found: Floats = self.loss.derivative(scores * labels) * labels
        return found

    def score_hessians(self, scores: Floats, labels: Floats) -> Floats:
        # Finite differences will do: the Hessian only directs Newton's steps, and no proof rests on it.
        step, margins = 1e-5, scores * labels
        second = (self.loss.derivative(margins + step) - self.loss.derivative(margins - step)) / (2 * step)
        found: Floats = np.maximum(second * np.abs(labels), 0.0)[:, :, None] * np.eye(self.outputs)
        return found


@dataclass(frozen=True, slots=True)
class SoftmaxLoss:
    """Cross-entropy: minus the logarithm of the probability that softmax gives to a row's own class."""

    classes: int

    @property
    def outputs(self) -> int:
        return self.classes

    @property
    def lipschitz(self) -> float:
        return math.sqrt(2)

    @property
    def smoothness(self) -> float:
        # v·(diag(p) − ppᵀ)·v is the variance of v, at most a quarter of (2·max|v|)² and half of ‖v‖².
        return 0.5

    @property
    def gradient_dimensions(self) -> int:
        # The entries of p − e_y add up to 0.
        return self.classes - 1

    def log_det_increase(self, ratio: float) -> float:
        # diag(p) − ppᵀ has K − 1 positive eigenvalues, which add up to 1 − Σp² ≤ 1 − 1/K.
        return (self.classes - 1) * math.log1p(ratio / self.classes)

    def encode_labels(self, codes: Codes) -> Floats:
        """Return 1 for a row's own class and 0 for others."""
        found: Floats = (codes[:, None] == np.arange(self.classes)).astype(np.float64)
        return found

    def value(self, scores: Floats, labels: Floats) -> float:
        highest = scores.max(axis=1, keepdims=True)
        log_sum_exp = np.log(np.exp(scores - highest).sum(axis=1, keepdims=True)) + highest
        return float(((log_sum_exp - scores) * labels).sum())

    def score_gradients(self, scores: Floats, labels: Floats) -> Floats:
        found: Floats = _softmax(scores) * labels.sum(axis=1, keepdims=True) - labels
        return found

    def score_hessians(self, scores: Floats, labels: Floats) -> Floats:
        p = _softmax(scores)
        found: Floats = p[:, :, None] * np.eye(self.classes) - p[:, :, None] * p[:, None, :]
        found *= labels.sum(axis=1)[:, None, None]
        return found


def _softmax(scores: Floats) -> Floats:
    # The largest score is taken off first, so that exp cannot overflow.
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    found: Floats = odds / odds.sum(axis=1, keepdims=True)
    return found


@dataclass(frozen=True, slots=True)
class ConvexProblem:
    """The objective Σ loss + penalty/2·‖w‖² + perturbation·w, over rows no longer than `row_norm`.

    The penalty (regularisation) makes it `penalty`-strongly convex. The perturbation is an argument of every
    method: a matrix shaped like the weights, all 0 where the objective is not perturbed.
    """

    loss: ScoreLoss
    rows: Floats
    labels: Floats
    penalty: float
    row_norm: float
    offset: Floats | float = 0.0
    """Public scores that all rows start from. Losses are Lipschitz and smooth at every score."""

    def scores(self, weights: Floats) -> Floats:
        """Return the scores of all rows."""
        found: Floats = self.rows @ weights.T + self.offset
        return found

    def value(self, weights: Floats, perturbation: Floats) -> float:
        """Return the objective at these weights."""
        loss = self.loss.value(self.scores(weights), self.labels)
        return loss + self.penalty / 2 * float((weights**2).sum()) + float((perturbation * weights).sum())

    def gradient(self, weights: Floats, perturbation: Floats) -> Floats:
        """Return the gradient of the objective at these weights."""
        by_scores = self.loss.score_gradients(self.scores(weights), self.labels)
        found: Floats = by_scores.T @ self.rows + self.penalty * weights + perturbation
        return found

    def hessian(self, weights: Floats) -> Floats:
        """Return the Hessian at these weights, as a matrix over all weights."""
        outputs, size = weights.shape
        by_scores = self.loss.score_hessians(self.scores(weights), self.labels)
        found = np.zeros((outputs, size, outputs, size))
        for one in range(outputs):
            # The Hessian is symmetric: each block is computed once and written twice.
            for other in range(one + 1):
                block = (self.rows * by_scores[:, one, other][:, None]).T @ self.rows
                found[one, :, other, :] = found[other, :, one, :] = block
        whole: Floats = found.reshape(outputs * size, outputs * size)
        whole[np.diag_indices_from(whole)] += self.penalty
        return whole

    def hessian_product(self, weights: Floats) -> Callable[[Floats], Floats]:
        """Return the function that multiplies the Hessian at these weights by a direction."""
        by_scores = self.loss.score_hessians(self.scores(weights), self.labels)

        def multiply(direction: Floats) -> Floats:
            along = np.einsum("nkl,nl->nk", by_scores, self.rows @ direction.T)
            found: Floats = along.T @ self.rows + self.penalty * direction
            return found

        return multiply

    @property
    def gradient_tolerance(self) -> float:
        """Norm that the gradient may still have where a solver stops; public."""
        return 1e-8 * max(1.0, self.penalty)
