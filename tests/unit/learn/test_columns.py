"""Columns of texts, categories and missing values: the same features on own frames and behind the curator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato import learn
from sfumato.errors import SfumatoError
from sfumato.oracle.coded_columns import code_columns

RNG = np.random.default_rng(5)
ROWS = 2000
WARD = RNG.choice(np.array(["A", "B", "C", "other"], dtype=object), ROWS, p=[0.332, 0.332, 0.332, 0.004])
WARD[RNG.random(ROWS) < 0.1] = None
FRAME = pd.DataFrame(
    {
        "age": np.where(RNG.random(ROWS) < 0.2, np.nan, RNG.uniform(0, 110, ROWS)),
        "ward": WARD,
        "code": RNG.choice([1.0, 2.0, 3.0], ROWS),
    }
)
LABEL = np.where((FRAME.ward == "B") | (FRAME.age > 80), "yes", "no")
COST = np.where(FRAME.ward == "B", 70.0, 20.0) + RNG.normal(0, 5, ROWS)
BOUNDS: dict[str, Any] = {"age": (0, 110), "ward": ["A", "B", "C"], "code": sf.one_of(1, 2, 3)}
MISSING = {"age": "indicator", "ward": "indicator"}
NAMES = ["age", "age_missing", "ward_A", "ward_B", "ward_C", "ward_missing", "code_1", "code_2", "code_3"]
SURE: dict[str, Any] = {"epsilon": 1e6, "delta": 1e-6}
"""So little noise that what is learnt is what the rows say."""

CLASSIFIERS = [
    "LogisticRegression",
    "LinearSVC",
    "Perceptron",
    "GaussianNB",
    "DecisionTree",
    "GradientBoosting",
    "NearestNeighbors",
]
REGRESSORS = ["LinearRegression", "GradientBoostingRegressor"]
OTHERS = ["PCA", "KMeans"]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> sf.lab.session.Session:
    lab = sf.create(tmp_path_factory.mktemp("lab") / "lab")
    data = {"id": np.arange(ROWS), "label": LABEL, "cost": COST}
    data |= {name: pa.array(FRAME[name], from_pandas=True) for name in FRAME}
    lab.register(
        "people",
        pa.table(data),
        unit=sf.Unit("id", max_rows=1),
        columns={
            "age": sf.between(0, 110),
            "ward": sf.one_of("A", "B", "C"),
            "code": sf.one_of(1, 2, 3),
            "label": sf.one_of("no", "yes"),
            "cost": sf.between(0, 100),
        },
        budget=sf.Budget(epsilon=10**9, delta=0.1),
    )
    return lab.session()


_QUICK: dict[str, dict[str, Any]] = {
    "LogisticRegression": {"steps": 4},
    "LinearSVC": {"steps": 4},
    "Perceptron": {"rounds": 3},
    "NearestNeighbors": {"waves": 16},
    "DecisionTree": {"max_depth": 2},
    "GradientBoosting": {"trees": 6, "depth": 2, "learning_rate": 0.5},
    "GradientBoostingRegressor": {"trees": 6, "depth": 2, "learning_rate": 0.5},
}


def make(name: str, **given: Any) -> Any:
    kind = getattr(learn, name)
    more = {"classes": ["no", "yes"]} if name in CLASSIFIERS else {}
    more |= {"target_bounds": (0, 100)} if name in REGRESSORS else {}
    more |= _QUICK.get(name, {})
    return kind(bounds=BOUNDS, missing=MISSING, **SURE, **more, **given)


def encode(frame: pd.DataFrame) -> np.ndarray:
    """The features that the columns are to become, written down once more."""
    parts = [frame.age.fillna(55), frame.age.isna()]
    parts += [frame.ward == each for each in "ABC"] + [~frame.ward.isin(list("ABC"))]
    return np.column_stack([*parts, *(frame.code == each for each in (1, 2, 3))]).astype(float)


# ---- one meaning -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLASSIFIERS + REGRESSORS)
def test_a_frame_and_a_table_teach_the_same(name: str, session: Any) -> None:
    target = LABEL if name in CLASSIFIERS else COST
    own = make(name).fit(FRAME, target)
    behind = session.fit(
        make(name),
        table="people",
        features=["age", "ward", "code"],
        target="label" if name in CLASSIFIERS else "cost",
    )
    assert own.columns_ == behind.columns_
    assert own.score(FRAME, target) == pytest.approx(behind.score(FRAME, target), abs=0.03)
    assert own.score(FRAME, target) > 0.6


@pytest.mark.parametrize("name", OTHERS)
def test_transformers_name_their_features(name: str) -> None:
    own = make(name).fit(FRAME)
    own.set_output(transform="pandas")
    shown = own.transform(FRAME)
    assert list(shown.columns) == list(own.get_feature_names_out())


def test_features_are_what_the_rule_says(session: Any) -> None:
    plain = encode(FRAME)
    for found in (
        make("PCA").fit(FRAME),
        session.fit(make("PCA"), table="people", features=["age", "ward", "code"]),
    ):
        assert found.mean_ == pytest.approx(plain.mean(axis=0), abs=0.05)


def test_values_stand_for_missing_ones(session: Any) -> None:
    rule = {"age": 30, "ward": "C"}
    for found in (
        learn.PCA(1, bounds=BOUNDS, missing=rule, **SURE).fit(FRAME),
        session.fit(
            learn.PCA(1, missing=rule, bounds={"code": BOUNDS["code"]}, **SURE),
            table="people",
            features=["age", "ward", "code"],
        ),
    ):
        assert found.mean_[0] == pytest.approx(FRAME.age.fillna(30).mean(), abs=0.05)
        assert found.mean_[3] == pytest.approx((~FRAME.ward.isin(["A", "B"])).mean(), abs=0.01)


def test_closer_bounds_than_those_of_the_catalog(session: Any) -> None:
    own = learn.PCA(1, bounds={"age": (20, 40)}, **SURE).fit(FRAME[["age"]])
    behind = session.fit(learn.PCA(1, bounds={"age": (20, 40)}, **SURE), table="people", features=["age"])
    clipped = FRAME.age.clip(20, 40).fillna(30).mean()
    assert own.mean_[0] == pytest.approx(clipped, abs=0.05)
    assert behind.mean_[0] == pytest.approx(clipped, abs=0.05)


# ---- manners -----------------------------------------------------------------------------------------------


def test_two_columns_of_one_name_are_refused() -> None:
    """Sensitivities count one indicator of each name."""
    with pytest.raises(SfumatoError) as refused:
        code_columns(["ward", "ward"], {"ward": ["A", "B"]}, None)
    assert refused.value.code == "SF-E110"


def test_columns_of_arrays_go_by_their_places() -> None:
    rows = FRAME[["ward", "age"]].to_numpy()
    model = learn.GaussianNB(bounds={0: ["A", "B", "C"], 1: (0, 110)}, classes=["no", "yes"], **SURE)
    assert model.fit(rows, LABEL).score(rows, LABEL) > 0.8


def test_a_missing_value_is_not_the_text_nan() -> None:
    frame = pd.DataFrame({"text": np.array(["nan", None, float("nan"), pd.NA] * 500, dtype=object)})
    found = learn.PCA(1, bounds={"text": ["nan", "b"]}, **SURE).fit(frame)
    assert found.mean_ == pytest.approx([0.25, 0.0], abs=0.02)


def test_models_keep_their_columns_in_a_file(tmp_path: Path) -> None:
    model = make("LogisticRegression").fit(FRAME, LABEL)
    model.save(tmp_path / "model.npz")
    again: Any = learn.load(tmp_path / "model.npz")
    assert (again.predict(FRAME) == model.predict(FRAME)).all()


def test_counts_of_categories_may_be_of_numpy() -> None:
    rows = RNG.integers(0, 3, (500, 2))
    for categories in (np.int64(3), [np.int32(3), 3], {"x0": 3, "x1": [0, 1, 2]}):
        model = learn.CategoricalNB(epsilon=1, classes=[0, 1], categories=categories)
        assert model.fit(rows, rows[:, 0] % 2).feature_prob_[0].shape == (3, 2)


@pytest.mark.parametrize(
    ("bounds", "missing", "code"),
    [
        ({"age": (0, 110)}, None, "SF-E101"),
        ({**BOUNDS, "age": (3, 1)}, None, "SF-C104"),
        ({**BOUNDS, "age": [1, 2, 3]}, None, "SF-C104"),
        (BOUNDS, {"age": 300}, "SF-E101"),
        (BOUNDS, {"ward": "Z"}, "SF-E101"),
        (BOUNDS, {"agee": 3}, "SF-E101"),
        (BOUNDS, "mean", "SF-E101"),
        (None, "indicator", "SF-E101"),
    ],
)
def test_what_is_not_declared_is_refused(bounds: Any, missing: Any, code: str) -> None:
    with pytest.raises(SfumatoError) as refused:
        learn.GaussianNB(epsilon=1, classes=["no", "yes"], bounds=bounds, missing=missing).fit(FRAME, LABEL)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("bounds", "code"),
    [({"ward": ["A", "Z"]}, "SF-E112"), ({"age": (200, 300)}, "SF-E112"), ({"age": ["A"]}, "SF-E112")],
)
def test_the_catalog_has_the_last_word(bounds: Any, code: str, session: Any) -> None:
    with pytest.raises(SfumatoError) as refused:
        session.fit(
            learn.GaussianNB(epsilon=1, bounds=bounds),
            table="people",
            features=["age", "ward"],
            target="label",
        )
    assert refused.value.code == code
