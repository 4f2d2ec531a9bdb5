"""Integer noise of sfumato, opendp and diffprivlib beside NumPy's generator: CPU time a sample, in one run.

`make bench` runs it in an environment of its own. opendp takes and gives Python lists, and diffprivlib one
number at a time; that is how they are called, so it counts.
"""

from __future__ import annotations

import time
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import opendp.prelude as dp
from diffprivlib.mechanisms import GaussianDiscrete, Geometric

from sfumato.noise import GaussianNoise, LaplaceNoise

if TYPE_CHECKING:
    from collections.abc import Callable

SCALES = (1, 10, 1000)
ROUNDS = 3
dp.enable_features("contrib")


def opendp_noise(kind: str, scale: float, count: int) -> Callable[[], Any]:
    domain, zeros = dp.vector_domain(dp.atom_domain(T=int)), [0] * count
    if kind == "laplace":
        mechanism = dp.m.make_laplace(domain, dp.l1_distance(T=int), scale=scale)
    else:
        mechanism = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)
    return lambda: mechanism(zeros)


def diffprivlib_noise(kind: str, scale: float, count: int) -> Callable[[], Any]:
    """Geometric noise of this scale; for the Gaussian an ε of at most 1 with about this σ at δ = 1e-5."""
    if kind == "laplace":
        mechanism = Geometric(epsilon=1 / scale, sensitivity=1)
    else:
        mechanism = GaussianDiscrete(epsilon=min(1.0, 3.73 / scale), delta=1e-5, sensitivity=1)
    return lambda: [mechanism.randomise(0) for _ in range(count)]


def ours(kind: str, scale: float, count: int) -> Callable[[], Any]:
    noise = (LaplaceNoise if kind == "laplace" else GaussianNoise)(Fraction(scale))
    exact = np.zeros(count, dtype=np.int64)
    noise.release(exact[:1])
    return lambda: noise.release(exact)


def numpys(kind: str, scale: float, count: int) -> Callable[[], Any]:
    draw = getattr(np.random.default_rng(), kind.replace("gaussian", "normal"))
    return lambda: draw(0, scale, count)


LIBRARIES: dict[str, tuple[Callable[[str, float, int], Callable[[], Any]], int]] = {
    "numpy": (numpys, 10**6),
    "sfumato": (ours, 10**6),
    "opendp": (opendp_noise, 20_000),
    "diffprivlib": (diffprivlib_noise, 500),
}


def nanoseconds(work: Callable[[], Any], count: int) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) / count * 1e9


def main() -> None:
    print(f"{'ns a sample, CPU':<20}" + "".join(f"{name:>14}" for name in LIBRARIES))
    for kind in ("laplace", "gaussian"):
        for scale in SCALES:
            made = {
                name: (make(kind, float(scale), count), count) for name, (make, count) in LIBRARIES.items()
            }
            turns = [
                {name: nanoseconds(work, count) for name, (work, count) in made.items()}
                for _ in range(ROUNDS)
            ]
            best = {name: min(turn[name] for turn in turns) for name in made}
            print(f"{kind + ' ' + str(scale):<20}" + "".join(f"{each:>14,.1f}" for each in best.values()))


if __name__ == "__main__":
    main()
