"""Pipelines refuse steps that learn from rows without noise, and state what all steps cost together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import preprocessing as plain
from sklearn.compose import ColumnTransformer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer

from sfumato import learn
from sfumato.errors import SfumatoError

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (600, 3))
Y = (X[:, 0] > 0).astype(int)


def logistic(**more: Any) -> learn.LogisticRegression:
    return learn.LogisticRegression(**{"epsilon": 1.0, "bounds": (-3, 3), "classes": [0, 1], **more})


@pytest.mark.parametrize(
    "step",
    [
        plain.StandardScaler(),
        plain.OneHotEncoder(),
        plain.OrdinalEncoder(categories=[[0]] * 3),
        SimpleImputer(),
        ColumnTransformer([("one", plain.MinMaxScaler(), [0])]),
    ],
    ids=lambda step: type(step).__name__,
)
def test_steps_that_learn_without_noise_are_refused(step: Any) -> None:
    with pytest.raises(SfumatoError) as refused:
        learn.make_pipeline(step, logistic())
    assert refused.value.code == "SF-E157"


def test_costs_add_up_and_functions_are_named() -> None:
    scaler = learn.StandardScaler(epsilon=0.5, bounds=(-1, 1))
    found = learn.make_pipeline(
        SimpleImputer(strategy="constant", fill_value=0.0),
        plain.FunctionTransformer(np.cbrt),
        ColumnTransformer([("scaled", scaler, [0, 1])], remainder="passthrough"),
        logistic(),
    ).fit(X, Y)
    assert found.guarantee_.epsilon == 1.5
    assert "FunctionTransformer" in found.guarantee_.assumes
    assert "protects" in repr(found)
    assert found.score(X, Y) > 0.8
    with pytest.raises(SfumatoError):
        learn.make_pipeline(learn.StandardScaler(rho=0.1, bounds=(-1, 1)), logistic())


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


class _Keeps(plain.FunctionTransformer):  # type: ignore[misc]
    """Says that it needs no fit, and keeps the rows."""

    def fit(self, X: Any, y: Any = None) -> Any:
        self.rows_ = X
        return self


@pytest.mark.parametrize("kind", ["process", "subclass", "instance"])
def test_a_step_that_needs_no_fit_may_still_keep_rows(kind: str) -> None:
    function = plain.FunctionTransformer()
    function.fit = lambda X, y=None: function
    steps = {"process": GaussianProcessRegressor(), "subclass": _Keeps(), "instance": function}
    with pytest.raises(SfumatoError, match="SF-E157"):
        learn.make_pipeline(learn.StandardScaler(epsilon=0.1, bounds=(0, 1)), steps[kind])
