"""Searches behind the curator on worst-case neighbours: a run, the whole, and the way through the gate."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sequential import audit_in_stages
from sfumato import audit
from sfumato.learn.base.saving import from_json
from sfumato.learn.search_scores import ScoredRows
from sfumato.learn.search_tables import BestRunKernel
from sfumato.oracle.fit_budget import to_event
from sfumato.oracle.over_held_rows import IntegerCoding, RowLayout
from sfumato.privacy.events import Sequential

ALPHA = 1e-6
BOUND = 4096
SPENDS: list[dict[str, Any]] = [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}]


def numbers(count: int) -> tuple[IntegerCoding, ...]:
    return (IntegerCoding(BOUND, Fraction(0), Fraction(1)),) * count


CLASSES = RowLayout(numbers(2), 3)
LINE = RowLayout(numbers(2), numbers(1)[0])
LISTED = RowLayout(tuple(IntegerCoding(3, each.middle, each.half, 4) for each in numbers(2)), 3)
MODELS: list[tuple[Any, RowLayout]] = [
    (sf.learn.LogisticRegression(steps=3), CLASSES),
    (sf.learn.LogisticRegression(steps=3), RowLayout(numbers(2), 2)),
    (sf.learn.LinearSVC(steps=3), CLASSES),
    (sf.learn.Perceptron(rounds=3), CLASSES),
    (sf.learn.GaussianNB(), CLASSES),
    (sf.learn.CategoricalNB(), LISTED),
    (sf.learn.DecisionTree(max_depth=2), CLASSES),
    (sf.learn.GradientBoosting(trees=3, depth=2), CLASSES),
    (sf.learn.NearestNeighbors(waves=8), CLASSES),
    (sf.learn.LinearRegression(), LINE),
    (sf.learn.GradientBoostingRegressor(trees=3, depth=2), LINE),
]
IDS = [f"{type(model).__name__}-{layout.target}"[:40] for model, layout in MODELS]


def best(model: Any, layout: RowLayout, spend: dict[str, Any], runs: int = 2) -> BestRunKernel:
    search = sf.learn.Search(model, {"epsilon": [1]}, runs=runs, **spend)
    params = model.get_params(deep=False)
    exact = type(model)(**params | ({"method": "gradient"} if "method" in params else {}))
    search.set_params(estimator=exact)
    return BestRunKernel.of(exact, [{}], layout, search.plan(), always=2)


def rows_of(layout: RowLayout, count: int) -> Any:
    rng = np.random.default_rng(5)
    ends = [each.value_range for each in layout.features]
    last = (-1, layout.target - 1) if isinstance(layout.target, int) else layout.target.value_range
    return np.array([rng.integers(low, high, count, endpoint=True) for low, high in [*ends, last]])


def extremes(layout: RowLayout) -> list[list[int]]:
    """Every corner, with every class."""
    every = [each.value_range for each in layout.features]
    last = list(range(-1, layout.target)) if isinstance(layout.target, int) else [*layout.target.value_range]
    return [[*corner, each] for corner in zip(*every, strict=True) for each in last]


# ---- one run -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spend", SPENDS, ids=["pure", "delta"])
@pytest.mark.parametrize(("model", "layout"), MODELS, ids=IDS)
def test_a_row_that_is_learnt_from_costs_no_more_than_a_fit(
    model: Any, layout: RowLayout, spend: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "sfumato.learn.linear.regression._MIN_SIGNAL", -1e9
    )  # few rows are asked for products too
    searched, rows = best(model, layout, spend), rows_of(layout, 60)
    aside = ScoredRows.of(layout, rows_of(layout, 20))
    pairs = [(rows, np.column_stack([rows, each])) for each in extremes(layout)]
    found = audit.replay(
        lambda table: list(searched._run(0, table, aside)),
        [*pairs, *(pair[::-1] for pair in pairs[:2])],
        claim=Sequential(searched.make_estimator(0).fit_budget().events),
    )
    assert found.finding is None
    assert found.reached > 0.5


@pytest.mark.parametrize(("model", "layout"), MODELS, ids=IDS)
def test_a_row_that_is_scored_on_costs_no_more_than_a_score(model: Any, layout: RowLayout) -> None:
    """Every run learns anew; that none of them meets its extreme row has a chance of at most (2/3)³⁶."""
    searched, rows = best(model, layout, SPENDS[0]), rows_of(layout, 60)
    aside = rows_of(layout, 300)
    pairs = [(aside, np.column_stack([aside, each])) for each in extremes(layout)] * 6
    found = audit.replay(
        lambda table: list(searched._run(0, rows, ScoredRows.of(layout, table))),
        pairs,
        claim=to_event(searched.score),
    )
    assert found.finding is None
    assert found.reached > 0.2


# ---- all of them -------------------------------------------------------------------------------------------


def outcomes(searched: BestRunKernel, table: list[list[int]]) -> Any:
    exact = np.array(table, dtype=np.int64).reshape(-1, 3).T

    def draw(count: int) -> Any:
        found = []
        for _ in range(count):
            answer = searched.release(exact)
            learnt = from_json(answer["learned"])
            found.append([answer["share"], *learnt["class_count_"], *learnt["theta_"][0]])
        return np.array(found)

    return draw


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "side", ["scored on", pytest.param("learnt from", marks=SLOW), pytest.param("by its coin", marks=SLOW)]
)
def test_the_best_of_all_keeps_its_price_and_a_planted_mistake_does_not(
    side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if side != "by its coin":
        loaded = side == "scored on"
        monkeypatch.setattr("sfumato.learn.search_tables.draw_test_rows", lambda rows: np.full(rows, loaded))
    searched = best(sf.learn.GaussianNB(), RowLayout(numbers(2), 2), SPENDS[0])
    target = outcomes(searched, []), outcomes(searched, [[BOUND, -BOUND, 1]])
    assert not audit.run(target, claim=searched.event(), samples=1000, alpha=ALPHA).violates
    if side != "scored on":
        return
    monkeypatch.setattr("sfumato.learn.search_tables.release_score", lambda found, spend: float(found.sum()))
    assert audit_in_stages(target, searched.event(), samples=1000, alpha=ALPHA).violates


# ---- through the gate --------------------------------------------------------------------------------------

COLUMNS = {"a": sf.between(-3, 5), "b": sf.between(0, 1000), "c": sf.one_of("p", "q")}


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    """The first person has many rows, all far outside the bounds."""
    rng = np.random.default_rng(1)
    who = np.concatenate([np.zeros(6, dtype=int), rng.integers(1, 40, 90)])
    far = who == 0
    full = pa.table(
        {
            "who": who,
            "a": np.where(far, 1e9, rng.normal(1, 2, 96)),
            "b": np.where(far, -1e9, rng.uniform(0, 1100, 96)),
            "c": np.where(far, "q", rng.choice(["p", "q", "s"], 96)),
        }
    )
    made = sf.create(tmp_path / "lab")
    unit = sf.Unit("who", max_rows=4)
    made.register("with", full, unit=unit, columns=COLUMNS, budget=sf.Budget(epsilon=100, delta=1e-6))
    made.register("without", full.filter(pa.array(~far)), unit=unit, columns=COLUMNS)
    return made


@pytest.mark.parametrize("pair", [("with", "without"), ("without", "with")], ids=str)
@pytest.mark.parametrize("spend", [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-7}], ids=["pure", "delta"])
def test_one_person_is_one_unit_of_one_charge(
    lab: sf.Lab, pair: tuple[str, str], spend: dict[str, Any]
) -> None:
    """And all that comes back follows from the one answer."""
    search = sf.learn.Search(sf.learn.LogisticRegression(method="gradient"), {"steps": [2, 3]}, **spend)

    def program(table: str) -> Any:
        found = lab.session().fit(search, table=table, features=["a", "b"], target="c")
        return [found.best_params_, found.best_score_, found.best_estimator_.coef_, str(found.guarantee_)]

    found = audit.replay(program, [pair], claim=search.plan().event)
    assert found.finding is None
    assert found.calls == 1


def test_two_people_are_dearer_than_one(lab: sf.Lab) -> None:
    """So the replay would notice a unit that counts twice."""
    search = sf.learn.Search(sf.learn.GaussianNB(), {"row_norm": [None]}, epsilon=1.0)
    lab.register(
        "few",
        pa.table({"who": [1], "a": [0.0], "b": [1.0], "c": ["p"]}),
        unit=sf.Unit("who", max_rows=1),
        columns=COLUMNS,
    )

    def program(table: str) -> Any:
        return lab.session().fit(search, table=table, features=["a", "b"], target="c").best_score_

    found = audit.replay(program, [("with", "few")], claim=search.plan().event)
    assert found.finding is not None
    assert "moved by more" in found.finding
