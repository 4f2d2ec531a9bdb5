"""The noise of every step of a run, in sight of auditors: what is added, and what it costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sfumato.noise.audit_hook import is_recorded, observed
from sfumato.privacy.events import Gaussian
from sfumato.privacy.exact import parse_confidence

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from sfumato.privacy.exact import Number

    AddNormals = Callable[[Sequence[Tensor], float], list[Tensor]]
    """Returns sums with independent Gaussian noise of a deviation on every number."""


@dataclass(frozen=True, slots=True)
class IndependentNoise:
    """Adds fresh Gaussian noise to the sum of clipped gradients of a step.

    Privacy
    -------
    Protects : one unit, add/remove, whose clipped gradient has a norm of at most `norm`.
    Costs    : Gaussian(multiplier) for one step on all units; sampling makes it less.
    Because  : docs/proofs/dp-sgd.md
    Assumes  : idealised arithmetic.
    """

    multiplier: float
    norm: float

    def release(self, sums: Sequence[Tensor], add: AddNormals) -> list[Tensor]:
        """Return the sum of a step with noise."""
        deviation = self.multiplier * self.norm
        if not is_recorded():
            return add(sums, deviation)
        # An auditor sees all numbers of a step in one row.
        flat = observed(self, _flatten(sums), Fraction(self.norm), lambda: _flatten(add(sums, deviation)))
        parts = torch.from_numpy(flat).split([each.numel() for each in sums])
        return [part.reshape(each.shape).clone() for part, each in zip(parts, sums, strict=True)]

    def half_width(self, confidence: Number) -> float:
        """Return a t with P(|noise| ≤ t) ≥ confidence, for every number of a sum."""
        tail = float((1 - parse_confidence(confidence)) / 2)
        return -NormalDist().inv_cdf(tail) * self.multiplier * self.norm * (1 + 1e-9)

    def expected_error(self) -> float:
        """Return the mean of |noise|."""
        return self.multiplier * self.norm * math.sqrt(2 / math.pi)

    def input_distance(self, first: Any, second: Any) -> Fraction:
        """Return how far apart two sums are."""
        return Fraction(float(np.linalg.norm(first - second)))

    def event(self, moved: Fraction) -> Gaussian:
        """Return the price of a step whose sum moves so far."""
        return Gaussian(Fraction(self.multiplier * self.norm) / moved)


def _flatten(sums: Sequence[Tensor]) -> NDArray[np.float64]:
    return torch.cat([each.detach().double().flatten() for each in sums]).numpy().copy()
