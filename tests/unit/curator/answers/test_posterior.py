"""Averages and variances of few rows: the posterior median, checked against integrals and plain quotients."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.answers.posterior import estimate_mean, estimate_variance

DRAWS = 2_000
SPREADS = np.array([1.6, 1.25, 1.65])
"""Deviations of the noise of squares, deviations and rows, in parts of what a row can add."""


def _covariance(sums: int) -> np.ndarray:
    return np.diag(SPREADS[-sums:] ** 2)[..., None]


def _draw(exact: list[float], seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    spreads = SPREADS[-len(exact) :]
    return np.array(exact)[:, None] + spreads[:, None] * rng.normal(size=(len(exact), DRAWS))


def _plain_mean(sums: np.ndarray) -> np.ndarray:
    return np.clip(sums[0] / np.maximum(sums[1], 1), -1, 1)


def _plain_variance(sums: np.ndarray) -> np.ndarray:
    squares, deviations, rows = sums[0], sums[1], np.maximum(sums[2], 1)
    return np.clip(squares / rows - (deviations / rows) ** 2, 0, 1)


def _miss(estimates: np.ndarray, rows: np.ndarray, truth: float) -> float:
    """The mean error of those that are shown: where fewer rows than one are counted, none is."""
    return float(np.abs(estimates - truth)[rows >= 1].mean())


@pytest.mark.parametrize(("total", "rows"), [(3.0, 6.0), (-1.0, 2.0), (9.0, 4.0), (0.5, 30.0)])
def test_the_mean_is_the_median_of_the_posterior_law(total: float, rows: float) -> None:
    """By a plain integral over means, with the arcsine prior, and over numbers of rows from one on."""
    means = np.sin((np.arange(1_000) + 0.5) / 1_000 * np.pi - np.pi / 2)[:, None]
    counts = np.linspace(1, rows + 12, 400)
    deviation, spread = SPREADS[1:]
    off = ((total - means * counts) / deviation) ** 2 + ((rows - counts) / spread) ** 2
    weights = np.cumsum(np.exp(-off / 2).sum(axis=1))
    exact = means[np.searchsorted(weights, weights[-1] / 2), 0]
    found = estimate_mean(np.array([[total], [rows]]), _covariance(2))[0]
    assert found == pytest.approx(exact, abs=0.01)


def test_with_many_rows_numbers_are_plain_quotients() -> None:
    sums = _draw([450.0, 300.0, 1_000.0])
    assert estimate_mean(sums[1:], _covariance(2)) == pytest.approx(_plain_mean(sums[1:]), abs=1e-12)
    assert estimate_variance(sums, _covariance(3)) == pytest.approx(_plain_variance(sums), abs=2e-5)


def test_without_noise_numbers_are_plain_quotients() -> None:
    sums = np.array([[2.0, 0.5, 3.0, 0.0], [2.0, -0.5, 3.0, 0.0], [2.0, 1.0, 3.0, 0.0]])
    silent = np.zeros((3, 3, 1))
    assert estimate_mean(sums[1:], silent[1:, 1:]) == pytest.approx(_plain_mean(sums[1:]), abs=1e-12)
    assert estimate_variance(sums, silent) == pytest.approx(_plain_variance(sums), abs=1e-12)


@pytest.mark.parametrize("rows", [1, 3, 7, 13, 26])
def test_errors_of_means_are_smaller_and_nowhere_far_larger(rows: int) -> None:
    """Plain quotients, moved into the bounds, are better by up to a quarter where the mean is at an end."""
    ratios = []
    for mean in (0.0, 0.25, 0.5, 0.75, 0.9, 0.97, 1.0):
        sums = _draw([mean * rows, rows])
        shown = estimate_mean(sums, _covariance(2))
        ratios.append(_miss(shown, sums[1], mean) / _miss(_plain_mean(sums), sums[1], mean))
    assert max(ratios) < 1.3
    assert min(ratios) < 0.9


@pytest.mark.parametrize("rows", [1, 3, 7, 13, 26])
def test_errors_of_variances_are_smaller_and_nowhere_far_larger(rows: int) -> None:
    ratios = []
    for deviation in (0.1, 0.3, 0.5, 0.7):
        for mean in (0.0, 0.5):
            sums = _draw([(deviation**2 + mean**2) * rows, mean * rows, rows])
            shown = estimate_variance(sums, _covariance(3))
            plain = _plain_variance(sums)
            ratios.append(_miss(shown, sums[2], deviation**2) / _miss(plain, sums[2], deviation**2))
    assert max(ratios) < 1.2
    assert min(ratios) < 0.9


def test_noise_that_sums_share_is_seen() -> None:
    """Where the same noise is in both, the quotient is known better than where it is not."""
    sums, shared = np.array([[6.0], [10.0]]), np.array([[4.0, 3.9], [3.9, 4.0]])[..., None]
    apart = shared * np.eye(2)[..., None]
    known, unknown = (float(estimate_mean(sums, each)[0]) for each in (shared, apart))
    assert abs(known - 0.6) < abs(unknown - 0.6)


@pytest.mark.parametrize("width", [1e-160, 1.0, 1e25])
def test_the_scale_of_a_column_changes_nothing(tmp_path: Path, width: float) -> None:
    """Squares of squares would be beyond what doubles hold."""
    lab = sf.create(tmp_path / "lab")
    rows = pa.table({"who": range(400), "x": [0.9 * width] * 400})
    columns = {"x": sf.between(0, width)}
    lab.register("t", rows, unit=sf.Unit("who", max_rows=1), columns=columns, budget=sf.Budget(epsilon=100))
    asked = "SELECT AVG(x) AS a, STDDEV(x) AS s FROM t"
    shown = lab.session().sql(asked).release(epsilon=50).to_arrow().to_pylist()[0]
    assert shown["a"] == pytest.approx(0.9 * width, rel=0.01)
    assert 0 <= shown["s"] <= 0.1 * width
