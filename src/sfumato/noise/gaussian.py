"""Gaussian noise rounded to integers, drawn exactly (docs/proofs/gaussian.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.noise.additive import NoiseMoments, gaussian_moments, parse_scale
from sfumato.noise.audit_hook import observed
from sfumato.noise.sampling.bits import OS
from sfumato.noise.sampling.gaussian_table import WIDEST, gaussian_sampler
from sfumato.noise.sampling.gaussian_wide import WideGaussianSampler
from sfumato.noise.sampling.integers import add_noise, as_integers
from sfumato.noise.sampling.inversion import draw_in_blocks, half_width
from sfumato.noise.sampling.normal import RoundedNormal
from sfumato.privacy import events
from sfumato.privacy.canonical import tagged

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.noise.additive import NoiseMoments, Norms
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.exact import Number


@tagged("Gaussian", "sigma")
@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """Adds the integer nearest to Gaussian noise.

    Privacy
    -------
    Protects : one unit, add/remove, whose contribution has l2 norm at most `l2` grid steps.
    Costs    : Gaussian(sigma / l2), as continuous noise does.
    Because  : docs/proofs/gaussian.md
    Assumes  : the input is an exact integer vector; how long a draw takes is not observed.
    """

    sigma: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", parse_scale(self.sigma, "sigma"))

    def event(self, l2: Fraction | int) -> events.Gaussian:
        """Return the price for a vector of this l2 sensitivity."""
        return events.Gaussian(self.sigma / l2)

    def release(
        self, exact: IntArray, *, l2: Fraction | int | None = None, source: BitSource = OS
    ) -> IntArray:
        """Return the exact integers plus fresh noise. `l2`, as priced, is for auditors only."""
        return observed(self, exact, l2, lambda: self._noisy(exact, source))

    def expected_error(self) -> float:
        """Return E|noise| = 2 Σ P(noise ≥ k) over k ≥ 1, or for large σ its expansion, to 1e-9 of it."""
        sigma = float(self.sigma)
        # The sum has about 40σ terms; beyond σ = 50 two terms of its expansion are precise enough.
        if sigma > 50:
            return sigma * math.sqrt(2 / math.pi) - 1 / (12 * sigma * math.sqrt(2 * math.pi))
        return math.fsum(math.erfc((k - 0.5) / sigma / math.sqrt(2)) for k in range(1, int(40 * sigma) + 2))

    def half_width(self, confidence: Number) -> int:
        """Return the smallest t with P(|noise| ≤ t) ≥ confidence."""
        return half_width(RoundedNormal(self.sigma), confidence)

    # ---- what it shares with Laplace noise: sfumato.noise.additive.Noise ----

    @property
    def spread(self) -> Fraction:
        """The standard deviation before rounding."""
        return self.sigma

    @property
    def moments(self) -> NoiseMoments:
        """Variance and excess kurtosis of one draw, after rounding."""
        return gaussian_moments(self.sigma)

    @property
    def planned_deviation(self) -> float:
        """The σ that learners plan with, in digits that never change (see `Noise`)."""
        return float(self.sigma)

    def event_for(self, sensitivity: Norms) -> events.Gaussian:
        """Return the price for a vector of this sensitivity, by its l2 norm."""
        return self.event(sensitivity.l2)

    def release_for(self, exact: IntArray, sensitivity: Norms) -> IntArray:
        """Return the exact integers plus fresh noise."""
        return self.release(exact, l2=sensitivity.l2)

    def quantiles(self, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the integers that a draw stays at or below with these chances."""
        from scipy.special import ndtri

        return np.asarray(np.rint(float(self.sigma) * ndtri(chances)))

    def exceedance(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P(|noise| ≥ step) for whole steps from 1 on, to double precision."""
        from scipy.special import erfc

        return np.asarray(erfc((steps - 0.5) / (float(self.sigma) * math.sqrt(2))))

    def _noisy(self, exact: IntArray, source: BitSource) -> IntArray:
        return add_noise(exact, draw_gaussian(self.sigma, exact.size, source).reshape(exact.shape))


def draw_gaussian(sigma: Fraction, count: int, source: BitSource) -> IntArray:
    """Return `count` independent draws of Gaussian noise, rounded to integers."""
    sampler = gaussian_sampler(sigma) if sigma <= WIDEST else WideGaussianSampler(sigma)
    if count == 1:
        return as_integers([sampler.draw_one(source)])
    return draw_in_blocks(lambda block: sampler.draw(block, source), count)
