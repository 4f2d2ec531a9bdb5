"""Gradients of a row's loss by its scores, in whole numbers, looked up in a public table and clipped.

Each class computes one thing in two ways: with NumPy over own arrays, and as values that an engine computes.
Both give the same integers, so that an answer does not depend on where it was computed and noise is added to
integers alone. Doubles hold every integer on the way exactly; divisors are powers of two, or so small that
rounding cannot carry a quotient past a whole number.

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
    from sfumato.oracle.gradients import AddColumns

    Floats = NDArray[np.float64]
    Codes = NDArray[np.int64]

# None of these matters to privacy, which rests on `norm_bound` alone. benchmarks/learners.py
# measures what coarser ones would cost; finer tables make longer programs for engines.
STEPS = 2**10
"""The whole number that stands for a derivative of 1."""
_CELLS_PER_UNIT = 32
"""Table cells for a score of 1, about."""
_LARGEST_SCORE = 12.0
"""Scores beyond this count as this: the derivative of every loss is flat there."""
_ODDS = 2**16
"""The whole number that stands for the odds of the likeliest class."""
_FACTOR = 2**8
"""The whole number that stands for a clipping factor of 1."""
_NORM_CELLS = 1024
"""Table cells for the squared norm of score gradients before they are clipped."""


@dataclass(frozen=True)
class ScoreGrid:
    """Cells of a table over integer scores, of which `one` stands for a score of 1."""

    one: int

    @cached_property
    def step(self) -> int:
        """Width of a cell: a power of two, so that dividing by it is exact in doubles."""
        return int(2 ** max(0, round(math.log2(self.one / _CELLS_PER_UNIT))))

    @cached_property
    def half(self) -> int:
        """Number of cells on either side of 0."""
        return math.ceil(_LARGEST_SCORE * self.one / self.step)

    def midpoints(self, first: int, count: int) -> Floats:
        """Return the real scores in the middle of so many cells."""
        return np.arange(first + 0.5, first + count, 1.0) * (self.step / self.one)


@dataclass(frozen=True)
class MarginGradient:
    """Score gradient of a loss of margins: one score for two classes, or one for each against the rest."""

    loss: Loss
    grid: ScoreGrid
    clip: float
    classes: int

    @property
    def outputs(self) -> int:
        return 1 if self.classes == 2 else self.classes

    @cached_property
    def norm_bound(self) -> int:
        return math.floor(self.clip * STEPS)

    @property
    def max_squared_norm(self) -> int:
        """Largest squared norm before clipping."""
        return self.outputs * math.floor(self.loss.lipschitz * STEPS) ** 2

    @cached_property
    def table(self) -> Floats:
        """The derivative in the middle of each cell, rounded towards 0; of one score clipped already."""
        margins = self.grid.midpoints(-self.grid.half, 2 * self.grid.half)
        found = np.trunc(self.loss.derivative(margins) * STEPS)
        most = self.norm_bound if self.outputs == 1 else math.floor(self.loss.lipschitz * STEPS)
        clipped: Floats = np.clip(found, -most, most)
        return clipped

    def encode_labels(self, codes: Codes) -> Floats:
        """Return +1 for a row's own class and −1 for others; 0 for rows of no class."""
        own = np.arange(1, 2) if self.outputs == 1 else np.arange(self.classes)
        found: Floats = 2.0 * (codes[:, None] == own) - 1.0
        found *= ((codes >= 0) & (codes < self.classes))[:, None]
        return found

    def compute_gradients(self, scores: Floats, labels: Floats) -> Floats:
        # In place and by the factor 1/step, exact for a power of two: this runs for every row of every step.
        margins = scores * labels
        margins += self.grid.half * self.grid.step
        margins *= 1 / self.grid.step
        gradients: Floats = np.take(self.table, margins.astype(np.int64), mode="clip")
        gradients *= labels
        return gradients if self.outputs == 1 else _NormClipping(self).clip_gradients(gradients)

    def lower_gradients(self, scores: Sequence[Value], label: Value, add_columns: AddColumns) -> list[Value]:
        # Each stage is a column of its own: else an engine computes shared parts anew wherever they occur.
        own = [1] if self.outputs == 1 else range(self.classes)
        margins = add_columns(
            [
                Choose(Among(label, (k,)), z, Multiply(z, Constant(-1)))
                for k, z in zip(own, scores, strict=True)
            ]
        )
        last = len(self.table) * self.grid.step - 1
        shifted = add_columns([Add(each, Constant(self.grid.half * self.grid.step)) for each in margins])
        inside = add_columns([Least(Greatest(each, Constant(0)), Constant(last)) for each in shifted])
        entries = tuple(map(int, self.table.tolist()))
        derivatives = add_columns(
            [Lookup(Divide(each, Constant(self.grid.step)), entries) for each in inside]
        )
        gradients = add_columns(
            [
                _if_classed(label, self.classes, Choose(Among(label, (k,)), d, Multiply(d, Constant(-1))))
                for k, d in zip(own, derivatives, strict=True)
            ]
        )
        return (
            list(gradients)
            if self.outputs == 1
            else _NormClipping(self).lower_clipped(gradients, add_columns)
        )


