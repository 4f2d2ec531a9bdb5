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
_CAREFUL_RIDGE = 2.0
"""Ridge in deviations times √d of a careful solution: the largest eigenvalue of such noise."""
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
        return self._solve(_Directions.of(self, self.joint))

    def solve_or_average(self, known: float, known_noise: float) -> Floats:
        """Return weights moved towards the mean alone, as far as noise may have made what they explain.

        `known` is the mean of the target by an earlier question, with the deviation of its noise.
        """
        found = _Directions.of(self, careful=True)
        weights, average = self._solve(found), np.zeros(len(self.right))
        average[0] = self._combine_means(known, known_noise)
        sure = self._sure_part(found, weights)
        return sure * weights + (1 - sure) * average

    def _solve(self, found: _Directions) -> Floats:
        right = found.right * found.kept
        weights = right / (found.values + found.ridge)
        if found.careful:
            weights = self._stretch(weights, found.values, right)
        return np.asarray(found.vectors @ weights)

    def _sure_part(self, found: _Directions, weights: Floats) -> float:
        """Return the part of what the features explain beyond the mean that noise is not known to make."""
        raised = found.values + found.ridge
        flat = 1 / float(found.vectors[0] ** 2 @ raised)
        gain = float(self.right @ weights) - flat * float(self.right[0]) ** 2
        by_noise = self.right_noise**2 * max(0.0, float((found.kept / raised).sum()) - flat)
        return max(0.0, 1 - by_noise / gain) if gain > 0 else 0.0

    def _combine_means(self, known: float, known_noise: float) -> float:
        """Return the mean of the target by these products and by an earlier question, each by its noise."""
        rows = max(float(self.products[0, 0]), self.noise)
        mean = float(self.right[0]) / rows
        precision = rows**2 / (self.right_noise**2 + (mean * self.noise) ** 2)
        earlier = 1 / known_noise**2
        return (mean * precision + known * earlier) / (precision + earlier)

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
        return self.raise_by(self.joint)

    def raise_by(self, careful: bool) -> float:
        """Return the ridge, for a careful solution or not."""
        return self.noise * math.sqrt(len(self.right)) * (_CAREFUL_RIDGE if careful else 1)

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


@dataclass(frozen=True, slots=True)
class _Directions:
    """Directions that the products do not mix, and how much of the right side counts along each."""

    values: Floats
    """Eigenvalues, or 0 where noise made them negative."""
    vectors: Floats
    right: Floats
    kept: Floats
    ridge: float
    careful: bool
    """Whether the ridge is above all noise, and weights are stretched afterwards."""

    @classmethod
    def of(cls, system: NormalEquations, careful: bool) -> _Directions:
        values, vectors = np.linalg.eigh(system.products)
        right, noise = vectors.T @ system.right, system.right_noise**2
        # Directions whose right side is within the noise count nothing.
        kept = np.maximum(0.0, 1 - _SHRINKAGE * noise / np.maximum(right**2, 1e-300))
        if careful:
            # Many directions of a little each may stand out together (James and Stein).
            kept = np.maximum(kept, 1 - len(right) * noise / max(float(right @ right), 1e-300))
        return cls(np.maximum(values, 0.0), vectors, right, kept, system.raise_by(careful), careful)
