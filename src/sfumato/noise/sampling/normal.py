"""The normal distribution, caught between integers as closely as one likes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sfumato.noise.sampling.bounds import Enclosure, brackets, exp_minus
from sfumato.noise.sampling.inversion import InversionTable

CELLS = 64
"""How many cells a standard deviation is cut into."""
REACH = 592
"""P(|Z| ≥ REACH / CELLS) < 2^−64."""


@dataclass(frozen=True, slots=True)
class NormalMagnitude:
    """⌊|Z| · CELLS⌋ for a standard normal Z."""

    def below(self, ks: range, bits: int) -> list[int]:
        return [self._below(k, bits) if k > 0 else -2 for k in ks]

    def _below(self, k: int, bits: int) -> int:
        """P(|Z| < x) is twice P(0 < Z < x): one more bit doubles it."""
        [threshold] = brackets(lambda precision: [central(Fraction(k, CELLS), precision)], bits + 1)
        return threshold


@dataclass(frozen=True, slots=True)
class RoundedNormal:
    """The whole number nearest to σ · Z."""

    sigma: Fraction

    def below(self, ks: range, bits: int) -> list[int]:
        return [self._below(Fraction(2 * k - 1, 2) / self.sigma, bits) for k in ks]

    def _below(self, x: Fraction, bits: int) -> int:
        [distance] = brackets(lambda precision: [central(abs(x), precision)], bits)
        return (1 << bits - 1) + (distance if x > 0 else -distance - 2)


@lru_cache(maxsize=1)
def magnitudes() -> InversionTable:
    """The table of `Magnitude`; its thresholds serve every σ."""
    return InversionTable.of(NormalMagnitude(), range(1, REACH + 1))


def density(x: Fraction, bits: int) -> Enclosure:
    """e^(−x²/2) / √(2π)."""
    return exp_minus(x * x / 2, bits) * _one_over_root_tau(bits)


def central(x: Fraction, bits: int) -> Enclosure:
    """P(0 < Z < x) = density(x) · (x + x³/3 + x⁵/(3·5) + …) for x ≥ 0.

    Far out it is a half, less at most half of e^(−x²/2).
    """
    square = x * x
    if square > 2 * bits:
        half = 1 << bits - 1
        return Enclosure(half - 1, half, bits)
    working = bits + 32 * math.ceil(square / 40 + 1)  # the series grows as e^(x²/2), by 0.73 x² bits
    return (density(x, working) * Enclosure.of(x, working) * _odd_series(square, working)).rounded(bits)


def _odd_series(square: Fraction, bits: int) -> Enclosure:
    """1 + x²/3 + x⁴/(3·5) + …, as g_0 with g_n = 1 + x²/(2n + 3) · g_{n+1}.

    From the first n with x² ≤ (2n + 3)/2 on, every g_n lies in [1, 2]; the innermost may be all of it.
    """
    one, times, over = 1 << bits, square.numerator, square.denominator
    low, high = one, 2 * one
    for odd in range(2 * _terms(square, bits) + 1, 1, -2):
        low, high = one + low * times // (over * odd), one - (-high * times // (over * odd))
    return Enclosure(low, high, bits)


def _terms(square: Fraction, bits: int) -> int:
    """How many until their product is below 2^−bits: roughly, as the result shows its own width."""
    at, gained = float(square), 0.0
    n = max(0, math.ceil(square - Fraction(3, 2)))
    while gained < bits and at > 0:
        gained += math.log2((2 * n + 3) / at)
        n += 1
    return n


@lru_cache(maxsize=8)
def _one_over_root_tau(bits: int) -> Enclosure:
    """1/√(2π), with Machin's π = 16·arctan(1/5) − 4·arctan(1/239)."""
    tau = Enclosure.of(32, bits) * _inverse_tangent(5, bits) - Enclosure.of(8, bits) * _inverse_tangent(
        239, bits
    )
    return (Enclosure.of(1, bits) / tau).root()


def _inverse_tangent(n: int, bits: int) -> Enclosure:
    """arctan(1/n) = g_0 / n with g_i = 1/(2i + 1) − g_{i+1}/n², where every g_i lies in [0, 1]."""
    one = 1 << bits
    low, high = 0, one
    for odd in range(bits // 2 | 1, 0, -2):
        low, high = one // odd + (-high // n**2), -(-one // odd) - low // n**2
    return Enclosure(low // n, -(-high // n), bits)
