"""Fits behind the curator, replayed on two tables that differ by one extreme person."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato import audit
from sfumato.privacy.events import Sequential

COLUMNS = {
    "a": sf.between(-3, 5),
    "b": sf.between(0, 1000),
    "y": sf.between(-1, 1),
    "c": sf.one_of("p", "q", "r"),
}
HUGE = 1e9


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    """The first person has many rows, all far outside the bounds. No table is asked twice: that is free."""
    rng = np.random.default_rng(1)
    who = np.concatenate([np.zeros(6, dtype=int), rng.integers(1, 40, 90)])
    far = who == 0
    full = pa.table(
        {
            "who": who,
            "a": np.where(far, HUGE, rng.normal(1, 2, 96)),
            "b": np.where(far, -HUGE, rng.uniform(0, 1100, 96)),
            "y": np.where(far, HUGE, rng.normal(0, 1, 96)),
            "c": np.where(far, "q", rng.choice(["p", "q", "r", "s"], 96)),
        }
    )
    made = sf.create(tmp_path / "lab")
    unit, budget = sf.Unit("who", max_rows=4), sf.Budget(epsilon=1000, delta=1e-6)
    for person in (0, 7):
        rest = full.filter(pa.array(who != person))
        made.register(f"with{person}", full, unit=unit, columns=COLUMNS, budget=budget)
        made.register(f"without{person}", rest, unit=unit, columns=COLUMNS)
    return made


SPEND: dict[str, Any] = {"epsilon": 3, "delta": 1e-7}
MODELS: list[tuple[Callable[[], Any], list[str], str | None]] = [
    (lambda: sf.learn.GaussianNB(**SPEND), ["a", "b"], "c"),
    (lambda: sf.learn.CategoricalNB(**SPEND), ["c"], "c"),
    (lambda: sf.learn.LinearRegression(**SPEND), ["a", "b"], "y"),
    (lambda: sf.learn.PCA(2, **SPEND), ["a", "b", "y"], None),
    (lambda: sf.learn.KMeans(2, **SPEND), ["a", "b"], None),
    (lambda: sf.learn.DecisionTree(**SPEND, max_depth=2), ["a", "b"], "c"),
    (lambda: sf.learn.GradientBoosting(**SPEND, trees=3, depth=2), ["a", "b"], "c"),
    (lambda: sf.learn.GradientBoostingRegressor(**SPEND, trees=11, depth=2), ["a", "b"], "y"),
]


@pytest.mark.parametrize("rows", [3])
@pytest.mark.parametrize(("make", "features", "target"), MODELS)
def test_a_fit_keeps_its_price(
    lab: sf.Lab,
    make: Callable[[], Any],
    features: list[str],
    target: str | None,
    rows: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "sfumato.learn.linear.regression._MIN_SIGNAL", -1e9
    )  # so that few rows are asked for their products too
    # Few rows are asked where their targets lie, too, and not for their mean alone.
    monkeypatch.setattr("sfumato.learn.target_range._MEAN_ERROR", 1e9)
    monkeypatch.setattr("sfumato.learn.target_range._CLEAR_ROWS", -1e9)

    def program(table: str) -> dict[str, Any]:
        fitted = lab.session().fit(make(), table=table, features=features, target=target, rows_per_unit=rows)
        return {
            name: value
            for name, value in vars(fitted).items()
            if name.endswith("_") and name not in ("guarantee_", "feature_names_in_")
        }

    claim = Sequential(make().fit_budget().events)
    found = audit.replay(program, [("with0", "without0"), ("without7", "with7")], claim=claim)
    assert found.finding is None
    assert found.reached > 0.5
