"""Integer Laplace noise, P(x) ∝ e^(−|x| / scale), drawn exactly (docs/proofs/discrete-laplace.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from sfumato.noise.additive import NoiseMoments, laplace_moments, parse_scale
from sfumato.noise.audit_hook import observed
from sfumato.noise.sampling.bits import OS
from sfumato.noise.sampling.enclosure import Enclosure, bracket, exp_minus, geometric_sequence
from sfumato.noise.sampling.integers import add_noise, as_integers
from sfumato.noise.sampling.inversion import InversionTable, draw_in_blocks, half_width
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events import DiscreteLaplace, price_laplace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.additive import NoiseMoments, Norms
    from sfumato.noise.sampling.bits import BitSource
    from sfumato.noise.sampling.integers import IntArray
    from sfumato.privacy.events import Event
    from sfumato.privacy.exact import Number

_LEAST_DEVIATION = 1e-12
"""A planned deviation is at least this, so that learners may divide by it."""
_FEW = 1 << 14
"""Most draws for which building large tables takes longer than drawing from small ones."""

_WIDEST = 2**62
"""Most numbers that a table and its digits stand for, if draws are put together in 64 bits."""

_SINGLY = 2
"""Most draws that are made one by one, which takes less time than arrays do."""


@tagged("Laplace", "scale")
@dataclass(frozen=True, slots=True)
class LaplaceNoise:
    """Adds integer Laplace noise.

    Privacy
    -------
    Protects : one unit, add/remove, whose contribution has l1 norm at most `l1` grid steps.
    Costs    : DiscreteLaplace(scale, l1), which is l1 / scale in pure ε.
    Because  : docs/proofs/discrete-laplace.md
    Assumes  : the input is an exact integer vector; how long a draw takes is not observed.
    """

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", parse_scale(self.scale, "scale"))

    @classmethod
    def calibrated(cls, epsilon: Fraction, l1: int) -> LaplaceNoise:
        """Return the noise that makes a vector of this l1 sensitivity ε-private."""
        return cls(l1 / epsilon)

    def event(self, l1: int) -> DiscreteLaplace:
        """Return the price for a vector of this l1 sensitivity."""
        return DiscreteLaplace(self.scale, l1)

    def release(self, exact: IntArray, *, l1: int | None = None, source: BitSource = OS) -> IntArray:
        """Return the exact integers plus fresh noise. `l1`, as priced, is for auditors only."""
        return observed(self, exact, l1, lambda: self._noisy(exact, source))

    def expected_error(self) -> float:
        """Return E|noise| = 2r / (1 − r²) with r = e^(−1/scale)."""
        rate = float(1 / self.scale)
        return 2 * math.exp(-rate) / -math.expm1(-2 * rate)

    def half_width(self, confidence: Number) -> int:
        """Return the smallest t with P(|noise| ≤ t) ≥ confidence."""
        return half_width(LaplaceQuotient(1 / self.scale, 1), confidence)

    # ---- what it shares with Gaussian noise: sfumato.noise.additive.Noise ----

    @property
    def spread(self) -> Fraction:
        """The scale."""
        return self.scale

    @property
    def moments(self) -> NoiseMoments:
        """Variance and excess kurtosis of one draw."""
        return laplace_moments(self.scale)

    @property
    def planned_deviation(self) -> float:
        """The standard deviation that learners plan with, in digits that never change (see `Noise`)."""
        rate = float(1 / self.scale)
        return max(_LEAST_DEVIATION, math.sqrt(2 * math.exp(-rate)) / -math.expm1(-rate))

    def event_for(self, sensitivity: Norms) -> Event:
        """Return the price for a vector of this sensitivity, by how far single numbers move."""
        return price_laplace(self.scale, sensitivity.moves, sensitivity.l2_squared)

    def release_for(self, exact: IntArray, sensitivity: Norms) -> IntArray:
        """Return the exact integers plus fresh noise."""
        return self.release(exact, l1=sensitivity.l1)

    def quantiles(self, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the integers that a draw stays at or below with these chances."""
        scale = float(self.scale)
        beyond = np.minimum(chances, 1 - chances) * (1 + math.exp(-1 / scale))
        return np.asarray(np.sign(chances - 0.5) * np.maximum(np.ceil(-scale * np.log(beyond)) - 1, 0))

    def exceedance(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P(|noise| ≥ step) for whole steps from 1 on, to double precision."""
        rate = 1 / float(self.scale)
        return np.asarray(2 * np.exp(-rate * steps) / (1 + math.exp(-rate)))

    def _noisy(self, exact: IntArray, source: BitSource) -> IntArray:
        return add_noise(exact, draw_laplace(self.scale, exact.size, source).reshape(exact.shape))


def draw_laplace(scale: Fraction, count: int, source: BitSource) -> IntArray:
    """Return `count` independent draws of integer Laplace noise."""
    # Few draws use small tables, which are quick to build; many draws repay large ones.
    return _sampler(scale, SMALL if count <= _FEW else LARGE).draw_all(count, source)


def draw_geometric(scale: Fraction, count: int, source: BitSource) -> IntArray:
    """Return `count` independent numbers g ≥ 0 with probabilities in proportion to e^(−g / scale)."""
    return _sampler(scale, SMALL if count <= _FEW else LARGE, signed=False).draw_all(count, source)


def draw_rounded_laplace(scale: Fraction, count: int, source: BitSource) -> IntArray:
    """Return `count` independent draws of the whole number nearest to Laplace noise on the real line."""
    # The size of such noise is exponential; counted in half steps, it is geometric.
    halves = draw_geometric(2 * scale, count, source)
    signs = np.unpackbits(source.words(-(-count // 64)).view(np.uint8))[:count].astype(np.int64)
    # Xor with −1 and adding 1 changes a sign.
    return np.asarray((halves + 1 >> 1 ^ -signs) + signs)


@dataclass(frozen=True, slots=True)
class LaplaceQuotient:
    """The law of X // width for integer Laplace noise X of scale 1/rate.

    With r = e^−rate and q = r^width: P(X // width ≥ k) = q^k / (1 + r) and
    P(X // width < −k) = r · q^k / (1 + r), for k ≥ 0.
    """

    rate: Fraction
    width: int

    def build_table(self) -> InversionTable:
        """Return a table that holds all but 2^−64 of the law."""
        reach = math.ceil(64 * Fraction(7, 10) / (self.rate * self.width)) + 1  # ln 2 < 7/10
        return InversionTable.build(self, range(-reach, reach + 1))

    def tail_probability(self, t: int) -> float:
        """Return P(X // width ≥ t), to the precision of doubles."""
        r, steps = math.exp(-1 / float(1 / self.rate)), self.width * t
        return r**steps / (1 + r) if t > 0 else 1 - r ** (1 - steps) / (1 + r)

    def bracket_cdf(self, ks: range, bits: int) -> list[int]:
        """Return thresholds as `IntegerLaw.bracket_cdf` states."""
        left = range(max(1 - ks.stop, 1), max(1 - ks.start, 1))
        right = range(max(ks.start, 0), max(ks.stop, 0))
        # The two tails are enclosed from the outside, where small probabilities keep their relative
        # precision.
        lower = bracket(lambda precision: self._tail(left, self.rate, precision), bits)
        upper = bracket(lambda precision: self._tail(right, Fraction(0), precision), bits)
        return lower[::-1] + [2**bits - 2 - threshold for threshold in upper]

    def _tail(self, ks: range, offset: Fraction, bits: int) -> list[Enclosure]:
        """Return enclosures of e^−offset · q^k / (1 + r) for each k."""
        if not ks:
            return []
        one, step = Enclosure.enclose(1, bits), self.rate * self.width
        first = exp_minus(offset + step * ks.start, bits) / (one + exp_minus(self.rate, bits))
        return geometric_sequence(first, exp_minus(step, bits), len(ks))


@dataclass(frozen=True, slots=True)
class GeometricLaw:
    """The geometric law of ratio e^−rate on 0 … size − 1, or on all whole numbers from 0 on."""

    rate: Fraction
    size: int | None

    def build_table(self) -> InversionTable:
        """Return a table of the whole law, or of all but 2^−64 of it."""
        size = self.size or math.ceil(64 * Fraction(7, 10) / self.rate) + 1  # ln 2 < 7/10
        return InversionTable.build(self, range(1, size))

    def bracket_cdf(self, ks: range, bits: int) -> list[int]:
        """Return thresholds as `IntegerLaw.bracket_cdf` states."""
        end = self.size or max(ks.stop, 1)
        inner = range(min(max(ks.start, 1), end), min(max(ks.stop, 1), end))
        known = bracket(lambda precision: self._below(inner, precision), bits)
        never, always = max(min(ks.stop, 1) - ks.start, 0), max(ks.stop - max(ks.start, end), 0)
        return [-2] * never + known + [2**bits] * always

    def _below(self, ks: range, bits: int) -> list[Enclosure]:
        """Return enclosures of (1 − r^k) / (1 − r^size) with r = e^−rate; r^size is 0 without an end."""
        # The first is computed as it stands, the others by adding the steps between them.
        one, ratio = Enclosure.enclose(1, bits), exp_minus(self.rate, bits)
        whole = one - exp_minus(self.rate * self.size, bits) if self.size else one
        power = exp_minus(self.rate * ks.start, bits)
        steps = geometric_sequence(power * (one - ratio) / whole, ratio, len(ks) - 1)
        return list(accumulate(steps, initial=(one - power) / whole)) if ks else []


@dataclass(frozen=True, slots=True)
class LaplaceSampler:
    """Draws X as X // width and the digits, in this base, of its remainder.

    X is integer Laplace noise, or a geometric number, whose quotient is never negative.
    """

    quotient: InversionTable
    digits: tuple[InversionTable, ...]
    base: int

    def draw_all(self, count: int, source: BitSource) -> IntArray:
        """Return `count` independent draws, a few of them one by one and many in blocks."""
        if count <= _SINGLY:
            return as_integers([self.draw_one(source) for _ in range(count)])
        return draw_in_blocks(lambda block: self.draw(block, source), count)

    def draw(self, count: int, source: BitSource) -> IntArray:
        """Return `count` independent draws."""
        # X is G or −1 − G for a geometric G and an independent sign. Drawing X // width gives the sign and
        # the leading part of G; the remaining digits of G are independent of both and of each other.
        leading = self.quotient.draw(count, source)
        if not self.digits:
            return leading
        if len(self.quotient.thresholds) * self.base ** len(self.digits) > _WIDEST:
            leading = leading.astype(object)
        # Xor with −1 is x ↦ −1 − x: it undoes the sign here and applies it again at the end.
        flip = np.where(leading < 0, -1, 0)
        geometric = leading ^ flip
        for digit in self.digits:
            geometric = geometric * self.base + digit.draw(count, source)
        return geometric ^ flip

    def draw_one(self, source: BitSource) -> int:
        """Return one draw, as `draw` does, without arrays."""
        leading = self.quotient.draw_one(source)
        geometric = leading if leading >= 0 else -1 - leading
        for digit in self.digits:
            geometric = geometric * self.base + digit.draw_one(source)
        return geometric if leading >= 0 else -1 - geometric


@dataclass(frozen=True, slots=True)
class TableSizes:
    """How large the tables of a sampler are. The law of the noise is the same with any sizes."""

    one_table: int
    """Largest scale that has a single table."""
    digit_bits: int
    """Most bits of a digit. A digit of 2^10 cells leaves one draw in 64 to the second stage."""
    quotient_bits: int
    """Base-2 logarithm of the largest scale that the quotient may have."""

    def digits(self, scale: Fraction) -> tuple[int, int]:
        """Return how many digits a scale takes, and how many bits each has."""
        if scale <= self.one_table:
            return 0, 0
        excess = math.floor(scale).bit_length() - self.quotient_bits
        digits = -(-excess // self.digit_bits)
        return digits, -(-excess // digits)


# Table sizes for many and for few draws; benchmarks/noise.py measures them. Privacy does not depend on them.
LARGE = TableSizes(one_table=64, digit_bits=10, quotient_bits=5)
SMALL = TableSizes(one_table=4, digit_bits=6, quotient_bits=2)


@lru_cache(maxsize=128)
def _sampler(scale: Fraction, layout: TableSizes, *, signed: bool = True) -> LaplaceSampler:
    """Return the sampler of Laplace noise, or without a sign that of geometric numbers."""
    digits, bits = layout.digits(scale)
    base, rate = 2**bits, 1 / scale
    width = base**digits
    tables = tuple(GeometricLaw(rate * base**place, base).build_table() for place in reversed(range(digits)))
    quotient = LaplaceQuotient(rate, width) if signed else GeometricLaw(rate * width, None)
    return LaplaceSampler(quotient.build_table(), tables, base)
