"""The privacy profile δ(ε) of a run fixed in advance, from above and from below, and its chart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import UsageError
from sfumato.privacy import composition, gaussian
from sfumato.privacy.composition import FIXED
from sfumato.privacy.conversion import Events, compose_events
from sfumato.privacy.exact import parse_probability
from sfumato.privacy.losses.distribution import gaussian_mu, has_curve_only, loss_distribution

if TYPE_CHECKING:
    from sfumato.privacy.events import Event
    from sfumato.privacy.exact import Number
    from sfumato.viz import Chart

_POINTS = 121
_RAREST = Fraction(1, 10**10)
"""Least δ of a chart."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The profile δ(ε) of a run. For runs fixed in advance; not a filter."""

    event: Event
    label: str = FIXED

    def delta(self, epsilon: Number, *, lower: bool = False) -> float:
        """Return the smallest proven δ for this ε, or with `lower` a δ that is certainly reached."""
        return composition.delta(self.event, epsilon, lower=lower)

    def epsilon(self, delta: Number, *, lower: bool = False) -> float:
        """Return the smallest proven ε for this δ, or with `lower` an ε that is certainly reached."""
        return composition.epsilon(self.event, delta, lower=lower)

    def points(self, count: int = _POINTS, *, least: Number = _RAREST) -> list[tuple[float, float]]:
        """Return pairs (ε, δ) from ε = 0 to where δ is `least`, or as small as it gets."""
        rarest = max(parse_probability(least, "least"), 2 * self.event.side_delta())
        last = self.epsilon(rarest) if 0 < rarest < 1 else math.inf
        if not math.isfinite(last):
            raise UsageError(
                "SF-N312",
                "This run has no finite ε at so small a δ.",
                try_="profile(events).points(least=1e-3)",
            )
        epsilons = np.linspace(0.0, last or 1.0, count)
        return list(zip(epsilons.tolist(), self._deltas(epsilons), strict=True))

    def plot(self, *, least: Number = _RAREST) -> Chart:
        """Return a chart of the curve, δ on a logarithmic axis."""
        from sfumato.viz import profile_curve

        epsilons, deltas = zip(*self.points(least=least), strict=True)
        return profile_curve(epsilons, deltas, note=self.label)

    def _deltas(self, epsilons: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
        mu = gaussian_mu(self.event)
        if mu is not None:
            return [gaussian.delta_of(mu, each) for each in epsilons.tolist()]
        if has_curve_only(self.event):
            return [composition.delta(self.event, each) for each in epsilons.tolist()]
        return [float(each) for each in loss_distribution(self.event).deltas(epsilons)]


def profile(events: Events) -> Profile:
    """Return the privacy profile of an event, or of several composed."""
    return Profile(compose_events(events))
