"""Linear classifiers: what they learn, which form they take, what they say and what they refuse."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.exceptions import SkipTestWarning
from sklearn.utils.estimator_checks import check_estimator

import sfumato as sf
from sfumato.errors import PolicyError, SfumatoError, UsageError
from sfumato.learn import ConvexERM, KernelSVC, LinearSVC, LogisticRegression, Loss, huber, load

KINDS = [LogisticRegression, LinearSVC, ConvexERM]
SPEND = {"epsilon": 2.0, "delta": 1e-6}


def blobs(classes: int, rows: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    """Well apart; a fit that errs on a tenth of them is out by far more than its noise."""
    rng = np.random.default_rng(classes)
    centres = rng.uniform(-0.7, 0.7, (20, 4))
    y = rng.integers(0, classes, rows)
    return np.clip(centres[y] + rng.normal(0, 0.08, (rows, 4)), -1, 1), y


def given(classes: int, **more: Any) -> dict[str, Any]:
    return {"bounds": (-1, 1), "classes": list(range(classes)), **more}


# ---- what they learn ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_they_learn_by_descent(kind: Any, classes: int) -> None:
    X, y = blobs(classes)
    assert kind(**SPEND, **given(classes)).fit(X, y).score(X, y) > 0.9


@pytest.mark.parametrize("method", ["gradient", "output", "objective"])
@pytest.mark.parametrize("kind", KINDS)
def test_they_learn_by_pure_epsilon(kind: Any, method: str) -> None:
    X, y = blobs(2)
    assert kind(epsilon=3.0, method=method, **given(2)).fit(X, y).score(X, y) > 0.9


def test_the_gaussian_form_learns() -> None:
    X, y = blobs(2)
    assert LogisticRegression(**SPEND, method="gaussian", **given(2)).fit(X, y).score(X, y) > 0.9


@pytest.mark.parametrize("method", ["output", "objective"])
@pytest.mark.parametrize("spend", [{"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.1}])
def test_pure_forms_take_no_delta(method: str, spend: dict[str, float]) -> None:
    X, y = blobs(2)
    with pytest.raises(UsageError, match="SF-N316"):
        LogisticRegression(**spend, method=method, **given(2)).fit(X, y)


def test_more_than_a_few_hundred_weights_are_solved_for_too() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 450))
    y = (X[:, 0] > 0).astype(int)
    fitted = LogisticRegression(epsilon=1e4, method="objective", **given(2)).fit(X, y)
    assert np.abs(fitted.coef_[0]).argmax() == 0


def test_penalties_shrink_weights() -> None:
    X, y = blobs(2)
    loose = LogisticRegression(epsilon=1e4, method="objective", penalty=1.0, **given(2)).fit(X, y)
    tight = LogisticRegression(epsilon=1e4, method="objective", penalty=1000.0, **given(2)).fit(X, y)
    assert np.linalg.norm(tight.coef_) < np.linalg.norm(loose.coef_)
    assert abs(tight.intercept_[0]) < abs(loose.intercept_[0]) + 0.1


def test_scores_are_linear_in_rows_that_were_not_shortened() -> None:
    X, y = blobs(2)
    fitted = LogisticRegression(scaling=None, **SPEND, **given(2)).fit(X, y)
    short = X[:50] * 0.2
    assert np.allclose(fitted.decision_function(short), short @ fitted.coef_[0] + fitted.intercept_[0])
    assert np.allclose(fitted.predict_proba(X).sum(axis=1), 1)


def test_rows_of_no_declared_class_do_not_matter() -> None:
    X, y = blobs(2)
    strange = np.where(np.arange(len(y)) < 1000, 7, y)
    fitted = LogisticRegression(epsilon=1e4, **given(2)).fit(X, strange)
    alone = LogisticRegression(epsilon=1e4, **given(2)).fit(X[1000:], y[1000:])
    assert np.allclose(fitted.coef_, alone.coef_, rtol=0.02, atol=0.02)


def test_missing_features_count_as_the_middle() -> None:
    X, y = blobs(2)
    fitted = LogisticRegression(**SPEND, **given(2)).fit(np.where(X > 0.6, np.nan, X), y)
    row = np.full((1, 4), np.nan)
    assert np.allclose(fitted.decision_function(row), fitted.decision_function(np.zeros((1, 4))))


# ---- which form, and what it says --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spend", "classes", "form"),
    [
        ({"epsilon": 1.0}, 2, "objective"),
        ({"epsilon": 1.0}, 3, "objective"),
        ({"epsilon": 1.0, "delta": 1e-6}, 2, "gradient"),
        ({"rho": 0.1}, 2, "gradient"),
    ],
)
def test_auto_goes_by_what_is_public(spend: dict[str, float], classes: int, form: str) -> None:
    X, y = blobs(classes, 200)
    fitted = LogisticRegression(**spend, **given(classes)).fit(X, y)
    assert fitted.method_ == form
    assert ("idealised" in str(fitted.guarantee_)) == (form != "gradient")


def test_guarantees_say_what_replacing_costs() -> None:
    X, y = blobs(2, 200)
    pure = LogisticRegression(epsilon=1.0, **given(2)).fit(X, y).guarantee_
    tilted = LogisticRegression(epsilon=1.0, delta=1e-6, method="gaussian", **given(2)).fit(X, y).guarantee_
    assert "ε = 2" in pure.replaced
    assert "δ = 3.72e-06" in tilted.replaced


def test_a_model_is_saved_and_read(tmp_path: Path) -> None:
    X, y = blobs(3)
    fitted = LinearSVC(**SPEND, **given(3)).fit(X, y)
    fitted.save(tmp_path / "svc.npz")
    assert np.array_equal(load(tmp_path / "svc.npz").decision_function(X), fitted.decision_function(X))


def test_scores_of_margins_are_no_chances() -> None:
    assert not hasattr(LinearSVC(), "predict_proba")
    assert hasattr(LogisticRegression(), "predict_proba")


@pytest.mark.parametrize(
    ("kind", "settings", "code"),
    [
        (ConvexERM, {"loss": "zero-one", "epsilon": 1.0}, "SF-E187"),
        (LogisticRegression, {"method": "magic", "epsilon": 1.0}, "SF-E187"),
        (LogisticRegression, {"penalty": -1, **SPEND}, "SF-N101"),
        (LogisticRegression, {"method": "objective", **SPEND}, "SF-N316"),
        (LogisticRegression, {"method": "gaussian", "epsilon": 1.0}, "SF-N316"),
    ],
)
def test_what_makes_no_sense_is_refused(kind: Any, settings: dict[str, Any], code: str) -> None:
    X, y = blobs(2, 50)
    with pytest.raises(UsageError) as problem:
        kind(**settings, **given(2)).fit(X, y)
    assert problem.value.code == code


def test_the_gaussian_form_takes_several_classes() -> None:
    X, y = blobs(3, 3000)
    model = LogisticRegression(method="gaussian", epsilon=5, delta=1e-6, **given(3)).fit(X, y)
    assert model.score(X, y) > 0.85


def test_a_loss_of_ones_own_is_learnt_with() -> None:
    """A hinge twice as steep, with its constants declared."""
    soft = huber(0.5)
    steep = Loss(
        "steep", lambda t: 2 * soft.value(t), lambda t: 2 * soft.derivative(t), 2.0, 2 * soft.smoothness
    )
    X, y = blobs(2)
    for method in ("gradient", "objective"):
        fitted = ConvexERM(loss=steep, epsilon=3.0, method=method, **given(2)).fit(X, y)
        assert fitted.score(X, y) > 0.9


# ---- behind the curator ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> sf.Lab:
    X, y = blobs(3, 1500)
    names = [f"x{place}" for place in range(4)]
    columns: dict[str, Any] = {name: X[:, place] for place, name in enumerate(names)}
    table = pa.table({**columns, "kind": np.array(["a", "b", "c"])[y], "who": np.arange(1500) % 1200})
    lab = sf.create(tmp_path_factory.mktemp("lab") / "lab")
    lab.register(
        "points",
        table,
        unit=sf.Unit("who", max_rows=2, of="people"),
        columns={**{name: sf.between(-1, 1) for name in names}, "kind": sf.one_of("a", "b", "c")},
        budget=sf.Budget(epsilon=20, delta=1e-5),
    )
    return lab


@pytest.mark.parametrize("kind", [LogisticRegression, LinearSVC])
def test_they_learn_behind_the_curator(lab: sf.Lab, kind: Any) -> None:
    X, y = blobs(3, 1500)
    features = [f"x{place}" for place in range(4)]
    before = lab.session().budget
    fitted = lab.session().fit(
        kind(epsilon=4.0, delta=1e-6, steps=8), table="points", features=features, target="kind"
    )
    assert fitted.score(pd.DataFrame(X, columns=features), np.array(["a", "b", "c"])[y]) > 0.85
    assert "exact" in str(fitted.guarantee_)
    assert "one who" in str(fitted.guarantee_)
    assert str(lab.session().budget) != str(before)


GAUSSIAN: dict[str, Any] = {"epsilon": 20, "delta": 1e-6, "method": "gaussian"}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_gaussian_form_learns_behind_the_curator(kind: Any, classes: int, tmp_path: Path) -> None:
    """Rows are counted, and read once; those of no class count nowhere."""
    X, y = blobs(classes, 3000)
    columns = {f"x{at}": sf.between(-1, 1) for at in range(4)} | {"kind": sf.one_of(*range(classes))}
    missing = pa.array(y, mask=np.arange(3000) % 50 == 0)
    table = pa.table({f"x{at}": X[:, at] for at in range(4)} | {"kind": missing})
    lab = sf.create(tmp_path / "lab")
    lab.register("t", table, unit=sf.ROW, columns=columns, budget=sf.Budget(epsilon=30, delta=1e-5))
    features = [f"x{at}" for at in range(4)]
    fitted = lab.session().fit(kind(**GAUSSIAN), table="t", features=features, target="kind")
    assert fitted.score(pd.DataFrame(X, columns=features), y) > 0.9
    assert "solver" in fitted.guarantee_.arithmetic
    assert lab.session().budget.accounts[0].left_epsilon < 11
    charges = [entry for entry in lab.ledger.read_entries() if entry.kind == "charge"]
    assert len(charges) == 2


def test_descent_takes_over_where_rows_may_be_too_many(lab: sf.Lab) -> None:
    """So little ε tells nothing about how many there are."""
    model = LogisticRegression(epsilon=1e-5, delta=1e-7, method="gaussian", steps=3)
    before = len(list(lab.ledger.read_entries()))
    lab.session().fit(model, table="points", features=["x0", "x1"], target="kind")
    assert model.method_ == "gradient"
    assert "noise drawn exactly" in model.guarantee_.arithmetic
    charges = [entry for entry in list(lab.ledger.read_entries())[before:] if entry.kind == "charge"]
    assert len(charges) == 4


def test_what_the_gaussian_form_is_not_proven_for_is_refused(lab: sf.Lab) -> None:
    own, before = ConvexERM(**GAUSSIAN, loss=huber(0.3)), len(list(lab.ledger.read_entries()))
    for model, rows, code in [(LogisticRegression(**GAUSSIAN), 2, "SF-E132"), (own, 1, "SF-E117")]:
        with pytest.raises(PolicyError) as problem:
            lab.session().fit(model, table="points", features=["x0"], target="kind", rows_per_unit=rows)
        assert problem.value.code == code
    for wrong in (LinearSVC(**GAUSSIAN, width=0), LogisticRegression(**GAUSSIAN, penalty=-1)):
        with pytest.raises(UsageError):
            lab.session().fit(wrong, table="points", features=["x0"], target="kind")
    assert len(list(lab.ledger.read_entries())) == before


def test_textbook_forms_stay_outside(lab: sf.Lab) -> None:
    with pytest.raises(PolicyError) as problem:
        lab.session().fit(
            LogisticRegression(epsilon=1.0, method="objective"),
            table="points",
            features=["x0"],
            target="kind",
        )
    assert problem.value.code == "SF-E132"


def test_too_little_budget_refuses_before_anything_is_asked(lab: sf.Lab) -> None:
    with pytest.raises(SfumatoError, match="Not enough privacy budget"):
        lab.session().fit(
            LogisticRegression(epsilon=400, delta=1e-6), table="points", features=["x0"], target="kind"
        )


# ---- scikit-learn's own checks -----------------------------------------------------------------------------

NOISE = "two fits on the same rows differ: every fit draws noise of its own, and no seed is taken"
CLASSES = "classes are declared and never read off the labels, so they need not be those that occur"
TOTAL = "an error that one row decides would give that row away"
IMPOSSIBLE = dict.fromkeys(
    ("check_fit_idempotent", "check_supervised_y_2d", "check_classifier_data_not_an_array"), NOISE
) | dict.fromkeys(
    ("check_classifiers_classes", "check_classifiers_train", "check_decision_proba_consistency"), CLASSES
)
IMPOSSIBLE |= dict.fromkeys(("check_supervised_y_no_nan", "check_classifiers_regression_target"), TOTAL)
IMPOSSIBLE["check_dtype_object"] = TOTAL
IMPOSSIBLE["check_estimators_empty_data_messages"] = "an error over no rows would tell them from one row"


@pytest.mark.parametrize("kind", [LogisticRegression, LinearSVC, ConvexERM, KernelSVC])
def test_check_estimator(kind: Any) -> None:
    estimator = kind(epsilon=1e4, bounds=(-20, 20), classes=[0, 1, 2], steps=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        warnings.simplefilter("ignore", UserWarning)
        found = check_estimator(estimator, expected_failed_checks=IMPOSSIBLE)
    assert sum(each["status"] == "passed" for each in found) > 30


# ---- evaluation behind the curator -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [LogisticRegression, LinearSVC])
def test_a_model_is_evaluated_behind_the_curator(tmp_path: Path, kind: Any) -> None:
    """Every unit has one row, so noisy counts are near those of the rows themselves."""
    rng = np.random.default_rng(5)
    for classes in (2, 3):
        X, y = blobs(classes, 900)
        X = np.clip(X + rng.normal(0, 0.3, X.shape), -1, 1)  # so that a good part is wrong
        names, words = [f"x{place}" for place in range(4)], np.array(["a", "b", "c"])[:classes]
        columns: dict[str, Any] = {name: X[:, place] for place, name in enumerate(names)}
        lab = sf.create(tmp_path / f"lab{classes}")
        lab.register(
            "points",
            pa.table({**columns, "kind": words[y]}),
            unit=sf.ROW,
            columns={**{name: sf.between(-1, 1) for name in names}, "kind": sf.one_of(*words.tolist())},
            budget=sf.Budget(epsilon=200, delta=1e-5),
        )
        s = lab.session()
        model = s.fit(kind(epsilon=4.0, delta=1e-6, steps=6), table="points", features=names, target="kind")
        measured = s.evaluate(model, table="points", target="kind", epsilon=40.0)
        frame = pd.DataFrame(X, columns=names)
        assert abs(measured.accuracy.value - model.score(frame, words[y])) < 0.02
        exact = pd.crosstab(words[y], model.predict(frame)).reindex(columns=words, fill_value=0).to_numpy()
        assert np.abs(measured.confusion - exact).max() <= 12
        assert (measured.auc is None) == (classes == 3)
        if measured.auc is not None:
            mine = sf.learn.evaluate(model, frame, words[y], epsilon=40.0)
            assert mine.auc is not None
            assert abs(measured.auc.value - mine.auc.value) < 0.02


def test_models_of_other_columns_are_not_evaluated(lab: sf.Lab) -> None:
    X, y = blobs(3, 200)
    outside = LogisticRegression(**SPEND, **given(3)).fit(X, y)
    with pytest.raises(PolicyError) as problem:
        lab.session().evaluate(outside, table="points", target="kind", epsilon=1.0)
    assert problem.value.code == "SF-E112"


@pytest.mark.parametrize(
    ("features", "epsilon", "steps"), [(120, 300, 90), (20, 300, 45), (120, 0.1, 12)], ids=str
)
def test_many_rows_of_many_features_take_more_steps(features: int, epsilon: float, steps: int) -> None:
    """By public numbers, and a number of rows that is noisy; here far from where it would matter."""
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, size=(1500, features))
    model = LogisticRegression(epsilon=epsilon, delta=1e-6, bounds=(-1, 1), classes=[0, 1])
    assert model.fit(X, (X[:, 0] > 0).astype(int)).n_iter_ == steps
