"""The odometer of an account: the least ε, at the budget's δ, that its filters prove of what was spent.

For an ε that is fixed in advance: whatever comes about while the odometer shows no more than that ε has been
(ε, δ)-private. It is not the ε of a run that was fixed in advance, which may be smaller and would not hold
for questions that were chosen as answers came in (docs/proofs/odometer.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.errors.numbers import format_bound, format_number, pad_decimals
from sfumato.privacy.account import NAT, ORDERS
from sfumato.privacy.gaussian_costs import RESERVES, find_level, find_share

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sfumato.privacy.account import Caps, Cost
    from sfumato.privacy.budget import Budget

MEANING = "holds for questions chosen as answers came in, for a level fixed in advance"
"""What a reading means, in words."""


@dataclass(frozen=True, slots=True)
class Odometer:
    """One reading: what was spent so far, and which filter proves it."""

    epsilon: float
    delta: float
    proven_by: str

    def brief(self) -> str:
        """Return what was spent, without the proof's name."""
        if math.isinf(self.epsilon):
            return f"spent: more than can be proven at δ = {format_number(self.delta, 3)}"
        spent = pad_decimals(format_bound(self.epsilon, up=True), 2)
        return f"spent: ε = {spent}" + (f" at δ = {format_number(self.delta, 3)}" if self.delta else "")

    def __str__(self) -> str:
        if math.isinf(self.epsilon):
            return f"spent so far: more than can be proven at δ = {format_number(self.delta, 3)}"
        delta = f" at δ = {format_number(self.delta, 3)}" if self.delta else ""
        return f"spent so far: ε = {format_number(self.epsilon)}{delta}, by {self.proven_by} ({MEANING})"

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, ready for JSON."""
        return {
            "epsilon": None if math.isinf(self.epsilon) else self.epsilon,
            "delta": self.delta,
            "proven_by": self.proven_by,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Odometer:
        """Return the reading that `to_dict` wrote."""
        shown = fields["epsilon"]
        return cls(math.inf if shown is None else float(shown), fields["delta"], fields["proven_by"])


def read_odometer(budget: Budget, caps: Caps, spent: Cost) -> Odometer:
    """Return the least ε for which the filters of this account prove (ε, δ) of what was spent, rounded up."""
    if spent.pure == 0 and not spent.side:
        return Odometer(0.0, 0.0, "nothing was charged")
    if spent.side > caps.side:
        return Odometer(math.inf, float(budget.delta), "no filter")
    least, proven_by = min(_list_readings(budget, caps, spent), default=(None, ""))
    if caps.holds(spent) and (least is None or least > budget.epsilon):
        least, proven_by = budget.epsilon, "all filters together"
    if least is None:
        return Odometer(math.inf, float(budget.delta), "no filter")
    needs_delta = spent.side or proven_by != _PURE
    return Odometer(
        _round_up(max(least, Fraction(0))), float(budget.delta) if needs_delta else 0.0, proven_by
    )


_PURE = "the filter of pure ε"


def _list_readings(budget: Budget, caps: Caps, spent: Cost) -> Iterator[tuple[Fraction, str]]:
    """Yield the ε at which each filter would just be full, with its share of δ as it is."""
    if spent.pure is not None:
        yield Fraction(spent.pure, NAT), _PURE
    for order, total, cap in zip(ORDERS, spent.renyi, caps.renyi, strict=True):
        # With the same share of δ the cap of an order is ε and a constant.
        if cap >= 0:
            yield (
                budget.epsilon - Fraction(cap - total, NAT),
                f"the Rényi filter of order {format_number(order, 6)}",
            )
    if caps.gaussian is not None and spent.gaussian is not None:
        reserve = RESERVES[caps.gaussian.place]
        share = find_share(reserve + caps.gaussian.most / NAT, float(budget.epsilon))
        level = find_level(reserve + (spent.gaussian[caps.gaussian.place] + 1) / NAT, share)
        if level < math.inf:
            yield Fraction(level), "the filter of Gaussian DP"


def _round_up(value: Fraction) -> float:
    near = float(value)
    return near if near >= value else math.nextafter(near, math.inf)
