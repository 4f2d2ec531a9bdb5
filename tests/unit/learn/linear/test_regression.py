"""Linear regression where rows are too few for it: the mean of the target, as far as noise shows it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.learn import LinearRegression
from sfumato.learn.linear.normal_equations import NormalEquations
from sfumato.learn.linear.regression import _choose_clip

RNG = np.random.default_rng(3)


def test_targets_near_one_end_of_their_bounds_have_their_mean_met() -> None:
    """Cut off at 0.6 the mean would be −0.57. A fit is off by 0.15 with a chance of about 0.003, where its
    first count of rows is far too low; half of nine are with one of 1e-10."""
    X, y = RNG.uniform(-1, 1, size=(50, 10)), np.minimum(RNG.exponential(0.2, 50) - 1, 1)
    model = LinearRegression(epsilon=3, bounds=(-1, 1), target_bounds=(-1, 1))
    assert not model.fit(X, y).coef_.any()
    assert np.median([model.fit(X, y).intercept_ for _ in range(9)]) == pytest.approx(y.mean(), abs=0.15)


@pytest.mark.parametrize(
    ("variance", "rows", "low", "high"), [(2 / 0.09**2, 300, 0.6, 0.75), (2, 3000, 0.95, 1)]
)
def test_less_is_cut_off_where_noise_is_small(variance: float, rows: float, low: float, high: float) -> None:
    assert low <= _choose_clip(variance, rows) <= high


def _clinic(path: Path, delta: float) -> sf.Lab:
    lab = sf.create(path)
    rows = RNG.uniform(-1, 1, size=(4000, 3))
    table = pa.table({"x": rows[:, 0], "z": rows[:, 1], "y": rows @ [0.6, -0.3, 0.1]})
    columns = {name: sf.between(-1, 1) for name in "xzy"}
    lab.register("t", table, unit=sf.ROW, columns=columns, budget=sf.Budget(epsilon=50, delta=delta))
    return lab


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_products_have_the_noise_of_a_matrix_whatever_the_budget_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delta: float
) -> None:
    solved = []
    solve = NormalEquations.solve
    monkeypatch.setattr(NormalEquations, "solve", lambda self: solved.append(self.joint) or solve(self))
    model = (
        _clinic(tmp_path / "lab", delta)
        .session()
        .fit(LinearRegression(epsilon=2), table="t", features=["x", "z"], target="y")
    )
    assert solved
    assert set(solved) == {True}
    assert model.coef_ == pytest.approx([0.6, -0.3], abs=0.3)


# ---- tables that are too small for their noise -------------------------------------------------------------


def _small_table(rows: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(20)
    X = rng.uniform(-1, 1, size=(rows, features))
    target = X @ rng.normal(size=features)
    return X, 0.2 + 0.2 * (target / target.std() + rng.normal(size=rows) / 3)


@pytest.mark.parametrize(
    ("rows", "features", "spend"),
    [
        (280, 5, {"epsilon": 1, "delta": 1e-6}),
        (700, 10, {"epsilon": 0.5, "delta": 1e-6}),
        (700, 50, {"epsilon": 1}),
    ],
)
def test_a_regression_of_few_rows_is_no_worse_than_their_mean(
    rows: int, features: int, spend: dict[str, float]
) -> None:
    """Noise for all of the bounds made R² −5 here on average, where the mean has 0."""
    X, y = _small_table(rows, features)
    model = LinearRegression(**spend, bounds=(-1, 1), target_bounds=(-1, 1))
    assert np.mean([model.fit(X, y).score(X, y) for _ in range(24)]) > -0.03


def test_targets_far_from_the_middle_of_wide_bounds_are_found_for_a_larger_share() -> None:
    rng = np.random.default_rng(21)
    X = rng.normal(size=(2800, 5))
    y = 900 + 4 * X[:, 0] + rng.normal(size=2800) * 2
    model = LinearRegression(epsilon=0.1, bounds=(-5, 5), target_bounds=(0, 1000))
    assert np.median([model.fit(X, y).score(X, y) for _ in range(5)]) > -0.3


def _noisy_system(signal: float) -> NormalEquations:
    """Products of 1,000 rows whose mean is 0.3, and of which one feature says as much as is given."""
    right = np.array([300.0, signal, 15, -15, 10])
    return NormalEquations(np.diag([1000.0] + [300.0] * 4), 20.0, right, 20.0)


def test_weights_that_noise_explains_give_way_to_the_mean() -> None:
    found = _noisy_system(0.0).solve_or_average(0.3, 10.0)
    assert not found[1:].any()
    assert found[0] == pytest.approx(0.3, abs=0.06)


def test_weights_that_stand_out_of_the_noise_stay() -> None:
    assert _noisy_system(200.0).solve_or_average(0.3, 10.0)[1] == pytest.approx(200 / 300, abs=0.2)


def test_a_mean_that_was_known_better_is_taken() -> None:
    assert _noisy_system(0.0).solve_or_average(0.5, 1e-3)[0] == pytest.approx(0.5, abs=0.01)
