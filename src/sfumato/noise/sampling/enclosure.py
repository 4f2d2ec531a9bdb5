"""Interval arithmetic on integers: the lower end of an enclosure is rounded down, the upper end up.

In Python `a >> n` and `a // n` round down, so `-(-a >> n)` and `-(-a // n)` round up. No floating-point
number takes part, so an enclosure is a proof and not an estimate.
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
    """An enclosure low ≤ x · 2^bits ≤ high of a number x ≥ 0.

    Both operands of an operation have the same number of bits.
    """

    low: int
    high: int
    bits: int

    @classmethod
    def enclose(cls, x: Fraction | int, bits: int) -> Enclosure:
        """Return the tightest enclosure of a rational number at this many bits."""
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

    def sqrt(self) -> Enclosure:
        """Return an enclosure of the square root."""
        low, high = math.isqrt(self.low << self.bits), math.isqrt(self.high << self.bits)
        return Enclosure(low, high + 1, self.bits)

    def drop_bits(self, bits: int) -> Enclosure:
        """Return an enclosure of this number with fewer bits."""
        drop = self.bits - bits
        return Enclosure(self.low >> drop, -(-self.high >> drop), bits)


def bracket(approximate: Callable[[int], list[Enclosure]], bits: int) -> list[int]:
    """Return for each number x an integer t with t ≤ x · 2^bits ≤ t + 2.

    `approximate` encloses the numbers at any precision asked for.
    """
    # An enclosure may straddle an integer at one precision; at twice the precision it hardly ever does.
    precision = bits + 64
    while True:
        enclosures, drop = approximate(precision), precision - bits
        found = [x.low >> drop for x in enclosures]
        if all(x.high <= t + 2 << drop for x, t in zip(enclosures, found, strict=True)):
            return found
        precision *= 2


@lru_cache(maxsize=64)  # the digits of one law ask for the same few exponentials
def exp_minus(x: Fraction, bits: int) -> Enclosure:
    """Return an enclosure of e^−x for x ≥ 0: halve x until it is small, sum the series, square back.

    With h_i = 1 − y · h_{i+1} / (i + 1), h_0 is the series of e^−y, and every h_i lies in [0, 1] when
    0 ≤ y ≤ 1. So the innermost h_i may be replaced by all of [0, 1], and no remainder is neglected.
    """
    halvings = int(x).bit_length() + _SMALL
    working = bits + halvings + _SMALL
    y = Enclosure.enclose(x / 2**halvings, working)
    one = 1 << working
    low, high = 0, one
    for i in range(working // _SMALL + 1, 0, -1):
        low, high = one + (-y.high * high >> working) // i, one - (y.low * low >> working) // i
    for _ in range(halvings):
        low, high = low * low >> working, -(-high * high >> working)
    return Enclosure(low, high, working).drop_bits(bits)


def geometric_sequence(start: Enclosure, ratio: Enclosure, count: int) -> list[Enclosure]:
    """Return enclosures of start, start · ratio, start · ratio², …, `count` of them."""
    bits, low, high = start.bits, start.low, start.high
    found = [start] * min(count, 1)
    # The product of enclosures, written out without making objects: a table takes thousands of these.
    for _ in range(count - 1):
        low, high = low * ratio.low >> bits, -(-high * ratio.high >> bits)
        found.append(Enclosure(low, high, bits))
    return found
