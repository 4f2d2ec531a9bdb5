"""Buffered linear Toeplitz matrices: a factor of the running sum that needs a handful of numbers of state.

Running sums A·x are released as A·(x + C⁻¹·z) with independent noise z. C is lower triangular and the same
along its diagonals; its generating function is the product of (1 − ẑ_i·λ)/(1 − p_i·λ) over a few buffers, so
that C⁻¹ is a cascade of filters with one number of memory each (docs/proofs/continual.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.errors.checked import require_field

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BufferedToeplitz:
    """A factor C of the running sum, by how far poles and zeros lie below 1: 0 < p₁ < z₁ < p₂ < z₂ < … < 1.

    Interlaced so, C has positive entries that never grow along a column, and C⁻¹ has ones on its diagonal and
    negative entries below that sum to less than one.
    """

    poles: tuple[float, ...]
    zeros: tuple[float, ...]

    def __post_init__(self) -> None:
        pairs = [each for pair in zip(self.poles, self.zeros, strict=True) for each in pair]
        ascend = all(one < other for one, other in zip([0.0, *pairs], [*pairs, 1.0], strict=True))
        require_field(ascend, self, "poles", "numbers between 0 and 1 that ascend in turn with the zeros")

    def list_coefficients(self, count: int) -> Floats:
        """Return the first entries of the first column of C."""
        ages = np.arange(count - 1)
        decays = np.exp(np.log1p(-np.array(self.poles))[:, None] * ages)
        return np.concatenate([[1.0], self.weights @ decays])

    @property
    def weights(self) -> Floats:
        """The ω with c_j = Σ ω_i·(1 − p_i)^(j − 1) for j ≥ 1; all are positive."""
        return _split_fractions(self.poles, self.zeros)

    @property
    def inverse_weights(self) -> Floats:
        """The ω with −Σ ω_i·(1 − z_i)^(j − 1) as the entries of C⁻¹ below its diagonal; all are positive."""
        return -_split_fractions(self.zeros, self.poles)

    def norm_squared(self, horizon: float, participations: int = 1, separation: int = 1) -> float:
        """Return the largest squared l2 norm of C·x for an x with so many ones at least so far apart.

        Entries of C are positive and never grow along a column, so early columns close together overlap most:
        the ones stand at 0, s, 2s, … . The horizon may be infinite.
        """
        count = min(participations, -(-horizon // separation))
        logs, weights = np.log1p(-np.array(self.poles)), self.weights
        # What the buffers hold when each one comes, from those before it.
        held = np.expm1(separation * logs * np.arange(count)[:, None]) / np.expm1(separation * logs)
        held *= np.exp((separation - 1) * logs)
        lengths = np.full(int(count), float(separation))
        lengths[-1] = horizon - (count - 1) * separation
        passing = weights * (np.exp(logs) * held + 1)
        heads = (1 + held @ weights) ** 2
        both = logs[:, None] + logs
        tails = np.expm1((lengths - 1)[:, None, None] * both) / np.expm1(both)
        return float(heads.sum() + np.einsum("ka,kab,kb->", passing, tails, passing))

    def sum_squares(self, ticks: Sequence[int]) -> Floats:
        """Return the variance of a running sum after so many ticks, for noise z of variance 1."""
        logs = np.concatenate([[0.0], np.log1p(-np.array(self.zeros))])
        tail = self.inverse_weights / np.array(self.zeros)
        parts = np.concatenate([[1 - tail.sum()], tail])
        both = logs[:, None] + logs
        below = np.where(both == 0, 1.0, np.expm1(both))
        return np.array(
            [parts @ np.where(both == 0, tick, np.expm1(tick * both) / below) @ parts for tick in ticks]
        )


def _split_fractions(poles: Sequence[float], zeros: Sequence[float]) -> Floats:
    """Return the weights of the partial fractions of Π (1 − ẑ_i·λ)/(1 − p_i·λ), all by distances from 1."""
    below, above = np.array(poles), np.array(zeros)
    apart = below - below[:, None]
    np.fill_diagonal(apart, 1.0)
    return np.asarray(np.prod(above - below[:, None], axis=1) / np.prod(apart, axis=1))
