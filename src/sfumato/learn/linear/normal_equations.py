"""Normal equations with noise on both sides, and a solution of them that noise costs little."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# Chosen with benchmarks/learners.py and the development tables of benchmarks/learners_unseen.py. Nothing here
# touches rows, so privacy does not depend on it.
_CLEAR, _CLOSE = 0.002, 1e-5
"""A first look is enough where its noise costs at most this share of the variance explained, or this much of
the squared bounds."""
_SHRINKAGE = 2.0
_JOINT_RIDGE = 2.0
"""Ridge in deviations times √d, where one noise is in both sides: the largest eigenvalue of such noise."""
_UNSURE, _LONGEST = 3.0, 4.0
"""Deviations that the length of a solution is not trusted by, and how far it is stretched at most."""


@dataclass(frozen=True, slots=True)
class NormalEquations:
    """Noisy products XᵀX, the noisy right side Xᵀy, and the deviations of their noise; in bounds."""

    products: Floats
    noise: float
    right: Floats
    right_noise: float
    joint: bool = False
    """Whether one noise of a matrix is in both sides, as with pure ε."""

    def solve(self) -> Floats:
        """Solve with a ridge as high as the noise of the matrix; directions of mostly noise are shrunk."""
        values, vectors = np.linalg.eigh(self.products)
        along = vectors.T @ self.right
        # Directions whose right side is within the noise count nothing.
        kept = np.maximum(0.0, 1 - _SHRINKAGE * self.right_noise**2 / np.maximum(along**2, 1e-300))
        if self.joint:
            # Many directions of a little each may stand out together (James and Stein).
            kept = np.maximum(kept, 1 - len(along) * self.right_noise**2 / max(float(along @ along), 1e-300))
        positive = np.maximum(values, 0.0)
        found = along * kept / (positive + self.ridge)
        if self.joint:
            found = self._stretch(found, positive, along * kept)
        return np.asarray(vectors @ found)

    def _stretch(self, weights: Floats, values: Floats, right: Floats) -> Floats:
        """Return weights of the length that fits best, along the directions of these eigenvalues.

        A high ridge makes them too short, and along one direction the noise is far below the ridge.
        """
        square = float(values @ weights**2) + _UNSURE * self.noise * float(weights @ weights)
        best = float(weights @ right) / square if square > 0 else 1.0
        return weights * min(_LONGEST, max(1.0, best))

    @property
    def ridge(self) -> float:
        """About the largest eigenvalue of the noise in the matrix."""
        return self.noise * math.sqrt(len(self.right)) * (_JOINT_RIDGE if self.joint else 1)

    def is_clear(self, weights: Floats, rows: float) -> bool:
        """Say whether noise costs little of the variance explained.

        What it costs a row is Σ A⁻¹ times the variances of the right side and of A·w, and the ridge's bias.
        """
        values = np.maximum(np.linalg.eigvalsh(self.products), 0.0) + self.ridge
        lost = (
            float((1 / values).sum())
            * (self.right_noise**2 + self.noise**2 * float(weights @ weights))
            / rows
        )
        lost += self.ridge**2 * float(weights[1:] @ weights[1:]) / float(values.min()) / rows
        mean = float(self.products[0] @ weights) / rows
        explained = float(weights @ self.products @ weights) / rows - mean**2
        return lost < max(_CLOSE, _CLEAR * explained)
