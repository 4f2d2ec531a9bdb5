"""Searches behind the curator: one charge, one answer, and the same numbers as the engine's."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.gate import decode_answer
from sfumato.engines.program import Total, UnitFigures
from sfumato.errors import BudgetError, PolicyError, SealedError, UsageError
from sfumato.learn import Search
from sfumato.learn import search_tables as searches
from sfumato.learn.base.saving import from_json, list_learned, to_json
from sfumato.learn.search_scores import ScoredRows, release_score
from sfumato.noise.audit_hook import MechanismCall, recording
from sfumato.oracle.over_held_rows import HeldRowsOracle, IntegerCoding, RowLayout, list_figures
from sfumato.oracle.over_tables import lower_private_table
from sfumato.oracle.table_features import declare_features
from sfumato.viz import progress

ROOT = Path(__file__).parents[2]
ROWS = 3000
FEATURES = ["x0", "x1", "x2"]
COLUMNS: dict[str, Any] = {
    "x0": sf.between(-1, 1),
    "x1": sf.between(0, 50),
    "x2": sf.between(0, 7, step=1),
    "kind": sf.one_of("no", "yes"),
    "three": sf.one_of("p", "q", "r"),
    "ward": sf.one_of("A", "B", "C"),
    "y": sf.between(-4, 6),
}


def source(rows: int) -> pa.Table:
    """Some numbers lie outside their bounds, and some of everything is missing."""
    rng = np.random.default_rng(3)
    x = rng.normal(0, 0.5, rows)
    missing = np.arange(rows) % 40
    columns = {
        "who": np.arange(rows) // 2,
        "x0": pa.array(x, mask=missing == 1),
        "x1": pa.array(25 + 20 * rng.normal(size=rows), mask=missing == 2),
        "x2": pa.array(rng.integers(0, 8, rows), mask=missing == 3),
        "kind": pa.array(np.where(x + rng.logistic(0, 0.05, rows) > 0, "yes", "no"), mask=missing == 4),
        "three": pa.array(np.array(["p", "q", "r", "s"])[np.clip(2 + 2 * x, 0, 3).astype(int)]),
        "ward": pa.array(np.where(x > 0, "A", rng.choice(["B", "C", "D"], rows)), mask=missing == 5),
        "y": pa.array(1 + 4 * x, mask=missing == 6),
    }
    return pa.table(columns)


def make_lab(folder: Path, rows: int, budget: sf.Budget) -> sf.Lab:
    made = sf.create(folder)
    made.register("t", source(max(rows, 3)).slice(0, rows), unit=sf.ROW, columns=COLUMNS, budget=budget)
    return made


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    """A lab for one test, which reads the whole ledger or makes the same request as another test."""
    return make_lab(tmp_path / "lab", ROWS, sf.Budget(epsilon=100, delta=1e-5))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> sf.Lab:
    """One lab for all tests whose requests differ from each other's."""
    return make_lab(tmp_path_factory.mktemp("searches") / "lab", ROWS, sf.Budget(epsilon=10_000, delta=1e-3))


@pytest.fixture(scope="module", params=[0, 1, 2], ids="rows={}".format)
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> sf.Lab:
    return make_lab(tmp_path_factory.mktemp("small") / "lab", request.param, sf.Budget(1_000, delta=1e-5))


def fitted(lab: sf.Lab, search: Search, target: str | None = "kind", **more: Any) -> Search:
    given: dict[str, Any] = {"table": "t", "features": FEATURES, "target": target} | more
    return lab.session().fit(search, **given)


def logistic(**more: Any) -> Search:
    spend: dict[str, Any] = {"epsilon": 4.0, "runs": 4} | more
    return Search(sf.learn.LogisticRegression(), {"steps": [3, 8], "penalty": [0, 2]}, **spend)


def kinds(lab: sf.Lab) -> list[str]:
    return [entry.kind for entry in lab.ledger.read_entries() if entry.kind in ("charge", "release")]


