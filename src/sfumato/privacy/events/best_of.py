"""The price of the best of a random number of runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from sfumato.errors import UsageError
from sfumato.privacy import divergences
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events.event import Event, require_event
from sfumato.privacy.exact import Number, parse_exact

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.privacy.divergences import Curve
    from sfumato.privacy.neighbours import Neighbours

_ORDERS = tuple(1 + 2.0 ** (step / 4) for step in range(-16, 64))
"""Orders at which the inner curve is read. More of them tighten the price; any set is valid."""
_FARTHER = tuple(2.0 ** (step / 2) for step in range(13))
"""Factors to higher orders that are tried: divergences grow with the order, so a bound there holds here."""


@tagged("BestOf", "event", "stop", "tail")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class BestOf(Event):
    """The best, by a score that each run releases, of K runs of one event.

    K is drawn without looking at data: P(K = k) ∝ (1 − stop)^k where `tail` is 1, and ∝ (1 − stop)^k / k
    where it is 0. The first has fewer short searches, the second costs less.

    Because : docs/proofs/best-of.md
    """

    tag: ClassVar[str] = "best-of"
    event: Event
    stop: Fraction
    tail: int

    def __init__(self, event: Event, stop: Number, tail: int = 0) -> None:
        object.__setattr__(self, "event", require_event(event))
        object.__setattr__(self, "stop", parse_exact(stop, "stop"))
        object.__setattr__(self, "tail", tail)
        if not 0 < self.stop < 1 or type(tail) is not int or tail not in (0, 1) or event.side_delta():
            raise UsageError(
                "SF-N309",
                "There is no proven price for this search.",
                try_="sf.privacy.BestOf(sf.privacy.Gaussian(5), 0.1), each run with no δ of its own",
            )

    @property
    def mean(self) -> float:
        """Mean number of runs."""
        stop = float(self.stop)
        return 1 / stop if self.tail else (1 / stop - 1) / -math.log(stop)

    @property
    def neighbours(self) -> Neighbours | None:
        return self.event.neighbours

    def pure(self) -> Fraction | None:
        inner = self.event.pure()
        return None if inner is None else (2 + self.tail) * inner

    def curve(self) -> Curve:
        inner, pure = self.event.curve(), self.pure()
        # Theorem: D(order) + (1 + tail)·(a term of any order) + log(mean)/(order − 1); the least term is
        # used.
        added = (1 + self.tail) * min(map(self._ratio(inner), _ORDERS))
        known = [] if pure is None else [divergences.randomized_response(float(pure))]

        @cache
        def bound(order: float) -> float:
            return inner(order) + added + math.log(self.mean) / (order - 1)

        # Searches of searches ask for the same orders again and again.
        @cache
        def least(order: float) -> float:
            return min(
                *(bound(order * far) for far in _FARTHER), *(curve(order) for curve in known), math.inf
            )

        return least

    def _ratio(self, inner: Curve) -> Curve:
        """Return how much likelier a run is to be beaten on one table than on the other, at an order."""
        rare = -math.log(float(self.stop))
        return lambda order: (1 - 1 / order) * inner(order) + rare / order
