"""Guarantees as curves: the trade-off function of a test for one person, and posterior beliefs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.privacy import composition, gaussian
from sfumato.privacy.composition import FIXED
from sfumato.privacy.conversion import Events, compose_events, excess_loss
from sfumato.privacy.exact import parse_exact, parse_nonnegative
from sfumato.privacy.losses.distribution import gaussian_mu, loss_distribution

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.privacy.events import Event
    from sfumato.privacy.exact import Number
    from sfumato.viz import Chart

    Floats = NDArray[np.floating[Any]]

_FINEST = 400
"""Number of ε at which δ(ε) is read for a trade-off curve. With fewer the curve is lower, and still valid."""
_PARTS = tuple(1 / (1 + Fraction(4) ** power) for power in range(-2, 6))
"""Parts of a chance that are tried as δ when a belief is bounded. Any of them is valid."""


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """The trade-off function: the errors that any test must make of whether one person is in the data.

    For runs fixed in advance; not a filter.
    """

    event: Event
    label: str = FIXED

    def __call__(self, alpha: Number) -> float:
        """Return f(α), the least false negative rate of a test whose false positive rate is α."""
        level = float(_rate(alpha))
        mu = gaussian_mu(self.event)
        if mu is not None:
            return gaussian.tradeoff_of(mu, level)
        return _least_misses(level, *_profile(self.event))

    def power(self, alpha: Number) -> float:
        """Return the largest power 1 − f(α) at a false positive rate, at most e^ε·α + δ(ε) for every ε."""
        return 1 - self(alpha)

    def delta(self, epsilon: Number) -> float:
        """Return the smallest proven δ for this ε."""
        return composition.delta(self.event, epsilon)

    def epsilon(self, delta: Number) -> float:
        """Return the smallest proven ε for this δ."""
        return composition.epsilon(self.event, delta)

    def plot(self) -> Chart:
        """Return a chart of the curve: the nearer to the diagonal, the less a test can tell."""
        from sfumato.viz import tradeoff_curve

        alphas = np.concatenate([np.linspace(0, 0.1, 41), np.linspace(0.1, 1, 61)[1:]])
        return tradeoff_curve(alphas, [self(float(alpha)) for alpha in alphas], note=self.label)


def tradeoff(events: Events) -> Tradeoff:
    """Return the trade-off function of an event, or of several composed."""
    return Tradeoff(compose_events(events))


@lru_cache(maxsize=64)
def _profile(event: Event) -> tuple[Floats, Floats]:
    """Return values of ε and δ(ε), as far as δ matters in a chart."""
    small = event.side_delta() + Fraction(1, 10**6)
    epsilons = np.linspace(0, composition.epsilon(event, min(small, Fraction(1, 2))), _FINEST)
    return epsilons, loss_distribution(event).deltas(epsilons)


def _least_misses(alpha: float, epsilons: Floats, deltas: Floats) -> float:
    """Return the largest lower bound on false negatives that the pairs (ε, δ) give.

    A pair gives 1 − δ − e^ε·α and e^−ε·(1 − δ − α).
    """
    steep = 1 - deltas - np.exp(epsilons) * alpha
    flat = np.exp(-epsilons) * (1 - deltas - alpha)
    return float(max(0.0, np.max(steep), np.max(flat)))


def posterior(events: Events, prior: Number = 0.5, delta: Number = 0) -> float:
    """Return the largest belief that someone with this prior can reach: odds grow by at most e^ε.

    Where there is no pure ε, give a `delta`, the largest chance that the belief goes beyond what is returned.
    """
    return posterior_belief(float(_prior(prior)), _largest_loss(compose_events(events), delta))


def posterior_curve(events: Events, delta: Number = 0) -> Chart:
    """Return a chart of the beliefs before and after, for every prior."""
    from sfumato.viz import belief_curve

    loss = _largest_loss(compose_events(events), delta)
    priors = np.linspace(0.001, 0.999, 101)
    after = [(1 - posterior_belief(1 - p, loss), posterior_belief(p, loss)) for p in priors.tolist()]
    low, high = [low for low, _ in after], [high for _, high in after]
    return belief_curve(priors, low, high, loss=loss, chance=float(parse_nonnegative(delta, "delta")))


def posterior_belief(prior: float, loss: float) -> float:
    """Return the posterior by Bayes' rule with a likelihood ratio of e^loss."""
    log_odds = math.log(prior) - math.log1p(-prior) + loss
    return 1 / (1 + math.exp(-log_odds)) if log_odds > -700 else 0.0


def _largest_loss(event: Event, chance: Number) -> float:
    """Return a bound on the log-likelihood ratio of what is released, exceeded with at most this chance."""
    share, pure = parse_nonnegative(chance, "delta"), event.pure()
    sure = float(pure) if pure is not None and not event.side_delta() else math.inf
    if not share and math.isinf(sure):
        raise UsageError(
            "SF-N316",
            "This event bounds beliefs only with a delta.",
            try_="posterior(event, prior, delta=1e-6)",
        )
    if not share:
        return sure
    # P(L > ε(δ) + t) ≤ δ/(1 − e^−t), so every split of the chance into δ and 1 − e^−t gives a bound.
    bounds = (composition.epsilon(event, share * part) + excess_loss(float(part)) for part in _PARTS)
    return min(sure, *bounds)


def _prior(prior: Number) -> Number:
    chance = parse_exact(prior, "prior")
    if not 0 < chance < 1:
        raise UsageError("SF-N101", "prior must lie between 0 and 1.", got=str(prior), try_="prior=0.5")
    return chance


def _rate(alpha: Number) -> Number:
    rate = parse_exact(alpha, "alpha")
    if not 0 <= rate <= 1:
        raise UsageError("SF-N101", "An error rate must lie between 0 and 1.", got=str(alpha))
    return rate
