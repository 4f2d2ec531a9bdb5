"""Exact noise against NumPy's generator: processor time in one run, turn by turn, best of several.

    python benchmarks/noise.py [rounds]

NumPy's is neither exact nor made for secrets; it is the measure of what noise could cost at the least. Shaped
noise is measured against the same number of Laplace draws. The first draw is that of a fresh process, beyond
imports.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.noise import (
    GaussianNoise,
    LaplaceNoise,
    MatrixNoise,
    SimplicesNoise,
)
from sfumato.noise.additive import LARGEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.noise.bodies.shaped import JointNoise

SCALES = (1, 10, 1000, 2**20, 2**34)
DRAWS = 10**6
CELLS = 64_909


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def best(ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> tuple[float, float]:
    """The least time of each, taken in turns so that both meet the same machine."""
    ours()
    times = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
    return min(a for a, _ in times), min(b for _, b in times)


def compare(
    name: str, mechanism: LaplaceNoise | GaussianNoise, theirs: Callable[[], object], rounds: int
) -> None:
    exact = np.zeros(DRAWS, dtype=np.int64)
    first = seconds(lambda: mechanism.release(exact[:1]))
    mine, numpy = best(lambda: mechanism.release(exact), theirs, rounds)
    print(
        f"{name:<18}{mine / DRAWS * 1e9:>8.1f} ns{numpy / DRAWS * 1e9:>8.1f} ns{mine / numpy:>7.2f} x"
        f"{first * 1e3:>9.1f} ms"
    )


def cells(name: str, mechanism: LaplaceNoise | GaussianNoise, rounds: int) -> None:
    exact = np.zeros(CELLS, dtype=np.int64)
    taken = min(seconds(lambda: mechanism.release(exact)) for _ in range(10 * rounds))
    print(f"{CELLS:,} cells, {name} 10: {taken * 1e3:.2f} ms")


BODIES: dict[str, Callable[[Fraction], SimplicesNoise]] = {
    **{f"{k} columns": lambda scale, k=k: SimplicesNoise((1,) * k, scale) for k in (1, 2, 3, 8)},
    **{f"{k} nullable": lambda scale, k=k: SimplicesNoise((2,) * k, scale) for k in (1, 2, 3, 8)},
}


def weigh(noise: JointNoise, cells: int, rounds: int) -> str:
    """What shaped noise costs, in the same number of draws of Laplace noise of the same scale."""
    exact = np.zeros((noise.sums, cells), dtype=np.int64)
    # Laplace noise ends at 2^40; wider matrices are measured against that.
    plain, laplace = np.zeros(exact.size, dtype=np.int64), LaplaceNoise(min(noise.scale, LARGEST))
    times = max(1, 2000 // exact.size)

    def repeat(release: Callable[[], object]) -> Callable[[], object]:
        return lambda: [release() for _ in range(times)]

    mine, theirs = best(
        repeat(lambda: noise.release(exact)), repeat(lambda: laplace.release(plain)), max(rounds, 5)
    )
    return f"{mine / times * 1e6:>11,.0f} µs{mine / theirs:>6.2f} x"


def shapes(rounds: int) -> None:
    """Bodies of questions, from one cell to 100,000, and matrices of regressions."""
    sizes = (1, 10, 1000, 100_000)
    print(f"{'beside Laplace':<20}{'scale':>8}" + "".join(f"{cells:>14,} cells" for cells in sizes))
    for scale, (name, make) in itertools.product((1, 10, 1000, 2**20, 2**32), BODIES.items()):
        found = [weigh(make(Fraction(scale)), cells, rounds) for cells in sizes]
        print(f"{name:<20}{_short(scale):>8}" + "".join(found))
    for scale, size in itertools.product((1, 10, 1000, 2**26, 2**39, 2**50), (1, 2, 3, 12, 52)):
        found = [weigh(MatrixNoise(size, Fraction(scale)), cells, rounds) for cells in (1, 10)]
        print(f"{f'matrix of {size}':<20}{_short(scale):>8}" + "".join(found))


def _short(scale: int) -> str:
    return f"2^{scale.bit_length() - 1}" if scale >= 2**20 else str(scale)


FIRST = """
import time, numpy as np, sfumato as sf
noise = sf.noise.{made}
zeros = np.zeros(getattr(noise, "sums", 1), dtype=np.int64)
start = time.process_time()
noise.release(zeros)
first = time.process_time() - start
for _ in range(100):
    noise.release(zeros)
start = time.process_time()
for _ in range(5000):
    noise.release(zeros)
print(first * 1e3, (time.process_time() - start) / 5000 * 1e6)
"""


def singles() -> None:
    """The first draw of a fresh process, and one draw after another."""
    kinds = ("LaplaceNoise({})", "GaussianNoise({})", "MatrixNoise(1, {})", "MatrixNoise(12, {})")
    for made in (kind.format(scale) for kind, scale in itertools.product(kinds, (30, 10**6))):
        code = FIRST.format(made=made)
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        first, each = map(float, run.stdout.split())
        print(f"{made}: first {first:.2f} ms, then {each:.1f} µs each")


def main(rounds: int = 7) -> None:
    rng = np.random.default_rng()
    GaussianNoise(Fraction(3)).release(np.zeros(1, dtype=np.int64))  # what all σ share is made once
    print(f"{'':<18}{'exact':>11}{'numpy':>11}{'ratio':>9}{'first draw':>12}")
    for scale in SCALES:
        name = f"laplace {_short(scale)}"
        compare(name, LaplaceNoise(Fraction(scale)), lambda s=scale: rng.laplace(0, s, DRAWS), rounds)
    for scale in SCALES:
        name = f"gaussian {_short(scale)}"
        compare(name, GaussianNoise(Fraction(scale)), lambda s=scale: rng.normal(0, s, DRAWS), rounds)
    cells("laplace", LaplaceNoise(Fraction(10)), rounds)
    cells("gaussian", GaussianNoise(Fraction(10)), rounds)
    shapes(rounds)
    singles()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
