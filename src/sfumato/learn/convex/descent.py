"""Noisy gradient descent with momentum: steps down noisy slopes, of which the later half is averaged.

How many steps, how long and how rows are shortened follows from public facts and one noisy number of rows.

Because : docs/proofs/convex.md#noisy-descent
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.plan.spend import PureSpend
from sfumato.learn.base import progress
from sfumato.learn.convex.score_gradients import STEPS
from sfumato.oracle.blocks import COUNT, Block
from sfumato.oracle.gradients import GradientQuestion

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.oracle.gradients import ScoreGradient
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

FINE = 2**8
"""Weights are whole numbers of 1 / so many."""
_FURTHEST = 2**12
_COUNT = Fraction(1, 50)
CONSTANT = 0.1
"""What is the same in all rows, beside features of length up to 1."""
_SURE = 0.5
_FEWEST, _MOST = 12, 45
_MANY, _WIDE = 64.0, 64
"""From so strong a signal on, steps grow longer, up to twice as long; and for more weights than half of
_WIDE there are more, up to twice as many."""
_FEWEST_PURE, _MOST_PURE = 2, 20
_NOISE = 6.0
_STEP, _MOMENTUM = 4.5, 0.62
"""Of several scores; the step grows with the root of their number, since chances of more are flatter."""
_STEP_OF_ONE, _MOMENTUM_OF_ONE = 26.0, 0.75
"""One score stands for the difference of two."""


@dataclass(frozen=True, slots=True)
class Found:
    """Weights of features as long as 1 at most, and of the constant; one row a score."""

    weights: Floats
    constant: float
    norm: int
    rows: float
    """How many there are: as declared, or noisy."""
    steps: int


@dataclass(frozen=True, slots=True)
class Descent:
    """What is asked for, all of it public."""

    residual: Callable[[int], ScoreGradient]
    """At so many whole numbers for a score of 1."""
    penalty: float
    rows: float | None
    steps: int | None

    def run(self, oracle: Oracle) -> Found:
        """From rows that are shortened already."""
        norm = oracle.declared.norm
        if norm is None:
            raise AssertionError("rows are shortened before a descent")
        residual = self.residual(FINE * norm)
        constant = max(1, round(CONSTANT * norm))
        start = np.zeros((residual.outputs, len(oracle.declared.features) + 1), dtype=np.int64)
        counted, left = (self.rows, Fraction(1)) if self.rows is not None else (_counted(oracle), 1 - _COUNT)
        path = _Path(oracle, GradientQuestion(start, residual, constant), left, norm)
        steps = self.steps or path.steps(counted)
        weights = path.walk(steps, counted, self.penalty)
        return Found(weights, constant / norm, norm, counted, steps)


def _counted(oracle: Oracle) -> float:
    (answer,) = oracle.sums([Block((COUNT,), 1, 1)], share=_COUNT)
    return max(1.0, float(answer.values[0, 0]))


@dataclass(frozen=True, slots=True)
class _Path:
    oracle: Oracle
    start: GradientQuestion
    share: Fraction
    norm: int

    @property
    def noise(self) -> float:
        """Of a slope that all of the share was spent on at once, where a row pulls by 1 at most."""
        spend = self.oracle.budget.main
        (whole,) = self.oracle.noise([self.start.block(self.oracle.declared)], spend)
        longest = self.start.score_gradient.longest
        return whole.deviation / (longest * self.norm * math.sqrt(float(self.share)))

    @property
    def numbers(self) -> int:
        """How many weights matter: adding the same to the scores of all classes changes nothing."""
        outputs, vector = map(int, self.start.weights.shape)
        return max(1, outputs - 1) * vector

    def signal(self, rows: float) -> float:
        """How far what rows say of a weight stands out of the noise of one slope."""
        return _SURE * rows / self.noise / math.sqrt(self.numbers)

    def plenty(self, rows: float) -> float:
        """From 0 to 1: how far rows are so many that noise no longer says where to stop."""
        if isinstance(self.oracle.budget.main, PureSpend):
            return 0.0
        return min(1.0, max(0.0, math.log(max(1.0, self.signal(rows)) / _MANY, 4)))

    def steps(self, rows: float) -> int:
        """More where a row weighs more than noise. Laplace noise grows faster with them."""
        signal = self.signal(rows)
        if isinstance(self.oracle.budget.main, PureSpend):
            return int(min(max(signal, _FEWEST_PURE), _MOST_PURE))
        wide = min(1.0, max(0, self.numbers - _WIDE // 2) / _WIDE)
        return int(min(max(signal**2, _FEWEST), _MOST * (1 + self.plenty(rows) * wide)))

    def clear(self, rows: float) -> float:
        """How far rows stand out of the noise, from 0 to 1."""
        return rows / math.hypot(rows, _NOISE * self.noise * math.sqrt(math.sqrt(self.numbers)))

    def stride(self, rows: float) -> float:
        outputs = self.start.score_gradient.outputs
        usual = _STEP_OF_ONE if outputs == 1 else _STEP * math.sqrt(outputs)
        return usual * (1 + self.plenty(rows))

    def walk(self, steps: int, rows: float, penalty: float) -> Floats:
        """Steps for the mean slope of all rows; shorter and without momentum where noise would lead."""
        shape, clear = self.start.weights.shape, self.clear(rows)
        weights, later, speed = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        pace = self.stride(rows) * clear / rows
        momentum = (_MOMENTUM_OF_ONE if len(weights) == 1 else _MOMENTUM) * clear**4
        scale = pace / (STEPS * self.norm)
        for step in progress.rounds(steps, "descent"):
            ahead = weights - momentum * speed
            slopes = self.oracle.gradients(self._at(ahead), self.share / steps)
            speed = momentum * speed + slopes.values * scale + pace * penalty * ahead
            weights = weights - speed
            if step >= steps // 2:
                later += weights
        return later / (steps - steps // 2)

    def _at(self, weights: Floats) -> GradientQuestion:
        whole = np.clip(np.rint(weights * FINE), -_FURTHEST * FINE, _FURTHEST * FINE).astype(np.int64)
        return GradientQuestion(whole, self.start.score_gradient, self.start.constant)
