"""Odds that can be drawn exactly: a simple fraction just below e^ε."""

from __future__ import annotations

from fractions import Fraction

from sfumato.noise.sampling.enclosure import exp_minus

_SLACK = Fraction(1, 2**32)  # share of ε that simpler odds may leave unused; privacy does not depend on it
_BITS = 256


def odds_within(epsilon: Fraction) -> Fraction:
    """Return the fraction with the smallest denominator between e^(ε − ε/2³²) and e^ε.

    An ε typed as math.log(3), which is a double a little above ln 3, gives the odds 3 of the fair-coin
    protocol.
    """
    # Both ends are rounded inwards, so ln(odds) ≤ ε for certain.
    low = Fraction(2**_BITS, exp_minus(epsilon * (1 - _SLACK), _BITS).low)
    high = Fraction(2**_BITS, exp_minus(epsilon, _BITS).high)
    return simplest_fraction(low, high)


def simplest_fraction(low: Fraction, high: Fraction) -> Fraction:
    """Return the fraction of smallest denominator in a closed interval of positive numbers."""
    whole = -(-low.numerator // low.denominator)
    if whole <= high:
        return Fraction(whole)
    floor = whole - 1
    return floor + 1 / simplest_fraction(1 / (high - floor), 1 / (low - floor))
