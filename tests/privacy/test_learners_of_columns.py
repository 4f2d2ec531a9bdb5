"""Learners of categories and missing values, replayed on neighbours that differ by one row or one person."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato import audit, learn
from sfumato.privacy.events import Sequential

CATEGORIES = ["p", "q", "r"]
GIVEN: dict[str, Any] = {
    "bounds": {"a": (-1, 1), "c": CATEGORIES},
    "missing": {"a": "indicator", "c": "indicator"},
}
SPENDS = [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}]
MAKERS: list[Any] = [
    lambda **given: learn.GaussianNB(classes=[0, 1], **given),
    lambda **given: learn.PCA(2, **given),
    lambda **given: learn.DecisionTree(classes=[0, 1], max_depth=2, **given),
    lambda **given: learn.GradientBoosting(classes=[0, 1], trees=3, depth=2, **given),
    lambda **given: learn.LogisticRegression(classes=[0, 1], method="gradient", steps=3, **given),
]


def frame(size: int) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    texts = rng.choice(np.array([*CATEGORIES, None, "none of them"], dtype=object), size)
    return pd.DataFrame({"a": rng.uniform(-1.2, 1.2, size), "c": texts, "y": rng.integers(0, 2, size)})


EXTREMES = [(1e9, "p"), (-1e9, "r"), (np.nan, None), (np.nan, "q"), (0.0, "none of them")]


def learned(fitted: Any) -> dict[str, Any]:
    public = ("guarantee_", "feature_names_in_")
    return {name: value for name, value in vars(fitted).items() if name.endswith("_") and name not in public}


@pytest.mark.parametrize("spend", SPENDS, ids=["pure", "gaussian"])
@pytest.mark.parametrize("make", MAKERS)
def test_one_row_costs_what_is_claimed(make: Any, spend: dict[str, float]) -> None:
    rest = frame(50)
    pairs = []
    for a, c in EXTREMES:
        more = pd.concat([rest, pd.DataFrame({"a": [a], "c": [c], "y": [1]})], ignore_index=True)
        pairs += [(rest, more), (more, rest)]

    def program(data: pd.DataFrame) -> dict[str, Any]:
        return learned(make(**GIVEN, **spend).fit(data[["a", "c"]], data.y))

    claim = Sequential(make(**GIVEN, **spend).fit_budget().events)
    found = audit.replay(program, pairs, claim=claim)
    assert found.finding is None
    assert found.reached > 0.4


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> sf.Lab:
    """One person has three rows, each in another category: together they move several indicators."""
    rest = frame(60).assign(who=np.arange(60) // 2 + 1)
    far = pd.DataFrame({"a": [1e9, np.nan, -1e9], "c": CATEGORIES, "y": [0, 1, 1], "who": [0, 0, 0]})
    made = sf.create(tmp_path_factory.mktemp("lab") / "lab")
    columns: dict[str, Any] = {"a": sf.between(-1, 1), "c": sf.one_of(*CATEGORIES), "y": sf.one_of(0, 1)}
    for name, data in (("without", rest), ("with", pd.concat([rest, far], ignore_index=True))):
        table = pa.table({each: pa.array(data[each], from_pandas=True) for each in data})
        unit, budget = sf.Unit("who", max_rows=3), sf.Budget(epsilon=1000, delta=1e-3)
        made.register(name, table, unit=unit, columns=columns, budget=budget)
    return made


@pytest.mark.parametrize("make", MAKERS)
def test_one_person_costs_what_is_claimed(make: Any, lab: sf.Lab) -> None:
    target = "y" if hasattr(make(), "classes") else None

    def program(table: str) -> dict[str, Any]:
        fitted = lab.session().fit(
            make(missing=GIVEN["missing"], **SPENDS[0]),
            table=table,
            features=["a", "c"],
            target=target,
            rows_per_unit=3,
        )
        return learned(fitted)

    claim = Sequential(make(**SPENDS[0]).fit_budget().events)
    found = audit.replay(program, [("with", "without")], claim=claim)
    assert found.finding is None
    assert found.reached > 0.3
