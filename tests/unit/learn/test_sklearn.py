"""scikit-learn's own checks, and what of them privacy makes impossible."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import SkipTestWarning
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from sfumato.learn import (
    PCA,
    CategoricalNB,
    DecisionTree,
    GaussianNB,
    GradientBoosting,
    GradientBoostingRegressor,
    KMeans,
    LinearRegression,
)

NOISE = "two fits on the same rows differ: every fit draws noise of its own, and no seed is taken"
CLASSES = "classes are declared and never read off the labels, so they need not be those that occur"
TOTAL = "an error that one row decides would give that row away"
NONE = "an error over a table without rows would tell it apart from a table with one"
LABELS = "which row belongs to which centre is not released; predict says it to the rows' owner"
LISTED = "a value of whatever type that is not listed counts nowhere: an error would give its row away"
NAME = "the check sets a parameter of scikit-learn's own scaler on every class of that name"

NOISY = dict.fromkeys(
    (
        "check_fit_idempotent",
        "check_supervised_y_2d",
        "check_regressors_int",
        "check_regressor_data_not_an_array",
        "check_classifier_data_not_an_array",
        "check_transformer_data_not_an_array",
        "check_transformer_general",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
    ),
    NOISE,
) | {
    "check_supervised_y_no_nan": TOTAL,
    "check_dtype_object": TOTAL,
    "check_estimators_empty_data_messages": NONE,
}
DECLARED = (
    NOISY
    | dict.fromkeys(("check_classifiers_classes", "check_classifiers_train"), CLASSES)
    | {"check_classifiers_regression_target": TOTAL}
)
UNLABELLED = NOISY | {"check_clustering": LABELS}
NAMED = NOISY | dict.fromkeys(("check_estimator_sparse_array", "check_estimator_sparse_matrix"), NAME)

GIVEN: dict[str, Any] = {"epsilon": 1e4, "bounds": (-20, 20)}
SETTINGS = {"row_norm": [None, 40.0]}
CASES: list[tuple[Any, dict[str, str]]] = [
    (GaussianNB(**GIVEN, classes=[0, 1, 2]), DECLARED),
    (DecisionTree(**GIVEN, classes=[0, 1, 2]), DECLARED),
    (GradientBoosting(**GIVEN, classes=[0, 1, 2], trees=20), DECLARED),
    (GradientBoostingRegressor(**GIVEN, target_bounds=(-4, 4), trees=40), NOISY),
    (LinearRegression(**GIVEN, target_bounds=(-500, 500)), NOISY),
    (PCA(1, **GIVEN), NOISY),
    (KMeans(3, **GIVEN), UNLABELLED),
    (CategoricalNB(epsilon=1e4, categories=5, classes=[0, 1, 2]), DECLARED | {"check_dtype_object": LISTED}),
]


@pytest.mark.parametrize(("estimator", "impossible"), CASES, ids=lambda each: type(each).__name__)
def test_check_estimator(estimator: Any, impossible: dict[str, str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        warnings.simplefilter("ignore", UserWarning)
        found = check_estimator(estimator, expected_failed_checks=impossible)
    assert sum(each["status"] == "passed" for each in found) > 30


def test_pipelines_work() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4)) + np.repeat([[-2.0], [2.0]], 1000, axis=0)
    y = np.repeat([0, 1], 1000)
    steps = make_pipeline(
        PCA(2, epsilon=5, delta=1e-6, bounds=(-5, 5)),
        GaussianNB(epsilon=5, delta=1e-6, bounds=(-5, 5), classes=[0, 1]),
    )
    assert steps.fit(X, y).score(X, y) > 0.9
