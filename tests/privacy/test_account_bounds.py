"""The account never says less than is true: random compositions against lower bounds by other means."""

from fractions import Fraction

import numpy as np
import pytest

from sfumato.privacy import (
    NOTHING,
    ApproxDP,
    Budget,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    Pure,
    Repeated,
    Sampled,
    Sequential,
    caps,
    epsilon,
    price,
)


def _event(rng: np.random.Generator) -> Event:
    size = float(rng.uniform(1, 30))
    kinds = (
        lambda: Gaussian(size),
        lambda: Laplace(size),
        lambda: Pure(1 / size),
        lambda: Exponential(2 / size),
        lambda: DiscreteLaplace(round(size * 4), int(rng.integers(1, 9))),
        lambda: ApproxDP(1 / size, Fraction(int(rng.integers(1, 50)), 10**8)),
        lambda: Sampled(Gaussian(max(0.6, size / 8)), round(float(rng.uniform(0.01, 0.5)), 3)),
    )
    return kinds[rng.integers(len(kinds))]()


def _composition(rng: np.random.Generator) -> Event:
    return Sequential(Repeated(_event(rng), int(rng.integers(1, 40))) for _ in range(rng.integers(1, 5)))


def _check(seed: int, runs: int) -> None:
    """A budget a hair below the lower bound must not admit the composition, at several δ."""
    rng = np.random.default_rng(seed)
    for _ in range(runs):
        run, delta = _composition(rng), float(rng.choice([1e-3, 1e-5, 1e-7]))
        below = epsilon(run, delta, lower=True, step=1e-3) * (1 - 1e-9)
        if 0 < below < float("inf"):
            assert not caps(Budget(below, delta)).admits(NOTHING, price(run)), run


def test_random_compositions() -> None:
    _check(seed=1, runs=100)


@pytest.mark.slow
def test_a_thousand_random_compositions() -> None:
    _check(seed=2, runs=1000)


@pytest.mark.parametrize(
    "run", [Gaussian(3), Repeated(Laplace(20), 50), Repeated(Sampled(Gaussian(1), 0.02), 300)]
)
def test_the_account_is_not_far_from_the_truth(run: Event) -> None:
    """What a fixed run needs is admitted by a budget half again as large, so the test above can fail."""
    needed = epsilon(run, 1e-5)
    assert caps(Budget(1.6 * needed, 1e-5)).admits(NOTHING, price(run))
