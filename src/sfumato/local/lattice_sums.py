"""Sums of many independent copies of a variable with few values, by Fourier transforms with a stated error.

A sum far from its mean has a probability that rounding would bury, so the variable is tilted until the sum
lies around 0, and weighted back. Why the bounds hold: docs/proofs/shuffling.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_UNIT = 2.0**-52
_TRIG = (
    8 * _UNIT
)  # error of one term of the characteristic function, relative to the smaller of 2 and |angle|
_WIDTH = 9.0  # half of the window, in standard deviations of the tilted sum
_LARGEST = 2**22
_DEEPEST = 300.0  # how far below the centre tails are given, as a logarithm of their weight


@dataclass(frozen=True)
class LatticeSum:
    """The sum of `copies` independent variables that take whole numbers with these chances."""

    numbers: Ints
    chances: Floats
    copies: int
    centre: int = 0
    """What the tilted sum lies around."""

    @cached_property
    def tilt(self) -> float:
        """Number τ ≥ 0 for which the sum weighted by e^(τ·x) has its mean at the centre; 0 if it is above."""
        if self._tilted_mean(0) >= 0 or self.numbers.max() * self.copies <= self.centre:
            return 0.0
        low, high = 0.0, 1.0 / float(np.abs(self.numbers).max())
        while self._tilted_mean(high) < 0 and high < 700:
            low, high = high, 2 * high
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self._tilted_mean(middle) < 0 else (low, middle)
        return high

    @cached_property
    def log_scale(self) -> tuple[float, float]:
        """Logarithm of E e^(τ·sum), and a bound on its error."""
        terms = self.chances * np.expm1(self.tilt * self.numbers)
        total = math.fsum(terms.tolist())
        slack = 8 * _UNIT * float(np.abs(terms).sum() + np.abs(self.chances * self.numbers * self.tilt).sum())
        return self.copies * math.log1p(total), self.copies * slack / (1 + total)

    @cached_property
    def tilted(self) -> Floats:
        """Chances of the numbers after tilting."""
        weights = self.chances * np.exp(self.tilt * self.numbers)
        return np.asarray(weights / weights.sum(), dtype=np.float64)

    @cached_property
    def length(self) -> int:
        """Length of the window around 0, a power of two."""
        mean = float(self.tilted @ self.numbers)
        deviation = math.sqrt(self.copies * float(self.tilted @ (self.numbers - mean) ** 2))
        astray = abs(self.copies * mean - self.centre)
        reach = 2 * (_WIDTH * (deviation + 1) + astray + float(np.abs(self.numbers).max()))
        # Sums of few copies get a window that they cannot leave.
        reach = max(reach, min(2 * self._farthest + 2, 2**14))
        return int(min(_LARGEST, 2 ** math.ceil(math.log2(reach))))

    @cached_property
    def outside(self) -> float:
        """Bound on the chance that the tilted sum leaves the window, by Bernstein's inequality."""
        if 2 * self._farthest < self.length:
            return 0.0
        mean = float(self.tilted @ self.numbers)
        away = self.length / 2 - abs(self.copies * mean - self.centre) - 1
        if away <= 0:
            return 1.0
        variance = self.copies * float(self.tilted @ (self.numbers - mean) ** 2)
        largest = float(np.abs(self.numbers - mean).max())
        return min(1.0, 2 * math.exp(-(away**2) / (2 * (variance + largest * away / 3)) * (1 - 1e-9)))

    @cached_property
    def law(self) -> tuple[Floats, float]:
        """Chances of the tilted sum at the centre + 0, 1, …, −2, −1, and a bound on their error."""
        real, imaginary, sizes = self._characteristic()
        # 1 + real + i·imaginary to the power of the copies, by logarithms that keep small parts exact.
        modulus = np.maximum((1 + real) ** 2 + imaginary**2, 1e-300)
        small = np.log1p(np.maximum(2 * real + real**2 + imaginary**2, -0.9))
        powers = np.exp(self.copies / 2 * np.where(modulus > 0.5, small, np.log(modulus)))
        turns = np.arange(real.size) * self.centre % self.length
        phases = self.copies * np.arctan2(imaginary, 1 + real) - 2 * np.pi / self.length * turns
        law = np.fft.irfft(powers * np.exp(-1j * phases), self.length)
        error = _TRIG * sizes
        raised = np.log(np.minimum(modulus + 4 * error, 1))
        slips = self.copies * np.exp((self.copies - 1) / 2 * raised) * error
        turning = 4 * _UNIT * powers * (1 + np.abs(phases))
        transform = 8 * _UNIT * math.log2(self.length) * powers
        return law, 2 * float((slips + turning + transform).mean())

    @property
    def _farthest(self) -> int:
        return self.copies * int(np.abs(self.numbers).max()) + abs(self.centre)

    @property
    def _doubt(self) -> float:
        """Logarithm of how much the chances of the sum may be off because those of one copy are rounded."""
        return 16 * _UNIT * self.copies + 1e-9

    def positive_part(self) -> float:
        """Return an upper bound of E max(sum, 0), for a centre of 0."""
        law, error = self.law
        log_scale, slack = self.log_scale
        places = np.arange(1, self.length // 2, dtype=np.float64)
        weights = places * np.exp(-self.tilt * places)
        inside = float(weights @ (np.maximum(law[1 : self.length // 2], 0) + error))
        beyond = self.length / 2
        peak = 1 / self.tilt if self.tilt else math.inf
        # Beyond the window x·e^(−τx) is at most its value at the end, or its peak; untilted sums are bounded.
        most = beyond * math.exp(-self.tilt * beyond) if peak <= beyond else peak
        most = min(most, self.copies * float(np.abs(self.numbers).max()))
        return math.exp(log_scale + slack + self._doubt) * (inside + most * self.outside)

    def tails(self) -> tuple[int, Floats, Floats]:
        """Return a number, and lower and upper bounds of the chances that the sum exceeds it, it + 1, …"""
        law, error = self.law
        log_scale, slack = self.log_scale
        half = self.length // 2
        first = max(-half, -int(_DEEPEST / self.tilt) if self.tilt else -half)
        weights = np.exp(-self.tilt * np.arange(1, half - first))  # relative to the first place
        found = _sums_from(np.fft.fftshift(law)[first + half + 1 :] * weights)
        off = error * _sums_from(weights) + self.outside * weights
        scale = log_scale - self.tilt * (first + self.centre)
        low = np.exp(scale - slack - self._doubt) * (found - off)
        high = np.exp(scale + slack + self._doubt) * (found + off)
        return self.centre + first, np.maximum(low, 0), np.minimum(high, 1)

    def _characteristic(self) -> tuple[Floats, Floats, Floats]:
        """Return the parts of E e^(iθx) − 1 for half a turn of θ, and the sizes that bound their errors."""
        steps = np.arange(self.length // 2 + 1)
        real, imaginary, sizes = (np.zeros(steps.size) for _ in range(3))
        for number, chance in zip(self.numbers.tolist(), self.tilted.tolist(), strict=True):
            # Whole turns are taken off in whole numbers, where nothing is lost.
            left = steps * number % self.length
            angle = 2 * np.pi / self.length * np.where(2 * left > self.length, left - self.length, left)
            real -= 2 * chance * np.sin(angle / 2) ** 2
            imaginary += chance * np.sin(angle)
            sizes += chance * np.minimum(2, np.abs(angle))
        return real, imaginary, sizes

    def _tilted_mean(self, tilt: float) -> float:
        exponents = tilt * self.numbers
        weights = self.chances * np.exp(exponents - exponents.max())
        return float(weights @ (self.numbers - self.centre / self.copies))


def _sums_from(numbers: Floats) -> Floats:
    """Return the sum of the numbers from each place on."""
    return np.asarray(np.cumsum(numbers[::-1])[::-1], dtype=np.float64)
