"""What an event costs in Gaussian differential privacy, where a reserve is held back.

The cost of an event at a reserve v is the least c such that the event beside Gaussian noise of μ² = v tells
no more than Gaussian noise of μ² = v + c. Such costs add up, however the analyst adapts
(docs/proofs/gaussian-filter.md). Accounts have different reserves, so a cost is one number for each of a few
public ones. All of it is closed form: no search over profiles, and no error beyond the rounding of doubles.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache, singledispatch
from typing import TYPE_CHECKING

from sfumato.privacy.events import (
    Concentrated,
    DiscreteGaussian,
    Event,
    Exponential,
    Gaussian,
    KeyRelease,
    PrivacyProfile,
    Sampled,
    SpreadExponential,
    SpreadLaplace,
)
from sfumato.privacy.events.spread import sum_squares

if TYPE_CHECKING:
    from collections.abc import Callable

# Ledgers hold one integer for each reserve, so these are fixed like the Rényi orders. Each is four times the
# one before, so that every usual budget finds one between a 64th and a 16th of what it can spend.
RESERVES: tuple[float, ...] = tuple(2.0**-power for power in range(24, 0, -2))
"""Amounts of μ² that accounts hold back, smallest first."""
UNIT = 10**12
"""Costs are kept in units of 1/UNIT of μ²."""

_SLACK = 2.0**-40  # far above the rounding of the double arithmetic it covers
_LARGEST = 200.0
"""Pure ε above which no cost is computed; no budget of interest could pay it."""
_LEAST = 2.0**-500
"""Smaller ε are charged as this one, whose square a double can still hold."""
_WIDER = 1.01
"""A choice of ε-bounded range is charged as a coin of 1.01·ε/2: the worst one is that of ε/2, and one per
cent covers all others (docs/proofs/gaussian-filter.md#choices). Privacy depends on it."""
_NARROWEST, _WIDEST = 0.25, 48.0
"""Multiples of the reserve's root for which that was verified."""
_LARGEST_RANGE = 16.0
"""Largest ε for which that was verified."""
_FLAT, _RISING = 0.02, 2.75
"""Multiples of the reserve's root between which c/ε² of a coin was verified to rise."""
_UNEVEN = 1.002
"""Factor within which it does, which covers the steps of that verification. Privacy depends on it."""
_LARGEST_RHO = 0.5
"""ρ above which no cost is computed; the search for it converges below."""
_DENSE = 1 + 2.0**-6
"""Factor between the orders at which a curve is compared with a line. A smaller one tightens what is charged;
any is valid."""
_PROBIT = math.pi / 2
"""The cost of a coin is never above this multiple of ε²."""

Costs = tuple[int, ...]
"""A cost for each reserve, in units of 1/UNIT and rounded up."""

NO_COST: Costs = (0,) * len(RESERVES)


@singledispatch
def find_costs(event: Event) -> Costs | None:
    """Return the cost of an event at each reserve; None where no cost is proven.

    What has a pure ε is dominated by one coin of randomized response with that ε.
    """
    epsilon = event.pure()
    return None if epsilon is None else price_coin(epsilon)


@find_costs.register
def _(event: Gaussian) -> Costs:
    return (math.ceil(UNIT / event.sigma**2),) * len(RESERVES)


@find_costs.register
def _(event: Exponential) -> Costs | None:
    return price_choice(event.epsilon)


@find_costs.register
def _(event: SpreadLaplace) -> Costs | None:
    largest, squares = event.moves[0][0] / event.scale, event.l2_squared / event.scale**2
    return _take_least(price_coin(event.pure()), _price_squares(largest, squares, _coin_part))


@find_costs.register
def _(event: SpreadExponential) -> Costs | None:
    largest, squares = event.epsilon * event.moves[0][0], event.epsilon**2 * sum_squares(event.moves)
    return _take_least(price_choice(event.pure()), _price_squares(largest, squares, _choice_part))


@find_costs.register
def _(event: KeyRelease) -> Costs | None:
    # That it costs no more than its noise was shown for pure and for Gaussian noise alone.
    shown = event.event.pure() is not None or isinstance(event.event, Gaussian)
    return _take_least(price_coin(event.epsilon), find_costs(event.event) if shown else None)


@find_costs.register
def _(event: Concentrated) -> Costs | None:
    return price_concentrated(event.rho)


@find_costs.register
def _(event: PrivacyProfile) -> Costs | None:
    return _take_least(price_coin(event.pure()), price_concentrated(_bound_rho(event)))


@find_costs.register
def _(event: DiscreteGaussian) -> Costs | None:
    return price_concentrated(event.l1**2 / (2 * event.sigma**2))


@find_costs.register
def _(event: Sampled) -> Costs | None:
    epsilon = event.pure()
    # Noise on a sample is charged as on all units: the tail of its loss is as heavy.
    return find_costs(event.event) if epsilon is None else price_coin(epsilon)


def price_coin(epsilon: Fraction) -> Costs | None:
    """Return the cost of one coin of randomized response, which dominates every ε-DP mechanism."""
    return _price_all(_coin_cost, _round_size(epsilon))


def price_coin_at(epsilon: Fraction, place: int) -> int | None:
    """Return the cost of a coin at one reserve, as `price_coin` has it: searches ask for many coins."""
    size, reserve = _round_size(epsilon), RESERVES[place]
    if size > _LARGEST:
        return None
    return _round_up(_coin_cost(size, reserve), reserve) if size else 0


def price_choice(epsilon: Fraction) -> Costs | None:
    """Return the cost of a choice of ε-bounded range, such as one of the exponential mechanism."""
    return _price_all(_choice_cost, _round_size(epsilon))


def price_concentrated(rho: Fraction) -> Costs | None:
    """Return the cost of any ρ-zCDP mechanism; None where ρ is so large that no cost is computed."""
    return None if rho > _LARGEST_RHO else _price_all(_concentrated_cost, _round_size(rho))


@lru_cache(maxsize=256)
def _bound_rho(event: PrivacyProfile) -> Fraction:
    """Return a ρ with D_α ≤ ρ·α at all orders, of an event with a pure ε."""
    largest, curve = float(event.pure()), event.curve()
    order, found = 1.0, 1 / UNIT
    # Divergences grow with the order, and never above the largest loss.
    while largest > found * order and found <= _LARGEST_RHO:
        found, order = max(found, curve(order * _DENSE) / order), order * _DENSE
    return Fraction(found * (1 + _SLACK)) + Fraction(1, UNIT)


def _round_size(epsilon: Fraction) -> float:
    """Return an ε as a double, rounded up; only 0 is 0, or what is repeated often enough would be free."""
    return max(float(epsilon), _LEAST) * (1 + 2.0**-50) if epsilon else 0.0


@lru_cache(maxsize=4096)
def _price_all(cost: Callable[[float, float], float], epsilon: float) -> Costs | None:
    if not epsilon:
        return NO_COST
    if epsilon > _LARGEST:
        return None
    return tuple([_round_up(cost(epsilon, reserve), reserve) for reserve in RESERVES])


def _round_up(cost: float, reserve: float) -> int:
    return math.ceil((cost + _SLACK * (cost + math.sqrt(reserve + cost))) * UNIT) + 1


def _coin_cost(epsilon: float, reserve: float) -> float:
    """Return the c at which a coin beside the reserve has the total variation of Gaussian noise alone.

    That it is no more at this one place is enough for it to be no more anywhere.
    """
    near, far = math.sqrt(reserve / 8), epsilon / math.sqrt(2 * reserve)
    wrong = 1 / (1 + math.exp(epsilon))
    rest = (1 - wrong) * math.erfc(near + far) + wrong * math.erfc(near - far)
    square = epsilon * epsilon
    guess = square * min(1.55, 1 + square / (7 * reserve))
    return 8 * _invert_erfc(rest, math.sqrt((reserve + guess) / 8)) ** 2 - reserve


def estimate_coin(epsilon: float, reserve: float) -> float:
    """Return about what a coin costs, for plans; what is charged is rounded up by `price_coin`."""
    return _coin_cost(epsilon, reserve) if epsilon < _LARGEST else math.inf


def _concentrated_cost(rho: float, reserve: float) -> float:
    """Return a c with v·(√(1 + c/v) − 1)·e^(−c/8) ≥ ρ, and what v has beyond the reserve.

    With r = ρ·e^(c/8) it is 2r + r²/v. Here v is the reserve, or r where that is larger.
    """
    root, last = rho, 0.0
    while root - last > 2.0**-44 * root:  # each step leaves less than a third of what was missing
        root, last = rho * math.exp((2 * root + root * root / max(reserve, root)) / 8), root
    root *= 1 + 2.0**-36  # the search comes from below, and this is more than it leaves
    beside = max(reserve, root)
    return beside - reserve + 2 * root + root * root / beside


def _choice_cost(epsilon: float, reserve: float) -> float:
    """Return the c of a choice: in closed form where it is small, else as a coin."""
    part = epsilon * epsilon / 4
    small = part / (1 - part / reserve) if part < reserve else math.inf
    at_least = max(epsilon, _NARROWEST * math.sqrt(reserve))
    return min(small, _coin_cost(_choice_part(epsilon, reserve) * at_least, reserve))


def _choice_part(epsilon: float, reserve: float) -> float:
    """Return the part of a choice's ε whose coin costs as much: half and a little where that was verified."""
    return _WIDER / 2 if epsilon <= min(_WIDEST * math.sqrt(reserve), _LARGEST_RANGE) else 1.0


def _coin_part(epsilon: float, reserve: float) -> float:
    return 1.0


def _price_squares(
    largest: Fraction, squares: Fraction, find_part: Callable[[float, float], float]
) -> Costs | None:
    """Return the cost of many cells whose ε are at most this large and have this sum of squares.

    `find_part` says which part of its ε a coin has that costs as much as a cell.
    """
    most, total = _round_size(largest), float(squares) * (1 + 2.0**-40)
    if most > _LARGEST:
        return None
    parts = [find_part(most, reserve) for reserve in RESERVES]
    return tuple(
        _round_up(_find_ratio(part * most, reserve) * part**2 * total, reserve)
        for part, reserve in zip(parts, RESERVES, strict=True)
    )


def _find_ratio(epsilon: float, reserve: float) -> float:
    """Return an upper bound on c/ε² of all coins up to this ε."""
    part = epsilon * epsilon / reserve
    if part < _FLAT**2:
        return 1 / (1 - part)  # a coin of ε is a choice of 2ε
    if part > _RISING**2:
        return _PROBIT
    return min(_PROBIT, max(1.0, _UNEVEN * estimate_coin(epsilon, reserve) / epsilon**2))


def _take_least(one: Costs | None, other: Costs | None) -> Costs | None:
    """Return the smaller of two costs at each reserve; None says that there is no bound."""
    if one is None or other is None:
        return one if other is None else other
    return tuple(map(min, one, other))


def _invert_erfc(value: float, guess: float) -> float:
    """Return y with erfc(y) = value, for a value below 1."""
    # The logarithm of erfc is concave and falls, so Newton's method converges from the right of the root, and
    # the first step from its left leads there. As erfc(y) ≤ e^(−y²), the root is at most √(−log(value)).
    y = min(guess, math.sqrt(-math.log(value)))
    for _ in range(100):
        now = math.erfc(y)
        step = math.log(now / value) * now * math.sqrt(math.pi) / 2 * math.exp(y * y)
        y += step
        if abs(step) <= 2.0**-50 * y:
            break
    return y


# ---- what a budget can spend -------------------------------------------------------------------------------


def find_capacity(epsilon: Fraction, delta: Fraction) -> float:
    """Return the largest μ² of Gaussian noise that is (ε, δ)-DP, rounded down; 0 where none is known."""
    e, d = float(epsilon), float(delta)
    if not 1e-280 < d < 1 or not e <= _LARGEST:
        return 0.0
    low, high = 0.0, 1.0
    while _is_private(high, e, d):
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _is_private(middle, e, d) else (low, middle)
    return low


def find_level(spent: float, delta: float) -> float:
    """Return the least ε for which Gaussian noise of this μ² is (ε, δ)-DP, rounded up; or infinity."""
    low, high = 0.0, _LARGEST
    if not _is_private(spent, high, delta):
        return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _is_private(spent, middle, delta) else (middle, high)
    return high


def find_share(capacity: float, epsilon: float) -> float:
    """Return the δ at this ε of Gaussian noise of this μ², rounded down."""
    return _bound_delta(capacity, epsilon)[0]


def _is_private(capacity: float, epsilon: float, delta: float) -> bool:
    """Return whether Gaussian noise of this μ² is (ε, δ)-DP; never wrongly that it is."""
    return _bound_delta(capacity, epsilon)[1] <= delta


def _bound_delta(capacity: float, epsilon: float) -> tuple[float, float]:
    """Return numbers just below and just above the δ of Gaussian noise of this μ²."""
    mu = math.sqrt(capacity)
    near, far = (epsilon / mu - mu / 2) / math.sqrt(2), (epsilon / mu + mu / 2) / math.sqrt(2)
    # The argument of erfc is off by a rounding or two, which moves its value by 2·far² times as much.
    slack = 2.0**-46 * (4 + epsilon + far * far)
    likely, other = math.erfc(near) / 2, math.exp(epsilon) * math.erfc(far) / 2
    between, doubt = likely - other, slack * (likely + other)
    return between - doubt, between + doubt


def choose_reserve(capacity: float) -> int | None:
    """Return the place of the reserve for a budget that could spend so much; None if all are too large.

    It is the largest that is at most a 16th, or at least a quarter if there is no such one.
    """
    fitting = [place for place, reserve in enumerate(RESERVES) if reserve <= capacity / 16]
    return max(fitting, default=0 if RESERVES[0] <= capacity / 4 else None)
