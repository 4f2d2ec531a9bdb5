"""Gaussians of classes from released moments, and rows drawn of them. All of it is post-processing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.synth.images.class_moments import MIXED, SHORT, SQUARE, FirstMoments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.synth.images.class_moments import MomentsKernel

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_BLOCK = 2**13
"""Rows that are drawn at a time, so that memory stays small."""


@dataclass(frozen=True)
class ClassGaussians:
    """A weight, a mean and a covariance for each class, in steps of coefficients."""

    kernel: MomentsKernel
    released: Mapping[str, Any]

    @cached_property
    def first(self) -> FirstMoments:
        """What the first step released."""
        return FirstMoments.from_plain(self.released, self.kernel)

    @property
    def counts(self) -> Ints:
        """The number of rows of each class, with noise."""
        return self.first.counts

    @property
    def size(self) -> int:
        """The number of coefficients that vary together."""
        return int(self.first.sums.shape[1])

    @property
    def weights(self) -> Floats:
        """The share of each class, by its noisy count."""
        found: Floats = self.first.rows / self.first.rows.sum()
        return found

    @cached_property
    def factors(self) -> list[Floats]:
        """A root of each class's covariance: a vector of independent numbers times it has that covariance."""
        lengths, rows = self.first.residual_lengths, self.first.rows
        found = []
        for at, products in enumerate(self.released["products"]):
            matrix = _read_triangle(np.array(products, dtype=np.float64), self.size) / rows[at]
            spread = self.released["spreads"][at] / SHORT**2 / rows[at] + 2
            found.append(_root(matrix, spread) * lengths[at])
        return found

    def draw(self, rows: int, random: np.random.Generator) -> tuple[Floats, Ints]:
        """Return so many rows, from −1 to 1 within their bounds, and their classes."""
        labels = random.choice(len(self.weights), rows, p=self.weights)
        return self.draw_of(labels, random)[0], labels

    def draw_of(self, labels: Ints, random: np.random.Generator) -> tuple[Floats, tuple[Ints, ...]]:
        """Return numbers from −1 to 1, a row for each of these classes, and no listed values."""
        found = np.empty((len(labels), self.kernel.basis.width))
        for start in range(0, len(labels), _BLOCK):
            at = slice(start, start + _BLOCK)
            found[at] = self.kernel.basis.restore(self._coefficients(labels[at], random))
        return found, ()

    def _coefficients(self, labels: Ints, random: np.random.Generator) -> Floats:
        found = self.first.means[labels]
        normal = random.standard_normal(found.shape)
        for at, factor in enumerate(self.factors):
            places = np.flatnonzero(labels == at)
            found[places] += normal[places] @ factor
        return found


def _read_triangle(products: Floats, size: int) -> Floats:
    """Return the symmetric matrix of weighted products, in squares of a row's largest length."""
    found = np.zeros((size, size))
    rows, columns = np.triu_indices(size)
    found[rows, columns] = products / np.where(rows == columns, SQUARE, MIXED) / SHORT**2
    found[columns, rows] = found[rows, columns]
    return found


def _root(matrix: Floats, spread: float) -> Floats:
    """Return a root of the nearest covariance, scaled to how much rows spread before they were clipped."""
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, 0.0)
    whole = values.sum()
    if not whole > 0:
        return np.zeros_like(matrix)
    values *= np.clip(spread, 0.05, 4.0) / whole
    found: Floats = np.sqrt(values)[:, None] * vectors.T
    return found
