"""Pipelines behind the curator: steps that are charged in turn, and mean what they mean on own arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import sfumato as sf
from sfumato import learn
from sfumato.errors import BudgetError, SfumatoError

RNG = np.random.default_rng(4)
ROWS = 4000
FRAME = pd.DataFrame(
    {
        "age": RNG.gamma(2, 10, ROWS).clip(0, 110),
        "cost": np.exp(RNG.normal(4, 1.2, ROWS)).clip(0, 5000),
        "ward": RNG.choice(["A", "B", "C"], ROWS),
    }
)
ILL = (np.log1p(FRAME.cost) - 4 + 0.05 * (FRAME.age - 20) + (FRAME.ward == "A") > 0).astype(int).to_numpy()
BOUNDS: dict[str, Any] = {"age": (0, 110), "cost": (0, 5000)}
NUMBERS = ["age", "cost"]
SURE: dict[str, Any] = {"epsilon": 100}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> sf.Lab:
    made = sf.create(tmp_path_factory.mktemp("pipelines") / "lab")
    columns = {
        "age": sf.between(0, 110),
        "cost": sf.between(0, 5000),
        "ward": sf.one_of("A", "B", "C"),
        "ill": sf.one_of(0, 1),
    }
    data = pa.table({"id": np.arange(ROWS), **{name: FRAME[name] for name in FRAME}, "ill": ILL})
    unit = sf.Unit("id", max_rows=1, of="people")
    made.register("people", data, unit=unit, columns=columns, budget=sf.Budget(epsilon=10**5, delta=1e-2))
    return made


def bayes(**more: Any) -> learn.GaussianNB:
    return learn.GaussianNB(**{"classes": [0, 1], **SURE, **more})


# ---- the same meaning --------------------------------------------------------------------------------------

PIPELINES: dict[str, Any] = {
    "quantiles": lambda: (learn.Scaler(**SURE, bounds=BOUNDS), bayes(bounds=(-1, 1))),
    "range": lambda: (learn.Scaler("range", **SURE, bounds=BOUNDS), bayes(bounds=(-1, 1))),
    "standard": lambda: (
        learn.StandardScaler(**SURE, bounds=BOUNDS),
        learn.LogisticRegression(epsilon=3, delta=1e-6, bounds=(-3, 3), classes=[0, 1], method="gaussian"),
    ),
    "robust": lambda: (learn.RobustScaler(**SURE, bounds=BOUNDS), bayes(bounds=(-3, 3))),
    "bins": lambda: (
        learn.Bins(8, **SURE, bounds=BOUNDS),
        learn.CategoricalNB(**SURE, categories=8, classes=[0, 1]),
    ),
    "three": lambda: (
        learn.Scaler(**SURE, bounds=BOUNDS),
        learn.StandardScaler(**SURE, bounds=(-1, 1)),
        bayes(bounds=(-3, 3)),
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_scores_as_on_own_arrays(lab: sf.Lab, name: str) -> None:
    make, s = lambda: learn.make_pipeline(*PIPELINES[name]()), lab.session()
    behind = s.fit(make(), table="people", features=NUMBERS, target="ill")
    own = make().fit(FRAME[NUMBERS], ILL)
    scores = [each.score(FRAME[NUMBERS], ILL) for each in (behind, own)]
    assert scores[0] == pytest.approx(scores[1], abs=0.03)
    measured = s.evaluate(behind, table="people", target="ill", epsilon=100)
    assert measured.accuracy.value == pytest.approx(scores[0], abs=0.03)


def test_parts_of_columns_and_a_hold_out(lab: sf.Lab) -> None:
    def make() -> learn.Pipeline:
        encoder = OneHotEncoder(categories=[["A", "B", "C"]], handle_unknown="ignore", sparse_output=False)
        parts = [
            ("scaled", learn.Scaler(**SURE, bounds={"cost": (0, 5000)}), ["cost"]),
            ("ward", encoder, ["ward"]),
        ]
        rest = learn.StandardScaler(**SURE, bounds={"age": (0, 110)})
        return learn.make_pipeline(ColumnTransformer(parts, remainder=rest), bayes(bounds=(-3, 3)))

    s = lab.session()
    behind = s.fit(make(), table="people", features=list(FRAME), target="ill", split=(0.8, "train"))
    own = make().fit(FRAME, ILL)
    for model in (behind, own):
        score = model.score(FRAME, ILL)
        assert score > 0.8
        found = s.evaluate(model, table="people", target="ill", epsilon=100, split=(0.8, "test"))
        assert found.accuracy.value == pytest.approx(score, abs=0.05)


# ---- the price ---------------------------------------------------------------------------------------------


def test_all_steps_are_charged_and_a_second_fit_is_free(lab: sf.Lab) -> None:
    s = lab.session()

    def fit() -> Any:
        steps = learn.StandardScaler(epsilon=0.25), learn.GaussianNB(epsilon=0.5)
        return s.fit(learn.make_pipeline(*steps), table="people", features=["age"], target="ill")

    before = s.budget.to_dict()
    model = fit()
    assert model.guarantee_.epsilon == 0.75
    assert "StandardScaler ε = 0.25, GaussianNB ε = 0.5" in str(model.guarantee_)
    after = s.budget.to_dict()
    assert after != before
    again = fit()
    assert s.budget.to_dict() == after
    assert (again.predict_proba(FRAME[["age"]]) == model.predict_proba(FRAME[["age"]])).all()


def test_nothing_is_charged_where_not_all_steps_can_be_paid(lab: sf.Lab) -> None:
    steps = learn.StandardScaler(epsilon=0.5), learn.GaussianNB(epsilon=10**6)
    s = lab.session()
    before = s.budget.to_dict()
    with pytest.raises(BudgetError):
        s.fit(learn.make_pipeline(*steps), table="people", features=["cost"], target="ill")
    assert s.budget.to_dict() == before


# ---- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [
        FunctionTransformer(np.log1p),
        learn.PCA(epsilon=1.0),
        ColumnTransformer([("one", learn.Scaler(**SURE), ["cost"])], remainder="passthrough"),
        ColumnTransformer([("one", learn.Scaler(**SURE), ["price"])]),
        ColumnTransformer([("one", FunctionTransformer(np.log1p), ["cost"])]),
    ],
    ids=["function", "components", "text", "unknown", "part"],
)
def test_steps_that_no_engine_computes_are_refused(lab: sf.Lab, first: Any) -> None:
    s = lab.session()
    before = s.budget.to_dict()
    with pytest.raises(SfumatoError) as refused:
        s.fit(learn.make_pipeline(first, bayes()), table="people", features=list(FRAME), target="ill")
    assert refused.value.code == "SF-E157"
    assert "hint" in str(refused.value)
    assert s.budget.to_dict() == before


def test_a_step_without_noise_is_refused_with_what_to_use(lab: sf.Lab) -> None:
    unchecked = learn.Pipeline([("scaler", StandardScaler()), ("model", bayes())])
    with pytest.raises(SfumatoError, match=r"sf\.learn\.StandardScaler"):
        lab.session().fit(unchecked, table="people", features=NUMBERS, target="ill")


def test_a_column_stands_in_a_part_once(lab: sf.Lab) -> None:
    """One row would move each of its indicators."""
    encoder = OneHotEncoder(categories=[["A", "B"]] * 2, handle_unknown="ignore", sparse_output=False)
    pipeline = learn.make_pipeline(ColumnTransformer([("words", encoder, ["ward", "ward"])]), bayes())
    with pytest.raises(SfumatoError, match="different columns"):
        lab.session().fit(pipeline, table="people", features=["ward"], target="ill")
