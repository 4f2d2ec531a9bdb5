"""Events for what others claim about their mechanisms: Rényi curves and profiles at finitely many points.

Nothing is assumed beyond the claim (docs/proofs/claims.md). What a claim leaves open costs more than any
budget has, so that no filter ever relies on it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from sfumato.errors import UsageError
from sfumato.privacy import divergences
from sfumato.privacy.canonical import tagged
from sfumato.privacy.divergences import NO_BOUND
from sfumato.privacy.events.event import Event
from sfumato.privacy.events.profiles import Point, WorstPair, find_worst_pair, lower_hull
from sfumato.privacy.exact import (
    parse_exact,
    parse_noise_scale,
    parse_nonnegative,
    parse_probability,
    parse_whole,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sfumato.privacy.divergences import Curve
    from sfumato.privacy.exact import Number

MOST_POINTS = 256
"""Most points of one claim, so that a price is quick."""
LARGEST_EPSILON = 200
"""Largest ε of a stated profile."""


@tagged("RenyiCurve", "points")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class RenyiCurve(Event):
    """Any mechanism whose Rényi divergence is at most so much at each of these orders, both ways.

    Between orders the curve is read from the convexity of (α − 1)·D_α. Beyond the largest order nothing is
    known, and the filters of such orders are used up by a charge.

    Because : docs/proofs/claims.md#rényi-curves
    """

    tag: ClassVar[str] = "renyi-curve"
    points: tuple[Point, ...]

    def __init__(self, points: Iterable[tuple[Number, Number]]) -> None:
        object.__setattr__(self, "points", _parse_points(points, _parse_order, "RenyiCurve([(8, 0.1)])"))

    def pure(self) -> None:
        return None

    def curve(self) -> Curve:
        # By convexity every chord is a bound, and the hull of all points is the least of them.
        corners = lower_hull(
            [(Fraction(1), Fraction(0)), *((order, (order - 1) * value) for order, value in self.points)]
        )
        orders = [order for order, _ in corners]

        def at(order: float) -> float:
            exact = Fraction(order)
            if exact > orders[-1]:
                return NO_BOUND
            place = max(1, bisect_left(orders, exact))
            (low, less), (high, more) = corners[place - 1], corners[place]
            moment = less + (more - less) * (exact - low) / (high - low)
            return float(moment / (exact - 1))

        return at


@tagged("PrivacyProfile", "points")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class PrivacyProfile(Event):
    """Any mechanism that is (ε, δ)-DP for each of these pairs (ε, δ) at once.

    The least δ is paid beside the curve, and its ε is the pure ε. Where the other points matter more, the
    claim is better charged without that one.

    Because : docs/proofs/claims.md#profiles
    """

    tag: ClassVar[str] = "privacy-profile"
    points: tuple[Point, ...]

    def __init__(self, points: Iterable[tuple[Number, Number]]) -> None:
        found = _parse_points(points, _parse_stated, "PrivacyProfile([(1, 1e-5), (2, 1e-8)])")
        object.__setattr__(self, "points", found)

    def worst(self) -> WorstPair:
        """Return the pair that dominates every mechanism of this claim."""
        return _find_worst(self.points)

    def pure(self) -> Fraction:
        # Of the points with the least δ, the one with the least ε.
        return min(self.points, key=lambda point: (point[1], point[0]))[0]

    def side_delta(self) -> Fraction:
        return min(delta for _, delta in self.points)

    def curve(self) -> Curve:
        worst = self.worst()
        masses = [
            (math.nextafter(float(mass / (1 - worst.infinite)), math.inf) if mass else 0.0, loss)
            for mass, loss in zip(worst.masses, worst.losses, strict=True)
        ]
        top = divergences.randomized_response(float(self.pure()))

        def at(order: float) -> float:
            more = order - 1
            far = max(worst.losses) * more
            if far < 1:
                moment = math.fsum(mass * math.expm1(more * loss) for mass, loss in masses)
                found = math.log1p(max(0.0, moment)) / more
            else:
                moment = math.fsum(mass * math.exp(more * loss - far) for mass, loss in masses)
                found = (far + math.log(moment)) / more
            return min(top(order), found + 2.0**-44 * (1 + 1 / more))

        return at


@tagged("DiscreteGaussianNoise", "sigma", "l1")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class DiscreteGaussian(Event):
    """Noise ∝ exp(−x²/(2σ²)) on the integers, on counts that move by at most `l1` in all.

    Its curve is that of one count that moves by `l1`. For a long vector that moves by little in l2 norm,
    `Concentrated(l2² / (2σ²))` costs less.

    Because : docs/proofs/claims.md#the-discrete-gaussian
    """

    tag: ClassVar[str] = "discrete-gaussian"
    sigma: Fraction
    l1: int

    def __init__(self, sigma: Number, l1: int = 1) -> None:
        object.__setattr__(self, "sigma", parse_noise_scale(sigma, "sigma"))
        object.__setattr__(self, "l1", parse_whole(l1, "l1"))

    def pure(self) -> None:
        return None

    def curve(self) -> Curve:
        sigma_squared = float(self.sigma * self.sigma)
        line = divergences.gaussian(sigma_squared / self.l1**2)
        if sigma_squared > divergences.SMOOTH:
            return line  # the sums below differ by less than any rounding
        return lambda order: max(
            0.0, line(order) + divergences.log_theta(order * self.l1, sigma_squared) / (order - 1)
        )


@lru_cache(maxsize=64)
def _find_worst(points: tuple[Point, ...]) -> WorstPair:
    return find_worst_pair(points)


def _parse_points(points: Any, parse: Callable[[Any, Any], Point], example: str) -> tuple[Point, ...]:
    """Return the points in order, each once."""
    found: set[Point] = set()
    try:
        for one, other in points:
            found.add(parse(one, other))
    except (TypeError, ValueError):
        found.clear()
    if not 1 <= len(found) <= MOST_POINTS:
        raise UsageError(
            "SF-N308",
            f"A claim is a list of 1 to {MOST_POINTS} pairs of numbers.",
            try_=f"sf.privacy.{example}",
        )
    return tuple(sorted(found))


def _parse_order(order: Any, value: Any) -> Point:
    exact = parse_exact(order, "order")
    if exact <= 1:
        raise UsageError("SF-N101", "A Rényi order must be a finite number above 1.", got=str(order)[:40])
    return exact, parse_nonnegative(value, "divergence")


def _parse_stated(epsilon: Any, delta: Any) -> Point:
    exact = parse_nonnegative(epsilon, "epsilon")
    if exact > LARGEST_EPSILON:
        raise UsageError("SF-N312", "An ε of this claim is too large.", most=str(LARGEST_EPSILON))
    return exact, parse_probability(delta, "delta")
