"""The account of a budget: integers that only grow, and privacy filters that say when to stop.

A budget (ε, δ) becomes fourteen filters: one for pure ε with cap ε, one for each public Rényi order with the
cap whose conversion gives (ε, δ_order), its share of δ, and one of Gaussian DP with a share of its own. A
charge is admitted while at least one filter stays under its cap and the side δ stays under its own
(docs/proofs/account.md). Costs round up, caps round down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from operator import add, le, sub
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError
from sfumato.privacy.budget import Budget
from sfumato.privacy.events import Event, Grouped, Parallel, Pure, Repeated, Sequential
from sfumato.privacy.gaussian_costs import (
    NO_COST,
    RESERVES,
    Costs,
    choose_reserve,
    find_capacity,
    find_costs,
    price_coin_at,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

# Rényi orders are public and fixed: ledgers hold one integer for each. Dense where Gaussian noise of usual
# budgets converts best; privacy holds for any set of orders.
ORDERS: tuple[float, ...] = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0, 128.0, 512.0)
NAT = 10**12
"""ε, Rényi divergences and μ² are kept in units of 1/NAT."""
SIDE = 2**60
"""Side δ is kept in units of 1/SIDE."""

_SLACK = 2.0**-40  # far above the rounding of the double arithmetic it covers
_UP = NAT * (1 + _SLACK)
_LEAST, _LEAST_BESIDE = 0.25, 0.15
"""Part of ε that an order must keep to have a share of δ: alone, and beside a filter of Gaussian DP. There
the lower orders matter, as most of what needs the others is cheaper by that filter (docs/decisions/0082).
Privacy does not depend on them."""
_TOO_MUCH = 0.25
"""Largest part of its cap that an order may lose so that one more can share δ. Privacy does not depend on it:
the shares of δ add up to at most δ whatever it is."""


@dataclass(frozen=True, slots=True)
class Cost:
    """A charge or a total, all rounded up.

    Pure ε (or None), a Rényi divergence for each order, side δ, and for each reserve μ² of Gaussian DP (or
    None for all).
    """

    pure: int | None
    renyi: tuple[int, ...]
    side: int
    gaussian: Costs | None = None

    def __add__(self, other: Cost) -> Cost:
        if len(self.renyi) != len(other.renyi):
            raise _missing()
        pure = None if self.pure is None or other.pure is None else self.pure + other.pure
        gaussian = None
        if self.gaussian is not None and other.gaussian is not None:
            gaussian = tuple(map(add, self.gaussian, other.gaussian))
        return Cost(pure, tuple(map(add, self.renyi, other.renyi)), self.side + other.side, gaussian)

    def __mul__(self, times: int) -> Cost:
        pure = None if self.pure is None else self.pure * times
        gaussian = None if self.gaussian is None else tuple(one * times for one in self.gaussian)
        return Cost(pure, tuple(one * times for one in self.renyi), self.side * times, gaussian)

    @property
    def is_free(self) -> bool:
        """Whether this is the cost of nothing."""
        return self.pure == 0 and not any(self.renyi) and not self.side

    def take_back(self, refund: Cost) -> Cost:
        """Return this total without a charge that is part of it."""
        # A total that includes a charge without a pure ε has none, and a refund cannot bring it back.
        pure = None if self.pure is None or refund.pure is None else self.pure - refund.pure
        gaussian = None
        if self.gaussian is not None and refund.gaussian is not None:
            gaussian = tuple(map(sub, self.gaussian, refund.gaussian))
        return Cost(pure, tuple(map(sub, self.renyi, refund.renyi)), self.side - refund.side, gaussian)

    def divide(self, parts: int) -> Cost:
        """Return one of so many equal parts of a cost that was multiplied by their number."""
        pure = None if self.pure is None else self.pure // parts
        gaussian = None if self.gaussian is None else tuple(one // parts for one in self.gaussian)
        part = Cost(pure, tuple(one // parts for one in self.renyi), self.side // parts, gaussian)
        if part * parts != self:
            raise ValueError("the cost has no such parts")
        return part

    def to_dict(self) -> dict[str, Any]:
        """Return the form that the ledger keeps."""
        known = {} if self.gaussian is None else {"gaussian": shorten_costs(self.gaussian)}
        return {"pure": self.pure, "renyi": list(self.renyi), "side": self.side, **known}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Cost:
        """Return the cost that `to_dict` wrote."""
        gaussian = fields.get("gaussian")
        if gaussian is not None:
            gaussian = (gaussian,) * len(RESERVES) if type(gaussian) is int else tuple(gaussian)
        return cls(fields["pure"], tuple(fields["renyi"]), fields["side"], gaussian)


def shorten_costs(costs: Costs) -> int | list[int]:
    """Return costs at all reserves as they are written: one number where they are all the same."""
    return costs[0] if len(set(costs)) == 1 else list(costs)


NOTHING = Cost(0, (0,) * len(ORDERS), 0, NO_COST)


@dataclass(frozen=True, slots=True)
class GaussianCap:
    """The filter of Gaussian DP: the place of its reserve among all, and what may be spent beside it."""

    place: int
    most: int

    def __post_init__(self) -> None:
        if type(self.place) is not int or type(self.most) is not int or not 0 <= self.place < len(RESERVES):
            raise ValueError("a filter of Gaussian DP has the place of a reserve and a cap")

    def holds(self, spent: Costs | None) -> bool:
        """Return whether this filter stays under its cap. A total that is not known is over it."""
        return spent is not None and spent[self.place] <= self.most


@dataclass(frozen=True, slots=True)
class Caps:
    """The filters of a budget. An order whose cap is below zero can never admit anything."""

    pure: int
    renyi: tuple[int, ...]
    side: int
    gaussian: GaussianCap | None = None
    """None for accounts without δ, and for quotas that were changed after a charge without a cost in it."""

    @property
    def admits_noise(self) -> bool:
        """Whether anything without a pure ε, such as Gaussian noise, can ever be admitted."""
        return self.gaussian is not None or max(self.renyi) > 0

    def holds(self, spent: Cost) -> bool:
        """Return whether at least one filter, and the side δ, stay under their caps at this total."""
        if len(spent.renyi) != len(self.renyi):
            raise _missing()
        if spent.side > self.side:
            return False
        if spent.pure is not None and spent.pure <= self.pure:
            return True
        if self.gaussian is not None and self.gaussian.holds(spent.gaussian):
            return True
        return any(map(le, spent.renyi, self.renyi))

    def admits(self, spent: Cost, cost: Cost) -> bool:
        """Return whether one more charge keeps within the caps."""
        return self.holds(spent + cost)

    def to_dict(self) -> dict[str, Any]:
        """Return the form that the ledger keeps."""
        known = {} if self.gaussian is None else {"gaussian": [self.gaussian.place, self.gaussian.most]}
        return {"pure": self.pure, "renyi": list(self.renyi), "side": self.side, **known}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Caps:
        """Return the filters that `to_dict` wrote."""
        known = fields.get("gaussian")
        gaussian = None if known is None else GaussianCap(*known)
        return cls(fields["pure"], tuple(fields["renyi"]), fields["side"], gaussian)

    def list_filters(self, spent: Cost) -> list[tuple[int, int]]:
        """Return what was spent of every filter that can admit anything, and its cap."""
        filters = [] if spent.pure is None else [(spent.pure, self.pure)]
        if self.gaussian is not None and spent.gaussian is not None:
            filters.append((spent.gaussian[self.gaussian.place], self.gaussian.most))
        filters += zip(spent.renyi, self.renyi, strict=True)
        return [pair for pair in filters if pair[1] > 0]


@dataclass(frozen=True, slots=True)
class Allowance:
    """What an account may spend: its budget, and the filters that were fixed with it."""

    budget: Budget
    caps: Caps

    @classmethod
    def of(cls, budget: Budget) -> Allowance:
        """Return what a new account with this budget may spend."""
        return cls(budget, caps(budget))


def _missing() -> ValueError:
    return ValueError("a divergence is missing")


@dataclass(frozen=True, slots=True)
class Left:
    """What an account still allows."""

    share: float
    """Unused share of the best filter: 1 untouched, 0 used up."""
    epsilon: Fraction
    """Largest pure-ε question that would still be admitted, rounded down."""


def price(event: Event) -> Cost:
    """Return the charge for an event, every component rounded up."""
    # Pure ε is exact until it is rounded once, so that the parts of a question cost what was asked for the
    # whole.
    pure, parts = event.pure(), _sum_parts(event)
    return Cost(None if pure is None else math.ceil(pure * NAT), parts.renyi, parts.side, parts.gaussian)


def _sum_parts(event: Event) -> Cost:
    """Return the cost of an event by its parts."""
    # Parts are rounded before they are added, so that the rounding error of one is never multiplied.
    match event:
        case Sequential():
            return sum(map(_sum_parts, event.events), NOTHING)
        case Repeated():
            return _sum_parts(event.event) * event.times
        case Parallel():
            return find_dearest(map(_sum_parts, event.events))
        case Grouped():
            return _sum_parts(event.reduce_group())
    return _price_single(event)


def _price_single(event: Event) -> Cost:
    pure, curve = event.pure(), event.curve()
    divergences = [curve(order) for order in ORDERS]
    # An infinite divergence would pass no filter, but its integer could not be written down.
    if math.inf in divergences:
        raise UsageError("SF-N309", "This use of the data has no privacy guarantee, so it cannot be charged.")
    return Cost(
        None if pure is None else math.ceil(pure * NAT),
        NOTHING.renyi if pure == 0 else tuple(map(_round_up, divergences)),
        math.ceil(event.side_delta() * SIDE),
        find_costs(event),
    )


def _round_up(divergence: float) -> int:
    return math.ceil(max(0.0, divergence) * _UP) + 1


_LARGEST, _SMALLEST = Fraction(2**64), Fraction(1, 2**30)


def find_dearest(costs: Iterable[Cost]) -> Cost:
    """Return the largest of each component; pure ε is None where one of them has none."""
    dearest = NOTHING
    for cost in costs:
        pure = None if dearest.pure is None or cost.pure is None else max(dearest.pure, cost.pure)
        renyi = tuple(map(max, dearest.renyi, cost.renyi))
        gaussian = None
        if dearest.gaussian is not None and cost.gaussian is not None:
            gaussian = tuple(map(max, dearest.gaussian, cost.gaussian))
        dearest = Cost(pure, renyi, max(dearest.side, cost.side), gaussian)
    return dearest


@lru_cache(maxsize=256)
def caps(budget: Budget, *, gaussian: bool = True) -> Caps:
    """Return the filters of a new account with this budget, every cap rounded down.

    A part of δ is for side δ. Of the rest one half is for Gaussian DP, and one half is divided among the
    Rényi orders that are worth a share of it; without a filter of Gaussian DP they have all of it. With
    `gaussian=False` there is none: in a quota whose total is not known in it, it would admit nothing.
    """
    # A filter that holds at the end held throughout, because sums only grow; so it is enough that one holds.
    rest = budget.delta - budget.side_delta
    normal = _gaussian_cap(budget.epsilon, rest / 2) if gaussian else None
    share, least = (rest, _LEAST) if normal is None else (rest / 2, _LEAST_BESIDE)
    alone = {order: _order_cap(budget.epsilon, share, order) for order in ORDERS}
    shared = _shared(alone, least * float(budget.epsilon))
    return Caps(
        math.floor(budget.epsilon * NAT),
        tuple(math.floor(shared[order] * NAT) if order in shared else -1 for order in ORDERS),
        math.floor(budget.side_delta * SIDE),
        normal,
    )


def _gaussian_cap(epsilon: Fraction, delta: Fraction) -> GaussianCap | None:
    """Return what Gaussian DP may cost so that it is (ε, δ)-DP, beside its reserve."""
    capacity = find_capacity(epsilon, delta)
    place = choose_reserve(capacity)
    if place is None:
        return None
    return GaussianCap(place, math.floor(Fraction(capacity) * NAT) - math.ceil(RESERVES[place] * NAT))


def _shared(alone: dict[float, float], least: float) -> dict[float, float]:
    """Return the caps of the orders when they share δ, from those that each would have alone.

    Orders that keep little are left out, first those with a cap below `least`, then those for whose sake
    others would lose too much. The budget alone decides which, never the data or the questions.
    """
    used = {order: cap for order, cap in alone.items() if cap >= least}
    used = used or {order: cap for order, cap in alone.items() if cap > 0}
    while used:
        roots = {order: math.sqrt((order - 1) * cap) for order, cap in used.items()}
        least, rate = min(roots, key=roots.__getitem__), _rate(list(roots.values()))
        if len(used) == 1 or rate <= _TOO_MUCH * roots[least]:
            return {order: cap - rate * roots[order] / (order - 1) for order, cap in used.items()}
        del used[least]
    return {}


def _rate(roots: list[float]) -> float:
    """Return the smallest λ, in steps of 2^−20, with Σ exp(−λ·root) ≤ 1; the summands are the shares of δ."""
    low, high = -1, math.ceil(2**20 * (1 + math.log(len(roots)) / min(roots)))
    while high - low > 1:
        middle = (low + high) // 2
        shares = math.fsum(math.exp(-middle * 2.0**-20 * root) for root in roots)
        low, high = (low, middle) if shares <= (1 - _SLACK if middle else 1) else (middle, high)
    return high * 2.0**-20


def find_epsilon(spent: Cost, delta: Fraction) -> Fraction:
    """Return an ε whose budget (ε, δ) would hold a total, to three parts in a thousand; rounded up."""
    if spent == NOTHING:
        return Fraction(0)
    low, high = Fraction(0), Fraction(1)
    while not caps(Budget.of(high, delta)).holds(spent):
        low, high = high, 2 * high
        if high > _LARGEST:
            raise UsageError("SF-N101", "No budget holds this total.")
    while high - low > high / 400 and high > _SMALLEST:
        middle = (low + high) / 2
        low, high = (low, middle) if caps(Budget.of(middle, delta)).holds(spent) else (middle, high)
    return high


def left(caps: Caps, spent: Cost) -> Left:
    """Return what is left, as a share and as the largest pure-ε question that would be admitted."""
    if not caps.holds(spent):
        return Left(0.0, Fraction(0))
    share = max((1 - used / cap for used, cap in caps.list_filters(spent) if used <= cap), default=0.0)
    return Left(share, _largest_pure(caps, spent))


@lru_cache(maxsize=1024)
def _largest_pure(caps: Caps, spent: Cost) -> Fraction:
    """Return the largest pure ε that would still be admitted."""
    # Bisection is valid, since a larger pure ε never costs less on any filter.
    low, high = 0, caps.pure + 1
    alone = 0 if spent.pure is None else max(0, caps.pure - spent.pure)
    # The filter of pure ε admits what is left of it. Mostly no other admits more, and one look tells.
    if alone:
        more = alone < caps.pure and _admits_pure(caps, spent, alone + 1)
        low, high = (alone + 1, high) if more else (alone, alone + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _admits_pure(caps, spent, middle) else (low, middle)
    return Fraction(low, NAT)


def _admits_pure(caps: Caps, spent: Cost, nats: int) -> bool:
    """Return whether a pure question of so many units is admitted; only what can admit it is priced."""
    question, gaussian = Pure(Fraction(nats, NAT)), caps.gaussian
    if spent.pure is not None and spent.pure + nats <= caps.pure:
        return True
    if gaussian is not None and spent.gaussian is not None:
        cost = price_coin_at(question.epsilon, gaussian.place)
        if cost is not None and spent.gaussian[gaussian.place] + cost <= gaussian.most:
            return True
    curve, filters = question.curve(), zip(ORDERS, spent.renyi, caps.renyi, strict=True)
    return any(total < cap and total + _round_up(curve(order)) <= cap for order, total, cap in filters)


def _order_cap(epsilon: Fraction, delta: Fraction, order: float) -> float:
    """Return the largest divergence that converts to (ε, δ) at this order, rounded down; < 0 if none."""
    if delta == 0:
        return -1.0
    # ε − log(1 − 1/α) + log(δα)/(α − 1), the conversion of Canonne, Kamath and Steinke solved for the
    # divergence; the slack makes sure that rounding only lowers the cap.
    terms = (
        float(epsilon),
        -math.log1p(-1 / order),
        (_log(delta) + math.log(order)) / (order - 1),
    )
    return math.fsum(terms) - _SLACK * (1 + sum(map(abs, terms)))


def _log(value: Fraction) -> float:
    """Return the logarithm, also of numbers that no double can hold."""
    # Such a number is the product of one near 1 and a power of two.
    power = value.numerator.bit_length() - value.denominator.bit_length()
    return math.log(value / Fraction(2) ** power) + power * math.log(2)
