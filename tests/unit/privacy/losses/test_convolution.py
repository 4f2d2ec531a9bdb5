"""What certifies numeric composition: errors of transforms, convolutions and profiles stay in bounds."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_mechanism as library
from scipy.fft import rfft

from sfumato.privacy.losses import convolution
from sfumato.privacy.losses.atoms import discrete_laplace
from sfumato.privacy.losses.convolution import ComposedLosses
from sfumato.privacy.losses.masses import LossMasses, connect_dots, profile_error
from sfumato.privacy.losses.merging import merge_atoms

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEP = 1e-3


@pytest.mark.parametrize("levels", [4, 10])
@pytest.mark.parametrize("shape", ["spread", "one", "steep"])
def test_a_transform_errs_by_less_than_is_allowed(levels: int, shape: str) -> None:
    """Against sums in 40 digits, at some of its frequencies."""
    size = 1 << levels
    rng = np.random.default_rng(levels)
    weights = {
        "spread": rng.random(size),
        "one": np.eye(1, size, size // 3)[0],
        "steep": np.exp(-0.05 * np.arange(size)),
    }[shape]
    weights /= weights.sum()
    found, allowed = rfft(weights), convolution._LEVEL * levels
    with mp.workdps(40):
        for frequency in rng.integers(0, size // 2 + 1, 4):
            turns = [mp.expjpi(-2 * mp.mpf(int(frequency) * j % size) / size) for j in range(size)]
            truth = mp.fdot(zip(map(mp.mpf, weights), turns, strict=True))
            assert abs(mp.mpc(found[frequency]) - truth) <= allowed


@pytest.mark.parametrize("tilt", [0.0, 3.0])
@pytest.mark.parametrize("times", [1, 6])
def test_a_convolution_errs_by_less_than_is_said(tilt: float, times: int) -> None:
    """Against products of polynomials in whole numbers: masses are multiples of 2^−40."""
    rng = np.random.default_rng(times)
    whole = [int(n) for n in rng.integers(0, 2**40, 60)]
    scale = sum(whole)
    part = LossMasses(-20, np.array([float(Fraction(n, scale)) for n in whole]), 0.0, STEP)
    run = ComposedLosses([(part, times), (LossMasses(3, np.array([0.25, 0.75]), 0.0, STEP), 1)], lower=False)
    size = 1 << (60 * times + 2).bit_length()
    tilted, error = run._convolve(tilt, size)
    assert error < 1e-13
    exact = [Fraction(1, 4), Fraction(3, 4)]
    for _ in range(times):
        exact = product(exact, [Fraction(n, scale) for n in whole])
    first = -20 * times + 3
    with mp.workdps(40):
        losses = [mp.mpf(first + at) * STEP for at in range(len(exact))]
        weights = [
            mp.mpf(n.numerator) / n.denominator * mp.exp(tilt * loss)
            for n, loss in zip(exact, losses, strict=True)
        ]
        total = mp.fsum(weights)
        worst = max(
            abs(mp.mpf(float(found)) - weight / total) for found, weight in zip(tilted, weights, strict=False)
        )
    assert worst <= error + 2**-42


def product(one: list[Fraction], other: list[Fraction]) -> list[Fraction]:
    found = [Fraction(0)] * (len(one) + len(other) - 1)
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            found[i + j] += a * b
    return found


@pytest.mark.parametrize("way", ["ADD", "REMOVE"])
@pytest.mark.parametrize(("sigma", "rate"), [(1.0, 0.01), (0.3, 0.5), (20.0, 1.0), (0.08, 1.0)])
def test_profiles_of_noise_err_by_less_than_is_allowed(way: str, sigma: float, rate: float) -> None:
    """δ = P(S) − e^ε·Q(S) in many digits, where S is what the likelihood ratio says."""
    law = library.GaussianPrivacyLoss(sigma, sampling_prob=rate, adjacency_type=library.AdjacencyType[way])
    ends = law.connect_dots_bounds()
    at = np.linspace(ends.epsilon_lower, ends.epsilon_upper, 25)
    allowed = profile_error(float(np.abs(at).max()))
    for epsilon, found in zip(at, law.get_delta_for_epsilon(at), strict=True):
        assert abs(mp.mpf(found) - gaussian_delta(sigma, rate, way, epsilon)) <= allowed


@pytest.mark.parametrize("way", ["ADD", "REMOVE"])
@pytest.mark.parametrize(("scale", "rate"), [(1.0, 0.05), (0.02, 0.5), (30.0, 1.0)])
def test_profiles_of_laplace_noise_err_by_less_than_is_allowed(way: str, scale: float, rate: float) -> None:
    """Without sampling δ(ε) = 1 − e^((ε − 1/b)/2) within ±1/b; a mixture has a multiple of it, elsewhere."""
    law = library.LaplacePrivacyLoss(scale, sampling_prob=rate, adjacency_type=library.AdjacencyType[way])
    ends = law.connect_dots_bounds()
    at = np.linspace(ends.epsilon_lower, ends.epsilon_upper, 25)
    allowed = profile_error(float(np.abs(at).max()))
    for epsilon, found in zip(at, law.get_delta_for_epsilon(at), strict=True):
        assert abs(mp.mpf(found) - laplace_delta(scale, rate, way, epsilon)) <= allowed


def laplace_delta(scale: float, rate: float, way: str, epsilon: float) -> mp.mpf:
    with mp.workdps(140):
        q, y, reach = mp.mpf(rate), mp.e ** mp.mpf(epsilon), 1 / mp.mpf(scale)
        # (1 − q)·Q + q·P − y·Q = q·(P − z·Q), and the other way round Q − y·((1 − q)·Q + q·P) = c·(Q − z·P).
        factor = q if way == "REMOVE" else 1 - y * (1 - q)
        z = (y - 1 + q) / q if way == "REMOVE" else y * q / factor if factor > 0 else mp.mpf(0)
        if factor <= 0:
            return mp.mpf(0)
        if z <= mp.e**-reach:
            return factor * (1 - z)
        return factor * (1 - mp.exp((mp.log(z) - reach) / 2)) if z < mp.e**reach else mp.mpf(0)


def gaussian_delta(sigma: float, rate: float, way: str, epsilon: float) -> mp.mpf:
    """The pair is the mixture (1 − q)·N(0, σ²) + q·N(1, σ²) and N(0, σ²), in one order or the other."""
    with mp.workdps(140):
        s, q, ratio = mp.mpf(sigma), mp.mpf(rate), mp.e ** mp.mpf(epsilon)

        def mixed(x: mp.mpf, side: int) -> mp.mpf:
            return (1 - q) * mp.ncdf(-side * x / s) + q * mp.ncdf(side * (1 - x) / s)

        # The mixture is at least y times the plain law where x ≥ 1/2 + σ²·log((y − 1 + q)/q).
        odds = ((ratio if way == "REMOVE" else 1 / ratio) - 1 + q) / q
        if odds <= 0:
            return 1 - ratio if way == "REMOVE" else mp.mpf(0)
        cut = mp.mpf(1) / 2 + s * s * mp.log(odds)
        if way == "REMOVE":
            return mixed(cut, 1) - ratio * mp.ncdf(-cut / s)
        return mp.ncdf(cut / s) - ratio * mixed(cut, -1)


@pytest.mark.parametrize(("rate", "steps"), [(0.3, 4), (0.001, 3000), (2.0, 1)])
def test_grids_lie_above_and_below_the_profile(rate: float, steps: int) -> None:
    """Between dots as well as on them, against sums in 40 digits; composed with themselves too."""
    atoms = discrete_laplace(rate, steps)
    dots = atoms.dots(STEP)
    above = connect_dots(dots, atoms.profile(dots * STEP), STEP)
    below = merge_atoms(atoms, STEP)
    at = np.linspace(-1.2 * rate * steps, 1.2 * rate * steps, 41)
    truth = [exact_profile(rate, steps, float(epsilon)) for epsilon in at]
    high = ComposedLosses([(above, 1)], lower=False).delta(at)
    low = ComposedLosses([(below, 1)], lower=True).delta(at)
    assert all(a <= b <= c for a, b, c in zip(map(mp.mpf, low), truth, map(mp.mpf, high), strict=True))
    assert np.all(high - low < 1.1 * STEP)


def exact_profile(rate: float, steps: int, epsilon: float) -> mp.mpf:
    """P(X ≤ m) − e^ε·P(X ≤ m − steps) for the largest m whose loss (steps − 2m)·rate is above ε."""
    with mp.workdps(40):
        r, e = mp.e ** -mp.mpf(rate), mp.mpf(epsilon)
        m = min(int(mp.ceil((steps - e / mp.mpf(rate)) / 2)) - 1, steps)
        if m < 0:
            return mp.mpf(0)
        if m == steps:
            return -mp.expm1(e)
        return 1 - r ** (m + 1) / (1 + r) - mp.e**e * r ** (steps - m) / (1 + r)


def test_masses_that_are_too_wide_have_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution, "_LARGEST", 8)
    part = LossMasses(0, np.array([0.5, 0.5]), 0.0, 1.0)
    assert ComposedLosses([(part, 30)], lower=False).epsilon(1e-5) == math.inf
    assert ComposedLosses([(part, 30)], lower=True).epsilon(1e-5) == 0
    assert ones(ComposedLosses([(part, 30)], lower=False).delta(np.array([1.0])))


def ones(found: NDArray[Any]) -> bool:
    return found.tolist() == [1.0]
