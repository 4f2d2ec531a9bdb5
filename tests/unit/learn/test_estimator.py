"""What every estimator does with what it is given, who pays, copies and files."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import sfumato as sf
from sfumato.errors import BudgetError, PolicyError, UsageError
from sfumato.learn import (
    ESTIMATORS,
    PCA,
    Account,
    CategoricalNB,
    DecisionTree,
    GaussianNB,
    GradientBoosting,
    KMeans,
    LinearRegression,
    load,
)
from sfumato.privacy import Parallel, Pure, RandomizedAnswer, Sampled, Sequential

RNG = np.random.default_rng(3)
X = RNG.normal(size=(400, 3)) * 0.3
Y = (X[:, 0] > 0).astype(int)
GIVEN: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-1, 1)}


def naive(**more: Any) -> GaussianNB:
    return GaussianNB(**{**GIVEN, "classes": [0, 1], **more})


# ---- nothing is guessed ----


@pytest.mark.parametrize(
    ("estimator", "code"),
    [
        (GaussianNB(epsilon=1, classes=[0, 1]), "SF-E101"),
        (GaussianNB(epsilon=1, classes=[0, 1], bounds=(1, -1)), "SF-C104"),
        (GaussianNB(epsilon=1, classes=[0, 1], bounds=([0, 0], [1, 1])), "SF-C104"),
        (GaussianNB(epsilon=1, classes=[0, 1], bounds=3), "SF-C104"),
        (GaussianNB(bounds=(-1, 1), classes=[0, 1]), "SF-N109"),
        (GaussianNB(delta=1e-6, bounds=(-1, 1), classes=[0, 1]), "SF-N109"),
        (GaussianNB(epsilon=1, bounds=(-1, 1)), "SF-E101"),
        (GaussianNB(epsilon=1, bounds=(-1, 1), classes=[0]), "SF-E101"),
        (LinearRegression(epsilon=1, bounds=(-1, 1)), "SF-E101"),
        (PCA(7, epsilon=1, bounds=(-1, 1)), "SF-N101"),
        (DecisionTree(**GIVEN, classes=[0, 1], max_depth=20), "SF-N101"),
        (GradientBoosting(**GIVEN, classes=[0, 1], depth=9), "SF-N101"),
        (CategoricalNB(epsilon=1, classes=[0, 1], categories=[2, 2]), "SF-E101"),
        (GaussianNB(epsilon=1, rho=1, bounds=(-1, 1), classes=[0, 1]), "SF-N109"),
    ],
)
def test_what_is_missing_is_refused(estimator: Any, code: str) -> None:
    with pytest.raises(UsageError) as refused:
        estimator.fit(X, Y)
    assert refused.value.code == code


def test_labels_that_are_not_declared_count_nowhere() -> None:
    strange = np.where(np.arange(400) < 200, Y, 7)
    model = naive(epsilon=1000).fit(X, strange)
    assert model.classes_.tolist() == [0, 1]
    assert 150 < model.class_count_.sum() < 250


def test_missing_counts_as_the_middle_and_what_is_outside_as_the_bound() -> None:
    rows = np.array([[np.nan], [np.inf], [-np.inf], [50.0]] * 500)
    model = GaussianNB(epsilon=1e4, bounds=(0, 10), classes=[0, 1]).fit(rows, np.zeros(2000, dtype=int))
    assert model.theta_[0, 0] == pytest.approx((5 + 10 + 0 + 10) / 4, abs=0.05)


def test_a_long_row_counts_as_long_as_it_may() -> None:
    rows = np.vstack([np.full((500, 2), 1e6), np.zeros((500, 2))])
    model = GaussianNB(epsilon=1e4, row_norm=1.0, classes=[0, 1]).fit(rows, np.zeros(1000, dtype=int))
    assert np.linalg.norm(model.theta_[0]) == pytest.approx(0.5, abs=0.01)


# ---- what is promised ----


def test_the_guarantee_says_all_of_it() -> None:
    text = str(naive().fit(X, Y).guarantee_)
    assert "one row, which is added or removed" in text
    assert "ε = 1, δ = 1e-06" in text
    assert "if replaced" in text
    assert "exact" in text
    assert str(GaussianNB(rho=0.5, bounds=(-1, 1), classes=[0, 1]).fit(X, Y).guarantee_).count("ρ = 0.5") == 1


# ---- copies make no budget ----


def test_clones_are_counted_together() -> None:
    first = naive()
    first.fit(X, Y)
    second = clone(first).fit(X, Y)
    third = copy.deepcopy(second).fit(X, Y)
    assert not first.guarantee_.others
    assert second.guarantee_.others.startswith("2 fits")
    assert third.guarantee_.others.startswith("3 fits")


def test_a_search_is_counted() -> None:
    search = GridSearchCV(naive(delta=None), {"epsilon": [1.0, 2.0]}, cv=3).fit(X, Y)
    assert "7 fits" in search.best_estimator_.guarantee_.others


def test_a_search_charges_every_fit(tmp_path: Path) -> None:
    account = Account(tmp_path / "fits.ledger", epsilon=8)
    GridSearchCV(naive(delta=None, budget=account), {"epsilon": [0.5, 1.0]}, cv=3, refit=False).fit(X, Y)
    assert float(account.left) == pytest.approx(8 - 3 * 0.5 - 3 * 1.0)


def test_a_search_beyond_the_budget_is_refused(tmp_path: Path) -> None:
    account = Account(tmp_path / "fits.ledger", epsilon=2)
    search = GridSearchCV(naive(delta=None, budget=account), {"epsilon": [1.0]}, cv=5, error_score="raise")
    with pytest.raises(BudgetError) as refused:
        search.fit(X, Y)
    assert refused.value.code == "SF-B101"
    assert float(account.left) == 0


def test_a_pickled_estimator_pays_or_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as refused:
        pickle.loads(pickle.dumps(naive())).fit(X, Y)
    assert refused.value.code == "SF-L303"
    account = Account(tmp_path / "fits.ledger", epsilon=3)
    again = pickle.loads(pickle.dumps(naive(delta=None, budget=account))).fit(X, Y)
    assert float(again.budget.left) == float(account.left) == 2
    fitted = pickle.loads(pickle.dumps(naive().fit(X, Y)))
    assert fitted.predict(X).shape == (400,)


def test_a_copy_of_an_account_is_the_account(tmp_path: Path) -> None:
    account = Account(tmp_path / "fits.ledger", epsilon=3, delta=1e-6)
    assert copy.copy(account) is account
    assert copy.deepcopy(account) is account
    assert clone(naive(budget=account)).budget is account
    naive(budget=account).fit(X, Y)
    assert Account(tmp_path / "fits.ledger").left == account.left
    with pytest.raises(UsageError):
        Account(tmp_path / "other.ledger")


def test_an_account_of_rows_takes_no_price_for_replacing_one(tmp_path: Path) -> None:
    """The account counts adding and removing a row; what holds for another row in its place is no price."""
    account = Account(tmp_path / "fits.ledger", epsilon=4, delta=1e-6)
    account.charge(Sequential([Parallel([Pure(0.1)])]), "add or remove")
    for call in (
        lambda event: account.charge(event, "replace"),
        lambda event: account.require([Pure(0.1), event]),
    ):
        for event in (RandomizedAnswer(0.1), Sampled.fixed(Pure(0.1), 1, 2)):
            with pytest.raises(UsageError) as refused:
                call(event)
            assert refused.value.code == "SF-N303"
    assert float(account.left) == pytest.approx(3.9)


# ---- files ----


@pytest.mark.parametrize(
    "model",
    [
        naive(),
        LinearRegression(**GIVEN, target_bounds=(0, 1)),
        PCA(2, **GIVEN),
        KMeans(2, **GIVEN),
        DecisionTree(**GIVEN, classes=[0, 1], max_depth=2),
        GradientBoosting(**GIVEN, classes=[0, 1], trees=5),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_saved_model_is_the_model(model: Any, tmp_path: Path) -> None:
    model.fit(X, Y)
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    used = "predict" if hasattr(model, "predict") else "transform"
    assert np.array_equal(getattr(again, used)(X), getattr(model, used)(X))
    assert again.guarantee_ == model.guarantee_


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.npz"
    file.write_bytes(pickle.dumps(naive()))
    with pytest.raises(UsageError) as refused:
        load(file)
    assert refused.value.code == "SF-E108"
    np.savez(file, model=np.frombuffer(b'{"kind": "os", "version": 1}', dtype=np.uint8))
    with pytest.raises(UsageError) as refused:
        load(file)
    assert refused.value.code == "SF-E108"


def test_every_estimator_is_found() -> None:
    assert all(hasattr(sf.learn, name) and name in sf.learn.__all__ for name in ESTIMATORS)


# ---- pictures ----


def test_an_additive_model_shows_what_a_feature_does() -> None:
    model = GradientBoosting(
        epsilon=100, delta=1e-6, bounds=(-1, 1), classes=[0, 1], trees=30, additive=True
    ).fit(X, Y)
    cuts, values = model.shape(0)
    assert len(values) == len(cuts) + 1
    assert values[-1] > 0 > values[0]
    assert "feature 0" in model.plot(0).title
    whole = float(model.start_[0]) + sum(float(model.shape(at)[1][-1]) for at in range(3))
    assert model._scores(np.full((1, 3), 1.0))[0, 0] == pytest.approx(whole)


def test_deep_trees_have_no_shape_of_one_feature() -> None:
    model = GradientBoosting(**GIVEN, classes=[0, 1], trees=4).fit(X, Y)
    with pytest.raises(UsageError) as refused:
        model.shape(0)
    assert refused.value.code == "SF-E138"


# ---- many features and little ε ----


@pytest.mark.parametrize("features", [13, 64])
def test_components_are_found_where_noise_of_products_would_be_too_wide(features: int) -> None:
    rows = np.random.default_rng(0).uniform(-1, 1, (500, features))
    model = PCA(2, epsilon=0.1, bounds=(-1, 1)).fit(rows)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-9)


@pytest.mark.parametrize("odd", ["seven", 10**400, None, {}, b"7"], ids=lambda each: type(each).__name__)
def test_a_cell_that_is_no_number_is_missing(odd: object) -> None:
    """An error would tell that such a row is there."""
    rows = np.array([[1, 2], [3, odd], [5, 6]], dtype=object)
    model = sf.learn.PCA(1, epsilon=1, bounds=(0, 9)).fit(rows)
    assert model.n_features_in_ == 2
