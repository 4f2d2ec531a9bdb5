"""Sensitivity: how far one unit can move an answer, in exact numbers; roots are rounded up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.errors import UsageError
from sfumato.privacy.events import Gaussian
from sfumato.privacy.exact import Number, parse_exact
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_BITS = 80  # binary digits of a rounded root


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The largest l1 norm, and the largest squared l2 norm, by which neighbours differ."""

    l1: Fraction
    l2_squared: Fraction
    neighbours: Neighbours

    @classmethod
    def of(cls, moves: Iterable[Sequence[Number]], neighbours: Neighbours) -> Sensitivity:
        """Return the sensitivity of an answer that neighbours move by one of these, or within their hull."""
        # Corners suffice, because norms are convex.
        exactly = [[parse_exact(part, "move") for part in move] for move in moves]
        return cls(
            max((sum(map(abs, move), Fraction(0)) for move in exactly), default=Fraction(0)),
            max((sum((part * part for part in move), Fraction(0)) for move in exactly), default=Fraction(0)),
            neighbours,
        )

    @property
    def l2(self) -> Fraction:
        """Largest l2 norm, rounded up."""
        return root_up(self.l2_squared)

    def for_replacement(self) -> Sensitivity:
        """Return the sensitivity for replacing a unit: at most twice each norm."""
        # Replacing is removing one unit and adding another.
        if self.neighbours is Neighbours.REPLACE_ONE:
            return self
        return Sensitivity(2 * self.l1, 4 * self.l2_squared, Neighbours.REPLACE_ONE)


def correlated_gaussian(
    covariance: Sequence[Sequence[Number]], moves: Iterable[Sequence[Number]]
) -> Gaussian:
    """Return the event of adding N(0, Σ) to a vector that neighbours move by one of `moves`.

    Its σ is one over the largest norm √(mᵀ Σ⁻¹ m), exact up to that root, which rounds σ down.

    Because : docs/proofs/events.md#gaussian-noise
    """
    matrix = [[parse_exact(part, "covariance") for part in row] for row in covariance]
    longest = max((_inverse_norm_squared(matrix, move) for move in moves), default=Fraction(0))
    if not longest:
        raise UsageError("SF-N312", "No unit changes this answer, so its noise has no price.")
    return Gaussian(1 / root_up(longest))


def root_up(square: Fraction) -> Fraction:
    """Return a square root, rounded up at its 80th bit or later; it is exact for squares of integers."""
    scaled = math.isqrt(square.numerator * square.denominator << 2 * _BITS)
    short = scaled * scaled < square.numerator * square.denominator << 2 * _BITS
    return Fraction(scaled + short, square.denominator << _BITS)


def _inverse_norm_squared(matrix: list[list[Fraction]], move: Sequence[Number]) -> Fraction:
    """Return mᵀ Σ⁻¹ m, exactly."""
    exactly = [parse_exact(part, "move") for part in move]
    solved = _solve(matrix, exactly)
    return sum((one * other for one, other in zip(exactly, solved, strict=True)), Fraction(0))


def _solve(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """Return the solution of a linear system, by elimination in exact numbers."""
    # All pivots are positive just when Σ is positive definite.
    size = len(right)
    _require_symmetric(matrix, size)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for at in range(size):
        if rows[at][at] <= 0:
            raise UsageError("SF-N203", "The covariance is not positive definite.")
        rows[at] = [part / rows[at][at] for part in rows[at]]
        for other in range(size):
            if other != at:
                factor = rows[other][at]
                rows[other] = [a - factor * b for a, b in zip(rows[other], rows[at], strict=True)]
    return [row[-1] for row in rows]


def _require_symmetric(matrix: list[list[Fraction]], size: int) -> None:
    square = len(matrix) == size and all(len(row) == size for row in matrix)
    if not square or any(matrix[i][j] != matrix[j][i] for i in range(size) for j in range(i)):
        raise UsageError("SF-N203", "The covariance must be a symmetric matrix with one row for each number.")
