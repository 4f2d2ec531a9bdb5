"""Rényi divergences in closed form: each function takes an event's parameters and returns its curve.

Every curve takes an order above 1 and is an upper bound up to the rounding of doubles: 2⁻⁴⁰ of its value or
10⁻¹² in all, whichever is more (docs/proofs/events.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable

Curve = Callable[[float], float]
"""From an order above 1 to a divergence in nats."""
NO_BOUND = 2.0**102
"""What a curve says at orders for which nothing is known. The ε of a budget is at most 2^100, so no filter of
such an order admits anything once this is charged (docs/proofs/claims.md#what-is-not-known)."""
SMOOTH = 16.0
"""Variance above which sums of a Gaussian density over shifted integers are equal but for e^−300."""


def randomized_response(epsilon: float) -> Curve:
    """Return the curve of binary randomized response, which dominates every ε-DP mechanism."""
    return discrete_laplace(epsilon, 1)


def kary_randomized_response(epsilon: float, values: int) -> Curve:
    """Return the curve of randomized response among several values.

    The moment is q·(e^αε + e^(1−α)ε + values − 2), where q = 1/(e^ε + values − 1) is the probability of each
    untrue answer.
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
    """Return the curve of continuous Laplace noise of scale 1/rate, for an l1 sensitivity of 1."""

    def at(order: float) -> float:
        width = 2 * order - 1
        return _two_points(order / width, (order - 1) / width, (order - 1) * rate, -order * rate, order)

    return at


def discrete_laplace(rate: float, steps: int) -> Curve:
    """Return the curve of integer Laplace noise of scale 1/rate, for an l1 sensitivity of `steps`.

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
    """Return the curve of Gaussian noise of this variance, for an l2 sensitivity of 1."""
    half = 0.5 / sigma_squared
    return lambda order: order * half


def log_theta(shift: float, sigma_squared: float) -> float:
    """Return log(Σ exp(−(x − shift)²/(2σ²)) / Σ exp(−x²/(2σ²))) over all integers x; never above 0."""
    part, far = shift - math.floor(shift), math.ceil(12 * math.sqrt(sigma_squared)) + 2
    reach, nearest = range(-far, far + 2), min(part, 1 - part) ** 2
    # The largest term is taken out, so that small noise does not underflow.
    moved = math.fsum(math.exp((nearest - (x - part) ** 2) / (2 * sigma_squared)) for x in reach)
    alone = math.fsum(math.exp(-(x * x) / (2 * sigma_squared)) for x in reach)
    return min(0.0, math.log(moved / alone) - nearest / (2 * sigma_squared))


def bounded_range(epsilon: float) -> Curve:
    """Return the curve of a mechanism of ε-bounded range: its log-likelihood ratio has a range of ε.

    The worst interval is [t − ε, t] with e^t = (α − 1)(1 − e^−αε) / (α·(e^−ε − e^−αε)). The sum cancels
    for small ε, which the pad covers; there αε²/8 is as good (docs/proofs/events.md).
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
    """Return the curve of a pair whose log-likelihood ratio stays in [low, high], the worse direction."""

    def at(order: float) -> float:
        return max(_chord(low, high, order), _chord(-high, -low, order))

    return at


def _chord(low: float, high: float, order: float) -> float:
    """Return the divergence of the pair that takes only these two log ratios."""
    # It is the worst one, because x^α is convex and lies below its chord.
    if high == low:
        return 0.0
    weight = math.expm1(low) / math.expm1(low - high)
    return _two_points(weight, 1 - weight, (order - 1) * high, (order - 1) * low, order)


def _two_points(a: float, b: float, up: float, down: float, order: float) -> float:
    """Return log(a·e^up + b·e^down) / (order − 1) where a + b = 1 and up ≥ 0 ≥ down."""
    # Two forms of the same number: one keeps small divergences precise, the other does not overflow.
    if up < 1:
        return math.log1p(a * math.expm1(up) + b * math.expm1(down)) / (order - 1)
    tail = b / a * math.exp(down - up)
    return (math.log(a) + up + math.log1p(tail)) / (order - 1)
