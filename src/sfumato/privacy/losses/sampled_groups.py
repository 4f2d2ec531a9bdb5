"""Losses of Gaussian noise on a Poisson sample for several units that are added or removed together.

How many of k units are in a sample is a binomial number, so the sum moves by a random distance: the pair is
that of a mixture of Gaussian laws and a single one (docs/proofs/sampling.md#groups-of-units).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_ndtr, logsumexp

from sfumato.errors import UsageError
from sfumato.privacy.events import Gaussian, Repeated, Sampled
from sfumato.privacy.exact import parse_probability, parse_whole
from sfumato.privacy.gaussian import epsilon_of
from sfumato.privacy.losses.convolution import ComposedLosses
from sfumato.privacy.losses.distribution import WIDEST
from sfumato.privacy.losses.masses import connect_dots
from sfumato.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.privacy.events import Event
    from sfumato.privacy.exact import Number
    from sfumato.privacy.losses.masses import LossMasses

    Floats = NDArray[np.floating[Any]]

_FAR = 9.0
"""Deviations beyond which noise counts as an infinite loss, with a chance of 10⁻¹⁹."""
_HALVINGS = 40
"""Halvings of the interval in which a loss is attained."""
_STEP = 4e-3
"""Step of the loss grid. A coarser one gives a larger ε, never a smaller."""


def group_epsilon(event: Event, k: int, delta: Number) -> float:
    """Return an ε at this δ for k units that are added or removed together, of a run of Gaussian steps.

    The run is fixed in advance. It is infinite where a group that large is promised nothing.
    """
    size, share = parse_whole(k, "k"), float(parse_probability(delta, "delta"))
    sigma, rate, times = _read_run(event)
    if rate == 1:
        return epsilon_of(math.sqrt(times) * size / sigma, share)
    pair = _Mixture(sigma, size, float(rate))
    if pair.loss(np.array([pair.far]))[0] > WIDEST:
        return math.inf
    return max(ComposedLosses([(way, times)], lower=False).epsilon(share) for way in pair.list_losses())


def _read_run(event: Event) -> tuple[float, Fraction, int]:
    """Return the noise, the rate and the number of steps of a run."""
    match event:
        case Repeated(Sampled(Gaussian(sigma), rate, Neighbours.ADD_REMOVE), times):
            return float(sigma), rate, times
        case Sampled(Gaussian(sigma), rate, Neighbours.ADD_REMOVE):
            return float(sigma), rate, 1
        case Gaussian(sigma):
            return float(sigma), Fraction(1), 1
    raise UsageError(
        "SF-N309",
        "Groups of units are priced for runs of Gaussian steps on Poisson samples.",
        got=event.tag,
        try_="Repeated(Sampled(Gaussian(sigma), rate), steps)",
    )


class _Mixture:
    """The laws of one step with k units and without them, on the line, one clipping norm apart."""

    def __init__(self, sigma: float, k: int, rate: float) -> None:
        self.sigma, self.far = sigma, k + _FAR * sigma
        self._moves = np.arange(k + 1.0)
        self._logs = np.array([math.log(math.comb(k, j)) for j in range(k + 1)])
        self._logs += self._moves * math.log(rate) + (k - self._moves) * math.log1p(-rate)

    def loss(self, at: Floats) -> Floats:
        """Return the logarithm of the ratio of the two laws, which grows with the place."""
        shifted = (self._moves * at[:, None] - self._moves**2 / 2) / self.sigma**2
        found: Floats = logsumexp(self._logs + shifted, axis=1)
        return found

    def list_losses(self) -> tuple[LossMasses, LossMasses]:
        """Return the losses when the units are removed and when they are added."""
        least, most = self._logs[0], float(self.loss(np.array([self.far]))[0])
        return self._connect(least, most, self._removed), self._connect(-most, -least, self._added)

    def _connect(self, low: float, high: float, profile: Any) -> LossMasses:
        dots = np.arange(math.floor(low / _STEP), math.ceil(high / _STEP) + 1)
        return connect_dots(dots, np.clip(profile(dots * _STEP), 0.0, 1.0), _STEP)

    def _removed(self, at: Floats) -> Floats:
        """Return δ at each ε: P(S) − e^ε·Q(S) for the places S of a greater loss, P being the mixture."""
        cut = self._attain(at)
        there = self._spread(-(cut[:, None] - self._moves) / self.sigma)
        found = there - np.exp(at + log_ndtr(-cut / self.sigma))
        # Below the least loss, S is everything.
        return np.where(at <= self._logs[0], -np.expm1(np.minimum(at, 0.0)), found)

    def _added(self, at: Floats) -> Floats:
        cut = self._attain(-at)
        there = np.exp(at) * self._spread((cut[:, None] - self._moves) / self.sigma)
        return np.where(-at <= self._logs[0], 0.0, np.exp(log_ndtr(cut / self.sigma)) - there)

    def _spread(self, scaled: Floats) -> Floats:
        found: Floats = np.exp(logsumexp(self._logs + log_ndtr(scaled), axis=1))
        return found

    def _attain(self, losses: Floats) -> Floats:
        """Return where a loss is attained; δ is the same to second order for a place beside it."""
        low, high = np.full(len(losses), -self.far - 40 * self.sigma), np.full(len(losses), 2 * self.far)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            above = self.loss(middle) > losses
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return high
