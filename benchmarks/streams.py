"""Running counts over 2^20 ticks at equal price: squared errors beside other ways, and ticks a second.

    python benchmarks/streams.py [bits]

The binary tree, Honaker's estimator from below and the square-root factorisation are computed here from their
definitions; the lower bound for the mean is the nuclear norm of the running sum, squared, over n.
"""

from __future__ import annotations

import sys
import time
from fractions import Fraction

import numpy as np

from sfumato.noise.continual.running_sums import RunningSums


def tree(bits: int) -> tuple[float, float]:
    """Mean and largest variance of a binary tree of bits + 1 levels: one node for each 1 in the tick."""
    ones = np.array([int(tick).bit_count() for tick in range(1, 2**bits + 1)])
    return (bits + 1) * float(ones.mean()), (bits + 1) * float(ones.max())


def honaker(bits: int) -> tuple[float, float]:
    """The same with every node improved by the nodes below it: variance 1/(2 − 2^−level) a node."""
    levels = np.array([1 / (2 - 2.0**-level) for level in range(bits + 1)])
    ticks = np.arange(1, 2**bits + 1)
    sums = sum(levels[level] * (ticks >> level & 1) for level in range(bits + 1))
    return (bits + 1) * float(np.mean(sums)), (bits + 1) * float(np.max(sums))


def square_root(ticks: int) -> tuple[float, float]:
    """Toeplitz, with the coefficients of 1/√(1 − x) in both factors."""
    ages = np.arange(1, ticks)
    squares = np.concatenate([[1.0], np.cumprod((2 * ages - 1) / (2 * ages))]) ** 2
    sums = np.cumsum(squares)
    return float(sums[-1] * sums.mean()), float(sums[-1] ** 2)


def lower_bound(ticks: int) -> float:
    """No factorisation has a smaller mean. Singular values of A are 1/(2·sin((2k − 1)π/(4n + 2)))."""
    places = np.arange(1, ticks + 1)
    nuclear = float((1 / (2 * np.sin((2 * places - 1) * np.pi / (4 * ticks + 2)))).sum())
    return (nuclear / ticks) ** 2


def main() -> None:
    bits = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    ticks = 2**bits
    start = time.process_time()
    known = RunningSums(Fraction(1), ticks)
    known.grid  # noqa: B018  plans the factor
    planning = time.process_time() - start
    variances = known.variances(np.arange(1, ticks + 1))
    endless = RunningSums(Fraction(1)).variances([ticks])[0]
    rows = [
        ("binary tree", *tree(bits)),
        ("Honaker from below", *honaker(bits)),
        ("square root", *square_root(ticks)),
        ("ours, known horizon", float(variances.mean()), float(variances.max())),
        ("ours, unknown horizon", float("nan"), float(endless)),
        ("lower bound", lower_bound(ticks), float("nan")),
    ]
    for name, mean, most in rows:
        print(f"{name:24} mean {mean:8.3f}  largest {most:8.3f}  mean/tree {mean / rows[0][1]:.4f}")
    counts = np.ones(ticks, dtype=np.int64)
    best = min(_seconds(known, counts) for _ in range(3))
    state = len(known.factor.poles)
    print(f"{state} numbers of state, planned in {planning:.2f} CPU s, {ticks / best:,.0f} ticks/s")


def _seconds(mechanism: RunningSums, counts: np.ndarray) -> float:  # type: ignore[type-arg]
    start = time.process_time()
    mechanism.release(counts)
    return time.process_time() - start


if __name__ == "__main__":
    main()
