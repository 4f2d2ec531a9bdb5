"""The normal distribution, caught between integers as closely as one likes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sfumato.noise.bounds import Bounds, brackets, exp_minus

_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Magnitude:
    """⌊|Z| · cells⌋ for a standard normal Z."""

    cells: int

    def below(self, ks: range, bits: int) -> list[int]:
        return [self._below(k, bits) if k > 0 else -2 for k in ks]

    def _below(self, k: int, bits: int) -> int:
        """P(−x < Z < x) = 2 · P(0 < Z < x), so half the bits' worth more is asked for and nothing doubled."""
        [threshold] = brackets(lambda precision: [central(Fraction(k, self.cells), precision)], bits + 1)
        return threshold


@dataclass(frozen=True, slots=True)
class Rounded:
    """The whole number nearest to σ · Z."""

    sigma: Fraction

    def below(self, ks: range, bits: int) -> list[int]:
        return [self._below((k - _HALF) / self.sigma, bits) for k in ks]

    def _below(self, x: Fraction, bits: int) -> int:
        [distance] = brackets(lambda precision: [central(abs(x), precision)], bits)
        return 2 ** (bits - 1) + (distance if x > 0 else -distance - 2)


def central(x: Fraction, bits: int) -> Bounds:
    """P(0 < Z < x) = e^(−x²/2) / √(2π) · (x + x³/3 + x⁵/(3·5) + …) for x ≥ 0.

    Far out it is a half, less at most half of e^(−x²/2).
    """
    square = x * x
    if square > 2 * bits:
        half = 1 << bits - 1
        return Bounds(half - 1, half, bits)
    working = bits + math.ceil(square) + 16
    density = exp_minus(square / 2, working) * _one_over_root_tau(working)
    return (density * Bounds.of(x, working) * _odd_series(square, working)).rounded(bits)


def _odd_series(square: Fraction, bits: int) -> Bounds:
    """1 + x²/3 + x⁴/(3·5) + …, as g_0 with g_n = 1 + x²/(2n + 3) · g_{n+1}.

    From the first n with x² ≤ (2n + 3)/2 on, every g_n lies in [1, 2]; the innermost may be all of it.
    """
    one = 1 << bits
    low, high = one, 2 * one
    for n in reversed(range(_terms(square, bits))):
        divisor = square.denominator * (2 * n + 3)
        low, high = (
            one + low * square.numerator // divisor,
            one - (-high * square.numerator // divisor),
        )
    return Bounds(low, high, bits)


def _terms(square: Fraction, bits: int) -> int:
    """How many until their product is below 2^−bits; a rough count does, as the result shows its own width."""
    n = max(0, math.ceil(square - Fraction(3, 2)))
    gained, at = 0.0, float(square)
    while gained < bits and at > 0:
        gained += math.log2((2 * n + 3) / at)
        n += 1
    return n


@lru_cache(maxsize=8)
def _one_over_root_tau(bits: int) -> Bounds:
    """1/√(2π), with Machin's π = 16·arctan(1/5) − 4·arctan(1/239)."""
    eighth = _inverse_tangent(5, bits), _inverse_tangent(239, bits)
    tau = Bounds.of(32, bits) * eighth[0] - Bounds.of(8, bits) * eighth[1]
    return (Bounds.of(1, bits) / tau).root()


def _inverse_tangent(n: int, bits: int) -> Bounds:
    """arctan(1/n) = g_0 / n with g_i = 1/(2i + 1) − g_{i+1}/n², and every g_i lies in [0, 1]."""
    one = 1 << bits
    low, high = 0, one
    for i in reversed(range(bits)):
        low, high = one // (2 * i + 1) + (-high // n**2), -(-one // (2 * i + 1)) - low // n**2
    return Bounds(low // n, -(-high // n), bits)
