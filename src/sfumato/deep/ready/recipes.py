"""How the ready networks are trained: settings that follow from public numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sfumato.deep.ready.networks import SCATTERING

# Chosen on validation rows that were taken out of the training files of MNIST and Fashion-MNIST, and on the
# development tables of benchmarks/parts/unseen.py; never on rows that benchmarks/deep_accuracy.py reports.
# Privacy depends on none of them.
_LARGEST = 16_384
"""Rows of a batch at most: beyond it batches cost time and save little noise."""
_FEWEST, _MOST = 30, 800
"""Steps of a run."""
_FASTEST = 32.0
"""From learning rates of about twice this on, the first steps go too far to be made good."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings of a training run."""

    batch_size: int
    steps: int
    learning_rate: float
    clip: float | str
    tail: int
    """Weights are averaged over about one step in so many."""
    momentum: float = 0.9

    @property
    def average(self) -> float:
        """How much of the averaged weights stays at each step."""
        return 1 - min(self.tail / self.steps, 1.0)


def choose_recipe(network: str, rows: int, epsilon: float, is_regression: bool) -> Recipe:
    """Return settings for so many rows at this ε. The more there is of either, the longer training pays."""
    reach = math.sqrt(rows * epsilon / 5_000)
    # Large batches have little noise beside their sum; many features need more steps instead.
    batches, steps, rate, tail = 8, 160 * reach, min(reach, 2.0), 10
    if network == SCATTERING:
        batches, steps, rate, tail = 16, 80 * reach, min(4 * reach, _FASTEST), 50
    if is_regression:
        rate = 0.3 * min(reach, 1.0)
    size = min(max(rows // batches, 1), _LARGEST)
    clip: float | str = 1.0 if is_regression else "auto"
    return Recipe(size, round(min(max(steps, _FEWEST), _MOST)), rate, clip, tail)
