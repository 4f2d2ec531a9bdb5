"""Fitting and evaluating on filtered frames and held-out units, for every kind of model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.metrics import r2_score, roc_auc_score

import sfumato as sf
from sfumato import audit, learn
from sfumato.errors import SfumatoError
from sfumato.privacy.events import Pure

RNG = np.random.default_rng(11)
ROWS = 1500
FRAME = pd.DataFrame({"age": RNG.uniform(0, 100, ROWS), "ward": RNG.choice(["A", "B", "C"], ROWS)})
LABEL = np.where((FRAME.ward == "B") ^ (RNG.random(ROWS) < 0.2), "yes", "no")
COST = np.clip(FRAME.age / 2 + RNG.normal(20, 8, ROWS), 0, 100)
BOUNDS: dict[str, Any] = {"age": (0, 100), "ward": ["A", "B", "C"]}
SURE: dict[str, Any] = {"epsilon": 1e5}
"""So little noise that what is measured is what the rows say."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Any:
    lab = sf.create(tmp_path_factory.mktemp("lab") / "lab")
    data = {"id": np.arange(ROWS), "label": LABEL, "cost": COST, **{name: FRAME[name] for name in FRAME}}
    columns = {"age": sf.between(0, 100), "ward": sf.one_of("A", "B", "C"), "label": sf.one_of("no", "yes")}
    lab.register(
        "people",
        pa.table(data),
        unit=sf.Unit("id", max_rows=1),
        columns={**columns, "cost": sf.between(0, 100)},
        budget=sf.Budget(epsilon=10**9, delta=0.1),
    )
    return lab.session()


def fit_behind(
    session: Any, estimator: Any, target: str = "label", table: Any = "people", **more: Any
) -> Any:
    return session.fit(estimator, table=table, features=["age", "ward"], target=target, **more)


# ---- rows that are left ------------------------------------------------------------------------------------


def test_a_fit_takes_the_rows_of_a_frame(session: Any) -> None:
    old = session.table("people").where("age >= 50")
    found = fit_behind(session, learn.PCA(1, **SURE), None, old)  # type: ignore[arg-type]
    assert found.mean_[0] == pytest.approx(FRAME.age[FRAME.age >= 50].mean(), abs=0.1)
    doubled = session.table("people").select(twice="age * 2", label="label")
    model = session.fit(learn.GaussianNB(**SURE), table=doubled, features=["twice"], target="label")
    assert model.theta_.mean() == pytest.approx(2 * FRAME.age.mean(), rel=0.05)


def test_groups_are_no_rows(session: Any) -> None:
    with pytest.raises(SfumatoError) as refused:
        fit_behind(session, learn.PCA(1, **SURE), table=session.table("people").group_by("ward"))
    assert refused.value.code == "SF-Q127"


def test_the_sides_of_a_split_are_disjoint_and_whole(session: Any) -> None:
    counts = []
    for side in ("train", "test"):
        model = learn.CategoricalNB(**SURE)
        session.fit(model, table="people", features=["ward"], target="label", split=(0.7, side))
        counts.append(np.array(model.class_count_).sum())
    assert sum(counts) == pytest.approx(ROWS, abs=1)
    # Six standard deviations of a binomial number: one in 10^9 splits is further off.
    assert counts[0] == pytest.approx(0.7 * ROWS, abs=6 * np.sqrt(0.21 * ROWS))


@pytest.mark.parametrize("split", [(1.5, "train"), (0.8, "rest"), 0.8])
def test_a_split_is_a_share_and_a_side(split: Any, session: Any) -> None:
    with pytest.raises(SfumatoError) as refused:
        fit_behind(session, learn.GaussianNB(**SURE), split=split)
    assert refused.value.code == "SF-U104"


# ---- what is measured --------------------------------------------------------------------------------------

CLASSIFIERS = [
    learn.GaussianNB(**SURE),
    learn.DecisionTree(max_depth=2, **SURE),
    learn.GradientBoosting(trees=4, depth=2, **SURE),
    learn.LogisticRegression(steps=3, **SURE),
]


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda each: type(each).__name__)
def test_classifiers_are_measured_behind_the_curator(estimator: Any, session: Any) -> None:
    model = fit_behind(session, estimator)
    found = session.evaluate(model, table="people", target="label", **SURE)
    assert found.accuracy.value == pytest.approx(model.score(FRAME, LABEL), abs=0.002)
    chances = model.predict_proba(FRAME)[:, 1]
    assert found.auc.value == pytest.approx(roc_auc_score(LABEL == "yes", chances), abs=0.03)
    assert [false for false, _ in found.roc] == sorted(false for false, _ in found.roc)
    own = learn.evaluate(model, FRAME, LABEL, **SURE)
    assert np.abs(found.confusion - own.confusion).max() <= 2


