"""Coefficients of linear classifiers reproduce their scores, by the rules for rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato import learn

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (600, 3))
Y = (X[:, 0] > 0).astype(int)


def logistic(**more: Any) -> learn.LogisticRegression:
    return learn.LogisticRegression(**{"epsilon": 1.0, "bounds": (-3, 3), "classes": [0, 1], **more})


def test_coefficients_reproduce_the_scores() -> None:
    model = logistic(bounds=([-1, 0, 5], [3, 90, 6])).fit(X, Y)
    rows = model.clip_rows(X * 10)
    assert rows @ model.coef_[0] + model.intercept_[0] == pytest.approx(model.decision_function(X * 10))


def test_coefficients_reproduce_the_scores_of_missing_numbers() -> None:
    """Of features that lie in a corner of their bounds, so that the middle is outside of what they were
    clipped to.
    """
    rows = np.random.default_rng(0).uniform(80, 90, (4000, 1))
    model = logistic(epsilon=50.0, bounds=(-100, 100)).fit(rows, rows[:, 0] > 85)
    assert model.middles_[0] > 50
    missing = np.array([[np.nan], [82.0]])
    found = model.clip_rows(missing) @ model.coef_[0] + model.intercept_[0]
    assert found == pytest.approx(model.decision_function(missing))
