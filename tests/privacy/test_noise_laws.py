"""The noise drawn against the law it claims, by Pearson's statistic over bins and over residues.

Every bin expects at least 100 draws, where the statistic's own tail is close to that of its limit. Each test
fails without cause with probability about 1e-8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import chi2

from sfumato.noise import GaussianNoise, LaplaceNoise
from sfumato.noise.sampling.bits import OS
from sfumato.noise.sampling.gaussian_wide import draw_in_cell
from sfumato.noise.sampling.normal import magnitude_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

FALSE_ALARM = 1e-10
BINS = 400
MODULI = [2, 3, 10, 32, 1000]
SCALES = [
    Fraction(1, 1000), Fraction(1, 5), Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(5), Fraction(10),
    Fraction(100, 3), Fraction(64), Fraction(65), Fraction(100), Fraction(255), Fraction(1000),
    Fraction(4096), Fraction(10**5, 7), Fraction(10**6), Fraction(2**20), Fraction(2**26 - 1),
    Fraction(10**9, 3), Fraction(2**34), Fraction(2**40 + 7, 3), Fraction(2**40), Fraction(2**42),
]  # fmt: skip


SIGMAS = [
    Fraction(1, 1000), Fraction(1, 5), Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(5), Fraction(10),
    Fraction(100, 3), Fraction(64), Fraction(100), Fraction(512), Fraction(1000), Fraction(1024),
    Fraction(1025), Fraction(4096), Fraction(10**5, 7), Fraction(10**6), Fraction(2**20), Fraction(2**26 - 1),
    Fraction(10**9, 3), Fraction(2**34), Fraction(2**40 + 7, 3), Fraction(2**40), Fraction(2**42),
]  # fmt: skip


@dataclass(frozen=True)
class LaplaceLaw:
    """Integer Laplace noise in doubles, good to about 1e-15."""

    scale: Fraction

    def draw(self, count: int) -> NDArray[np.int64]:
        drawn = LaplaceNoise(self.scale).release(np.zeros(count, dtype=np.int64))
        assert drawn.dtype == np.int64
        return drawn

    def edges(self) -> NDArray[np.int64]:
        shares = np.arange(1, BINS // 2) * 2 / BINS
        half = np.unique(np.ceil(-float(self.scale) * np.log(shares))).astype(np.int64)
        return np.unique(np.concatenate([1 - half, half]))

    def below(self, k: NDArray[np.int64]) -> NDArray[np.float64]:
        """P(X < k)."""
        rate = float(1 / self.scale)
        tail = np.exp(-rate * np.where(k > 0, k, 1 - k)) / (1 + math.exp(-rate))
        return np.where(k > 0, 1 - tail, tail)

    def residues(self, modulus: int) -> NDArray[np.float64]:
        """P(X mod m = j), which is the sum of two geometric series for every j."""
        rate, j = float(1 / self.scale), np.arange(modulus)
        series = np.exp(-rate * j) + np.exp(-rate * (modulus - j))
        return series * -math.expm1(-rate) / ((1 + math.exp(-rate)) * -math.expm1(-rate * modulus))


@dataclass(frozen=True)
class GaussianLaw:
    """The whole number nearest to σ · Z, in doubles."""

    sigma: Fraction

    def draw(self, count: int) -> NDArray[np.int64]:
        drawn = GaussianNoise(self.sigma).release(np.zeros(count, dtype=np.int64))
        assert drawn.dtype == np.int64
        return drawn

    def edges(self) -> NDArray[np.int64]:
        return np.unique(np.rint(float(self.sigma) * ndtri(np.arange(1, BINS) / BINS))).astype(np.int64)

    def below(self, k: NDArray[np.int64]) -> NDArray[np.float64]:
        return ndtr((k - 0.5) / float(self.sigma))

    def residues(self, modulus: int) -> NDArray[np.float64]:
        """Summed over all integers of note; for σ far above the modulus all are alike to within 1e-100."""
        if self.sigma > 10 * modulus:
            return np.full(modulus, 1 / modulus)
        reach = modulus * math.ceil(10 * self.sigma / modulus + 1)
        chances = np.diff(self.below(np.arange(-reach, reach + 1)))
        return chances.reshape(-1, modulus).sum(axis=0)


def joined(counts: NDArray[np.int64], expected: NDArray[np.float64]) -> tuple[list[float], list[float]]:
    """Neighbouring bins put together until each expects 100."""
    seen, due = [0.0], [0.0]
    for count, chance in zip(counts, expected, strict=True):
        seen[-1], due[-1] = seen[-1] + count, due[-1] + chance
        if due[-1] >= 100:
            seen, due = [*seen, 0.0], [*due, 0.0]
    return [*seen[:-2], seen[-2] + seen[-1]], [*due[:-2], due[-2] + due[-1]]


def pearson(counts: NDArray[np.int64], chances: NDArray[np.float64]) -> float:
    """The p-value of these counts."""
    assert chances.sum() == pytest.approx(1, abs=1e-9)
    seen, due = map(np.array, joined(counts, chances * counts.sum()))
    statistic = float(((seen - due) ** 2 / due).sum())
    return float(chi2.sf(statistic, len(due) - 1)) if len(due) > 1 else 1.0


def check(law: LaplaceLaw | GaussianLaw, count: int, repeats: int) -> None:
    edges, moduli = law.edges(), [np.zeros(m, dtype=np.int64) for m in MODULI]
    bins = np.zeros(len(edges) + 1, dtype=np.int64)
    for _ in range(repeats):
        drawn = law.draw(count)
        bins += np.bincount(np.searchsorted(edges, drawn, side="right"), minlength=len(bins))
        for seen in moduli:
            seen += np.bincount(drawn % len(seen), minlength=len(seen))
    chances = np.diff(law.below(edges), prepend=0, append=1)
    found = [pearson(bins, chances), *(pearson(seen, law.residues(len(seen))) for seen in moduli)]
    assert min(found) * len(found) > FALSE_ALARM, found


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_laplace_noise_has_its_law(scale: Fraction) -> None:
    check(LaplaceLaw(scale), 200_000, 1)
    check(LaplaceLaw(scale), 10_000, 5)  # few draws come from smaller tables


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_laplace_noise_has_its_law_in_ten_million_draws(scale: Fraction) -> None:
    check(LaplaceLaw(scale), 1_000_000, 10)
    check(LaplaceLaw(scale), 10_000, 1000)


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
def test_gaussian_noise_has_its_law(sigma: Fraction) -> None:
    check(GaussianLaw(sigma), 200_000, 1)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
def test_gaussian_noise_has_its_law_in_ten_million_draws(sigma: Fraction) -> None:
    check(GaussianLaw(sigma), 1_000_000, 10)


def test_wide_noise_drawn_one_by_one_has_its_law() -> None:
    """The exact path of large σ, which chance alone would hardly ever take."""

    class OneByOne(GaussianLaw):
        def draw(self, count: int) -> NDArray[np.int64]:
            cells = magnitude_table().draw(count, OS).tolist()
            return np.array([draw_in_cell(cell, self.sigma, OS) for cell in cells])

    check(OneByOne(Fraction(10**6)), 20_000, 1)


def check_mean(drawn: NDArray[np.int64], expected: float, second: float) -> None:
    """Of |noise|, to six standard errors: 2e-9 by the normal law."""
    error = math.sqrt((second - expected**2) / len(drawn))
    assert abs(np.abs(drawn).mean(dtype=float) - expected) < 6 * error


@pytest.mark.parametrize("scale", SCALES[1:], ids=str)
def test_mean_laplace_error_is_as_promised(scale: Fraction) -> None:
    """|noise| has second moment 2r / (1 − r)²."""
    rate = float(1 / scale)
    second = 2 * math.exp(-rate) / math.expm1(-rate) ** 2
    check_mean(LaplaceLaw(scale).draw(400_000), LaplaceNoise(scale).expected_error(), second)


@pytest.mark.parametrize("sigma", SIGMAS[3:], ids=str)
def test_mean_gaussian_error_is_as_promised(sigma: Fraction) -> None:
    """|noise| has second moment σ² + 1/12, to within 1e-7 from σ = 1 on."""
    second = float(sigma) ** 2 + 1 / 12
    check_mean(GaussianLaw(sigma).draw(400_000), GaussianNoise(sigma).expected_error(), second)


def test_the_check_notices_a_wrong_law() -> None:
    """Of a scale that is 5 % too large, or without odd numbers."""

    class Wrong(LaplaceLaw):
        def draw(self, count: int) -> NDArray[np.int64]:
            return LaplaceLaw(self.scale * Fraction(105, 100)).draw(count)

    class Even(LaplaceLaw):
        def draw(self, count: int) -> NDArray[np.int64]:
            return super().draw(count) & ~1

    for law in (Wrong(Fraction(10)), Wrong(Fraction(2**34)), Even(Fraction(2**34))):
        with pytest.raises(AssertionError):
            check(law, 200_000, 1)