SEARCHES: list[tuple[Any, dict[str, list[Any]], str]] = [
    (sf.learn.LogisticRegression(), {"steps": [4, 9]}, "kind"),
    (sf.learn.LogisticRegression(), {"steps": [4]}, "three"),
    (sf.learn.LinearSVC(), {"width": [0.2, 0.5]}, "three"),
    (sf.learn.ConvexERM(steps=5), {"loss": ["logistic", "huber"]}, "kind"),
    (sf.learn.Perceptron(), {"rounds": [2, 4]}, "kind"),
    (sf.learn.GaussianNB(), {"row_norm": [None]}, "three"),
    (sf.learn.CategoricalNB(), {"alpha": [0.1, 10.0]}, "kind"),
    (sf.learn.DecisionTree(), {"max_depth": [1, 3]}, "kind"),
    (sf.learn.GradientBoosting(trees=4), {"depth": [1, 2]}, "three"),
    (sf.learn.NearestNeighbors(waves=16), {"width": [None, 0.5]}, "kind"),
    (sf.learn.LinearRegression(), {"row_norm": [None]}, "y"),
    (sf.learn.GradientBoostingRegressor(trees=4), {"additive": [False, True]}, "y"),
]
IDS = [f"{type(model).__name__}-{target}" for model, _, target in SEARCHES]


def names_of(model: Any) -> list[str]:
    return ["ward", "three"] if isinstance(model, sf.learn.CategoricalNB) else FEATURES


# ---- what comes back ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("spend", [{"epsilon": 8.0}, {"epsilon": 8.0, "delta": 1e-6}], ids=["pure", "delta"])
@pytest.mark.parametrize(("model", "grid", "target"), SEARCHES, ids=IDS)
def test_every_kind_is_searched(
    shared: sf.Lab, model: Any, grid: dict[str, list[Any]], target: str, spend: dict[str, float]
) -> None:
    names, before = names_of(model), len(kinds(shared))
    found = fitted(shared, Search(model, grid, runs=1, **spend), target, features=names)
    rows = source(50).select(names).to_pandas()
    if isinstance(model, sf.learn.CategoricalNB):
        rows = rows.to_numpy()  # columns of texts with nothing in them are theirs to read
        found.best_estimator_.__dict__.pop("feature_names_in_")
    guessed = found.predict(rows)
    if target == "y":
        assert ((guessed > -4.01) & (guessed < 6.01)).all()  # by half a step of the grid
    else:
        assert set(guessed) <= set(found.classes_) == set(COLUMNS[target].values)
    assert [found.best_params_[name] in values for name, values in grid.items()] == [True] * len(grid)
    assert type(found.best_estimator_) is type(model)
    assert kinds(shared)[before:] == ["charge", "release"]


def test_a_search_learns_something(shared: sf.Lab) -> None:
    """At ε = 40 noise is small beside 3,000 rows, whichever setting and whichever rows aside are drawn."""
    found = fitted(shared, logistic(epsilon=40.0))
    rows = source(ROWS)
    asked = pd.DataFrame({name: rows[name].to_pandas() for name in FEATURES})
    truth = rows["kind"].to_pylist()
    right = np.mean([one == other for one, other in zip(found.predict(asked), truth, strict=True)])
    assert right > 0.85
    assert found.best_score_ == pytest.approx(right, abs=0.1)
    assert found.predict_proba(asked).shape == (ROWS, 2)
    assert list(found.feature_names_in_) == FEATURES


def test_the_winner_is_an_estimator_like_any_other(lab: sf.Lab, tmp_path: Path) -> None:
    found = fitted(lab, logistic(epsilon=4.0, delta=1e-6))
    assert str(found.best_estimator_.guarantee_) == str(found.guarantee_)
    assert "exact" in found.guarantee_.arithmetic
    assert found.guarantee_.unit == "one row"
    found.best_estimator_.save(tmp_path / "best.npz")
    again = sf.learn.load(tmp_path / "best.npz")
    asked = source(40).select(FEATURES).to_pandas()
    assert list(again.predict(asked)) == list(found.predict(asked))
    measured = lab.session().evaluate(found.best_estimator_, table="t", target="kind", epsilon=5.0)
    assert measured.accuracy.value > 0.5


# ---- what is charged and kept ------------------------------------------------------------------------------


