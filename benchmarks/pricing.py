"""How long the price of one event takes, in CPU time, and how much of a budget new accounts admit.

The aim is 75 µs for simple events.

python benchmarks/pricing.py [repetitions]
"""

from __future__ import annotations

import sys
import time
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.privacy import (
    ORDERS,
    ApproxDP,
    Budget,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    Pure,
    RandomizedAnswer,
    Sampled,
    ThresholdedKeys,
    caps,
    price,
)
from sfumato.privacy.account import NAT
from sfumato.privacy.gaussian_costs import find_capacity

if TYPE_CHECKING:
    from collections.abc import Callable

AIM = 75.0
SIMPLE: list[Callable[[Fraction], Event]] = [
    Pure,
    Laplace,
    lambda size: DiscreteLaplace(size, 20),
    Gaussian,
    Exponential,
    lambda size: RandomizedAnswer(size, 5),
    lambda size: ApproxDP(size, Fraction(1, 10**9)),
    lambda size: ThresholdedKeys(size, Fraction(1, 10**9)),
]


def microseconds(make: Callable[[Fraction], Event], repetitions: int) -> float:
    """Of making an event no one has made before, and pricing it: the best of five rounds."""
    rounds = []
    for attempt in range(5):
        sizes = [1 + Fraction(attempt * repetitions + number, 10**9) for number in range(repetitions)]
        start = time.process_time()
        for size in sizes:
            price(make(size))
        rounds.append((time.process_time() - start) / repetitions)
    return 1e6 * min(rounds)


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    for make in SIMPLE:
        spent = microseconds(make, repetitions)
        print(f"{make(Fraction(1)).tag:20} {spent:7.1f} µs  {'' if spent <= AIM else 'above the aim'}")
    sampled = microseconds(lambda size: Sampled(Gaussian(size), Fraction(1, 100)), repetitions // 200)
    print(f"{'sampled gaussian':20} {sampled:7.0f} µs")
    for epsilon, delta in ((4, 1e-7), (1, 1e-6), (0.1, 1e-6), (0.01, 1e-6)):
        print(describe_admitted(Budget(epsilon, delta)))


def describe_admitted(budget: Budget) -> str:
    """Return how much Gaussian noise a budget admits, of what a run fixed in advance could use up."""
    limits, exact = caps(budget), find_capacity(budget.epsilon, budget.delta)
    orders = max(2 * cap / NAT / order for order, cap in zip(ORDERS, limits.renyi, strict=True))
    gaussian = 0.0 if limits.gaussian is None else limits.gaussian.most / NAT
    parts = f"{max(0.0, orders) / exact:.2f} by a Rényi order, {gaussian / exact:.2f} by Gaussian DP"
    return f"{budget!r} admits, of an exact run with the whole δ: {parts}"


if __name__ == "__main__":
    main()
