"""The normal distribution function, enclosed between integers to any precision."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sfumato.noise.sampling.deferred import DeferredTable, guess_normal
from sfumato.noise.sampling.enclosure import Enclosure, bracket, exp_minus
from sfumato.noise.sampling.inversion import InversionTable

CELLS = 64
"""Number of cells that a standard deviation is cut into. The law of the noise does not depend on it."""
REACH = 592
"""Number of cells in the table: P(|Z| ≥ REACH / CELLS) < 2^−64, so a 64-bit draw seldom falls outside."""


@dataclass(frozen=True, slots=True)
class NormalMagnitude:
    """The law of ⌊|Z| · CELLS⌋ for a standard normal Z."""

    def bracket_cdf(self, ks: range, bits: int) -> list[int]:
        """Return thresholds as `IntegerLaw.bracket_cdf` states."""
        return [self._below(k, bits) if k > 0 else -2 for k in ks]

    def _below(self, k: int, bits: int) -> int:
        # P(|Z| < x) is twice P(0 < Z < x), and one more bit doubles it.
        [threshold] = bracket(
            lambda precision: [central_probability(Fraction(k, CELLS), precision)], bits + 1
        )
        return threshold


@dataclass(frozen=True, slots=True)
class RoundedNormal:
    """The law of the integer nearest to σ · Z for a standard normal Z."""

    sigma: Fraction

    def bracket_cdf(self, ks: range, bits: int) -> list[int]:
        """Return thresholds as `IntegerLaw.bracket_cdf` states."""
        return [self._below(Fraction(2 * k - 1, 2) / self.sigma, bits) for k in ks]

    def tail_probability(self, t: int) -> float:
        """Return P(X ≥ t), to the precision of doubles."""
        return math.erfc((t - 0.5) / float(self.sigma) / math.sqrt(2)) / 2

    def _below(self, x: Fraction, bits: int) -> int:
        [distance] = bracket(lambda precision: [central_probability(abs(x), precision)], bits)
        return (1 << bits - 1) + (distance if x > 0 else -distance - 2)


@lru_cache(maxsize=1)
def magnitude_sampler() -> DeferredTable:
    """Return the sampler of `NormalMagnitude`, which builds its table only if more than a few are drawn."""
    return DeferredTable(NormalMagnitude(), _guess_cell, magnitude_table)


def _guess_cell(chance: float) -> int:
    return int(guess_normal((1 + chance) / 2) * CELLS)


@lru_cache(maxsize=1)
def magnitude_table() -> InversionTable:
    """Return the inversion table of `NormalMagnitude`, built once; its thresholds serve every σ."""
    return InversionTable.build(NormalMagnitude(), range(1, REACH + 1))


def normal_density(x: Fraction, bits: int) -> Enclosure:
    """Return an enclosure of the normal density e^(−x²/2) / √(2π)."""
    return exp_minus(x * x / 2, bits) * one_over_root_tau(bits)


def central_probability(x: Fraction, bits: int) -> Enclosure:
    """Return an enclosure of P(0 < Z < x) = density(x) · (x + x³/3 + x⁵/(3·5) + …) for x ≥ 0."""
    square = x * x
    # Far out it is 1/2 less at most e^(−x²/2) / 2, which is below one unit of the last bit.
    if square > 2 * bits:
        half = 1 << bits - 1
        return Enclosure(half - 1, half, bits)
    working = bits + 32 * math.ceil(square / 40 + 1)  # the series grows as e^(x²/2), by 0.73 x² bits
    return (
        normal_density(x, working) * Enclosure.enclose(x, working) * _odd_series(square, working)
    ).drop_bits(bits)


def _odd_series(square: Fraction, bits: int) -> Enclosure:
    """Return 1 + x²/3 + x⁴/(3·5) + …, as g_0 with g_n = 1 + x²/(2n + 3) · g_{n+1}.

    From the first n with x² ≤ (2n + 3)/2 on, every g_n lies in [1, 2]; the innermost may be all of it.
    """
    one, times, over = 1 << bits, square.numerator, square.denominator
    low, high = one, 2 * one
    for odd in range(2 * _terms(square, bits) + 1, 1, -2):
        low, high = one + low * times // (over * odd), one - (-high * times // (over * odd))
    return Enclosure(low, high, bits)


def _terms(square: Fraction, bits: int) -> int:
    """Return about how many terms it takes until their product is below 2^−bits."""
    # Floating point may decide this: too few terms give a wider enclosure, never a wrong one.
    at, gained = float(square), 0.0
    n = max(0, math.ceil(square - Fraction(3, 2)))
    while gained < bits and at > 0:
        gained += math.log2((2 * n + 3) / at)
        n += 1
    return n


@lru_cache(maxsize=8)
def one_over_root_tau(bits: int) -> Enclosure:
    """Return 1/√(2π), with Machin's π = 16·arctan(1/5) − 4·arctan(1/239)."""
    tau = Enclosure.enclose(32, bits) * _inverse_tangent(5, bits) - Enclosure.enclose(
        8, bits
    ) * _inverse_tangent(239, bits)
    return (Enclosure.enclose(1, bits) / tau).sqrt()


def _inverse_tangent(n: int, bits: int) -> Enclosure:
    """Return arctan(1/n) = g_0 / n with g_i = 1/(2i + 1) − g_{i+1}/n², where every g_i lies in [0, 1]."""
    one = 1 << bits
    low, high = 0, one
    for odd in range(bits // 2 | 1, 0, -2):
        low, high = one // odd + (-high // n**2), -(-one // odd) - low // n**2
    return Enclosure(low // n, -(-high // n), bits)
