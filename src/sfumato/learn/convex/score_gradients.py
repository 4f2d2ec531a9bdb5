"""How far a row pulls each score, in whole numbers: a public table of a loss's slope, jointly shortened.

Each has one meaning and two ways to it: NumPy over own arrays, and values that an engine computes. Doubles
hold every integer on the way exactly, and only powers of two are divided by, or what leaves no doubt.

Because : docs/proofs/convex.md#whole-numbers
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.lower.computed import divide_toward_zero, sum_values
from sfumato.oracle.blocks import (
    Add,
    Among,
    Choose,
    Constant,
    Divide,
    Either,
    Greatest,
    Least,
    Lookup,
    Multiply,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.learn.convex.losses import Loss
    from sfumato.oracle.blocks import Value
    from sfumato.oracle.gradients import Grow

    Floats = NDArray[np.float64]
    Codes = NDArray[np.int64]

STEPS = 2**10
"""What stands for a pull of 1."""
_FINE = 32
"""Scores are told apart in steps of about 1 / so many."""
_FAR = 12.0
"""Scores beyond this count as this."""
_ODDS = 2**16
_FACTORS = 2**8
_LENGTHS = 1024


@dataclass(frozen=True)
class Grid:
    """Where whole scores fall in a table: `one` of them stands for a score of 1."""

    one: int

    @cached_property
    def step(self) -> int:
        return int(2 ** max(0, round(math.log2(self.one / _FINE))))

    @cached_property
    def half(self) -> int:
        """How many steps reach to either side."""
        return math.ceil(_FAR * self.one / self.step)

    def middles(self, first: int, count: int) -> Floats:
        return np.arange(first + 0.5, first + count, 1.0) * (self.step / self.one)


@dataclass(frozen=True)
class Margins:
    """A loss of margins: of one score for two classes, or of a score for each class against the others."""

    loss: Loss
    grid: Grid
    clip: float
    classes: int

    @property
    def outputs(self) -> int:
        return 1 if self.classes == 2 else self.classes

    @cached_property
    def longest(self) -> int:
        return math.floor(self.clip * STEPS)

    @cached_property
    def table(self) -> Floats:
        """The slope in the middle of each step, towards nothing; alone, no steeper than allowed."""
        found = np.trunc(self.loss.slope(self.grid.middles(-self.grid.half, 2 * self.grid.half)) * STEPS)
        most = self.longest if self.outputs == 1 else math.floor(self.loss.steepness * STEPS)
        clipped: Floats = np.clip(found, -most, most)
        return clipped

    def of(self, scores: Floats, marks: Floats) -> Floats:
        margins = scores * marks
        margins += self.grid.half * self.grid.step
        margins *= 1 / self.grid.step
        pulls: Floats = np.take(self.table, margins.astype(np.int64), mode="clip")
        pulls *= marks
        return pulls if self.outputs == 1 else _Short(self).of(pulls)

    def marks(self, codes: Codes) -> Floats:
        """+1 for a row's own class and −1 for others; 0 for rows of no class."""
        own = np.arange(1, 2) if self.outputs == 1 else np.arange(self.classes)
        found: Floats = 2.0 * (codes[:, None] == own) - 1.0
        found *= ((codes >= 0) & (codes < self.classes))[:, None]
        return found

    @property
    def parts(self) -> int:
        """The largest squared length before it is shortened."""
        return self.classes * math.floor(self.loss.steepness * STEPS) ** 2

    def lowered(self, scores: Sequence[Value], label: Value, grow: Grow) -> list[Value]:
        own = [1] if self.outputs == 1 else range(self.classes)
        signed = grow(
            [
                Choose(Among(label, (k,)), z, Multiply(z, Constant(-1)))
                for k, z in zip(own, scores, strict=True)
            ]
        )
        top = len(self.table) * self.grid.step - 1
        shifted = grow([Add(each, Constant(self.grid.half * self.grid.step)) for each in signed])
        cut = grow([Least(Greatest(each, Constant(0)), Constant(top)) for each in shifted])
        entries = tuple(map(int, self.table.tolist()))
        slopes = grow([Lookup(Divide(each, Constant(self.grid.step)), entries) for each in cut])
        pulls = grow(
            [
                _of_class(label, self.classes, Choose(Among(label, (k,)), s, Multiply(s, Constant(-1))))
                for k, s in zip(own, slopes, strict=True)
            ]
        )
        return list(pulls) if self.outputs == 1 else _Short(self).lowered(pulls, grow)


