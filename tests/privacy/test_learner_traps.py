"""What one strange row could do to learners: move a score without bound, or decide if there is an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import PolicyError, UsageError
from sfumato.oracle.arrays.features import encode_labels

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 300
RNG = np.random.default_rng(0)
POINTS = RNG.uniform(-1, 1, (ROWS, 2))
SIDES = (POINTS[:, 0] > 0).astype(int)


# ---- targets are read by rule, and none is an error ----

GIVEN: dict[str, Any] = {"epsilon": 10**4, "bounds": (-1, 1)}
CLASSIFIERS = [
    sf.learn.GaussianNB,
    sf.learn.DecisionTree,
    sf.learn.GradientBoosting,
    sf.learn.LogisticRegression,
    sf.learn.LinearSVC,
    sf.learn.ConvexERM,
    sf.learn.KernelSVC,
    sf.learn.Perceptron,
    sf.learn.NearestNeighbors,
]
REGRESSORS = [sf.learn.LinearRegression, sf.learn.GradientBoostingRegressor]
STRANGE = [None, np.nan, np.inf, "?", [1], 0.5, 10**30, np.datetime64("2020-01-01"), b"0"]


def listed(values: Any) -> Any:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


@pytest.mark.parametrize("strange", STRANGE, ids=repr)
def test_a_label_that_is_none_of_the_classes_counts_nowhere(strange: Any) -> None:
    labels = listed([*SIDES[1:].tolist(), strange])
    assert encode_labels(labels, [0, 1]).tolist() == [*SIDES[1:].tolist(), -1]
    names = listed([*np.array(["no", "yes"])[SIDES[1:]].tolist(), strange])
    assert encode_labels(names, ["no", "yes"]).tolist() == [*SIDES[1:].tolist(), -1]
    model = sf.learn.GaussianNB(**GIVEN, classes=[0, 1]).fit(POINTS, labels)
    assert model.class_count_ == pytest.approx(np.bincount(SIDES[1:]), abs=0.6)
    evaluated = sf.learn.evaluate(model, POINTS, labels, epsilon=1000)
    assert int(evaluated.confusion.sum()) == ROWS - 1


def test_the_same_labels_in_other_types_are_the_same_classes() -> None:
    for labels in ([0, 1, 1], [0.0, 1.0, 1.0], ["0", "1", "1"], listed([0, 1.0, "1"]), [False, True, True]):
        assert encode_labels(np.asarray(labels), [0, 1]).tolist() == [0, 1, 1]
    assert encode_labels(np.array([0.0, np.nan, 1.0]), [0, 1]).tolist() == [0, -1, 1]
    assert encode_labels(np.array([0, 1]), ["0", "1"]).tolist() == [0, 1]


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("strange", [None, np.nan, "?", 0.5], ids=repr)
def test_no_classifier_fails_by_one_label(kind: Any, strange: Any) -> None:
    model = kind(**GIVEN, classes=[0, 1]).fit(POINTS, listed([strange, *SIDES[1:].tolist()]))
    assert set(model.predict(POINTS)) <= {0, 1}
    if strange is not None and strange != "?":
        kind(**GIVEN, classes=[0, 1]).fit(POINTS, np.array([strange, *SIDES[1:]]))


@pytest.mark.parametrize("strange", [None, np.nan, "?", 0.5], ids=repr)
def test_listed_features_and_labels_fail_by_no_row(strange: Any) -> None:
    rows = np.array([listed([strange, 0]), *([each, 1 - each] for each in SIDES[1:].tolist())], dtype=object)
    model = sf.learn.CategoricalNB(epsilon=1000, categories=[2, 2], classes=[0, 1])
    assert model.fit(rows, listed([strange, *SIDES[1:].tolist()])).score(rows[1:], SIDES[1:]) == 1


@pytest.mark.parametrize("kind", REGRESSORS)
@pytest.mark.parametrize("strange", [None, np.nan, np.inf, "?"], ids=repr)
def test_no_regressor_fails_by_one_target(kind: Any, strange: Any) -> None:
    target = listed([strange, *(POINTS[1:, 0] / 2).tolist()])
    model = kind(**GIVEN, target_bounds=(-1, 1)).fit(POINTS, target)
    assert model.score(POINTS[1:], POINTS[1:, 0] / 2) > 0.5


@pytest.mark.parametrize("strange", [None, "tea", [["tea"]], 7], ids=repr)
def test_no_transaction_fails_a_fit(strange: Any) -> None:
    sets = [["tea", "jam"]] * 50 + [["tea"]] * 50
    found = sf.learn.FrequentItemsets(2, items=["tea", "jam"], epsilon=1000).fit([*sets, strange])
    assert tuple(found.itemsets_[0]) == ("tea",)


def test_a_column_of_labels_is_scored_row_by_row() -> None:
    model = sf.learn.GaussianNB(epsilon=1, bounds=(-1, 1), classes=[0, 1])
    model.fit(POINTS, SIDES)
    evaluated = sf.learn.evaluate(model, POINTS, SIDES[:, None], epsilon=100)
    assert abs(int(evaluated.confusion.sum()) - ROWS) < 10
    with pytest.raises(ValueError, match="inconsistent"):
        sf.learn.evaluate(model, POINTS, SIDES[:-1], epsilon=100)


def test_a_model_that_predicts_no_class_is_counted_nowhere() -> None:
    sixth = np.sort(POINTS[:, 0])[5]

    class Odd:
        classes_ = np.array([0, 1])

        def predict(self, rows: Any) -> Any:
            # By what is in a row: where a row lies in an array is drawn anew for each evaluation.
            return np.where(rows[:, 0] < sixth, 7, 0)

        def predict_proba(self, rows: Any) -> Any:
            return np.full((len(rows), 2), 0.5)

    evaluated = sf.learn.evaluate(Odd(), POINTS, np.zeros(ROWS, dtype=int), epsilon=200)
    assert abs(int(evaluated.confusion.sum()) - (ROWS - 5)) < 4


def test_fits_together_cost_what_they_asked_for() -> None:
    """Too few rows for a regression: the mean is asked again, for pure ε instead of Gaussian noise."""
    model = sf.learn.LinearRegression(epsilon=1, delta=1e-6, bounds=(-1, 1), target_bounds=(-1, 1))
    for _ in range(10):
        model.fit(POINTS[:30], POINTS[:30, 0])
    said = float(model.guarantee_.others.split("ε = ")[1].split(",")[0])
    assert said > 5


def test_a_model_out_of_a_file_is_not_fitted_for_nothing(tmp_path: Path) -> None:
    model = sf.learn.GaussianNB(epsilon=1, bounds=(-1, 1), classes=[0, 1]).fit(POINTS, SIDES)
    model.save(tmp_path / "model")
    with pytest.raises(PolicyError, match="SF-L303"):
        sf.learn.load(tmp_path / "model").fit(POINTS, SIDES)


def test_only_reviewed_estimators_learn_behind_the_curator(tmp_path: Path) -> None:
    class Own(sf.learn.GaussianNB):  # type: ignore[misc]
        pass

    lab = sf.create(tmp_path / "lab")
    lab.register(
        "t", pa.table({"x": [0.5]}), unit=sf.ROW, columns={"x": sf.between(0, 1)}, budget=sf.Budget(1)
    )
    with pytest.raises(UsageError, match="SF-E117"):
        lab.session().fit(Own(epsilon=1), table="t", features=["x"])


def test_many_binary_features_are_learnt_from_behind_the_curator(tmp_path: Path) -> None:
    features = [f"x{place}" for place in range(30)]
    points = RNG.integers(0, 2, (2000, 30))
    columns: dict[str, Any] = {name: sf.between(0, 1, step=1) for name in features} | {"y": sf.between(-2, 3)}
    lab = sf.create(tmp_path / "lab")
    source = dict(zip(features, points.T, strict=True)) | {"y": points[:, 0] * 2.0 + points[:, 1] - 1}
    lab.register("t", pa.table(source), unit=sf.ROW, columns=columns, budget=sf.Budget(10**6))
    model = sf.learn.LinearRegression(epsilon=1000.0)
    found = lab.session().fit(model, table="t", features=features, target="y")
    assert np.allclose(found.coef_[:3], [2, 1, 0], atol=0.1)
