"""What is drawn for a number, and the law of a sum of such draws. Nothing here protects anyone.

Noise is whole, so the law of a sum of independent draws is found exactly, on the lattice that they lie on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.noise import GaussianNoise, LaplaceNoise
from sfumato.noise.additive import Noise, NoiseMoments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.noise import SimplicesNoise
    from sfumato.privacy.exact import Number

Floats = NDArray[np.float64]

_FINE_POINTS = 2**16
"""Number of draws that the fourth moment of a body's sum is read off."""
_SHAPE_SCALE = 32.0
"""Scale of Laplace noise from which on the law of a sum has the same shape as that of any larger one, to
within a thousandth."""
_WIDE = 32.0
"""Deviation of other noise from which on one step of a sum is so small that its law is taken as smooth."""
_NORMAL_COUNT = 256
"""Number of Laplace draws from which on their sum is taken to be normal: its excess is below a hundredth."""
_RARE = 1e-15
"""Chance beyond which the law of one draw is cut off."""
_MOST = 2**16
"""Most points of a lattice on which several noises are added up."""
_FINEST = 64
"""Largest denominator of a ratio of two weights that have a lattice in common."""


@dataclass(frozen=True, slots=True)
class BodyCoordinate:
    """One number of noise that several have together."""

    body: SimplicesNoise
    place: int

    @property
    def moments(self) -> NoiseMoments:
        """Variance and excess kurtosis of the number."""
        return _body_moments(self.body, self.place)

    def half_width(self, confidence: Number) -> int:
        """Return the smallest t with P(|number| ≤ t) ≥ confidence."""
        return self.body.half_width(self.place, confidence)


@lru_cache(maxsize=256)
def _body_moments(body: SimplicesNoise, place: int) -> NoiseMoments:
    variance = float(body.variances[place])
    fourth = float(np.mean(draw_body(body, _FINE_POINTS)[place] ** 4))
    return NoiseMoments(variance, fourth / variance**2 - 3 if variance else 0.0)


@dataclass(frozen=True, slots=True)
class AddedDraws:
    """The sum of so many independent draws of one noise."""

    noise: Noise
    count: int

    @property
    def moments(self) -> NoiseMoments:
        """Variance and excess kurtosis of the sum."""
        one = self.noise.moments
        return NoiseMoments(self.count * one.variance, one.excess / self.count)

    def half_width(self, confidence: Number) -> float:
        """Return the least h with P(|sum| ≤ h) ≥ confidence."""
        return sum_half_width(self.noise, self.count, float(confidence))

    def quantiles(self, chances: Floats) -> Floats:
        """Return what the sum stays at or below with these chances."""
        deviation = math.sqrt(self.moments.variance)
        if not isinstance(self.noise, LaplaceNoise) or self.count > _NORMAL_COUNT:
            return NormalNoise(deviation).quantiles(chances)
        within, own = _sum_law(_narrow(self.noise), self.count)
        far = np.searchsorted(within, np.abs(2 * chances - 1))
        return np.asarray(np.sign(chances - 0.5) * far * (deviation / own))


@dataclass(frozen=True, slots=True)
class NormalNoise:
    """A normal number, which stands for many small draws together."""

    spread: float

    @property
    def moments(self) -> NoiseMoments:
        """Variance and excess kurtosis."""
        return NoiseMoments(self.spread**2, 0.0)

    def half_width(self, confidence: Number) -> float:
        """Return the h with P(|number| ≤ h) = confidence."""
        return float(self.quantiles(np.array([(1 + float(confidence)) / 2]))[0])

    def quantiles(self, chances: Floats) -> Floats:
        """Return what the number stays at or below with these chances."""
        from scipy.special import ndtri

        return np.asarray(self.spread * ndtri(chances))


@dataclass(frozen=True, slots=True)
class RoundingNoise:
    """What rounding moves a number by before it is rounded once more: so many numbers from −½ to ½."""

    parts: int

    @property
    def moments(self) -> NoiseMoments:
        """Variance and excess kurtosis."""
        return NoiseMoments(self.parts / 12, -1.2 / self.parts if self.parts else 0.0)

    def half_width(self, confidence: Number) -> float:
        """Return the h with P(|number| ≤ h) = confidence."""
        return float(self.quantiles(np.array([(1 + float(confidence)) / 2]))[0])

    def quantiles(self, chances: Floats) -> Floats:
        """Return what the number stays at or below with these chances; several are taken to be normal."""
        if self.parts == 1:
            return np.asarray(chances - 0.5)
        return NormalNoise(math.sqrt(self.parts / 12)).quantiles(chances)


DrawnNoise = Noise | BodyCoordinate | AddedDraws | NormalNoise | RoundingNoise


# ---- sums of draws -----------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def draw_body(body: SimplicesNoise, count: int) -> Floats:
    """Return draws of noise that several numbers have together, from a fixed seed, one column each."""
    return body.draw_points(count)


def sum_half_width(noise: DrawnNoise, count: int, confidence: float) -> float:
    """Return the least h with P(|sum| ≤ h) ≥ confidence, for so many independent draws of one noise."""
    if count == 1:
        return float(noise.half_width(confidence))
    deviation = math.sqrt(count * float(noise.moments.variance))
    narrow = _narrow(noise)
    if narrow is None:
        from scipy.special import ndtri

        # Of many draws the sum is nearly normal; the excess of its fourth moment widens it (Cornish, Fisher).
        normal = float(ndtri((1 + confidence) / 2))
        excess = noise.moments.excess / count if isinstance(noise, BodyCoordinate) else 0.0
        # Rounding one draw to a whole number moves it by half a step; of many, by far less than the sum.
        return (normal + (normal**3 - 3 * normal) * excess / 24) * deviation + 0.5
    within, own = _sum_law(narrow, count)
    half = int(np.searchsorted(within, confidence))
    return float(half) if narrow == noise else half / own * deviation


