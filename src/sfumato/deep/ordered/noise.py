"""Noise that is correlated over the steps of a run, from a few tensors of memory."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from sfumato.deep.step_noise import normal_half_width, release_sums
from sfumato.noise.continual.banded import BandedToeplitz
from sfumato.privacy.events import Gaussian

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from sfumato.deep.ordered.batches import Factor, OrderedBatches
    from sfumato.deep.step_noise import AddNormals
    from sfumato.noise.continual.toeplitz import BufferedToeplitz
    from sfumato.privacy.exact import Number


@dataclass(frozen=True, slots=True)
class OrderedSums:
    """Releases the sums of clipped gradients of all steps of a run in passes, with correlated noise.

    Privacy
    -------
    Protects : one unit, add/remove, whose clipped gradients have norms of at most `norm`.
    Costs    : Gaussian(multiplier / sensitivity), once for all steps.
    Because  : docs/proofs/dp-ftrl.md
    Assumes  : idealised arithmetic.
    """

    batches: OrderedBatches
    steps: int
    multiplier: float
    norm: float

    @property
    def sensitivity(self) -> float:
        """By how many clipping norms a unit moves C times the sums, at most."""
        return self.batches.sensitivity(self.steps)

    def begin(self) -> CorrelatedNoise:
        """Return the noise of a run, from its first step on."""
        return CorrelatedNoise(self)

    def half_width(self, steps: int, confidence: Number) -> float:
        """Return a t with P(|noise| ≤ t) ≥ confidence, for every number of the sum of so many steps."""
        return normal_half_width(self._deviation(steps), confidence)

    def expected_error(self, steps: int) -> float:
        """Return the mean of |noise| of the sum of so many steps."""
        return self._deviation(steps) * math.sqrt(2 / math.pi)

    def _deviation(self, steps: int) -> float:
        squares = self.batches.factor(self.steps).sum_squares([steps])
        return self.multiplier * self.norm * math.sqrt(squares[0])

    def input_distance(self, first: Any, second: Any) -> Fraction:
        """Return how far a unit that moves sums by so much is from what is priced: 1 is all of it."""
        moved = np.stack(first) - np.stack(second)
        column = self.batches.factor(self.steps).list_coefficients(len(moved))
        mapped = np.array([column[: step + 1][::-1] @ moved[: step + 1] for step in range(len(moved))])
        return Fraction(float(np.linalg.norm(mapped)) / (self.norm * self.sensitivity))

    def event(self, moved: Fraction | int = 1) -> Gaussian:
        """Return the price of all steps together."""
        return Gaussian(Fraction(self.multiplier / self.sensitivity) / Fraction(moved))


class CorrelatedNoise:
    """The noise of a run in use: that of step t is row t of C⁻¹z, for z of independent normal numbers."""

    def __init__(self, plan: OrderedSums) -> None:
        self._plan = plan
        self._memory = _remember(plan.batches.factor(plan.steps))

    def release(self, sums: Sequence[Tensor], add: AddNormals) -> list[Tensor]:
        """Return the sum of the next step with noise."""
        return release_sums(self._plan, sums, lambda: self._add(sums, add), 1, within=self)

    def _add(self, sums: Sequence[Tensor], add: AddNormals) -> list[Tensor]:
        blank = [torch.zeros_like(each, dtype=torch.float64) for each in sums]
        drawn = add(blank, self._plan.multiplier * self._plan.norm)
        flat = self._memory.filter(torch.cat([each.flatten() for each in drawn]))
        parts = flat.split([each.numel() for each in sums])
        return [part.reshape(each.shape) + each for part, each in zip(parts, sums, strict=True)]


class _Memory(Protocol):
    def filter(self, drawn: Tensor) -> Tensor:
        """Return the next row of C⁻¹z, from the next row of z."""


class _Buffers:
    """For buffered matrices: row t of C⁻¹z is z_t − Σ ω_i·u_i, and u_i ← r_i·u_i + z_t."""

    def __init__(self, factor: BufferedToeplitz) -> None:
        self._weights = factor.inverse_weights.tolist()
        self._rates = [1 - gap for gap in factor.zeros]
        self._held: list[Tensor] = []

    def filter(self, drawn: Tensor) -> Tensor:
        if not self._held:
            self._held = [torch.zeros_like(drawn) for _ in self._rates]
        found = drawn.clone()
        for weight, rate, held in zip(self._weights, self._rates, self._held, strict=True):
            found.sub_(held, alpha=weight)
            held.mul_(rate).add_(drawn)
        return found


class _Bands:
    """For banded matrices: row t of C⁻¹z is w_t = z_t − Σ c_j·w_(t−j)."""

    def __init__(self, factor: BandedToeplitz) -> None:
        self._coefficients = factor.coefficients[1:]
        self._held: deque[Tensor] = deque(maxlen=len(self._coefficients))

    def filter(self, drawn: Tensor) -> Tensor:
        found = drawn.clone()
        for coefficient, earlier in zip(self._coefficients, self._held, strict=False):
            found.sub_(earlier, alpha=coefficient)
        self._held.appendleft(found.clone())
        return found


def _remember(factor: Factor) -> _Memory:
    return _Bands(factor) if isinstance(factor, BandedToeplitz) else _Buffers(factor)
