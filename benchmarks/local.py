"""Local reports: measured against expected error, and reports a second.

    python benchmarks/local.py [--plot docs/images/local.svg]

People's values follow Zipf's law over the list. Means are compared at their worst truth.
"""

from __future__ import annotations

import argparse
import math
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from pathlib import Path

import numpy as np

from sfumato.local import (
    MeanResponse,
    RandomizedResponse,
    SubsetResponse,
)
from sfumato.local.means import worst_variance

PEOPLE = 20_000
EPSILONS = (0.5, 1, 2, 3, 4)


def zipf(values: int, people: int) -> np.ndarray:  # type: ignore[type-arg]
    """Values of people, the v-th most frequent with a chance proportional to 1/v."""
    rng = np.random.default_rng(7)
    ends = np.cumsum(1 / np.arange(1, values + 1))
    return np.searchsorted(ends, rng.random(people) * ends[-1])


def subsets() -> None:
    print("| values | ε | in a report | error, measured / expected | randomized response | reports/s |")
    print("|---|---|---|---|---|---|")
    for values in (16, 256, 4096):
        truths = zipf(values, PEOPLE)
        shares = np.bincount(truths, minlength=values) / PEOPLE
        for epsilon in EPSILONS:
            response = SubsetResponse(epsilon, values)
            errors, speeds = [], []
            for _ in range(5):
                start = time.process_time()
                reports = response.privatize(truths)
                speeds.append(PEOPLE / (time.process_time() - start))
                errors.append(((np.array(response.estimate(reports).shares) - shares) ** 2).mean())
            expected = response.expected_error(PEOPLE)
            one = RandomizedResponse(epsilon, values)
            lie, truth = float(one.lie), float(one.truth)
            plain = math.sqrt(lie * (1 - lie) / PEOPLE) / (truth - lie)
            print(
                f"| {values:,} | {epsilon} | {response.size:,} | "
                f"{math.sqrt(np.mean(errors)):.4f} / {expected:.4f} | "
                f"{plain:.4f} | {max(speeds):,.0f} |",
                flush=True,
            )


def means() -> None:
    for epsilon in EPSILONS:
        mechanism, odds, root = MeanResponse(epsilon, -1, 1), math.exp(epsilon), math.exp(epsilon / 2)
        worst = 4 * worst_variance(mechanism.positions, mechanism.window, float(mechanism.odds))
        duchi = ((odds + 1) / (odds - 1)) ** 2
        piecewise = 1 / (root - 1) + (root + 3) / (3 * (root - 1) ** 2)
        print(
            f"mean, epsilon {epsilon}: worst variance {worst:.4g} with {mechanism.bits} bits, "
            f"Duchi {duchi:.4g}, piecewise {piecewise:.4g}"
        )


def draw(file: Path) -> None:
    """A survey over a thousand values, its largest shares with their intervals."""
    response = SubsetResponse(3, 1000)
    response.estimate(response.privatize(zipf(1000, 50_000))).plot().save(file)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    if arguments.plot:
        draw(arguments.plot)
        return
    subsets()
    means()


if __name__ == "__main__":
    main()
