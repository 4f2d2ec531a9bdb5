"""Gaussian noise with any covariance, drawn exactly (docs/proofs/gaussian.md#correlated-noise)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.noise.additive import COMBINED
from sfumato.noise.audit_hook import observed
from sfumato.noise.gaussian import GaussianNoise
from sfumato.noise.sampling.bits import OS
from sfumato.noise.sampling.integers import parse_integers
from sfumato.privacy.exact import parse_confidence, parse_positive
from sfumato.privacy.sensitivity import correlated_gaussian

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.privacy import events
    from sfumato.privacy.exact import Number

_FINEST = 12
"""Most bits after the binary point of a factor found for a covariance. The price is that of the factor used,
so privacy does not depend on it."""


@dataclass(frozen=True, slots=True)
class CorrelatedGaussian:
    """Adds σ·A·Z to an integer vector: A is an integer matrix, Z independent standard normal numbers.

    Privacy
    -------
    Protects : one unit, add/remove, that moves the vector by one of the `moves` it is priced for.
    Costs    : Gaussian(1 / the longest move in the norm of the inverse covariance).
    Because  : docs/proofs/gaussian.md#correlated-noise
    Assumes  : the input is an exact integer vector; how long a draw takes is not observed.
    """

    factor: tuple[tuple[int, ...], ...]
    sigma: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", parse_positive(self.sigma, "sigma"))
        if any(len(row) != len(self.factor) for row in self.factor) or not self.denominator:
            raise _singular()
        self._independent()  # refuses a scale that cannot be drawn

    @classmethod
    def near(cls, covariance: Sequence[Sequence[Number]]) -> CorrelatedGaussian:
        """Return the noise with the nearest covariance that can be drawn exactly.

        Its `covariance` property holds the covariance that it has, and it is priced by that one.
        """
        # Answers lie on a grid of 1/|det A|, so a finer factor means a wider scale for the independent noise.
        # The finest factor whose scale can be drawn is taken.
        root = _root(covariance)
        for bits in range(_FINEST, -64, -1):
            factor = np.rint(root * 2.0**bits).astype(np.int64)
            scale = int(np.prod(np.diagonal(factor).astype(object))) * Fraction(2) ** -bits
            if 0 < scale <= COMBINED:
                return cls(tuple(map(tuple, factor.tolist())), Fraction(2) ** -bits)
        raise _singular()

    @property
    def denominator(self) -> int:
        """|det A|; answers are multiples of one over it."""
        return abs(_determinant([list(row) for row in self.factor]))

    @property
    def covariance(self) -> list[list[Fraction]]:
        """The covariance σ²·A·Aᵀ, exactly."""
        square = self.sigma**2
        return [[square * _dot(row, other) for other in self.factor] for row in self.factor]

    def event(self, moves: Iterable[Sequence[Number]]) -> events.Gaussian:
        """Return the price when one unit moves the vector by one of these, or within their convex hull."""
        return correlated_gaussian(self.covariance, moves)

    def release(self, exact: Any, *, source: BitSource = OS) -> NDArray[np.object_]:
        """Return the exact integers plus fresh noise, as fractions."""
        vector = parse_integers(exact)
        if vector.shape != (len(self.factor),):
            raise UsageError(
                "SF-N203", "The vector and the covariance differ in size.", got=f"{vector.shape}"
            )
        return observed(self, vector, None, lambda: self._noisy(vector, source))

    def expected_error(self, place: int) -> float:
        """Return an upper bound on E|noise| of one entry."""
        return self._deviation(place) * math.sqrt(2 / math.pi) + self._rounding(place)

    def half_width(self, place: int, confidence: Number) -> float:
        """Return a t with P(|noise| ≤ t) ≥ confidence for one entry: normal noise, and what rounding adds."""
        tail = float((1 - parse_confidence(confidence)) / 2)
        return -NormalDist().inv_cdf(tail) * self._deviation(place) * (1 + 1e-12) + self._rounding(place)

    def _deviation(self, place: int) -> float:
        return float(self.sigma) * math.sqrt(_dot(self.factor[place], self.factor[place]))

    def _rounding(self, place: int) -> float:
        """Return how far rounding the noise along each column can move an entry."""
        return sum(map(abs, self.factor[place])) / (2 * self.denominator)

    def _noisy(self, vector: Any, source: BitSource) -> NDArray[np.object_]:
        steps = (
            self._independent().release(np.zeros(len(self.factor), dtype=np.int64), source=source).tolist()
        )
        parts = [Fraction(_dot(row, steps), self.denominator) for row in self.factor]
        return np.array([int(each) + part for each, part in zip(vector, parts, strict=True)], dtype=object)

    def _independent(self) -> GaussianNoise:
        """Return the noise along each column of A, in steps of one over the denominator."""
        return GaussianNoise(self.sigma * self.denominator)


def _root(covariance: Any) -> NDArray[np.float64]:
    """Return the Cholesky factor of the covariance, up to float rounding."""
    try:
        root = np.linalg.cholesky(np.array(covariance, dtype=np.float64))
    except (np.linalg.LinAlgError, TypeError, ValueError):
        raise _singular() from None
    if not np.isfinite(root).all() or np.abs(root).max() > 2.0**40:
        raise _singular()
    return root


def _dot(one: Sequence[int], other: Sequence[int]) -> int:
    return sum(a * b for a, b in zip(one, other, strict=True))


def _determinant(matrix: list[list[int]]) -> int:
    """Return the determinant, by fraction-free elimination (Bareiss)."""
    sign, before = 1, 1
    for k in range(len(matrix) - 1):
        pivot = next((i for i in range(k, len(matrix)) if matrix[i][k]), None)
        if pivot is None:
            return 0
        if pivot != k:
            matrix[k], matrix[pivot], sign = matrix[pivot], matrix[k], -sign
        for row in matrix[k + 1 :]:
            row[k + 1 :] = [
                (a * matrix[k][k] - row[k] * b) // before
                for a, b in zip(row[k + 1 :], matrix[k][k + 1 :], strict=True)
            ]
        before = matrix[k][k]
    return sign * matrix[-1][-1] if matrix else 0


def _singular() -> UsageError:
    return UsageError(
        "SF-N203",
        "Noise with this covariance leaves some direction without noise.",
        try_="a positive definite matrix",
    )
