"""The least noise for many numbers under one budget: how to divide it, and between which kinds of noise.

For every filter of the account the best division is found in closed form, or where kinds of noise compete by
a Lagrange multiplier. The account itself then decides: all noise is scaled alike to the least that it admits,
and the best of these plans is returned. So a plan is always admitted, and is the best of its shape
(docs/proofs/planning.md).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from sfumato.errors import BudgetError, UsageError
from sfumato.errors.numbers import format_number
from sfumato.privacy import divergences
from sfumato.privacy.account import NAT, NOTHING, ORDERS, caps, price
from sfumato.privacy.events import Gaussian, Laplace, Repeated, Sequential
from sfumato.privacy.exact import parse_exact, parse_positive
from sfumato.privacy.gaussian_costs import RESERVES, estimate_coin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sfumato.privacy.account import Caps, Cost
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.events import Event
    from sfumato.privacy.exact import Number

Kind = Literal["laplace", "gaussian"]
KINDS: tuple[Kind, ...] = ("laplace", "gaussian")
NoisePrice = Callable[[Kind, float], float]
"""From a kind of noise, and the sensitivity over its scale, to what it costs at one filter."""
MOST_WISHES = 10_000
MOST_DIFFERENT = 300
"""Most different wishes of one plan, so that it takes seconds."""
_ORDERS_TRIED = 3
"""Orders at which kinds of noise compete: those that admit the most Gaussian noise."""
_FINE = Fraction(1, 2**20)
"""Relative precision of the scale of a plan. Privacy does not depend on it."""
_ROUNDS = 48
"""Halvings of a search for a multiplier or a scale."""


@dataclass(frozen=True, slots=True, init=False)
class Wish:
    """A number to be released with noise: by how much one unit changes it, and what matters about it.

    Give a `weight`, so that the weighted sum of all variances is made least; or an `error`, the deviation
    that is wanted, so that all deviations are the same multiple of what was wanted, and the least one.
    """

    sensitivity: Fraction
    weight: Fraction
    error: Fraction | None
    noise: Kind | None
    name: str

    def __init__(
        self,
        sensitivity: Number = 1,
        *,
        weight: Number = 1,
        error: Number | None = None,
        noise: Kind | None = None,
        name: str = "",
    ) -> None:
        if noise is not None and noise not in KINDS:
            raise UsageError(
                "SF-E187", "There is no such noise to plan with.", got=str(noise)[:40], known=", ".join(KINDS)
            )
        object.__setattr__(self, "sensitivity", parse_positive(sensitivity, "sensitivity"))
        object.__setattr__(self, "weight", parse_positive(weight, "weight"))
        object.__setattr__(self, "error", None if error is None else parse_positive(error, "error"))
        object.__setattr__(self, "noise", noise)
        object.__setattr__(self, "name", str(name))


@dataclass(frozen=True, slots=True)
class PlannedNoise:
    """The noise of one number."""

    wish: Wish
    kind: Kind
    scale: Fraction
    """Scale of Laplace noise, or deviation of Gaussian noise, in the units of the number."""

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise."""
        return float(self.scale) * (math.sqrt(2) if self.kind == "laplace" else 1.0)

    @property
    def half_width(self) -> float:
        """Half the width of the interval that holds the exact number with a chance of 95 %."""
        return float(self.scale) * (math.log(20) if self.kind == "laplace" else _NORMAL_95)

    @property
    def event(self) -> Event:
        """The price of this noise."""
        return (Laplace if self.kind == "laplace" else Gaussian)(self.scale / self.wish.sensitivity)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, ready for JSON."""
        return {
            "name": self.wish.name,
            "noise": self.kind,
            "scale": float(self.scale),
            "deviation": self.deviation,
            "half_width": self.half_width,
            "event": self.event.to_dict(),
        }


@dataclass(frozen=True)
class NoisePlan:
    """The least noise for many numbers that one budget admits together."""

    noises: tuple[PlannedNoise, ...]
    budget: Budget
    spent: Cost

    @cached_property
    def event(self) -> Event:
        """All of it as one event."""
        return Sequential(
            event if times == 1 else Repeated(event, times)
            for event, times in Counter(each.event for each in self.noises).items()
        )

    @cached_property
    def cost(self) -> Cost:
        """What is charged for all of it."""
        return price(self.event)

    @property
    def meets_wishes(self) -> bool:
        """Whether every number has at most the error that was wanted for it."""
        return all(
            each.wish.error is None or each.deviation <= float(each.wish.error) * (1 + 1e-12)
            for each in self.noises
        )

    @property
    def variance(self) -> float:
        """The weighted sum of all variances."""
        return math.fsum(float(each.wish.weight) * each.deviation**2 for each in self.noises)

    def __str__(self) -> str:
        lines = [
            f"{each.wish.name or f'number {place}'}: {each.kind} noise, "
            f"deviation {format_number(each.deviation)} "
            f"(± {format_number(each.half_width)} at 95 %)"
            for place, each in enumerate(self.noises, 1)
        ]
        return "\n".join([*lines, self.sentence])

    __repr__ = __str__

    @property
    def sentence(self) -> str:
        """What the plan comes to, in words."""
        pure = "" if self.cost.pure is None else f" (pure ε = {format_number(self.cost.pure / NAT)})"
        met = "" if self.meets_wishes else "; more error than was wanted"
        return f"all within {self.budget!r}{pure}{met}"

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, ready for JSON."""
        return {
            "noises": [each.to_dict() for each in self.noises],
            "budget": self.budget.to_dict(),
            "cost": self.cost.to_dict(),
            "meets_wishes": self.meets_wishes,
        }