def _narrow(noise: DrawnNoise) -> LaplaceNoise | GaussianNoise | BodyCoordinate | None:
    """Return the noise whose sums are added up on the lattice of whole numbers; None where it is too wide.

    Wide Laplace noise has the shape of narrower noise, and only its deviation is larger.
    """
    if isinstance(noise, LaplaceNoise):
        return LaplaceNoise(Fraction(_SHAPE_SCALE)) if noise.scale > _SHAPE_SCALE else noise
    if isinstance(noise, GaussianNoise | BodyCoordinate) and noise.moments.variance <= _WIDE**2:
        return noise
    return None


@lru_cache(maxsize=64)
def _sum_law(noise: LaplaceNoise | GaussianNoise | BodyCoordinate, count: int) -> tuple[Floats, float]:
    """Return P(|sum| ≤ h) for h from 0 on, and the deviation of the sum."""
    deviation = math.sqrt(count * float(noise.moments.variance))
    masses = _list_masses(noise)
    size = _find_size(len(masses) + 12 * deviation)
    return _fold(_transform(masses, 1, size) ** count, size), deviation


def lattice_half_width(
    noises: Sequence[DrawnNoise], weights: Sequence[float], confidence: float
) -> float | None:
    """Return the least h with P(|weighted sum| ≤ h) ≥ confidence of independent draws, one of each noise.

    None where they have no lattice in common, or one that is too fine: then draws tell it well enough.
    """
    step, factors = _find_lattice([abs(weight) for weight in weights if weight])
    drawn = [noise for noise, weight in zip(noises, weights, strict=True) if weight]
    narrow = [each for noise in drawn if (each := _narrow(noise)) is not None and each == noise]
    if not step or len(narrow) < len(drawn):
        return None
    within = _lattice_law(tuple(narrow), tuple(factors))
    return None if within is None else step * int(np.searchsorted(within, confidence))


@lru_cache(maxsize=64)
def _lattice_law(
    noises: tuple[LaplaceNoise | GaussianNoise | BodyCoordinate, ...], factors: tuple[int, ...]
) -> Floats | None:
    """Return P(|weighted sum| ≤ h) for h from 0 on, in steps of a lattice; None where it is too fine."""
    masses = [_list_masses(noise) for noise in noises]
    reach = sum(factor * len(own) for factor, own in zip(factors, masses, strict=True))
    if 2 * reach > _MOST:
        return None
    size = _find_size(reach)
    law = np.ones(size // 2 + 1)
    for own, factor in zip(masses, factors, strict=True):
        law = law * _transform(own, factor, size)
    return _fold(law, size)


def _find_lattice(weights: Sequence[float]) -> tuple[float, list[int]]:
    """Return a step and how many of it each weight is; 0 where they are no small multiples of one."""
    least = min(weights)
    ratios = [Fraction(weight / least).limit_denominator(_FINEST) for weight in weights]
    if any(abs(float(r) * least - w) > 1e-12 * w for r, w in zip(ratios, weights, strict=True)):
        return 0.0, []
    common = math.lcm(*(ratio.denominator for ratio in ratios))
    return least / common, [int(ratio * common) for ratio in ratios]


@lru_cache(maxsize=64)
def _list_masses(noise: LaplaceNoise | GaussianNoise | BodyCoordinate) -> Floats:
    """Return P(|draw| = k) for k from 0 on, up to where next to nothing is left."""
    if isinstance(noise, BodyCoordinate):
        last = noise.half_width(1 - 1e-9)
        within = [noise.body.coverage(noise.place, t) for t in range(2 * last + 2)]
        return np.diff(within, prepend=0.0)
    if isinstance(noise, LaplaceNoise):
        rate = 1 / float(noise.scale)
        places = np.arange(math.ceil(-math.log(_RARE) / rate) + 2)
        one_side = np.exp(-rate * places) * np.tanh(rate / 2)
        return np.append(one_side[0], 2 * one_side[1:])
    from scipy.special import erfc

    sigma = float(noise.sigma)
    tails = erfc((np.arange(math.ceil(9 * sigma) + 2) + 0.5) / (sigma * math.sqrt(2)))
    return -np.diff(tails, prepend=1.0)


def _find_size(reach: float) -> int:
    """Return a power of two on which a law that reaches so far on both sides does not meet itself."""
    return int(2 ** math.ceil(math.log2(2 * reach + 2)))


def _transform(masses: Floats, factor: int, size: int) -> Floats:
    """Return the Fourier transform, which is real, of a symmetric law in steps of a factor."""
    places = factor * np.arange(len(masses))
    table = np.bincount(places % size, masses / 2, size) + np.bincount(-places % size, masses / 2, size)
    return np.fft.rfft(table).real


def _fold(transformed: Floats, size: int) -> Floats:
    """Return P(|sum| ≤ h) for h from 0 on, from the transform of the law of a sum."""
    masses = np.maximum(np.fft.irfft(transformed, size), 0.0)
    both = masses[: size // 2].copy()
    both[1:] += masses[: size // 2 : -1]
    return np.cumsum(both)
