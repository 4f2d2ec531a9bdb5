"""How many canaries can be guessed correctly under a claim: chances that hold for every mechanism.

Two bounds, one for (ε, δ) by Steinke, Nasr and Jagielski (*Privacy Auditing with One (1) Training Run*, 2023)
and one for trade-off functions by Mahloujifar, Melis and Chaudhuri (*Auditing f-Differential Privacy in One
Run*, 2025). Neither assumes that canaries are independent once the run is seen (docs/proofs/audit.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.privacy import composition, gaussian
from sfumato.privacy.events import ApproxDP
from sfumato.privacy.losses.distribution import gaussian_mu, loss_distribution

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.privacy.events import Event

    Floats = NDArray[np.float64]

    TradeoffFunction = Callable[[float], float]
    """Returns the least false negative rate at a false positive rate."""

_LINES = 400
"""Values of ε at which a claim's δ is read. Fewer would find less, and never accuse wrongly."""
_STEP = 1e-3
"""Width of the grid on which a claim's losses are composed. A coarser one is quicker and finds less."""


@dataclass(frozen=True, slots=True)
class GuessCount:
    """Canaries, guesses among them, and how many of the guesses were correct."""

    canaries: int
    guesses: int
    correct: int


def rejects_epsilon(count: GuessCount, alpha: float, epsilon: float, delta: float) -> bool:
    """Return whether so many correct guesses have a chance below alpha under (ε, δ)."""
    return guess_chance(count, epsilon, delta) < alpha


def guess_chance(count: GuessCount, epsilon: float, delta: float) -> float:
    """Return a bound on the chance of so many correct guesses of an (ε, δ)-private mechanism.

    With W binomial, of chance e^ε/(1 + e^ε) for each guess, and v correct guesses among m canaries it is
    P(W ≥ v) + 2·m·δ·max over i of P(v − i ≤ W < v)/i.
    """
    from scipy.special import betainc

    right = count.correct
    if not right:
        return 1.0
    accuracy = 1 / (1 + math.exp(-epsilon))
    # P(W ≥ k) for k from `right` down to 0.
    hits = np.arange(right, 0, -1)
    tails = np.append(betainc(hits, count.guesses - hits + 1, accuracy), 1.0)
    steepest = np.max((tails[1:] - tails[0]) / np.arange(1, right + 1))
    return float(min(1.0, tails[0] + 2 * count.canaries * delta * steepest))


def rejects_tradeoff(count: GuessCount, alpha: float, tradeoff: TradeoffFunction) -> bool:
    """Return whether so many correct guesses have a chance below alpha under a trade-off function.

    If they had the chance alpha, fewer correct guesses would have to be likely too. This adds up the least
    chances of at least k correct guesses, for k downwards, until they exceed 1 or need to grow no more.
    """
    tail, above = alpha, 0.0
    for hits in range(count.correct, 0, -1):
        right = (hits * tail + above) / count.canaries
        wrong = count.canaries * tradeoff(1 - right)
        needed = (above + tail + wrong) / (count.guesses - hits + 1)
        if needed <= tail:
            return False
        above, tail = above + tail, needed
        if tail > 1:
            return True
    return False


def make_tradeoff(event: Event, finest: float) -> TradeoffFunction:
    """Return the trade-off function of an event, precise for chances down to `finest`."""
    mu = gaussian_mu(event)
    if mu is not None:
        return lambda level: gaussian.tradeoff_of(mu, level)
    epsilons, deltas = _list_pairs(event, finest)
    ups, downs = np.exp(epsilons), np.exp(-epsilons)

    def least_misses(level: float) -> float:
        return float(max(0.0, np.max(1 - deltas - ups * level), np.max(downs * (1 - deltas - level))))

    return least_misses


def _list_pairs(event: Event, finest: float) -> tuple[Floats, Floats]:
    """Return values of ε and δ that the event costs at most."""
    side, pure = float(event.side_delta()), event.pure()
    if isinstance(event, ApproxDP) and pure is not None:
        return np.array([float(pure)]), np.array([side])
    least = min(max(finest / 100, side + 1e-13), 0.5)
    epsilons = np.linspace(0, composition.epsilon(event, least, step=_STEP), _LINES)
    return epsilons, np.minimum(loss_distribution(event, _STEP).deltas(epsilons), 1.0)
