"""Privacy claims in a form that an audit can break: how likely an output set may be on two neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Number as AnyNumber
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number
from sfumato.privacy.account import ORDERS
from sfumato.privacy.events import ApproxDP, Event, Gaussian
from sfumato.privacy.exact import Number, parse_nonnegative, parse_probability

if TYPE_CHECKING:
    from fractions import Fraction

Floats = NDArray[np.float64]

_TINY = 1e-300
_STEP = 1e-3  # relative step of a difference quotient


@dataclass(frozen=True, slots=True)
class Claim:
    """A claimed price, and the share of it that an output set of probabilities p and q on two tables uses.

    Being in an output set is a post-processing of the release, so its two probabilities keep the bounds of
    the release: ln((p − δ)/q) ≤ ε, the Rényi divergence between the two coins at every order, and for
    Gaussian noise the distance 1/σ between their normal scores.
    """

    event: Event
    curve: bool
    """True where the Rényi curve is claimed too, and not only ε and δ."""

    @property
    def epsilon(self) -> Fraction | None:
        """Pure ε that is claimed, or None."""
        return self.event.pure()

    @property
    def delta(self) -> float:
        """Side δ that is claimed."""
        return float(self.event.side_delta())

    def used(self, p: Floats, q: Floats) -> Floats:
        """Return the share of the claim that these probabilities use; above 1 the claim is false."""
        shares = [np.zeros_like(p)]
        if self.epsilon is not None:
            shares.append(log_ratio(p, q, self.delta) / max(float(self.epsilon), 1e-12))
        if self.curve:
            shares.append(self._curve_used(np.clip(p - self.delta, 0, 1), np.clip(q + self.delta, 0, 1)))
        if isinstance(self.event, Gaussian):
            shares.append(normal_distance(p, q) * float(self.event.sigma))
        return np.asarray(np.max(shares, axis=0))

    def slope(self, p: float, q: float) -> float:
        """Return how much p must grow, for a little more of q, so that the same share is used."""
        first, second = np.array([p, p * (1 - _STEP), p]), np.array([q, q, q * (1 + _STEP)])
        here, less_likely, less_rare = (float(each) for each in self.used(first, second))
        rise, fall = (here - less_likely) / p, (here - less_rare) / q
        return fall / rise if rise > 0 and fall > 0 else p / q

    def _curve_used(self, p: Floats, q: Floats) -> Floats:
        curve = self.event.curve()
        shares = [coin_divergence(p, q, order) / max(curve(order), 1e-300) for order in ORDERS]
        return np.where(p > q, np.max(shares, axis=0), 0.0)

    def __str__(self) -> str:
        if self.epsilon is None:
            return " ".join(f"{name} {value}" for name, value in self.event.to_dict().items())
        return f"ε = {format_number(self.epsilon)}" + (
            f", δ = {format_number(self.delta, 3)}" if self.delta else ""
        )


def parse_claim(claim: Any, delta: Number) -> Claim:
    """Return the claim that people type: an event, or ε and perhaps δ."""
    if isinstance(claim, Event):
        if delta:
            raise UsageError("SF-A101", "An event has its own δ.", try_="leave delta out")
        return Claim(claim, curve=not isinstance(claim, ApproxDP))
    if isinstance(claim, bool) or not isinstance(claim, AnyNumber):
        raise UsageError(
            "SF-A101", "The claim must be an event or an ε.", got=type(claim).__name__, try_="claim=1.0"
        )
    return Claim(ApproxDP(parse_nonnegative(claim, "claim"), parse_probability(delta, "delta")), curve=False)


def is_within(spent: Event, claim: Claim) -> bool:
    """Return whether the claim covers what was spent, in pure ε and at every order, where it claims these."""
    if spent.side_delta() > claim.event.side_delta():
        return False
    used = spent.pure()
    if claim.epsilon is not None and (used is None or used > claim.epsilon):
        return False
    return not claim.curve or _under(spent, claim.event)


def _under(spent: Event, allowed: Event) -> bool:
    low, high = spent.curve(), allowed.curve()
    return all(low(order) <= high(order) * (1 + 1e-9) for order in ORDERS)


def log_ratio(p: Floats, q: Floats, delta: float) -> Floats:
    """Return ln((p − δ)/q), and minus infinity where p is at most δ."""
    above = p - delta
    logs = np.log(np.maximum(above, _TINY)) - np.log(np.maximum(q, _TINY))
    return np.where(above > 0, logs, -np.inf)


def coin_divergence(p: Floats, q: Floats, order: float) -> Floats:
    """Return the Rényi divergence of this order between Bernoulli(p) and Bernoulli(q)."""
    return np.asarray(np.logaddexp(_term(p, q, order), _term(1 - p, 1 - q, order)) / (order - 1))


def _term(p: Floats, q: Floats, order: float) -> Floats:
    return order * np.log(np.maximum(p, _TINY)) + (1 - order) * np.log(np.maximum(q, _TINY))


def normal_distance(p: Floats, q: Floats) -> Floats:
    """Return the distance between two unit normal laws whose upper tails have these probabilities."""
    from scipy.special import ndtri

    return np.where((p > 0) & (q < 1), ndtri(p) - ndtri(q), 0.0)