def test_all_runs_are_one_charge_of_what_was_typed(lab: sf.Lab) -> None:
    found = fitted(lab, logistic(epsilon=4.0, runs=30))
    assert kinds(lab) == ["charge", "release"]
    assert lab.session().budget.accounts[0].left_epsilon == pytest.approx(96, abs=1e-9)
    (charge,) = [json.loads(entry.body) for entry in lab.ledger.read_entries() if entry.kind == "charge"]
    event = sf.privacy.from_dict(charge["about"]["event"])
    assert event.pure() == 4
    assert sf.privacy.price(event).to_dict() == charge["cost"]
    assert "best-of" in json.dumps(charge["about"]["event"])
    assert charge["about"]["question"] == "search LogisticRegression"
    assert found.guarantee_.epsilon == 4


def test_the_same_search_again_is_free_and_gives_the_same(lab: sf.Lab) -> None:
    first = fitted(lab, logistic(delta=1e-6))
    left = str(lab.session().budget)
    turned = Search(
        sf.learn.LogisticRegression(method="gradient", bounds=(-9, 9)),
        {"penalty": [0, 2], "steps": [3, 8]},
        epsilon=4.0,
        delta=1e-6,
        runs=4,
    )
    again = fitted(lab, turned)
    assert str(lab.session().budget) == left
    assert kinds(lab) == ["charge", "release"]
    assert again.best_params_ == first.best_params_
    assert again.best_score_ == first.best_score_
    assert np.array_equal(again.best_estimator_.coef_, first.best_estimator_.coef_)
    fitted(lab, logistic(delta=1e-6, runs=5))
    assert kinds(lab) == ["charge", "release"] * 2


