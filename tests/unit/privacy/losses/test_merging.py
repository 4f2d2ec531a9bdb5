"""Lower bounds by merging: dominated at every ε, on the grid, and close."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from sfumato.privacy.losses.convolution import ComposedLosses
from sfumato.privacy.losses.merging import merge_noise, merge_outcomes

STEP = 1e-3


@pytest.mark.parametrize("seed", range(20))
def test_merged_outcomes_are_dominated(seed: int) -> None:
    """Against exact sums of fractions, for random pairs of laws, at the grid points and between them."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 40))
    p, q = rng.dirichlet(np.full(count, 0.5)), rng.dirichlet(np.full(count, 0.5))
    order = np.argsort(p / q)
    p, q = p[order], q[order]
    merged = merge_outcomes(p, q, STEP)
    found = ComposedLosses([(merged, 1)], lower=True)
    at = np.unique(np.concatenate([np.log(p / q), np.log(p / q) - 1e-9, rng.uniform(-8, 8, 30)]))
    for epsilon, low in zip(at, found.delta(at), strict=True):
        ratio = Fraction(math.exp(epsilon) * (1 - 2.0**-45))
        truth = sum(max(Fraction(0), Fraction(a) - ratio * Fraction(b)) for a, b in zip(p, q, strict=True))
        assert Fraction(float(low)) <= truth
    assert float(np.sum(merged.masses)) <= 1


@pytest.mark.parametrize("way", ["REMOVE", "ADD"])
@pytest.mark.parametrize(("scale", "rate"), [(1.0, 0.01), (0.6, 0.3), (5.0, 1.0)])
def test_merged_gaussian_cells_are_dominated(way: str, scale: float, rate: float) -> None:
    """Against the profile in 40 digits; rounding down would miss it by half a step."""
    merged = merge_noise("Gaussian", scale, rate, STEP / 10, way)
    at = np.linspace(-0.5, 2.0, 41) if rate < 1 else np.linspace(-0.9, 0.9, 41)
    low = ComposedLosses([(merged, 1)], lower=True).delta(at)
    for epsilon, found in zip(at, low, strict=True):
        truth = sampled_profile(scale, rate, float(epsilon), way)
        assert mp.mpf(float(found)) <= truth
        assert truth - mp.mpf(float(found)) < STEP / 500


def sampled_profile(sigma: float, rate: float, epsilon: float, way: str) -> mp.mpf:
    """P(S) − e^ε·Q(S) for the set S on which the first law is more than e^ε times the second."""
    with mp.workdps(40):
        s, q, ratio = mp.mpf(sigma), mp.mpf(rate), mp.e ** mp.mpf(epsilon)

        def mixed(x: mp.mpf, side: int) -> mp.mpf:
            return (1 - q) * mp.ncdf(-side * x / s) + q * mp.ncdf(side * (1 - x) / s)

        odds = ((ratio if way == "REMOVE" else 1 / ratio) - 1 + q) / q
        if odds <= 0:
            return 1 - ratio if way == "REMOVE" else mp.mpf(0)
        cut = mp.mpf(1) / 2 + s * s * mp.log(odds)
        if way == "REMOVE":
            return mixed(cut, 1) - ratio * mp.ncdf(-cut / s)
        return mp.ncdf(cut / s) - ratio * mixed(cut, -1)


def test_noise_too_small_for_cells_has_the_bound_of_nothing() -> None:
    merged = merge_noise("Gaussian", 1e-3, 0.5, STEP, "REMOVE")
    assert ComposedLosses([(merged, 1)], lower=True).delta(np.array([0.0, 1.0])).tolist() == [0.0, 0.0]