@dataclass(frozen=True)
class Softmax:
    """A score for each class, and the chance that they give it, against what it is."""

    grid: Grid
    clip: float
    classes: int

    @property
    def outputs(self) -> int:
        return self.classes

    @cached_property
    def longest(self) -> int:
        return math.floor(self.clip * STEPS)

    @cached_property
    def odds(self) -> Floats:
        """How likely a class is beside the likeliest, by how far it lies below."""
        found: Floats = np.floor(np.exp(-self.grid.middles(0, self.grid.half)) * _ODDS)
        found[0] = _ODDS
        found[-1] = 0.0
        return found

    @property
    def parts(self) -> int:
        """Chances add up to at most 1, so a row's own lacks at most 1 and the others have at most that."""
        return 2 * STEPS**2

    def marks(self, codes: Codes) -> Floats:
        """STEPS for a row's own class, and missing throughout for rows of no class."""
        found: Floats = STEPS * (codes[:, None] == np.arange(self.classes)).astype(np.float64)
        found[(codes < 0) | (codes >= self.classes)] = np.nan
        return found

    def of(self, scores: Floats, marks: Floats) -> Floats:
        below = scores.max(axis=1, keepdims=True) - scores
        below *= 1 / self.grid.step
        np.minimum(below, len(self.odds) - 1, out=below)
        odds = self.odds[below.astype(np.intp)]
        pulls: Floats = np.floor(odds * STEPS / odds.sum(axis=1, keepdims=True))
        pulls -= marks
        np.nan_to_num(pulls, copy=False)
        return _Short(self).of(pulls)

    def lowered(self, scores: Sequence[Value], label: Value, grow: Grow) -> list[Value]:
        highest = scores[0]
        for each in scores[1:]:
            (highest,) = grow([Greatest(highest, each)])
        below = grow([Add(highest, Multiply(each, Constant(-1))) for each in scores])
        entries = tuple(map(int, self.odds.tolist()))
        odds = grow(
            [Either(Lookup(Divide(each, Constant(self.grid.step)), entries), Constant(0)) for each in below]
        )
        (whole,) = grow([sum_values(odds)])
        chances = [Divide(Multiply(each, Constant(STEPS)), whole) for each in odds]
        own = [Choose(Among(label, (k,)), Constant(-STEPS), Constant(0)) for k in range(self.classes)]
        pulls = grow(
            [_of_class(label, self.classes, Add(p, each)) for p, each in zip(chances, own, strict=True)]
        )
        return _Short(self).lowered(pulls, grow)


@dataclass(frozen=True)
class _Short:
    """All pulls of a row together no longer than allowed; by 1,024 steps of their squared length."""

    of_: Margins | Softmax

    @property
    def step(self) -> int:
        return int(2 ** math.ceil(math.log2(self.of_.parts / _LENGTHS + 1)))

    @property
    def factors(self) -> Floats:
        longest, step = self.of_.longest, self.step
        places = range(self.of_.parts // step + 1)
        found = [math.isqrt(longest**2 * _FACTORS**2 // ((place + 1) * step)) for place in places]
        return np.minimum(np.array(found, dtype=np.float64), _FACTORS)

    def of(self, pulls: Floats) -> Floats:
        squared = np.einsum("ij,ij->i", pulls, pulls)
        squared *= 1 / self.step
        pulls *= self.factors[squared.astype(np.intp)][:, None]
        pulls *= 1 / _FACTORS
        return np.trunc(pulls, out=pulls)

    def lowered(self, pulls: Sequence[Value], grow: Grow) -> list[Value]:
        (squared,) = grow([sum_values([Multiply(each, each) for each in pulls])])
        entries = tuple(map(int, self.factors.tolist()))
        (factor,) = grow([Lookup(Divide(squared, Constant(self.step)), entries)])
        return list(grow([divide_toward_zero(Multiply(each, factor), _FACTORS) for each in pulls]))


def _of_class(label: Value, classes: int, value: Value) -> Value:
    return Choose(Among(label, tuple(range(classes))), value, Constant(0))
