"""Ready networks: declared before they are fitted, chosen by public numbers, and usable by scikit-learn."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

import sfumato.deep as deep  # noqa: E402
from sfumato.deep import run as training  # noqa: E402
from sfumato.deep.ready.inputs import DeclaredInputs  # noqa: E402
from sfumato.deep.ready.networks import build_network, choose_network, make_features  # noqa: E402
from sfumato.deep.ready.recipes import choose_recipe  # noqa: E402
from sfumato.errors import BudgetError, PolicyError, UsageError  # noqa: E402

RNG = np.random.default_rng(5)
X = RNG.normal(size=(3_000, 4))
Y = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
BOX = (-4, 4)
IMAGES = RNG.random((60, 9, 10)) * 255


def _classifier(**more: Any) -> deep.Classifier:
    return deep.Classifier(**{"epsilon": 4, "classes": ["no", "yes"], "bounds": BOX, **more})


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train with hardly any noise, where a test is not about privacy: prices take long to solve for."""
    monkeypatch.setattr(training, "solve_multiplier", lambda *run: 0.1)


def test_a_classifier_learns_declared_classes() -> None:
    model = _classifier().fit(X, Y)
    assert model.network_ == "mlp"
    assert model.score(X, Y) > 0.85
    chances = model.predict_proba(X[:50])
    assert chances.shape == (50, 2)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert (model.predict(X[:50]) == model.classes_[chances.argmax(axis=1)]).all()
    assert "ε = 4, δ = 1e-05" in str(model)
    assert "idealised arithmetic" in str(model.guarantee_)


@pytest.mark.usefixtures("quiet")
def test_a_regressor_predicts_within_its_bounds() -> None:
    target = 10 * X[:, 0] + 50
    model = deep.Regressor(epsilon=4, bounds=BOX, target_bounds=(0, 100)).fit(X, target)
    assert model.score(X, target) > 0.6
    assert ((model.predict(X * 50) >= 0) & (model.predict(X * 50) <= 100)).all()


@pytest.mark.usefixtures("quiet")
def test_frames_have_categories_and_rules_for_missing_values() -> None:
    ages = np.where(RNG.random(500) < 0.2, np.nan, RNG.uniform(0, 100, 500))
    frame = pd.DataFrame({"age": ages, "ward": RNG.choice(["A", "B", "C"], 500)})
    bounds = {"age": (0, 110), "ward": ["A", "B", "C"]}
    with pytest.raises(UsageError, match="SF-N105"):
        _classifier(bounds=bounds, epochs=1).fit(frame, frame["ward"].eq("A").map({True: "yes", False: "no"}))
    model = _classifier(bounds=bounds, missing={"age": "indicator"}, epochs=2, model="linear")
    model.fit(frame, np.where(frame["ward"] == "A", "yes", "no"))
    assert model.module_[1].weight.shape == (2, 5)
    assert model.predict(frame).shape == (500,)


@pytest.mark.parametrize("network", ["scattering", "cnn", "mlp", "linear"])
@pytest.mark.parametrize("shape", [(9, 10), (3, 9, 10)])
def test_images_of_any_size_are_learnt(network: str, shape: tuple[int, ...]) -> None:
    images = torch.rand(5, *shape)
    features = make_features(network, images)
    found = build_network(network, features, 3)(features)
    assert found.shape == (5, 3)
    torch.testing.assert_close(features[2:3], make_features(network, images[2:3]))


@pytest.mark.usefixtures("quiet")
def test_an_image_classifier_is_linear_on_scattering_features() -> None:
    labels = (np.arange(60) % 2).astype(int)
    images = IMAGES * 0.2 + 200 * labels[:, None, None] * (np.arange(10) < 5)
    model = deep.Classifier(epsilon=100, classes=[0, 1], bounds=(0, 255)).fit(images, labels)
    assert model.network_ == "scattering"
    assert model.score(images, labels) == 1


def test_inputs_are_scaled_by_declarations_and_each_row_on_its_own() -> None:
    declared = DeclaredInputs.of(X, BOX, None)
    rows = declared.read(X)
    torch.testing.assert_close(rows, torch.from_numpy((X / 4).clip(-1, 1)).float())
    torch.testing.assert_close(declared.read(X[7:8]), rows[7:8])
    pixels = DeclaredInputs.of(IMAGES, (0, 255), None).read(IMAGES)
    torch.testing.assert_close(pixels, torch.from_numpy(IMAGES / 255).float())


def test_choices_follow_from_public_numbers() -> None:
    assert choose_network("auto", False, 100, 1.0) == "linear"
    assert choose_network("auto", False, 100_000, 1.0) == "mlp"
    assert choose_network("auto", True, 60_000, 3.0) == "scattering"
    assert choose_network("auto", True, 10_000_000, 3.0) == "cnn"
    for rows in (1, 10, 1_000, 100_000, 10**8):
        recipe = choose_recipe("mlp", rows, 1.0, False)
        assert 1 <= recipe.batch_size <= rows
        assert 0 <= recipe.average < 1


