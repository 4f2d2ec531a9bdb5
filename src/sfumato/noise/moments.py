"""Variance and fourth moment of the noise, for intervals of sums of many draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from sfumato.noise.gaussian import GaussianNoise
from sfumato.noise.laplace import LaplaceNoise

_SUMMED = 20  # up to this deviation rounded Gaussian moments are summed, beyond they are those of the limit


@dataclass(frozen=True, slots=True)
class NoiseMoments:
    """Of noise with mean 0: its variance, and its fourth moment over the variance squared, less 3."""

    variance: float
    excess: float


@singledispatch
def moments(noise: Any) -> NoiseMoments:
    raise TypeError(f"{type(noise).__name__} has no stated moments")


@moments.register
def _(noise: LaplaceNoise) -> NoiseMoments:
    """With r = e^(−1/scale): E x² = 2r/(1 − r)² and E x⁴ = 2r(1 + 10r + r²)/(1 − r)⁴."""
    r, gap = math.exp(-1 / float(noise.scale)), -math.expm1(-1 / float(noise.scale))
    variance, fourth = 2 * r / gap**2, 2 * r * (1 + 10 * r + r * r) / gap**4
    return NoiseMoments(variance, fourth / variance**2 - 3 if variance else 0.0)


@moments.register
def _(noise: GaussianNoise) -> NoiseMoments:
    """Rounding adds 1/12 to the variance and takes 1/120 from the fourth cumulant, but for tiny σ."""
    sigma = float(noise.sigma)
    if sigma > _SUMMED:
        variance = sigma**2 + 1 / 12
        return NoiseMoments(variance, -1 / 120 / variance**2)
    tails = [(k, math.erfc((k - 0.5) / sigma / math.sqrt(2))) for k in range(1, int(40 * sigma) + 2)]
    second = math.fsum((2 * k - 1) * tail for k, tail in tails)
    fourth = math.fsum((k**4 - (k - 1) ** 4) * tail for k, tail in tails)
    return NoiseMoments(second, fourth / second**2 - 3 if second else 0.0)
