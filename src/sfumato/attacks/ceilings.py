"""Ceilings: how often any attacker can be right, whatever they compute and whatever they know beside.

They follow from the guarantee alone (docs/proofs/attacks.md): an attack that beats one has found a mistake.
"""

from __future__ import annotations

import math


def guess_ceiling(epsilon: float, *, delta: float = 0.0) -> float:
    """Return the largest chance of guessing a fair coin: whether one unit is in the data or not.

    A secret bit that only units with a 1 are counted for is such a coin too.
    """
    return min(1.0, (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon)))


def value_ceiling(epsilon: float, values: int, *, one_run: bool = False) -> float:
    """Return the largest chance of guessing which of so many equally likely values one unit has.

    The unit is compared with one that has another value, which is a removal and an addition
    (e^2ε/(e^2ε + d − 1)), and with one that is absent (e^ε/d). With `one_run` the values of many units are
    guessed from the same answers; then only the first comparison bounds the number of right guesses.
    """
    pointwise = 1 / (1 + (values - 1) * math.exp(-2 * epsilon))
    return pointwise if one_run else min(pointwise, 1 / (values * math.exp(-epsilon)))


def hit_ceiling(epsilon: float, false_alarms: float, *, delta: float = 0.0) -> float:
    """Return the largest true positive rate of any test that has this false positive rate."""
    shrunk = math.exp(-epsilon)
    return min(1.0, false_alarms / shrunk + delta, 1 - shrunk * (1 - false_alarms - delta))


def excess_chance(hits: int, trials: int, ceiling: float) -> float:
    """Return the chance of at least so many right guesses if each is right with the chance of the ceiling."""
    from scipy.stats import binom

    return float(binom.sf(hits - 1, trials, ceiling))
