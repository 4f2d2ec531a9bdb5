"""Privacy amplification by subsampling: events on a random part of the people."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.errors import UsageError
from sfumato.privacy import divergences
from sfumato.privacy.canonical import tagged
from sfumato.privacy.events.event import Event, require_event
from sfumato.privacy.events.grouped import Grouped
from sfumato.privacy.events.key_release import KeyRelease
from sfumato.privacy.events.simple import ApproxDP, DiscreteLaplace, Gaussian, Laplace, ThresholdedKeys
from sfumato.privacy.events.spread import SpreadLaplace
from sfumato.privacy.exact import LARGEST, Number, parse_exact, parse_whole, round_up
from sfumato.privacy.neighbours import Neighbours, common_relation, require_relation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.privacy.divergences import Curve

_LEAST = Fraction(1, 2**1000)
"""Smaller ε of a sample are charged as this one."""
_LARGE = 700  # an ε whose exponential no double holds; sampling is of no help to it
_MOST_LOSSES = 1025
"""Number of losses that a sum over losses has at most. With fewer the sum is larger, and still a bound."""
_SLACK = 1 + 2.0**-36  # large exponents cancel in the sums below; this is far above what they lose
_HIGHEST = 1024
"""Highest order at which a moment, a sum of as many terms, is computed. Above it sampling is not credited,
which is valid. Searches read curves at far higher orders."""


@tagged("Sampled", "event", "rate", "relation")
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Sampled(Event):
    """An event on a secret random sample, in which each unit is with probability `rate`.

    `Sampled(event, rate)` takes every unit by a coin of its own (Poisson), for adding or removing one.
    `Sampled.fixed(event, size, of)` takes `size` of a public number of units, for replacing one; the event's
    sensitivity is then that of a replacement. Shuffled batches are neither and have no price here.

    Because : docs/proofs/sampling.md
    """

    tag: ClassVar[str] = "sampled"
    event: Event
    rate: Fraction
    relation: Neighbours

    def __init__(self, event: Event, rate: Number, relation: Neighbours = Neighbours.ADD_REMOVE) -> None:
        object.__setattr__(self, "event", require_event(event))
        object.__setattr__(self, "rate", _rate(rate))
        object.__setattr__(self, "relation", require_relation(relation))
        common_relation([relation, event.neighbours])
        self._require_proven()

    @classmethod
    def fixed(cls, event: Event, size: int, of: int) -> Sampled:
        """Return an event on `size` different units out of `of`, each set of them equally likely."""
        return cls(event, Fraction(parse_whole(size, "size"), parse_whole(of, "of")), Neighbours.REPLACE_ONE)

    @property
    def neighbours(self) -> Neighbours:
        return self.relation

    def pure(self) -> Fraction | None:
        inner = self.event.pure()
        return inner if inner is None or self.rate == 1 else amplify_epsilon(inner, self.rate)

    def side_delta(self) -> Fraction:
        return self.event.side_delta() * self.rate

    def curve(self) -> Curve:
        if self.rate == 1:
            return self.event.curve()
        # Besides the bounds, sampling never costs more than not sampling. With a side δ the pure ε and the
        # curve must belong to the same two parts, and that of the sampled ε alone is known to.
        own = [] if self.event.side_delta() else [self.event.curve()]
        curves = [*own, *self._bounds()]
        return lambda order: min(curve(order) for curve in curves)

    def _bounds(self) -> Iterator[Curve]:
        """Return the proven bounds on the curve."""
        fixed, pure, event = self.relation is Neighbours.REPLACE_ONE, self.event.pure(), self.event
        if pure is not None:
            yield self._pure_curve(pure, fixed)
        # A count that a replacement moves by one: what else is in the sample has the old value or the new.
        by_one = isinstance(event, DiscreteLaplace) and event.l1 == 1
        if isinstance(event, Gaussian | Laplace | DiscreteLaplace | SpreadLaplace) and (by_one or not fixed):
            yield sampled_by_coins(self.rate, event.curve(), pure)
        elif fixed and not event.side_delta():
            yield sampled_without_replacement(float(self.rate), event.curve(), pure)
            if isinstance(event, DiscreteLaplace) and event.pure() <= _LARGE:
                yield fixed_size_laplace(float(self.rate), event)

    def _pure_curve(self, inner: Fraction, fixed: bool) -> Curve:
        """Return the curve that follows from the likelihood ratio alone."""
        # Poisson sampling keeps the ratio to a narrower interval than randomized response would.
        high = float(amplify_epsilon(inner, self.rate))
        if fixed or self.event.side_delta():
            return divergences.randomized_response(high)
        return divergences.bounded_ratio(-_shrunk(float(inner), self.rate), high)

    def _require_proven(self) -> None:
        """Refuse pairs of a sampling scheme and an event for which no bound is proven."""
        event = self.event
        plain = not event.side_delta()
        if any(isinstance(part, Grouped) for part in _parts(event)):
            raise UsageError(
                "SF-N309",
                "There is no proven price for a group of units on a random sample.",
                got=f"{event.tag}, {self.relation.value}",
                why="the units of a group come into a sample one by one",
                try_="sf.privacy.Grouped(sf.privacy.Sampled(event, rate), k)",
            )
        if plain and (event.pure() is not None or isinstance(event, Gaussian)):
            return
        if plain and self.relation is Neighbours.REPLACE_ONE:
            return
        if not plain and isinstance(event, ApproxDP | ThresholdedKeys | KeyRelease):
            return
        raise UsageError(
            "SF-N309",
            "There is no proven price for this event on a random sample.",
            got=f"{event.tag}, {self.relation.value}",
            try_="sf.privacy.Sampled(sf.privacy.Gaussian(sigma), rate) for each step",
        )


def _parts(event: Event) -> Iterator[Event]:
    """Return an event and all events inside it."""
    yield event
    inside = (getattr(event, "event", None), *getattr(event, "events", ()))
    for part in inside:
        if part is not None:
            yield from _parts(part)


def amplify_epsilon(epsilon: Fraction, rate: Fraction) -> Fraction:
    """Return log(1 + rate·(e^ε − 1)), rounded up and never above ε."""
    # Beyond the range of doubles sampling is not credited at all, which is valid.
    if epsilon > _LARGE:
        return epsilon
    found = round_up(math.log1p(float(rate) * math.expm1(float(epsilon))))
    # Below the range of doubles it would be 0, and what costs nothing could be repeated for ever.
    return min(epsilon, max(found, _LEAST))


def _shrunk(epsilon: float, rate: Fraction) -> float:
    """Return −log(1 − rate·(1 − e^−ε)), rounded up."""
    return -_log_rest(rate, -math.expm1(-epsilon)) * (1 + 2.0**-40)


def _log_rest(rate: Fraction, part: float = 1.0) -> float:
    """Return log(1 − rate·part), without losing digits where that is near 0 or near 1."""
    if rate <= Fraction(1, 2):
        return math.log1p(-float(rate) * part)
    return math.log(float(1 - rate) + float(rate) * (1 - part))


def _rate(rate: Number) -> Fraction:
    chance = parse_exact(rate, "rate")
    if not 1 <= chance * LARGEST <= LARGEST:
        raise UsageError("SF-N101", "A sampling rate must be above 0 and at most 1.", got=str(rate)[:40])
    return chance


def sampled_by_coins(rate: Fraction, inner: Curve, pure: Fraction | None) -> Curve:
    """Return the curve of noise on a Poisson sample (docs/proofs/sampling.md#poisson-and-noise).

    E[(P/Q)^α] − 1 = Σ_{k≥2} C(α,k)·(1 − q)^(α−k)·q^k·(e^((k − 1)·D(k)) − 1) for whole α, with the curve D of
    the noise without sampling.
    """
    log_q, log_rest = math.log(rate), _log_rest(rate)
    # How far below 1 the ratio of the two laws can be.
    fall = float(rate) * (1.0 if pure is None else -math.expm1(-float(pure)))

    @cache
    def log_excess(k: int) -> float:
        return _log_expm1((k - 1) * inner(float(k)))

    def excess(order: int, k: int, log_choose: float) -> float:
        return log_choose + (order - k) * log_rest + k * log_q + log_excess(k)

    whole = _by_whole_orders(excess)

    def at(order: float) -> float:
        if order >= 2:
            return whole(order)
        variance = math.exp(min(2 * log_q + log_excess(2), _LARGE))
        return min(whole(order), _by_variance(order, variance, fall))

    return at


def _by_variance(order: float, variance: float, fall: float) -> float:
    """Return the largest divergence, of an order below 2, of a ratio of this variance, at least 1 − fall."""
    # The worst ratio takes two values: the least one, and the one that gives it its mean of 1.
    share, rise = variance / (variance + fall * fall), order * math.log1p(variance / fall)
    if rise > _LARGE:
        return math.inf
    low = share * (math.expm1(order * math.log1p(-fall)) if fall < 1 else -1.0)
    high = (1 - share) * math.expm1(rise)
    pad = 2.0**-48 * (high - low)  # the two terms cancel for a small fall
    return math.log1p(low + high + pad) / (order - 1) * _SLACK


def sampled_without_replacement(rate: float, inner: Curve, pure: Fraction | None) -> Curve:
    """Return the curve of any event on a sample of fixed size (docs/proofs/sampling.md#fixed-size)."""
    log_q, cap = math.log(rate), math.log(2)
    widest = math.inf if pure is None else _log_expm1(float(pure))

    @cache
    def inner_log(k: int) -> float:
        return (k - 1) * inner(float(k))

    def excess(order: int, k: int, log_choose: float) -> float:
        log = log_choose + k * log_q
        grown = inner_log(k) + min(cap, k * widest)
        return log + (min(math.log(4) + _log_expm1(inner(2.0)), grown) if k == 2 else grown)

    return _by_whole_orders(excess)


def fixed_size_laplace(rate: float, event: DiscreteLaplace) -> Curve:
    """Return the curve of integer Laplace noise on a sample of fixed size (docs/proofs/sampling.md).

    The moment is at most 1 + E[v^α + v^(1−α) − 1 − v; v > 1] with v = 1 − q + q·X, for the noise's ratio X.
    """
    step, steps = float(1 / event.scale), float(event.l1)
    # Losses above 0, rounded up to so many different ones, and the chance of each.
    ends = np.unique(np.floor(np.linspace(steps // 2, steps, _MOST_LOSSES)))
    tails = np.exp(-step * (ends[:-1] + 1)) / (1 + math.exp(-step))
    chances = np.append(tails[:-1] * -np.expm1(-step * np.diff(ends)[:-1]), tails[-1])
    grown = rate * np.expm1((2 * ends[1:] - steps) * step)
    logs = np.log1p(grown)

    def at(order: float) -> float:
        if order * logs[-1] > _LARGE:
            powers = np.log(chances) + order * logs
            return float(np.logaddexp.reduce(np.append(powers, 0.0))) / (order - 1) * _SLACK
        parts = np.expm1(order * logs) + np.expm1((1 - order) * logs) - grown
        return math.log1p(float(chances @ parts)) / (order - 1) * _SLACK

    return at


def _by_whole_orders(excess: Callable[[int, int, float], float]) -> Curve:
    """Return the curve log(1 + Σ_{k=2}^α e^excess(α, k, log C(α, k))) / (α − 1), up to `_HIGHEST`."""
    # Between integer orders the logarithm of the moment is convex, so it lies below the chord.

    @cache
    def moment(order: int) -> float:
        if order < 2:
            return 0.0
        return _log1p_sum([excess(order, k, log) for k, log in _log_binomials(order)])

    def at(order: float) -> float:
        if order > _HIGHEST:
            return math.inf
        below = math.floor(order)
        part = order - below
        log = (1 - part) * moment(below) + (part * moment(below + 1) if part else 0.0)
        return log / (order - 1) * _SLACK

    return at


def _log_binomials(order: int) -> Iterator[tuple[int, float]]:
    """Return k and log C(order, k) for k from 2 on, as logarithms of exact integers."""
    choose = order
    for k in range(2, order + 1):
        choose = choose * (order - k + 1) // k
        yield k, math.log(choose)


def _log1p_sum(logs: list[float]) -> float:
    """Return log(1 + Σ e^log), without losing a small sum beside the 1 and without overflow."""
    top = max(logs)
    if top < 1:
        return math.log1p(math.fsum(math.exp(log) for log in logs))
    return top + math.log(math.exp(-top) + math.fsum(math.exp(log - top) for log in logs))


def _log_expm1(x: float) -> float:
    if x <= 0:
        return -math.inf
    return x + math.log1p(-math.exp(-x)) if x > 1 else math.log(math.expm1(x))
