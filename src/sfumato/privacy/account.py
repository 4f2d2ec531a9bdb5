"""The account: integers that only grow, and filters that say when to stop.

A budget (ε, δ) becomes thirteen filters: one for pure ε with cap ε, and one for each public Rényi order
with the cap whose conversion gives (ε, δ_order), its share of δ. A charge is admitted while at least one
filter stays under its cap and the side δ stays under its own (docs/proofs/account.md). Costs round up, caps
round down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from operator import add, le
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError
from sfumato.privacy.events import Event, Grouped, Parallel, Pure, Repeated, Sequential

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.privacy.budget import Budget

ORDERS: tuple[float, ...] = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0, 128.0, 512.0)
NAT = 10**12
"""ε and Rényi divergences are kept in units of 1/NAT."""
SIDE = 2**60
"""Side δ is kept in units of 1/SIDE."""

_SLACK = 2.0**-40  # far above the rounding of the double arithmetic it covers
_UP = NAT * (1 + _SLACK)
_TOO_MUCH = 0.25  # of every cap, for the sake of one more order


@dataclass(frozen=True, slots=True)
class Cost:
    """What was or would be spent: pure ε (or none), a divergence for each order, side δ. Rounded up."""

    pure: int | None
    renyi: tuple[int, ...]
    side: int

    def __add__(self, other: Cost) -> Cost:
        if len(self.renyi) != len(other.renyi):
            raise _missing()
        pure = None if self.pure is None or other.pure is None else self.pure + other.pure
        return Cost(pure, tuple(map(add, self.renyi, other.renyi)), self.side + other.side)

    def __mul__(self, times: int) -> Cost:
        pure = None if self.pure is None else self.pure * times
        return Cost(pure, tuple(one * times for one in self.renyi), self.side * times)

    def to_dict(self) -> dict[str, Any]:
        return {"pure": self.pure, "renyi": list(self.renyi), "side": self.side}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Cost:
        return cls(fields["pure"], tuple(fields["renyi"]), fields["side"])


NOTHING = Cost(0, (0,) * len(ORDERS), 0)


@dataclass(frozen=True, slots=True)
class Caps:
    """The filters of a budget. An order whose cap is below zero can never admit anything."""

    pure: int
    renyi: tuple[int, ...]
    side: int

    def holds(self, spent: Cost) -> bool:
        """Whether at least one filter, and the side δ, stay under their caps at this total."""
        if len(spent.renyi) != len(self.renyi):
            raise _missing()
        pure = spent.pure is not None and spent.pure <= self.pure
        return spent.side <= self.side and (pure or any(map(le, spent.renyi, self.renyi)))

    def admits(self, spent: Cost, cost: Cost) -> bool:
        return self.holds(spent + cost)


def _missing() -> ValueError:
    return ValueError("a divergence is missing")


@dataclass(frozen=True, slots=True)
class Left:
    """What an account still allows."""

    share: float
    """Of the best filter: 1 untouched, 0 used up."""
    epsilon: Fraction
    """The largest pure-ε question that would still be admitted, rounded down."""


def price(event: Event) -> Cost:
    """The charge for an event, every component rounded up.

    Pure ε is exact until it is rounded once, so that the parts of a question cost what the whole was told to.
    """
    pure, parts = event.pure(), _summed(event)
    return Cost(None if pure is None else math.ceil(pure * NAT), parts.renyi, parts.side)


def _summed(event: Event) -> Cost:
    """Parts are rounded before they are added: what doubles lose in one of them is never multiplied."""
    match event:
        case Sequential():
            return sum(map(_summed, event.events), NOTHING)
        case Repeated():
            return _summed(event.event) * event.times
        case Parallel():
            return _dearest(map(_summed, event.events))
        case Grouped():
            return _summed(event.reduce_group())
    return _simple(event)


def _simple(event: Event) -> Cost:
    pure, curve = event.pure(), event.curve()
    divergences = [curve(order) for order in ORDERS]
    if math.inf in divergences:
        raise UsageError("SF-N302", "This use of the data promises nothing, so it cannot be charged.")
    return Cost(
        None if pure is None else math.ceil(pure * NAT),
        NOTHING.renyi if pure == 0 else tuple([math.ceil(max(0.0, one) * _UP) + 1 for one in divergences]),
        math.ceil(event.side_delta() * SIDE),
    )


def _dearest(costs: Iterable[Cost]) -> Cost:
    """The largest of each component; no pure ε where one of them has none."""
    dearest = NOTHING
    for cost in costs:
        pure = None if dearest.pure is None or cost.pure is None else max(dearest.pure, cost.pure)
        renyi = tuple(map(max, dearest.renyi, cost.renyi))
        dearest = Cost(pure, renyi, max(dearest.side, cost.side))
    return dearest


@lru_cache(maxsize=256)
def caps(budget: Budget) -> Caps:
    """The filters of a budget, every cap rounded down.

    Half of δ is for side δ and half is shared out to the orders that are worth a share of it.
    """
    shared = _shared({order: _order_cap(budget, order) for order in ORDERS}, float(budget.epsilon))
    return Caps(
        math.floor(budget.epsilon * NAT),
        tuple(math.floor(shared[order] * NAT) if order in shared else -1 for order in ORDERS),
        math.floor(budget.delta / 2 * SIDE),
    )


def _shared(alone: dict[float, float], epsilon: float) -> dict[float, float]:
    """What the orders keep of the caps that they would have alone, when they share δ.

    Orders that keep little are left out, first those with a small cap, then those for whose sake others
    would lose too much. Left out or not is decided by the budget alone.
    """
    used = {order: cap for order, cap in alone.items() if cap >= epsilon / 4}
    used = used or {order: cap for order, cap in alone.items() if cap > 0}
    while used:
        roots = {order: math.sqrt((order - 1) * cap) for order, cap in used.items()}
        least, rate = min(roots, key=roots.__getitem__), _rate(list(roots.values()))
        if len(used) == 1 or rate <= _TOO_MUCH * roots[least]:
            return {order: cap - rate * roots[order] / (order - 1) for order, cap in used.items()}
        del used[least]
    return {}


def _rate(roots: list[float]) -> float:
    """The smallest λ, in steps of 2^−20, with Σ exp(−λ·root) at most 1: these are the shares of δ."""
    low, high = -1, math.ceil(2**20 * (1 + math.log(len(roots)) / min(roots)))
    while high - low > 1:
        middle = (low + high) // 2
        shares = math.fsum(math.exp(-middle * 2.0**-20 * root) for root in roots)
        low, high = (low, middle) if shares <= (1 - _SLACK if middle else 1) else (middle, high)
    return high * 2.0**-20


def left(caps: Caps, spent: Cost) -> Left:
    """What remains, as a share and as the largest admissible pure-ε question."""
    if not caps.holds(spent):
        return Left(0.0, Fraction(0))
    filters = [] if spent.pure is None else [(spent.pure, caps.pure)]
    filters += [pair for pair in zip(spent.renyi, caps.renyi, strict=True) if pair[1] > 0]
    share = max((1 - used / cap for used, cap in filters if used <= cap), default=0.0)
    return Left(share, _largest_pure(caps, spent))


def _largest_pure(caps: Caps, spent: Cost) -> Fraction:
    """By bisection on whole units, since a larger pure ε never costs less on any filter."""
    low, high = 0, caps.pure + 1
    while high - low > 1:
        middle = (low + high) // 2
        admitted = caps.admits(spent, price(Pure(Fraction(middle, NAT))))
        low, high = (middle, high) if admitted else (low, middle)
    return Fraction(low, NAT)


def _order_cap(budget: Budget, order: float) -> float:
    """The largest divergence that converts to (ε, δ/2) at this order, rounded down; below 0 if none does."""
    if budget.delta == 0:
        return -1.0
    terms = (
        float(budget.epsilon),
        -math.log1p(-1 / order),
        (_log(budget.delta / 2) + math.log(order)) / (order - 1),
    )
    return math.fsum(terms) - _SLACK * (1 + sum(map(abs, terms)))


def _log(value: Fraction) -> float:
    """The logarithm, also of numbers that no double can hold: of what is near 1, and of a power of two."""
    power = value.numerator.bit_length() - value.denominator.bit_length()
    return math.log(value / Fraction(2) ** power) + power * math.log(2)
