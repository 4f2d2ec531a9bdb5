"""Where a tail ends: thresholds that noise passes with a small, named chance."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError
from sfumato.noise.gaussian import GaussianNoise
from sfumato.noise.sampling.inversion import RationalNumber, invert
from sfumato.privacy.exact import exact

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.noise.laplace import LaplaceNoise, LaplaceQuotient
    from sfumato.noise.sampling.normal import RoundedNormal


def risk(delta: Any) -> Fraction:
    """A δ that is to be spent, exact: above 0 and below 1."""
    value = exact(delta, "delta")
    if not 0 < value < 1:
        raise UsageError(
            "SF-N409", "delta must lie above 0 and below 1.", got=str(delta)[:40], try_="delta=1e-9"
        )
    return value


@lru_cache(maxsize=64)
def reached_rarely(law: LaplaceQuotient | RoundedNormal, chance: Fraction) -> int:
    """The smallest t with P(X ≥ t) < chance.

    The k with P(X < k) ≤ 1 − chance < P(X < k + 1) is decided by certain bounds, and t is k + 1.
    """
    return invert(law, RationalNumber(1 - chance)) + 1


def reaching(noise: LaplaceNoise | GaussianNoise, t: int) -> float:
    """P(X ≥ t), to the precision of doubles."""
    if isinstance(noise, GaussianNoise):
        return math.erfc((t - 0.5) / float(noise.sigma) / math.sqrt(2)) / 2
    r = math.exp(-1 / float(noise.scale))
    return r**t / (1 + r) if t > 0 else 1 - r ** (1 - t) / (1 + r)
