"""The worst pair behind finitely many statements (ε, δ): its losses, exact from the stated numbers.

A mechanism that is (ε, δ)-DP for several pairs at once, in both directions, is a post-processing of the pair
whose profile is the largest that they allow: convex and piecewise linear in e^ε
(docs/proofs/claims.md#profiles).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Point = tuple[Fraction, Fraction]
"""A pair (x, y) of exact numbers."""

_RAISE = 1 + Fraction(1, 2**48)  # above the error of the exponential of a double of size 200


@dataclass(frozen=True, slots=True)
class WorstPair:
    """Finite losses in ascending order, their probabilities, and the probability of an infinite loss."""

    losses: tuple[float, ...]
    masses: tuple[Fraction, ...]
    infinite: Fraction
    vertices: tuple[Point, ...]
    """The corners (e^ε, δ) of the profile, the first at e^ε = 0."""


def lower_hull(points: Iterable[Point]) -> tuple[Point, ...]:
    """Return the corners of the largest convex function that is not above any of these points."""
    hull: list[Point] = []
    for x, y in sorted(points):
        if hull and hull[-1][0] == x:
            continue  # the lower of two points at one place comes first
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], (x, y)):
            hull.pop()
        hull.append((x, y))
    return tuple(hull)


def find_worst_pair(stated: Iterable[Point]) -> WorstPair:
    """Return the pair that dominates all mechanisms that are (ε, δ)-DP for every stated (ε, δ)."""
    corners: set[Point] = {(Fraction(0), Fraction(1))}
    for epsilon, delta in stated:
        # A profile does not rise, so what holds at e^ε holds a little above it.
        ratio = Fraction(math.exp(float(epsilon))) * _RAISE if epsilon else Fraction(1)
        corners |= {(ratio, delta), (1 / ratio, 1 - (1 - delta) / ratio)}
    hull = _cut_rise(lower_hull(corners))
    slopes = [_slope(one, other) for one, other in pairwise(hull)]
    # The second law gives a corner the bend of the profile there, and the first e^ε times as much.
    bends = [after - before for before, after in zip(slopes, [*slopes[1:], Fraction(0)], strict=True)]
    losses = tuple(_log(ratio) for ratio, _ in hull[1:])
    masses = tuple(ratio * bend for (ratio, _), bend in zip(hull[1:], bends, strict=True))
    return WorstPair(losses, masses, hull[-1][1], hull)


def _cut_rise(hull: tuple[Point, ...]) -> tuple[Point, ...]:
    """Return the corners up to the lowest: after it a profile stays where it is."""
    lowest = min(range(len(hull)), key=lambda place: hull[place][1])
    return hull[: lowest + 1]


def _slope(one: Point, other: Point) -> Fraction:
    return (other[1] - one[1]) / (other[0] - one[0])


def _log(ratio: Fraction) -> float:
    return math.log(ratio) if ratio != 1 else 0.0
