"""Noisy gradient descent with momentum; the weights of the later half of the steps are averaged.

How many steps there are, their size and the momentum follow from public facts and one noisy number of rows.

Because : docs/proofs/convex.md#noisy-descent
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.plan.spend import PureSpend
from sfumato.learn.convex.score_gradients import STEPS
from sfumato.oracle.blocks import COUNT, SumBlock, share_of
from sfumato.oracle.gradients import GradientQuestion
from sfumato.viz import progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.curator.plan.spend import Spend
    from sfumato.oracle.gradients import ScoreGradient
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

# Privacy depends on none of these: every gradient is paid for, whatever the weights are. They were chosen
# with benchmarks/learners.py, by accuracy on held-out rows.
WEIGHT_STEPS = 2**8
"""Weights are asked about in whole numbers of one over this."""
_LARGEST_WEIGHT = 2**12
_COUNT_SHARE = Fraction(1, 50)
"""Share of the spend for the number of rows, where it is not declared."""
CONSTANT = 0.1
"""The constant beside features of norm at most 1, whose weight is the intercept."""
_CLEAR_SHARE = 0.5
"""Share of the rows whose gradient is taken to agree, when the signal is estimated."""
_FEWEST_STEPS, _MOST_STEPS = 12, 45
_STRONGEST_SIGNAL = 1e100
"""Declared numbers of rows may be any; the square of a stronger signal would be no double."""
_STRONG_SIGNAL, _MANY_WEIGHTS = 64.0, 64
"""From this signal-to-noise ratio on steps grow, up to twice the size; and for more weights than half of
_MANY_WEIGHTS there are more of them, up to twice as many."""
_FEWEST_STEPS_PURE, _MOST_STEPS_PURE = 2, 20
_DAMPING = 6.0
"""How strongly noise shortens steps and takes momentum away."""
_STEP_SIZE, _MOMENTUM = 4.5, 0.62
"""For several scores; the step grows with the root of their number, since softmax over more is flatter."""
_STEP_SIZE_ONE, _MOMENTUM_ONE = 26.0, 0.75
"""For one score, which stands for the difference of two."""


@dataclass(frozen=True, slots=True)
class LearnedWeights:
    """Weights for features of norm at most 1 and for the constant beside them; one row a score."""

    weights: Floats
    constant: float
    norm: int
    rows: float
    """Number of rows, as declared or noisy."""
    steps: int


@dataclass(frozen=True, slots=True)
class NoisyDescent:
    """Settings of a descent, all of them public."""

    make_gradient: Callable[[int], ScoreGradient]
    """Makes the score gradient, given how many whole numbers stand for a score of 1."""
    penalty: float
    rows: float | None
    steps: int | None
    offset: Floats | float = 0.0
    """Scores that all rows start from."""
    left: Fraction = Fraction(1)
    """Share of the spend that is left for the descent, and for counting rows where they are not known."""

    def learn_weights(self, oracle: Oracle) -> LearnedWeights:
        """Learn weights from rows whose norm is clipped already."""
        norm = oracle.declared.norm
        if norm is None:
            raise AssertionError("rows are clipped before a descent")
        gradient = self.make_gradient(WEIGHT_STEPS * norm)
        # Whole numbers on the grid of the features, as the oracle sums integers.
        constant = max(1, round(CONSTANT * norm))
        start = np.zeros((gradient.outputs, len(oracle.declared.features) + 1), dtype=np.int64)
        left = self.left if self.rows is not None else self.left - _COUNT_SHARE
        path = _DescentPath(oracle, GradientQuestion(start, gradient, constant), left, norm)
        # Noise that is too wide to be drawn is refused before rows are counted.
        path.require_noise(self.steps or 1)
        rows = _count_rows(oracle) if self.rows is None else self.rows
        steps = self.steps or path.choose_steps(rows)
        begin = np.zeros(start.shape)
        begin[:, -1] = self.offset * norm / constant
        weights = path.descend(steps, rows, self.penalty, begin)
        return LearnedWeights(weights, constant / norm, norm, rows, steps)


def _count_rows(oracle: Oracle) -> float:
    (answer,) = oracle.sums([SumBlock((COUNT,), 1, 1)], share=_COUNT_SHARE)
    return max(1.0, float(answer.values[0, 0]))


@dataclass(frozen=True, slots=True)
class _DescentPath:
    oracle: Oracle
    start: GradientQuestion
    share: Fraction
    norm: int

    @property
    def noise(self) -> float:
        """Deviation of a gradient for which the whole share is spent at once, in gradients of one row."""
        spend = self.oracle.budget.main
        (whole,) = self.oracle.noise([self.start.build_block(self.oracle.declared)], spend)
        bound = self.start.score_gradient.norm_bound
        return whole.deviation / (bound * self.norm * math.sqrt(float(self.share)))

    @property
    def dimensions(self) -> int:
        """Number of weights that matter: adding the same to the scores of all classes changes nothing."""
        outputs, vector = map(int, self.start.weights.shape)
        return max(1, outputs - 1) * vector

    def signal(self, rows: float) -> float:
        """Signal-to-noise ratio of one weight's gradient, were all of the share spent on one step."""
        return _CLEAR_SHARE * rows / self.noise / math.sqrt(self.dimensions)

    def abundance(self, rows: float) -> float:
        """Say from 0 to 1 how far noise no longer decides when to stop; always 0 for Laplace noise."""
        if isinstance(self.oracle.budget.main, PureSpend):
            return 0.0
        return min(1.0, max(0.0, math.log(max(1.0, self.signal(rows)) / _STRONG_SIGNAL, 4)))

    def require_noise(self, steps: int) -> None:
        """Refuse so many steps where their noise is too wide to be drawn, which is public."""
        self.oracle.noise(*self._step(steps))

    def _step(self, steps: int) -> tuple[list[SumBlock], Spend]:
        """Return what one of so many steps asks, and what it spends."""
        block = self.start.build_block(self.oracle.declared)
        return [block], share_of(self.oracle.budget.main, self.share / steps)

    def choose_steps(self, rows: float) -> int:
        """Return as many steps as the signal allows, and no more than have noise that can be drawn."""
        steps = self._usual_steps(rows)
        while steps > 1 and not self.oracle.can_draw(*self._step(steps)):
            steps //= 2
        return steps

    def _usual_steps(self, rows: float) -> int:
        """Return more steps where the signal is stronger; Laplace noise grows faster with their number."""
        signal = min(self.signal(rows), _STRONGEST_SIGNAL)
        if isinstance(self.oracle.budget.main, PureSpend):
            return int(min(max(signal, _FEWEST_STEPS_PURE), _MOST_STEPS_PURE))
        wide = min(1.0, max(0, self.dimensions - _MANY_WEIGHTS // 2) / _MANY_WEIGHTS)
        # Gaussian noise of a step grows with the root of their number: at the signal squared it equals the
        # signal of a step.
        return int(min(max(signal**2, _FEWEST_STEPS), _MOST_STEPS * (1 + self.abundance(rows) * wide)))

    def clearness(self, rows: float) -> float:
        """Say from 0 to 1 how far the gradient of all rows stands out of the noise."""
        return rows / math.hypot(rows, _DAMPING * self.noise * math.sqrt(math.sqrt(self.dimensions)))

    def step_size(self, rows: float) -> float:
        outputs = self.start.score_gradient.outputs
        usual = _STEP_SIZE_ONE if outputs == 1 else _STEP_SIZE * math.sqrt(outputs)
        return usual * (1 + self.abundance(rows))

    def descend(self, steps: int, rows: float, penalty: float, weights: Floats) -> Floats:
        """Step along the mean gradient of all rows; shorter and with less momentum where noise would lead."""
        later, velocity = np.zeros(self.start.weights.shape), np.zeros(self.start.weights.shape)
        step_size, momentum = self._pace(rows)
        scale = step_size / (STEPS * self.norm)
        for step in progress.show_rounds(steps, "descent"):
            ahead = weights - momentum * velocity  # Nesterov: the gradient is taken where momentum leads
            gradients = self.oracle.gradients(self._ask_at(ahead), self.share / steps)
            velocity = momentum * velocity + gradients.values * scale + step_size * penalty * ahead
            weights = weights - velocity
            # The early weights still carry the start; averaging the later ones cancels noise of single steps.
            if step >= steps // 2:
                later += weights
        return later / (steps - steps // 2)

    def _pace(self, rows: float) -> tuple[float, float]:
        """Return the size of a step and the momentum."""
        clear = self.clearness(rows)
        usual = _MOMENTUM_ONE if len(self.start.weights) == 1 else _MOMENTUM
        return self.step_size(rows) * clear / rows, usual * clear**4

    def _ask_at(self, weights: Floats) -> GradientQuestion:
        # Whole numbers, so that every engine computes the same integer scores.
        most = _LARGEST_WEIGHT * WEIGHT_STEPS
        steps = np.nan_to_num(np.rint(weights * WEIGHT_STEPS), nan=0.0)
        integers = np.clip(steps, -most, most).astype(np.int64)
        return GradientQuestion(integers, self.start.score_gradient, self.start.constant)
