"""The realizable case, where some expert never errs: keep one until a noisy threshold says it did."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.noise.sampling.bernoulli_exp import build_bernoulli_exp
from sfumato.noise.sparse_vector import SparseVector
from sfumato.online.experts.method import GRID, ExpertMethod, Play
from sfumato.online.experts.rates import calibrate_rate, lazy_event, round_rate
from sfumato.privacy.exact import parse_positive, parse_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.online.experts.method import Losses
    from sfumato.privacy.events import Sequential

_SHARES = tuple(Fraction(tenths, 10) for tenths in (1, 2, 3, 4, 5, 6, 7, 8))
_POWERS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Shares of ε for thresholds, and exponents η·h, that are tried. Any choice is private."""


@dataclass(frozen=True)
class RealizableExperts(ExpertMethod):
    """Keeps an expert until its loss since it was drawn reaches a noisy threshold.

    Then it draws one ∝ e^(−rate · loss so far). After `draws` draws it keeps its expert for good.

    Privacy
    -------
    Protects : one loss vector in [0, 1]^n, replaced, at one step; losses may depend on earlier choices.
    Costs    : Pure(epsilon) for all thresholds, of which a loss vector moves one, and one
               Exponential(2·rate) for each of `draws` draws.
    Because  : docs/proofs/experts.md
    Assumes  : losses lie in [0, 1] and are whole steps of the grid; how long a choice takes is not observed.
               The bound on regret, not privacy, needs an expert without losses, and losses that do not depend
               on choices (oblivious).
    """

    rate: Fraction
    epsilon: Fraction
    threshold: int
    draws: int

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("rate", "epsilon"):
            object.__setattr__(self, name, parse_positive(getattr(self, name), name))
        for name in ("threshold", "draws"):
            object.__setattr__(self, name, parse_whole(getattr(self, name), name))

    @classmethod
    def calibrated(cls, experts: int, horizon: int, epsilon: Fraction, delta: Fraction) -> RealizableExperts:
        """Return the split of (ε, δ) and the threshold of least proven regret."""
        found: list[tuple[float, RealizableExperts]] = []
        for share in _SHARES:
            for power in _POWERS:
                draws = math.ceil(math.log(experts * horizon) / _fall(power))
                margin = _margin(share * epsilon, draws, horizon)
                rate = round_rate(calibrate_rate(draws, share * epsilon, epsilon, delta))
                threshold = margin + math.ceil(power / float(rate) * GRID)
                method = cls(experts, horizon, rate, share * epsilon, threshold, draws)
                found.append((float(method.proven_regret(np.array(horizon))), method))
        return min(found, key=lambda pair: pair[0])[1]

    def event(self) -> Sequential:
        """Return the price of all choices together."""
        return lazy_event(self.epsilon, self.rate, self.draws)

    @cached_property
    def thresholds(self) -> SparseVector:
        """The noise of one threshold; a loss vector moves all later sums of its phase by the same amount."""
        return SparseVector(self.epsilon, GRID, monotone=True)

    def proven_regret(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the bound for losses that were fixed beforehand and leave one expert without any."""
        margin = _margin(self.epsilon, self.draws, self.horizon)
        least = (self.threshold - margin) / GRID
        if least <= 0:
            return np.asarray(steps, dtype=np.float64)
        fall = _fall(float(self.rate) * least)
        phases = 1 + math.ceil(math.log(self.experts) / fall) + 1 / -math.expm1(-fall)
        rare = self.experts * math.exp(-fall * self.draws) + 1 / self.horizon
        return np.asarray(phases * ((self.threshold + margin) / GRID + 1) + steps * rare)

    def start(self, source: BitSource) -> RealizableInPlay:
        """Return a play whose first choice is uniform."""
        return RealizableInPlay(self, source)


class RealizableInPlay(Play):
    """The realizable method in use: losses so far, those since the last draw, and a noisy threshold."""

    def __init__(self, method: RealizableExperts, source: BitSource) -> None:
        super().__init__(method, source)
        self._sampler = build_bernoulli_exp(GRID / method.rate)
        self._sums = np.zeros(method.experts, dtype=np.int64)
        self._answer_noise, self._threshold_noise = (
            method.thresholds.answer_noise(),
            method.thresholds.threshold_noise(),
        )
        self._lost, self._left, self._least = 0, method.draws, method.threshold
        self._level = self._draw_level()

    def _draw_level(self) -> int:
        noise = self._threshold_noise.release(np.zeros(1, dtype=np.int64), source=self.source)
        return self._least + int(noise[0])

    def _choose_after(self, losses: Losses) -> NDArray[np.intp]:
        sums = np.cumsum(losses, axis=0) + self._sums
        chosen = np.full(len(losses), self.choice)
        at, ahead = 0, 64
        while self._left and at < len(losses):
            lost = self._lost + np.cumsum(losses[at : at + ahead, self.choice])
            noisy = self._answer_noise.release(lost, source=self.source)
            reached = np.asarray(noisy >= self._level)
            if not reached.any():
                at, ahead, self._lost = at + lost.size, 2 * ahead, int(lost[-1])
                continue
            at, ahead = at + int(reached.argmax()), 64
            self._draw_anew(sums[at])
            chosen[at:] = self.choice
            at += 1
        self._sums = sums[-1]
        return chosen

    def _draw_anew(self, sums: Losses) -> None:
        self.choice = self._sampler.pick((sums - sums.min()).view(np.uint64), self.source)
        self._lost, self._left, self._level = 0, self._left - 1, self._draw_level()


def _fall(power: float) -> float:
    """Return −ln r for r = (1 + e^(−power))/2, the factor by which a phase shrinks all weights on average."""
    return -math.log1p(math.expm1(-power) / 2)


def _margin(epsilon: Fraction, draws: int, horizon: int) -> int:
    """Return how far noise moves any comparison, except with a chance of at most one over the horizon.

    It is a bound for the noise of all thresholds and one for the noise of all answers: a union bound.
    """
    vector = SparseVector(epsilon, GRID, monotone=True)
    # P(|x| > t) ≤ e^(−t / scale) for integer Laplace noise x.
    of_thresholds = float(vector.threshold_noise().scale) * math.log(2 * horizon * (draws + 1))
    return math.ceil(of_thresholds + float(vector.answer_noise().scale) * math.log(2 * horizon**2))