_NORMAL_95 = 1.959963984540055


def plan(wishes: Iterable[Wish | Number], budget: Budget, spent: Cost = NOTHING) -> NoisePlan:
    """Return the least noise for these numbers that a budget admits, after what was spent of it.

    A plain number is the sensitivity of a number to release. Nothing is read and nothing is charged.
    """
    asked = _parse_wishes(wishes)
    limits = caps(budget)
    shapes = (_Shape(asked, kinds, scales) for kinds, scales in _list_shapes(asked, limits, spent))
    plans = [found for shape in shapes if (found := shape.fit(limits, spent)) is not None]
    if not plans:
        raise BudgetError(
            "SF-B101",
            "Nothing that is left of this budget pays for these numbers.",
            try_="a budget with a larger epsilon, or with a delta for Gaussian noise",
        )
    best = min(plans, key=lambda noises: _judge(asked, noises))
    return NoisePlan(tuple(best), budget, spent)


def _parse_wishes(wishes: Iterable[Wish | Number]) -> list[Wish]:
    found = [each if isinstance(each, Wish) else Wish(each) for each in wishes]
    if not 1 <= len(found) <= MOST_WISHES or len(set(found)) > MOST_DIFFERENT:
        raise UsageError(
            "SF-N203",
            f"A plan is for 1 to {MOST_WISHES:,} numbers with at most {MOST_DIFFERENT} different wishes.",
            try_="sf.privacy.plan([1, 1, 10], budget=sf.Budget(1))",
        )
    if len({each.error is None for each in found}) > 1:
        raise UsageError(
            "SF-N203",
            "Either all numbers of a plan have a wanted error, or none has.",
            try_="sf.privacy.Wish(1, weight=4) beside others without an error",
        )
    return found


def _judge(asked: Sequence[Wish], noises: Sequence[PlannedNoise]) -> float:
    """Return what a plan is judged by: the weighted variance, or the largest error for what was wanted."""
    if asked[0].error is not None:
        return max(each.deviation / float(each.wish.error or 1) for each in noises)
    return math.fsum(float(each.wish.weight) * each.deviation**2 for each in noises)


@dataclass(frozen=True)
class _Shape:
    """Kinds of noise, and scales that matter in relation to each other alone."""

    asked: Sequence[Wish]
    kinds: Sequence[Kind]
    scales: Sequence[float]

    def fit(self, limits: Caps, spent: Cost) -> list[PlannedNoise] | None:
        """Return the least multiple of these scales that is admitted; None if none is."""
        low, high = Fraction(0), Fraction(1)
        while not limits.admits(spent, self._price(high)):
            low, high = high, 4 * high
            if high > 2**60:
                return None
        low = low or high / 2**60
        while high > (1 + _FINE) * low:
            # In logarithms, as nothing is known of the size of a scale.
            middle = parse_exact(math.sqrt(float(low) * float(high)), "scale")
            if not low < middle < high:
                break
            low, high = (low, middle) if limits.admits(spent, self._price(middle)) else (middle, high)
        return self._stretch(high)

    def _stretch(self, factor: Fraction) -> list[PlannedNoise]:
        return [
            PlannedNoise(wish, kind, _shorten(factor * Fraction(scale)))
            for wish, kind, scale in zip(self.asked, self.kinds, self.scales, strict=True)
        ]

    def _price(self, factor: Fraction) -> Cost:
        counts = Counter(each.event for each in self._stretch(factor))
        return price(Sequential(Repeated(event, times) for event, times in counts.items()))


def _shorten(value: Fraction) -> Fraction:
    """Return a number a little above, as a double that is short to write."""
    return parse_exact(float(f"{float(value) * (1 + 2.0**-40):.12g}"), "scale")


# ---- shapes of plans ---------------------------------------------------------------------------------------


