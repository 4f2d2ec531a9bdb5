"""The largest rate η that a price allows, for choices ∝ e^(−η·loss) (docs/proofs/experts.md).

A loss vector moves the exponents of a choice by at most η either way, so a choice has a range of 2η.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from sfumato.errors import UsageError
from sfumato.privacy.bisection import find_smallest
from sfumato.privacy.composition import epsilon as composed_epsilon
from sfumato.privacy.conversion import renyi_epsilon
from sfumato.privacy.events import Event, Exponential, Gaussian, Pure, Repeated, Sequential

_BITS = 30
"""Significant bits of a rate, so that exact draws work with short fractions."""

_LEAST_PRIVATE = 1e9
"""A σ so large that what does not fit beside it fits beside nothing."""


def round_rate(rate: float) -> Fraction:
    """Return a rate of a few bits that is at most the given one."""
    mantissa, power = math.frexp(rate)
    return Fraction(math.floor(mantissa * 2**_BITS)) * Fraction(2) ** (power - _BITS)


def calibrate_rate(choices: int, beside: Fraction, epsilon: Fraction, delta: Fraction) -> float:
    """Return the largest η for so many choices beside a pure event, which together are (ε, δ)-private."""
    pure = float(epsilon - beside) / (2 * choices)
    return max(pure, math.sqrt(2 * divergence_left(beside, epsilon, delta) / choices)) * (1 - 1e-9)


@lru_cache(maxsize=256)
def divergence_left(beside: Fraction, epsilon: Fraction, delta: Fraction) -> float:
    """Return the largest ρ for which a ρ-zCDP mechanism beside a pure event is (ε, δ)-private; 0 if δ is 0.

    Choices of range 2η are η²/2-zCDP each, so ρ is what all of them may have together.
    """
    if not delta or beside >= epsilon:
        return 0.0

    def holds(sigma: float) -> bool:
        # Gaussian noise is a stand-in: its divergence at order α is α/(2σ²), and that of the choices no more.
        return renyi_epsilon([Pure(beside), Gaussian(sigma)], delta) <= float(epsilon)

    if not holds(_LEAST_PRIVATE):
        return 0.0
    return 1 / (2 * find_smallest(holds, 0.0, 1.0, precision=1e-6) ** 2)


def require_within(event: Event, epsilon: Fraction, delta: Fraction) -> None:
    """Refuse an event that is not (ε, δ)-private after all."""
    pure = event.pure()
    if pure is not None and not event.side_delta() and pure <= epsilon:
        return
    if not delta or composed_epsilon(event, delta) > epsilon:
        raise UsageError(
            "SF-N316", "This method has no setting that is private at this price.", try_='method="auto"'
        )


def lazy_event(beside: Fraction, rate: Fraction, choices: int) -> Sequential:
    """Return the price of a pure event beside so many choices."""
    return Sequential([Pure(beside), Repeated(Exponential(2 * rate), choices)])
