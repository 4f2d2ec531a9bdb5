"""Weighted majority: at every step an expert is drawn with probability ∝ e^(−η · its loss so far)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.noise.sampling.bernoulli_exp import build_bernoulli_exp
from sfumato.online.experts.method import GRID, ExpertMethod, Play, hedge_bound
from sfumato.online.experts.rates import calibrate_rate, round_rate
from sfumato.privacy import events
from sfumato.privacy.exact import parse_positive, require_bool

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.noise.sampling.bits import BitSource
    from sfumato.online.experts.method import Losses


@dataclass(frozen=True)
class WeightedMajority(ExpertMethod):
    """Draws the expert of each step afresh, with probability ∝ e^(−rate · loss so far).

    Privacy
    -------
    Protects : one loss vector in [0, 1]^n, replaced, at one step; losses may depend on earlier choices.
    Costs    : one Exponential(2·rate) for every step but the first; NonPrivate where `private` is False.
    Because  : docs/proofs/experts.md
    Assumes  : losses lie in [0, 1] and are whole steps of the grid; how long a choice takes is not observed.
    """

    rate: Fraction
    private: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rate", parse_positive(self.rate, "rate"))
        require_bool(self.private, "private")

    @classmethod
    def without_privacy(cls, experts: int, horizon: int) -> WeightedMajority:
        """Return the textbook's setting, η = √(ln n / T), which protects nobody."""
        return cls(experts, horizon, round_rate(math.sqrt(math.log(experts) / horizon)), False)

    @classmethod
    def by_source(cls, experts: int, horizon: int, epsilon: Fraction, delta: Fraction) -> WeightedMajority:
        """Return the private setting of the source, η = ε/√(32·T·ln(1/δ))."""
        rate = float(epsilon) / math.sqrt(32 * horizon * math.log(1 / delta))
        return cls(experts, horizon, round_rate(rate))

    @classmethod
    def calibrated(cls, experts: int, horizon: int, epsilon: Fraction, delta: Fraction) -> WeightedMajority:
        """Return the η that (ε, δ) allows at most, or the one of least regret if that is less."""
        best = math.sqrt(8 * math.log(experts) / horizon)
        rate = calibrate_rate(max(1, horizon - 1), Fraction(0), epsilon, delta)
        return cls(experts, horizon, round_rate(min(best, rate)))

    def event(self) -> events.Event:
        """Return the price of all choices together."""
        if not self.private:
            return events.NonPrivate()
        return events.Repeated(events.Exponential(2 * self.rate), self.rows)

    def proven_regret(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ln n/η + η·t/8, which holds however the losses are chosen."""
        return hedge_bound(self.experts, float(self.rate), steps)

    def start(self, source: BitSource) -> WeightsInPlay:
        """Return a play whose first choice is uniform."""
        return WeightsInPlay(self, source)


class WeightsInPlay(Play):
    """Weighted majority in use: the losses of each expert so far."""

    def __init__(self, method: WeightedMajority, source: BitSource) -> None:
        super().__init__(method, source)
        self._sampler = build_bernoulli_exp(GRID / method.rate)
        self._sums = np.zeros(method.experts, dtype=np.int64)

    def _choose_after(self, losses: Losses) -> NDArray[np.intp]:
        sums = np.cumsum(losses, axis=0) + self._sums
        self._sums = sums[-1]
        return self._sampler.pick_rows((sums - sums.min(axis=1, keepdims=True)).view(np.uint64), self.source)
