"""What Laplace and Gaussian noise have in common: the range of their scale, their moments, one protocol."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number
from sfumato.privacy.exact import parse_positive

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.events import Event, Moves
    from sfumato.privacy.exact import Number

SMALLEST, LARGEST = Fraction(1, 1000), Fraction(2**52)
"""Range of a noise scale, in grid steps. The samplers are proven for it (docs/proofs/gaussian.md)."""
COMBINED = Fraction(2**40)
"""The largest scale of choices, and of noise that is put together from several draws."""

_SUMMED = 20
"""Up to this σ the moments of rounded Gaussian noise are summed term by term. Above, what rounding adds is
1/12 and the rest is below the rounding of doubles: e^(−2π²σ²). Privacy does not depend on it."""


def parse_scale(value: Any, name: str) -> Fraction:
    """Return a noise scale in grid steps, exactly; refuse one that hides nothing or drowns everything."""
    scale = parse_positive(value, name)
    if not SMALLEST <= scale <= LARGEST:
        raise UsageError(
            "SF-N201",
            f"The noise {name} is out of range.",
            got=f"{format_number(scale)} grid steps",
            allowed="from 1/1000 to 2^52 grid steps",
            try_="a coarser grid if it is too large, a smaller epsilon if it is too small",
        )
    return scale


@dataclass(frozen=True, slots=True)
class NoiseMoments:
    """Variance, and fourth moment over the variance squared less 3, of noise whose mean is 0."""

    variance: float
    excess: float


@lru_cache(maxsize=256)
def laplace_moments(scale: Fraction) -> NoiseMoments:
    """Return the exact moments of integer Laplace noise, up to float rounding."""
    # With r = e^(−1/scale): E x² = 2r/(1 − r)² and E x⁴ = 2r(1 + 10r + r²)/(1 − r)⁴.
    r, gap = math.exp(-1 / float(scale)), -math.expm1(-1 / float(scale))
    variance, fourth = 2 * r / gap**2, 2 * r * (1 + 10 * r + r * r) / gap**4
    square = variance**2  # 0 in doubles where noise is all but never drawn
    return NoiseMoments(variance, fourth / square - 3 if square else 0.0)


@lru_cache(maxsize=256)
def gaussian_moments(sigma: Fraction) -> NoiseMoments:
    """Return the exact moments of rounded Gaussian noise, up to float rounding."""
    deviation = float(sigma)
    if deviation > _SUMMED:
        # Rounding adds 1/12 to the variance and takes 1/120 from the fourth cumulant.
        variance = deviation**2 + 1 / 12
        return NoiseMoments(variance, -1 / 120 / variance**2)
    reach = range(1, int(40 * deviation) + 2)
    tails = [(k, math.erfc((k - 0.5) / deviation / math.sqrt(2))) for k in reach]
    second = math.fsum((2 * k - 1) * tail for k, tail in tails)
    fourth = math.fsum((k**4 - (k - 1) ** 4) * tail for k, tail in tails)
    return NoiseMoments(second, fourth / second**2 - 3 if second**2 else 0.0)


class Norms(Protocol):
    """The largest norms by which neighbours differ. Each noise is priced by the norm of its own."""

    @property
    def l1(self) -> int:
        """Largest l1 norm, in grid steps."""

    @property
    def l2(self) -> Fraction:
        """Largest l2 norm, in grid steps, rounded up."""

    @property
    def l2_squared(self) -> int:
        """Square of the largest l2 norm."""

    @property
    def moves(self) -> Moves:
        """How far single numbers move at worst, in grid steps."""


class Noise(Protocol):
    """Independent integer noise of mean 0, added to each number of a vector."""

    @property
    def spread(self) -> Fraction:
        """The parameter of the law, in grid steps: the scale of Laplace noise, the σ of Gaussian noise."""

    @property
    def moments(self) -> NoiseMoments:
        """Variance and excess kurtosis of the integer that is added. Every reported error starts here."""

    @property
    def planned_deviation(self) -> float:
        """The standard deviation that learners plan their next round with.

        Its digits are part of what a fit asks: with others, a fit made before would ask for other rounds and
        be charged again. So it never changes, and leaves out what rounding adds to Gaussian noise.
        """

    def event_for(self, sensitivity: Norms) -> Event:
        """Return the price of adding this noise to a vector of this sensitivity."""

    def release_for(self, exact: IntArray, sensitivity: Norms) -> IntArray:
        """Return the integers plus fresh noise. Auditors see the sensitivity as it was priced."""

    def expected_error(self) -> float:
        """Return the mean of |noise|."""

    def half_width(self, confidence: Number) -> int:
        """Return the smallest t with P(|noise| ≤ t) ≥ confidence."""

    def quantiles(self, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the integers that the noise stays at or below with these chances, to double precision."""
