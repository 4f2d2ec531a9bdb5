"""How long the price of one event takes, in CPU time. The aim is 50 µs for simple events.

python benchmarks/pricing.py [repetitions]
"""

from __future__ import annotations

import sys
import time
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.privacy import (
    ApproxDP,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    Pure,
    RandomizedAnswer,
    Sampled,
    ThresholdedKeys,
    price,
)

if TYPE_CHECKING:
    from collections.abc import Callable

AIM = 50.0
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


if __name__ == "__main__":
    main()
