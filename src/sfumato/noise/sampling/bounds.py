"""Real numbers caught between integers: the lower end is rounded down, the upper end up, always.

In Python `a >> n` and `a // n` round down, so `-(-a >> n)` and `-(-a // n)` round up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

_SMALL = 16  # a series in y ≤ 2^−16 gains at least sixteen bits with each term


@dataclass(slots=True)  # made by the thousand: frozen, each would take three times as long
class Enclosure:
    """A number x ≥ 0 with low ≤ x · 2^bits ≤ high. Both operands of an operation have the same bits."""

    low: int
    high: int
    bits: int

    @classmethod
    def of(cls, x: Fraction | int, bits: int) -> Enclosure:
        scaled = x.numerator << bits
        return cls(scaled // x.denominator, -(-scaled // x.denominator), bits)

    def __add__(self, other: Enclosure) -> Enclosure:
        return Enclosure(self.low + other.low, self.high + other.high, self.bits)

    def __sub__(self, other: Enclosure) -> Enclosure:
        return Enclosure(self.low - other.high, self.high - other.low, self.bits)

    def __mul__(self, other: Enclosure) -> Enclosure:
        bits = self.bits
        return Enclosure(self.low * other.low >> bits, -(-self.high * other.high >> bits), bits)

    def __truediv__(self, other: Enclosure) -> Enclosure:
        low, high = self.low << self.bits, self.high << self.bits
        return Enclosure(low // other.high, -(-high // other.low), self.bits)

    def root(self) -> Enclosure:
        low, high = math.isqrt(self.low << self.bits), math.isqrt(self.high << self.bits)
        return Enclosure(low, high + 1, self.bits)

    def rounded(self, bits: int) -> Enclosure:
        """The same number with fewer bits."""
        drop = self.bits - bits
        return Enclosure(self.low >> drop, -(-self.high >> drop), bits)


def brackets(approximate: Callable[[int], list[Enclosure]], bits: int) -> list[int]:
    """Integers t with t ≤ x · 2^bits ≤ t + 2, for numbers x that can be caught as closely as one likes."""
    precision = bits + 64
    while True:
        caught, drop = approximate(precision), precision - bits
        found = [x.low >> drop for x in caught]
        if all(x.high <= t + 2 << drop for x, t in zip(caught, found, strict=True)):
            return found
        precision *= 2


@lru_cache(maxsize=64)  # the digits of one law ask for the same few
def exp_minus(x: Fraction, bits: int) -> Enclosure:
    """e^−x for x ≥ 0: halve x until it is small, sum the series, square back.

    With h_i = 1 − y · h_{i+1} / (i + 1), h_0 is the series of e^−y, and every h_i lies in [0, 1] when
    0 ≤ y ≤ 1. So the innermost may be replaced by all of [0, 1] and no remainder is left out.
    """
    halvings = int(x).bit_length() + _SMALL
    working = bits + halvings + _SMALL
    y = Enclosure.of(x / 2**halvings, working)
    one = 1 << working
    low, high = 0, one
    for i in range(working // _SMALL + 1, 0, -1):
        low, high = one + (-y.high * high >> working) // i, one - (y.low * low >> working) // i
    for _ in range(halvings):
        low, high = low * low >> working, -(-high * high >> working)
    return Enclosure(low, high, working).rounded(bits)


def decay(start: Enclosure, ratio: Enclosure, count: int) -> list[Enclosure]:
    """start, start · ratio, start · ratio², … : so many of them."""
    bits, low, high = start.bits, start.low, start.high
    found = [start] * min(count, 1)
    for _ in range(count - 1):  # Bounds' own product, written out: tables are made of thousands
        low, high = low * ratio.low >> bits, -(-high * ratio.high >> bits)
        found.append(Enclosure(low, high, bits))
    return found