def test_nothing_of_other_runs_is_kept(lab: sf.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    told_apart: list[float] = []
    honest = release_score

    def counting(*given: Any) -> float:
        told_apart.append(honest(*given))
        return told_apart[-1]

    monkeypatch.setattr(searches, "release_score", counting)
    monkeypatch.setattr("sfumato.learn.search.draw_runs", lambda stop: 7)
    monkeypatch.setattr(searches.BestRunKernel, "rehearse", lambda self: None)
    found = fitted(lab, logistic(runs=4))
    assert len(told_apart) == 20
    assert found.best_score_ == max(told_apart[:7])
    (charge,) = [json.loads(entry.body) for entry in lab.ledger.read_entries() if entry.kind == "charge"]
    kept = lab.ledger.find_release(charge["request"], charge["data"])
    assert kept is not None
    (answer,) = decode_answer(kept.answer)
    assert set(answer) == {"setting", "share", "learned"}
    assert set(from_json(answer["learned"])) == {
        "coef_",
        "intercept_",
        "middles_",
        "halves_",
        "units_",
        "n_iter_",
        "missing_at_",
    }


def test_the_verifier_that_stands_alone_takes_it(lab: sf.Lab, tmp_path: Path) -> None:
    fitted(lab, logistic(delta=1e-6))
    export = tmp_path / "export.jsonl"
    export.write_text(
        "".join(entry.to_json() + "\n" for entry in lab.ledger.read_entries()), encoding="utf-8"
    )
    command = [sys.executable, str(ROOT / "tools" / "verify_ledger.py"), str(export)]
    assert subprocess.run(command, check=False).returncode == 0


def test_a_budget_that_does_not_hold_it_is_not_touched(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    lab.register("t", source(30), unit=sf.ROW, columns=COLUMNS, budget=sf.Budget(epsilon=3.9))
    with pytest.raises(BudgetError):
        fitted(lab, logistic(epsilon=4))
    assert kinds(lab) == []


# ---- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["objective", "output", "gaussian"])
def test_textbook_forms_are_refused(shared: sf.Lab, method: str) -> None:
    named = Search(sf.learn.LogisticRegression(method=method), {"steps": [3]}, epsilon=1)
    listed = Search(sf.learn.LogisticRegression(), {"method": ["gradient", method]}, epsilon=1)
    before = kinds(shared)
    for search in (named, listed):
        with pytest.raises(PolicyError, match="SF-E132"):
            fitted(shared, search)
    assert kinds(shared) == before


def test_two_classes_and_pure_epsilon_are_learnt_in_the_exact_form(shared: sf.Lab) -> None:
    """On own arrays this is where the textbook form would be taken."""
    model = sf.learn.LogisticRegression(classes=["no", "yes"], bounds=(-1, 1))
    found = fitted(shared, Search(model, {"method": ["auto"]}, epsilon=2, runs=2))
    assert found.best_estimator_.method_ == "gradient"


def own() -> Any:
    class Own(sf.learn.GaussianNB):
        pass

    return Own()


@pytest.mark.parametrize(
    "model",
    [own, lambda: sf.learn.KMeans(2), lambda: logistic(), lambda: sf.learn.FrequentItemsets(2)],
    ids=["own", "no target", "a search", "sets"],
)
def test_only_reviewed_estimators_with_a_target(shared: sf.Lab, model: Callable[[], Any]) -> None:
    with pytest.raises(UsageError, match="SF-E145"):
        fitted(shared, Search(model(), {"epsilon": [1]}, epsilon=1))
    with pytest.raises(UsageError, match="SF-E145"):
        fitted(shared, logistic(), target=None)


def test_kernels_and_what_cannot_be_written_down_are_refused(shared: sf.Lab) -> None:
    with pytest.raises(PolicyError, match="SF-E140"):
        fitted(shared, Search(sf.learn.KernelSVC(), {"waves": [5]}, epsilon=1))
    with pytest.raises(UsageError, match="SF-E146"):
        fitted(shared, Search(sf.learn.ConvexERM(), {"loss": [sf.learn.huber(0.3)]}, epsilon=1))


@pytest.mark.parametrize("grid", [{"penalty": [0, -1]}, {"steps": [3, 0.5]}], ids=str)
def test_wrong_settings_are_found_before_anything_is_charged(shared: sf.Lab, grid: Any) -> None:
    before = kinds(shared)
    for _ in range(3):
        with pytest.raises(UsageError):
            fitted(shared, Search(sf.learn.LogisticRegression(), grid, epsilon=1))
    assert kinds(shared) == before


def test_units_of_several_rows_and_replaced_ones_are_refused(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    budget = sf.Budget(epsilon=100)
    unit = sf.Unit("who", max_rows=2, of="people")
    lab.register("t", source(200), unit=unit, columns=COLUMNS, budget=budget)
    with pytest.raises(PolicyError, match="SF-E144"):
        fitted(lab, logistic(), rows_per_unit=2)
    found = fitted(lab, logistic())
    assert found.guarantee_.unit == "one who"
    survey: dict[str, Any] = {"unit": sf.ROW, "neighbours": sf.REPLACE_ONE, "rows": 200}
    lab.register("survey", source(200), columns=COLUMNS, budget=budget, **survey)
    with pytest.raises(PolicyError, match="SF-E144"):
        fitted(lab, logistic(), table="survey")


# ---- few rows, and none ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "grid", "target"), SEARCHES, ids=IDS)
def test_tables_of_few_rows_are_no_errors(
    small: sf.Lab, model: Any, grid: dict[str, list[Any]], target: str
) -> None:
    found = fitted(small, Search(model, grid, epsilon=1, runs=1), target, features=names_of(model))
    assert type(found.best_estimator_) is type(model)
    assert np.isfinite(found.best_score_)


def test_no_bar_is_shown(
    lab: sf.Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many there were, and how long they took, would say how many runs there were."""
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_watched", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    fitted(lab, logistic())
    assert capsys.readouterr() == ("", "")
    assert list(progress.show_rounds(2, "descent")) == [0, 1]
    assert "descent" in capsys.readouterr().err


# ---- the same integers as the engine's ---------------------------------------------------------------------


class Kept:
    """Notes what noise was added to, and answers without any."""

    def __init__(self) -> None:
        self.calls: list[MechanismCall] = []

    def answer(self, call: MechanismCall, draw: Callable[[], Any]) -> Any:
        self.calls.append(call)
        return np.asarray(call.exact) if not hasattr(call.exact, "difference") else draw()

    def inputs(self) -> list[list[int]]:
        return [np.asarray(call.exact).ravel().tolist() for call in self.calls]


def declared_of(lab: sf.Lab, model: Any, target: str) -> Any:
    rows = lower_private_table(lab.session()._payer, "t")
    return declare_features(rows, names_of(model), target, model)


@pytest.mark.parametrize(("model", "grid", "target"), SEARCHES, ids=IDS)
def test_a_run_asks_for_what_a_fit_asks_for_and_has_the_same_numbers(
    lab: sf.Lab, model: Any, grid: dict[str, list[Any]], target: str
) -> None:
    """Both are answered without noise, so they go the same way to the end."""
    setting = {name: values[0] for name, values in grid.items()}
    params = {**model.get_params(deep=False), **setting, "rho": 3}
    one, other = type(model)(**params), type(model)(**params)
    scan, held = Kept(), Kept()
    with recording(scan):
        lab.session().fit(one, table="t", features=names_of(model), target=target)
    rows, declared = declared_of(lab, model, target)
    program = UnitFigures(rows.rows, rows.where, tuple(map(Total, list_figures(declared))))
    layout = RowLayout.of(declared)
    other.begin_fit(names_of(model), layout.declare())
    with recording(held):
        other._learn(HeldRowsOracle.over(layout.declare(), other.fit_budget(), lab.engine.run(program)))
    assert scan.inputs() == held.inputs()
    assert [call.mechanism for call in scan.calls] == [call.mechanism for call in held.calls]
    public = {"guarantee_", "classes_", "categories_"}
    found = [
        {name: v for name, v in list_learned(each).items() if name not in public} for each in (one, other)
    ]
    assert json.dumps(to_json(found[0])) == json.dumps(to_json(found[1]))


# ---- scores ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "grid", "target"), SEARCHES, ids=IDS)
def test_no_row_changes_what_another_adds_to_a_score(
    shared: sf.Lab, model: Any, grid: dict[str, list[Any]], target: str
) -> None:
    """Of a block of one size: what is said of a row at a place is the same whoever is at the others."""
    rows, declared = declared_of(shared, model, target)
    layout = RowLayout.of(declared)
    setting = {name: values[0] for name, values in grid.items()}
    made = type(model)(**{**model.get_params(deep=False), **setting, "epsilon": 1})
    made.begin_fit([each.name for each in declared.features], layout.declare())
    del made.feature_names_in_
    exact = shared.engine.run(UnitFigures(rows.rows, rows.where, tuple(map(Total, list_figures(declared)))))
    made._learn(HeldRowsOracle.over(layout.declare(), made.fit_budget(), exact))
    block = ScoredRows.of(layout, exact).rows[:256]
    found = made.predict(block)
    for at in range(0, 256, 37):
        alone = np.zeros_like(block)
        alone[at] = block[at]
        assert made.predict(alone)[at] == found[at]


PLAIN = RowLayout((IntegerCoding(2000, Fraction(0), Fraction(2000)),), 2)


def test_every_row_is_scored_once() -> None:
    class Zero:
        def predict(self, rows: Any) -> Any:
            return np.zeros(len(rows), dtype=np.int64)

    drawn = ScoredRows.of(PLAIN, np.array([[5] * 300, [0, 1, -1] * 100]))
    assert drawn.qualities(Zero()).sum() == 100 * 4096


# ---- runs that fail ----------------------------------------------------------------------------------------


def test_no_run_that_fails_is_told(lab: sf.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of any run would tell of runs that are not paid for; the worst answer is an answer too."""
    run = searches.BestRunKernel._run

    def failing(self: Any, setting: int, rows: Any, aside: Any) -> Any:
        if rows.shape[1]:
            raise OverflowError("noise")
        return run(self, setting, rows, aside)

    monkeypatch.setattr(searches.BestRunKernel, "_run", failing)
    for _ in range(2):
        with pytest.raises(SealedError) as raised:
            fitted(lab, logistic())
        assert raised.value.code == "SF-E147"
    # It was released as the answer, so asking again is free and there is no incident.
    assert kinds(lab) == ["charge", "release"]
    assert not (lab.folder / "incidents.log").exists()