def test_regressors_are_measured_alike(session: Any) -> None:
    model = fit_behind(session, learn.LinearRegression(**SURE), "cost")
    behind = session.evaluate(model, table="people", target="cost", epsilon=2000)
    own = learn.evaluate(model, FRAME, COST, target_bounds=(0, 100), epsilon=2000)
    guessed = model.predict(FRAME)
    for found in (behind, own):
        assert found.r2.value == pytest.approx(r2_score(COST, guessed), abs=0.002)
        assert found.rmse.value == pytest.approx(np.sqrt(((COST - guessed) ** 2).mean()), abs=0.05)
        wanted = np.quantile(COST - guessed, [share for share, _ in found.residuals])
        assert [value for _, value in found.residuals] == pytest.approx(wanted, abs=0.5)
    assert "R2" in str(own)


def test_lists_of_values_are_measured(session: Any) -> None:
    model = session.fit(learn.CategoricalNB(**SURE), table="people", features=["ward"], target="label")
    found = session.evaluate(model, table="people", target="label", **SURE)
    assert found.accuracy.value == pytest.approx(model.score(FRAME[["ward"]], LABEL), abs=0.002)


def test_models_are_not_measured_where_units_are_replaced(session: Any, tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    columns = {"age": sf.between(0, 100), "ward": sf.one_of("A", "B", "C"), "label": sf.one_of("no", "yes")}
    lab.register(
        "people",
        pa.table({**{name: FRAME[name] for name in FRAME}, "label": LABEL}),
        unit=sf.ROW,
        columns=columns,
        budget=sf.Budget(epsilon=1),
        neighbours=sf.REPLACE_ONE,
        rows=ROWS,
    )
    model = fit_behind(session, learn.GaussianNB(**SURE))
    with pytest.raises(SfumatoError) as refused:
        lab.session().evaluate(model, table="people", target="label", epsilon=1)
    assert refused.value.code == "SF-E132"
    assert not [each for each in lab.ledger.read_entries() if each.kind == "charge"]


def test_other_categories_are_refused(session: Any) -> None:
    model = learn.GaussianNB(bounds={**BOUNDS, "ward": ["A", "B"]}, classes=["no", "yes"], **SURE)
    model.fit(FRAME, LABEL).set_params(bounds=None)
    with pytest.raises(SfumatoError) as refused:
        session.evaluate(model, table="people", target="label", **SURE)
    assert refused.value.code == "SF-E112"


@pytest.mark.parametrize("far", [1e9, -1e9, np.nan])
def test_one_row_moves_an_evaluation_by_its_price(far: float) -> None:
    rows, target = FRAME.age.to_numpy()[:40, None], COST[:40]
    model = learn.LinearRegression(bounds=(0, 100), target_bounds=(0, 100), **SURE).fit(rows, target)

    def program(data: tuple[Any, Any]) -> Any:
        found = learn.evaluate(model, *data, epsilon=1)
        return found.r2, found.residuals

    more = np.vstack([rows, [[far]]]), np.append(target, -far)
    found = audit.replay(program, [((rows, target), more), (more, (rows, target))], claim=Pure(1))
    assert found.finding is None


# ---- manners -----------------------------------------------------------------------------------------------


def test_classes_that_match_nothing_are_told_before_anything_is_spent(tmp_path: Path, session: Any) -> None:
    account = learn.Account(tmp_path / "fits.ledger", epsilon=1)
    model = learn.GaussianNB(epsilon=1, bounds=BOUNDS, classes=[0, 1], budget=account)
    with pytest.raises(SfumatoError) as refused:
        model.fit(FRAME, LABEL)
    assert refused.value.code == "SF-E213"
    assert account.left == 1
    with pytest.raises(SfumatoError) as refused:
        fit_behind(session, learn.GaussianNB(epsilon=1, classes=[0, 1]))
    assert refused.value.code == "SF-E213"


def test_models_print_what_they_protect() -> None:
    model = learn.GaussianNB(epsilon=1, bounds=BOUNDS, classes=["no", "yes"])
    assert "protects" not in repr(model)
    model.fit(FRAME, LABEL)
    assert "protects     one row, which is added or removed" in repr(model)
    assert "one row, which is added or removed" in model._repr_mimebundle_()["text/html"]