def _list_shapes(
    asked: Sequence[Wish], limits: Caps, spent: Cost
) -> Iterator[tuple[Sequence[Kind], Sequence[float]]]:
    """Yield what could be best: for pure ε, for Gaussian noise alone, for Rényi orders and Gaussian DP."""
    for kind in KINDS:
        if all(each.noise in (None, kind) for each in asked):
            kinds: list[Kind] = [kind] * len(asked)
            yield kinds, [_closed_form(each, kind) for each in asked]
    if all(each.noise == asked[0].noise is not None for each in asked):
        return
    rest = {order: cap - total for order, cap, total in zip(ORDERS, limits.renyi, spent.renyi, strict=True)}
    usable = sorted((order for order in rest if rest[order] > 0), key=lambda order: -rest[order] / order)
    filters = [(_price_at(order), rest[order]) for order in usable[:_ORDERS_TRIED]]
    if limits.gaussian is not None and spent.gaussian is not None:
        place = limits.gaussian.place
        filters.append((_price_beside(RESERVES[place]), limits.gaussian.most - spent.gaussian[place]))
    for price_noise, cap in filters:
        if cap > 0:
            chosen = _divide(asked, price_noise, cap / NAT)
            yield [kind for kind, _ in chosen], [scale for _, scale in chosen]


def _closed_form(wish: Wish, kind: Kind) -> float:
    """Return the best scale for one kind of noise alone, up to a factor that is the same for all numbers.

    With a wanted error it is that. Else the cost of a number is s/b of pure ε, or (s/σ)² at any order or in
    Gaussian DP, and the weighted sum of b² or σ² is least where b³ ∝ s/w, or σ⁴ ∝ s²/w.
    """
    if wish.error is not None:
        return float(wish.error) / (math.sqrt(2) if kind == "laplace" else 1.0)
    ratio = float(wish.sensitivity / wish.weight)
    return ratio ** (1 / 3) if kind == "laplace" else math.sqrt(ratio * math.sqrt(float(wish.weight)))


def _divide(asked: Sequence[Wish], price_noise: NoisePrice, cap: float) -> list[tuple[Kind, float]]:
    """Return kinds and scales that use up the cap of one filter, best for what the wishes say."""
    different = Counter(asked)
    find = _find_by_weight if asked[0].error is None else _find_by_error

    def cost(multiplier: float) -> float:
        return math.fsum(times * find(wish, price_noise, multiplier)[2] for wish, times in different.items())

    # The cost falls as the multiplier grows; it is found by halving its logarithm.
    low, high = -200.0, 200.0
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        low, high = (low, middle) if cost(math.exp(middle)) <= cap else (middle, high)
    found = {wish: find(wish, price_noise, math.exp(high)) for wish in different}
    return [found[wish][:2] for wish in asked]


def _find_by_error(wish: Wish, price_noise: NoisePrice, multiple: float) -> tuple[Kind, float, float]:
    """Return the cheapest kind whose deviation is this multiple of the wanted one; its scale and cost."""
    wanted = multiple * float(wish.error or 1)
    offers = []
    for kind in KINDS if wish.noise is None else (wish.noise,):
        scale = wanted / (math.sqrt(2) if kind == "laplace" else 1.0)
        offers.append((price_noise(kind, float(wish.sensitivity) / scale), kind, scale))
    cost, kind, scale = min(offers)
    return kind, scale, cost


def _find_by_weight(wish: Wish, price_noise: NoisePrice, multiplier: float) -> tuple[Kind, float, float]:
    """Return the noise for which weight·variance/multiplier + cost is least; its kind, scale and cost."""
    weight, size, offers = float(wish.weight) / multiplier, float(wish.sensitivity), []
    for kind in KINDS if wish.noise is None else (wish.noise,):
        factor = 2.0 if kind == "laplace" else 1.0

        def loss(log: float, kind: Kind = kind, factor: float = factor) -> float:
            return weight * factor * math.exp(2 * log) + price_noise(kind, size * math.exp(-log))

        log = _find_least(loss, -120.0, 120.0)
        offers.append((loss(log), kind, math.exp(log)))
    _, kind, scale = min(offers)
    return kind, scale, price_noise(kind, size / scale)


def _price_at(order: float) -> NoisePrice:
    """Return what noise costs at one Rényi order, by its sensitivity over its scale."""

    def price_noise(kind: Kind, rate: float) -> float:
        return order * rate**2 / 2 if kind == "gaussian" else divergences.laplace(rate)(order)

    return price_noise


def _price_beside(reserve: float) -> NoisePrice:
    """Return what noise costs in Gaussian DP beside a reserve, by its sensitivity over its scale."""

    def price_noise(kind: Kind, rate: float) -> float:
        return rate**2 if kind == "gaussian" else estimate_coin(rate, reserve)

    return price_noise


def _find_least(loss: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function that falls and then rises is least, by the golden section."""
    golden = (math.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = loss(left), loss(right)
    for _ in range(_ROUNDS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = loss(right)
    return (low + high) / 2
