"""Local reports: squared error beside the optimum, bits of a report, reports a second, seconds to decode.

    python benchmarks/local.py [--plot docs/images/local.svg]

People's values follow Zipf's law over the domain. The optimum is the expected squared error of subset
selection at its best size. Means are compared at their worst truth, and shuffled reports at δ = 1e-6.
"""

from __future__ import annotations

import argparse
import math
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from pathlib import Path

import numpy as np

from sfumato import viz
from sfumato.local import (
    HadamardBit,
    HeavyHitters,
    MeanResponse,
    RandomizedResponse,
    Shuffled,
    SubsetResponse,
)
from sfumato.local.designs import find_members, least_squared_error
from sfumato.local.means import worst_variance

PEOPLE = 1_000_000
EPSILONS = (0.5, 1, 2, 3, 4, 5)


def zipf(values: int, people: int) -> np.ndarray:  # type: ignore[type-arg]
    """Values of people, the v-th most frequent with a chance proportional to 1/v."""
    rng = np.random.default_rng(7)
    ends = np.cumsum(1 / np.arange(1, values + 1))
    return np.searchsorted(ends, rng.random(people) * ends[-1])


def subsets() -> None:
    print("values  epsilon  bits  squared error / optimum  reports/s   decode s")
    for bits in (10, 20):
        truths = zipf(2**bits, PEOPLE)
        shares = np.bincount(truths, minlength=2**bits) / PEOPLE
        for epsilon in EPSILONS:
            response = SubsetResponse(epsilon, 2**bits)
            optimum = least_squared_error(2**bits, float(response.odds)) / PEOPLE
            find_members(response.design.places)  # once for a question
            errors, speeds, decodes = [], [], []
            for _ in range(20 if bits == 10 else 2):
                start = time.process_time()
                reports = response.privatize(truths)
                told = time.process_time()
                found = response.estimate(reports)
                decodes.append(time.process_time() - told)
                speeds.append(PEOPLE / (told - start))
                errors.append(((found.shares - shares) ** 2).mean())
            ratio = float(np.mean(errors)) / optimum
            print(
                f"2^{bits:<5} {epsilon:<8} {response.bits:<5} {ratio:<24.3f} {max(speeds):<11,.0f} "
                f"{max(decodes):.2f}",
                flush=True,
            )


def one_bit() -> None:
    values = 2**20
    truths = zipf(values, PEOPLE)
    for epsilon in (0.1, 0.5, 1):
        mechanism = HadamardBit(epsilon, values)
        start = time.process_time()
        rows = mechanism.assign_rows(PEOPLE)
        bits = mechanism.privatize(truths, rows)
        told = time.process_time()
        found = mechanism.estimate(bits, rows)
        decode = time.process_time() - told
        shares = np.bincount(truths, minlength=values) / PEOPLE
        optimum = least_squared_error(values, float(mechanism.odds)) / PEOPLE
        ratio = float(((found.shares - shares) ** 2).mean()) / optimum
        print(
            f"one bit, 2^20 values, epsilon {epsilon}: {ratio:.3f} of the optimum, "
            f"{PEOPLE / (told - start):,.0f} reports/s, decoded in {decode:.2f} s"
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


def hitters() -> None:
    rng = np.random.default_rng(8)
    for bits in (20, 32, 48):
        mechanism = HeavyHitters(3, bits)
        codes = rng.integers(0, 2**bits, PEOPLE)
        planted = rng.integers(0, 2**bits, 20)
        codes[: 20 * 10_000] = np.repeat(planted, 10_000)
        start = time.process_time()
        levels, reports = mechanism.privatize(codes)
        told = time.process_time()
        found = mechanism.find(levels, reports)
        seconds = time.process_time() - told
        right = np.isin(found.codes, planted).sum()
        print(
            f"heavy hitters, 2^{bits} values, epsilon 3: {right} of 20 values of 1 % each found, "
            f"{found.codes.size - right} others, {PEOPLE / (told - start):,.0f} reports/s, "
            f"found in {seconds:.2f} s"
        )


def shuffled() -> None:
    cases = [
        (RandomizedResponse(math.log(3)), 10_000),
        (RandomizedResponse(2, 10), 10_000),
        (RandomizedResponse(4, 16), 1_000_000),
        (SubsetResponse(2, 1000), 10_000),
        (MeanResponse(2, 0, 1), 10_000),
    ]
    for mechanism, people in cases:
        start = time.process_time()
        low, high = Shuffled(mechanism, people).epsilon(1e-6)
        print(
            f"shuffled, {type(mechanism).__name__} epsilon {float(mechanism.epsilon):.4g}, {people:,} "
            f"people: epsilon {low:.5f} to {high:.5f} in {time.process_time() - start:.1f} s"
        )


def draw(file: Path) -> None:
    """A survey over a million values, its largest shares with their intervals."""
    response = SubsetResponse(3, 2**20)
    found = response.estimate(response.privatize(zipf(2**20, PEOPLE)))
    values = found.top(12)
    low, high = found.interval(0.95, of=values)
    title = "Largest of 2^20 shares, from a million reports at epsilon 3"
    viz.bars(values.tolist(), found.shares[values], low, high, title=title, x="value", y="share").save(file)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    if arguments.plot:
        draw(arguments.plot)
        return
    subsets()
    one_bit()
    means()
    hitters()
    shuffled()


if __name__ == "__main__":
    main()
