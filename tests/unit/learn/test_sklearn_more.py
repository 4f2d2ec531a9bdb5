"""scikit-learn's own checks for the perceptron and for nearest neighbours, and what is impossible."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from sklearn.exceptions import SkipTestWarning
from sklearn.utils.estimator_checks import check_estimator

from sfumato.learn import NearestNeighbors, Perceptron

NOISE = "two fits on the same rows differ: every fit draws noise of its own, and no seed is taken"
CLASSES = "classes are declared and never read off the labels, so they need not be those that occur"
TOTAL = "an error that one row decides would give that row away"
IMPOSSIBLE = dict.fromkeys(
    (
        "check_fit_idempotent",
        "check_supervised_y_2d",
        "check_classifier_data_not_an_array",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
    ),
    NOISE,
) | dict.fromkeys(("check_classifiers_classes", "check_classifiers_train"), CLASSES)
IMPOSSIBLE |= dict.fromkeys(("check_supervised_y_no_nan", "check_classifiers_regression_target"), TOTAL)
IMPOSSIBLE["check_dtype_object"] = TOTAL
IMPOSSIBLE["check_estimators_empty_data_messages"] = "an error over no rows would tell them from one row"
GIVEN: dict[str, Any] = {"epsilon": 1e4, "bounds": (-20, 20), "classes": [0, 1, 2]}


@pytest.mark.parametrize("estimator", [Perceptron(**GIVEN), NearestNeighbors(**GIVEN, width=0.2)])
def test_check_estimator(estimator: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        warnings.simplefilter("ignore", UserWarning)
        found = check_estimator(estimator, expected_failed_checks=IMPOSSIBLE)
    assert sum(each["status"] == "passed" for each in found) > 30
