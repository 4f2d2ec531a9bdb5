"""Rényi divergences in closed form: each function binds an event's numbers and gives its curve.

Every curve takes an order above 1 and is an upper bound up to the rounding of doubles: 2⁻⁴⁰ of its value or
10⁻¹² in all, whichever is more (docs/proofs/events.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable

Curve = Callable[[float], float]
"""From an order above 1 to a divergence in nats."""


def randomized_response(epsilon: float) -> Curve:
    """Randomized response between two values, which dominates every ε-DP mechanism."""
    return discrete_laplace(epsilon, 1)


def kary_randomized_response(epsilon: float, values: int) -> Curve:
    """Randomized response among several values: the moment is q·(e^αε + e^(1−α)ε + values − 2).

    Here q = 1/(e^ε + values − 1) is the chance of each untrue answer.
    """
    rest = (values - 2) * math.exp(-epsilon)
    low = math.log1p(rest + math.exp(-epsilon))

    def at(order: float) -> float:
        up, down = (order - 1) * epsilon, -order * epsilon
        if up < 1:
            share = math.exp(-low)
            moment = share * (math.expm1(up) + math.exp(-epsilon) * math.expm1(down + epsilon))
            return math.log1p(moment) / (order - 1)
        return (up - low + math.log1p(math.exp(down - up) + rest * math.exp(-up))) / (order - 1)

    return at


def laplace(rate: float) -> Curve:
    """Continuous Laplace noise of scale 1/rate, one unit of l1 norm apart."""

    def at(order: float) -> float:
        width = 2 * order - 1
        return _two_points(order / width, (order - 1) / width, (order - 1) * rate, -order * rate, order)

    return at


def discrete_laplace(rate: float, steps: int) -> Curve:
    """Integer Laplace noise of scale 1/rate and itself `steps` apart.

    The moment is a·u^k + b·v^k with a + b = 1, log u = (order − 1)·rate, log v = −order·rate and
    k = steps (docs/proofs/discrete-laplace.md). With one step it is randomized response's.
    """
    r = math.exp(-rate)
    half, odds, span = 1 / (1 + r), -math.expm1(-rate) / (1 + r), rate * steps

    def at(order: float) -> float:
        b = half + odds / math.expm1((1 - 2 * order) * rate) if rate else 0.0
        return _two_points(1 - b, b, (order - 1) * span, -order * span, order)

    return at


def gaussian(sigma_squared: float) -> Curve:
    """Gaussian noise of this variance, one unit of l2 norm apart."""
    half = 0.5 / sigma_squared
    return lambda order: order * half


def bounded_range(epsilon: float) -> Curve:
    """A mechanism whose log-likelihood ratio stays in some interval of length ε (docs/proofs/events.md).

    The worst interval is [t − ε, t] with e^t = (α − 1)(1 − e^−αε) / (α·(e^−ε − e^−αε)). The sum cancels
    for small ε, which the pad covers; there αε²/8 is as good.
    """

    one, pad = -math.expm1(-epsilon), 2.0**-45 * (1 + epsilon)

    def at(order: float) -> float:
        less = order - 1
        whole, part = -math.expm1(-order * epsilon), -math.expm1(-less * epsilon)
        t = epsilon + math.log(less * whole / (order * part))
        exact = t + math.log(whole / (one * order)) / less
        return min(order * epsilon * epsilon / 8, exact + pad * (1 + 1 / less))

    return at if epsilon else lambda order: 0.0


def bounded_ratio(low: float, high: float) -> Curve:
    """A pair whose log-likelihood ratio stays in [low, high], the worse of its two directions."""

    def at(order: float) -> float:
        return max(_chord(low, high, order), _chord(-high, -low, order))

    return at


def _chord(low: float, high: float, order: float) -> float:
    """The divergence of the pair with these two log ratios only: x^α lies below its chord."""
    if high == low:
        return 0.0
    weight = math.expm1(low) / math.expm1(low - high)
    return _two_points(weight, 1 - weight, (order - 1) * high, (order - 1) * low, order)


def _two_points(a: float, b: float, up: float, down: float, order: float) -> float:
    """log(a·e^up + b·e^down) / (order − 1) where a + b = 1 and up ≥ 0 ≥ down."""
    if up < 1:
        return math.log1p(a * math.expm1(up) + b * math.expm1(down)) / (order - 1)
    tail = b / a * math.exp(down - up)
    return (math.log(a) + up + math.log1p(tail)) / (order - 1)