@dataclass(frozen=True)
class SoftmaxGradient:
    """Score gradient of cross-entropy: the probability of each class less 1 for a row's own class."""

    grid: ScoreGrid
    clip: float
    classes: int

    @property
    def outputs(self) -> int:
        return self.classes

    @cached_property
    def norm_bound(self) -> int:
        return math.floor(self.clip * STEPS)

    @property
    def max_squared_norm(self) -> int:
        # Probabilities add up to at most 1: a row's own class lacks at most 1, the others have at most 1.
        return 2 * STEPS**2

    @cached_property
    def odds(self) -> Floats:
        """Odds of a class beside the likeliest, by how far its score lies below."""
        found: Floats = np.floor(np.exp(-self.grid.midpoints(0, self.grid.half)) * _ODDS)
        # The likeliest class has odds of exactly 1, so that their sum is never 0.
        found[0] = _ODDS
        # The last cell stands for all scores further below.
        found[-1] = 0.0
        return found

    def encode_labels(self, codes: Codes) -> Floats:
        """Return STEPS for a row's own class and 0 for others; NaN throughout for rows of no class."""
        found: Floats = STEPS * (codes[:, None] == np.arange(self.classes)).astype(np.float64)
        found[(codes < 0) | (codes >= self.classes)] = np.nan
        return found

    def compute_gradients(self, scores: Floats, labels: Floats) -> Floats:
        below = scores.max(axis=1, keepdims=True) - scores
        below *= 1 / self.grid.step
        np.minimum(below, len(self.odds) - 1, out=below)
        odds = self.odds[below.astype(np.intp)]
        gradients: Floats = np.floor(odds * STEPS / odds.sum(axis=1, keepdims=True))
        gradients -= labels
        # Rows of no class have NaN for labels, and so a gradient of 0.
        np.nan_to_num(gradients, copy=False)
        return _NormClipping(self).clip_gradients(gradients)

    def lower_gradients(self, scores: Sequence[Value], label: Value, add_columns: AddColumns) -> list[Value]:
        highest = scores[0]
        for each in scores[1:]:
            (highest,) = add_columns([Greatest(highest, each)])
        below = add_columns([Add(highest, Multiply(each, Constant(-1))) for each in scores])
        entries = tuple(map(int, self.odds.tolist()))
        odds = add_columns(
            [Either(Lookup(Divide(each, Constant(self.grid.step)), entries), Constant(0)) for each in below]
        )
        (whole,) = add_columns([sum_values(odds)])
        shares = [Divide(Multiply(each, Constant(STEPS)), whole) for each in odds]
        own = [Choose(Among(label, (k,)), Constant(-STEPS), Constant(0)) for k in range(self.classes)]
        gradients = add_columns(
            [_if_classed(label, self.classes, Add(p, each)) for p, each in zip(shares, own, strict=True)]
        )
        return _NormClipping(self).lower_clipped(gradients, add_columns)


@dataclass(frozen=True)
class _NormClipping:
    """Clips the score gradients of a row to a joint norm, by a factor for each cell of the squared norm."""

    gradient: MarginGradient | SoftmaxGradient

    @property
    def step(self) -> int:
        return int(2 ** math.ceil(math.log2(self.gradient.max_squared_norm / _NORM_CELLS + 1)))

    @property
    def factors(self) -> Floats:
        """The factor for the upper end of each cell, rounded down: no row ends beyond the bound."""
        bound, step = self.gradient.norm_bound, self.step
        cells = range(self.gradient.max_squared_norm // step + 1)
        found = [math.isqrt(bound**2 * _FACTOR**2 // ((cell + 1) * step)) for cell in cells]
        return np.minimum(np.array(found, dtype=np.float64), _FACTOR)

    def clip_gradients(self, gradients: Floats) -> Floats:
        # Truncating towards 0 makes no entry longer, so the norm stays within the bound.
        squared = np.einsum("ij,ij->i", gradients, gradients)
        squared *= 1 / self.step
        gradients *= self.factors[squared.astype(np.intp)][:, None]
        gradients *= 1 / _FACTOR
        return np.trunc(gradients, out=gradients)

    def lower_clipped(self, gradients: Sequence[Value], add_columns: AddColumns) -> list[Value]:
        (squared,) = add_columns([sum_values([Multiply(each, each) for each in gradients])])
        entries = tuple(map(int, self.factors.tolist()))
        (factor,) = add_columns([Lookup(Divide(squared, Constant(self.step)), entries)])
        return list(add_columns([divide_toward_zero(Multiply(each, factor), _FACTOR) for each in gradients]))


def _if_classed(label: Value, classes: int, value: Value) -> Value:
    """Return the value, and 0 for rows whose label is not declared."""
    return Choose(Among(label, tuple(range(classes))), value, Constant(0))