WRONG: dict[str, tuple[str, dict[str, Any], Any, Any]] = {
    "no classes": ("SF-E101", {"classes": None}, X, Y),
    "one class": ("SF-E101", {"classes": ["no"]}, X, Y),
    "another label": ("SF-E213", {"classes": ["no", "maybe"]}, X, Y),
    "no bounds": ("SF-E101", {"bounds": None}, X, Y),
    "bounds that cross": ("SF-C104", {"bounds": (1, -1)}, X, Y),
    "undeclared column": ("SF-E101", {"bounds": {"x0": (0, 1)}}, X, Y),
    "missing values": ("SF-N105", {}, np.full((5, 4), np.nan), Y[:5]),
    "texts": ("SF-N105", {}, np.full((5, 4), "a"), Y[:5]),
    "no rows": ("SF-E176", {}, X[:0], Y[:0]),
    "one row as a list": ("SF-E176", {}, X[0], Y[:1]),
    "fewer targets": ("SF-E176", {}, X, Y[:5]),
    "no target": ("SF-E176", {}, X, None),
    "another network": ("SF-E187", {"model": "cnn"}, X, Y),
    "no budget": ("SF-N101", {"epsilon": 0}, X, Y),
    "large batch": ("SF-E179", {"batch_size": 10_000}, X, Y),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_bad_input_is_told_before_anything_is_spent(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code, settings, rows, labels = WRONG[what]
    monkeypatch.setattr(training, "add_normals", lambda *sums: pytest.fail("a step was taken"))
    model = _classifier(**settings)
    with pytest.raises(UsageError, match=code):
        model.fit(rows, labels)
    assert not hasattr(model, "guarantee_")


def test_regressors_need_bounds_and_finite_targets() -> None:
    with pytest.raises(UsageError, match="SF-E101"):
        deep.Regressor(bounds=BOX).fit(X, X[:, 0])
    with pytest.raises(UsageError, match="SF-N105"):
        deep.Regressor(bounds=BOX, target_bounds=(0, 1)).fit(X, np.full(len(X), np.inf))


@pytest.mark.usefixtures("quiet")
def test_predictions_need_a_fit_and_rows_of_the_same_shape() -> None:
    with pytest.raises(UsageError, match="SF-N606"):
        _classifier().predict(X)
    model = _classifier(epochs=0.2).fit(X, Y)
    with pytest.raises(UsageError, match="SF-E176"):
        model.predict(X[:, :2])


def test_parameters_are_stored_as_they_are_given() -> None:
    classes = ["no", "yes"]
    model = deep.Classifier(2, classes=classes)
    assert model.get_params()["classes"] is classes
    assert model.set_params(epsilon=3).epsilon == 3
    assert repr(model) == "Classifier(epsilon=3, classes=['no', 'yes'])"
    with pytest.raises(UsageError, match="SF-E187"):
        model.set_params(eps=3)


@pytest.mark.usefixtures("quiet")
def test_clones_and_copies_count_their_fits_together() -> None:
    base = pytest.importorskip("sklearn.base", reason="the extra 'learn' is not installed")
    selection = pytest.importorskip("sklearn.model_selection")
    model = _classifier(epochs=0.2)
    selection.cross_val_score(model, X, Y, cv=2)
    copy.deepcopy(model).fit(X, Y)
    assert "4 fits" in str(base.clone(model).fit(X, Y).guarantee_)
    with pytest.raises(PolicyError, match="SF-L303"):
        pickle.loads(pickle.dumps(model)).fit(X, Y)


@pytest.mark.usefixtures("quiet")
def test_rows_of_a_unit_are_bounded_together() -> None:
    model = _classifier(rows_per_unit=3, epochs=0.5).fit(X, Y, groups=np.arange(3_000) // 3)
    assert model.guarantee_.unit == "up to 3 rows of one unit"


@pytest.mark.usefixtures("quiet")
def test_a_saved_network_predicts_the_same_and_pays_for_no_fit(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": RNG.uniform(0, 100, 200), "ward": RNG.choice(["A", "B"], 200)})
    given = {"bounds": {"age": (0, 110), "ward": ["A", "B"]}, "missing": {"age": "indicator"}, "epochs": 1}
    regressor = deep.Regressor(target_bounds=(0, 110), **given).fit(frame, frame["age"])
    images = deep.Classifier(classes=range(2), bounds=(0, 255), epochs=1).fit(IMAGES, np.arange(60) % 2)
    for model, rows in ((regressor, frame), (images, IMAGES)):
        model.save(tmp_path / "model.npz")
        loaded = deep.load(tmp_path / "model.npz")
        np.testing.assert_allclose(loaded.predict(rows), model.predict(rows))
        assert loaded.guarantee_ == model.guarantee_
        with pytest.raises(PolicyError, match="SF-L303"):
            loaded.fit(rows, np.zeros(len(rows)))


def test_other_files_are_no_networks(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="SF-N606"):
        _classifier().save(tmp_path / "model.npz")
    (tmp_path / "text").write_text("no network")
    for name in ("text", "absent"):
        with pytest.raises(UsageError, match="SF-E108"):
            deep.load(tmp_path / name)


def test_an_account_pays_before_rows_are_learnt_from(tmp_path: Path) -> None:
    from sfumato.learn import Account

    account = Account(tmp_path / "fits.ledger", epsilon=3, delta=1e-5)
    model = _classifier(epsilon=3, epochs=1, budget=account)
    travelled = pickle.loads(pickle.dumps(model))
    model.fit(X, Y)
    with pytest.raises(BudgetError, match="SF-B101"):
        travelled.fit(X, Y)
    model.save(tmp_path / "model.npz")
    assert deep.load(tmp_path / "model.npz").budget is None
    paid = deep.Trainer(
        torch.nn.Linear(4, 2),
        torch.nn.CrossEntropyLoss(),
        steps=1,
        budget=account,
        checkpoint=tmp_path / "run",
    )
    with pytest.raises(UsageError, match="SF-E179"):
        paid.fit((X.astype("float32"), (Y == "yes").astype(int)))
