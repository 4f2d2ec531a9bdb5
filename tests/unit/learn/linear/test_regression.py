"""Linear regression where rows are too few for it: the mean of the target, as far as noise shows it."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.learn import LinearRegression
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
