"""The same sums from own arrays and from an engine; noise as priced; and fits behind the curator."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.lower.relations import lower_relation
from sfumato.curator.payer import Payer
from sfumato.curator.plan.spend import GaussianSpend
from sfumato.curator.question.relation import Alias, BaseTable
from sfumato.engines.program import CellHistograms
from sfumato.engines.rows import ALL
from sfumato.errors import BudgetError, PolicyError
from sfumato.learn.cells import (
    clip_deviation,
    clip_value,
    locate_bin,
    locate_nearest,
    locate_orthant,
    reaches_threshold,
)
from sfumato.oracle.arrays.integer_rows import ONE, clip_integer_rows
from sfumato.oracle.arrays.table import ArrayTable
from sfumato.oracle.blocks import (
    COUNT,
    Add,
    CellKey,
    Column,
    Constant,
    Divide,
    Lookup,
    Multiply,
    SumBlock,
    value_range,
)
from sfumato.oracle.declared import Declared, Feature
from sfumato.oracle.fit_budget import FitBudget
from sfumato.oracle.moments import build_gram_block
from sfumato.oracle.over_arrays import ArrayOracle
from sfumato.oracle.over_tables import FitRounds, TableOracle
from sfumato.oracle.protocol import Oracle
from sfumato.oracle.table_blocks import price_blocks, price_histograms, split_histograms

A, B, C = (Column(0, name) for name in "abc")
SPANS = {A: (-9, 9), B: (-9, 9), C: (0, 2)}
FEATURES = [Feature("a", A, 9, 0.0, 9.0), Feature("b", B, 9, 0.0, 9.0)]
CENTRES = np.array([[-0.5, 0.1], [0.6, 0.6], [0.0, -0.7]])
SPEND = GaussianSpend(Fraction(1), "")

TERMS = [
    COUNT,
    A,
    Multiply(A, B),
    Multiply(Multiply(A, Constant(7)), B),
    Add(Multiply(A, A), Constant(-40)),
    Divide(Add(A, Constant(9)), Constant(4)),
    Lookup(C, (5, -3, 11)),
    locate_orthant(FEATURES, [0.1, -0.3]),
    locate_bin(A, [-4, 0, 3]),
    locate_nearest(FEATURES, CENTRES),
    clip_deviation(FEATURES[0], C, [0.5, 0.0, -0.5], 6),
    clip_value(Multiply(A, B), 20),
    *build_gram_block(FEATURES, None, Fraction(1)).terms,
]
KEYS: list[list[CellKey]] = [
    [],
    [CellKey(C, 3)],
    [CellKey(locate_nearest(FEATURES, CENTRES), 3), CellKey(C, 2)],
    [CellKey(Add(A, Constant(3)), 5)],
]


@pytest.fixture(scope="module")
def rows() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(11)
    return {
        "a": rng.integers(-9, 10, 500),
        "b": rng.integers(-9, 10, 500),
        "c": rng.integers(0, 3, 500),
        "who": np.arange(500) // 2,
    }


@pytest.fixture(scope="module")
def lab(rows: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> sf.Lab:
    made = sf.create(tmp_path_factory.mktemp("lab") / "lab")
    columns = {"a": sf.between(-9, 9, step=1), "b": sf.between(-9, 9, step=1), "c": sf.one_of(0, 1, 2)}
    budget = sf.Budget(epsilon=200, delta=1e-6)
    made.register("all", pa.table(rows), unit=sf.ROW, columns=columns, budget=budget)
    made.register("rich", pa.table(rows), unit=sf.ROW, columns=columns, budget=sf.Budget(10**6))
    made.register("people", pa.table(rows), unit=sf.Unit("who", max_rows=2), columns=columns, budget=budget)
    return made


@pytest.fixture
def arrays(rows: dict[str, np.ndarray]) -> ArrayTable:
    return ArrayTable({each: rows[each.name].astype(float) for each in SPANS}, SPANS)


def table(lab: sf.Lab, name: str) -> Any:
    return lower_relation(Alias(BaseTable(name), name), lab.table)


@pytest.mark.parametrize("keys", KEYS, ids=len)
def test_arrays_and_engines_agree(lab: sf.Lab, arrays: ArrayTable, keys: list[CellKey]) -> None:
    plan = price_blocks(table(lab, "all"), keys, [SumBlock.within(TERMS, SPANS)], SPEND)
    found = lab.engine.run(plan.steps[0].program)
    assert np.array_equal(found.astype(int), arrays.sums(keys, TERMS).astype(int))


def test_histograms_agree(lab: sf.Lab, arrays: ArrayTable) -> None:
    groupings = [[CellKey(C, 3)], [CellKey(locate_bin(A, [-4, 0, 3]), 4), CellKey(C, 2)]]
    terms, keys = [COUNT, B], [CellKey(locate_orthant(FEATURES, [0.0, 0.0]), 4)]
    plan = price_histograms(
        table(lab, "all"),
        groupings,
        keys,
        [SumBlock.within([term], SPANS, Fraction(1, 2)) for term in terms],
        SPEND,
    )
    exact = lab.engine.run(plan.steps[0].program)
    found = split_histograms(exact.tolist(), groupings, keys, 2)
    for each, grouping in zip(found, groupings, strict=True):
        direct = arrays.sums([*grouping, *keys], terms)
        for block, wanted in zip(each, direct, strict=True):
            assert np.array_equal(block.astype(int).ravel(), wanted)


def test_tallies_agree(lab: sf.Lab, arrays: ArrayTable) -> None:
    values, keys = [Add(A, Constant(4)), Multiply(C, C), Add(B, Constant(9))], [CellKey(C, 2)]
    program = CellHistograms(table(lab, "all").rows, ALL, tuple(keys), tuple(values), 12)
    found, wanted = lab.engine.run(program), arrays.tally(keys, values, 12)
    assert np.array_equal(found.triplets(), wanted.triplets())
    assert found.counts.sum() > 500


# ---- quantiles and choices ----


def oracles(lab: sf.Lab, arrays: ArrayTable, name: str, epsilon: float) -> list[Oracle]:
    """Of own arrays, and of a table of the same rows."""
    declared = Declared(tuple(FEATURES), None, SPANS)
    budget = FitBudget.of({"epsilon": epsilon}, Fraction(0))
    rounds = FitRounds(Payer(lab, None), "test")
    return [
        ArrayOracle(declared, budget, arrays, lambda event: None),
        TableOracle(rounds, table(lab, name), declared, budget),
    ]


def test_quantiles_are_those_of_the_rows(
    lab: sf.Lab, arrays: ArrayTable, rows: dict[str, np.ndarray]
) -> None:
    """At this ε a choice is off by a row with a chance below e^−40."""
    for oracle in oracles(lab, arrays, "rich", 1000.0):
        found = oracle.quantiles(
            [A, Multiply(B, Constant(2))], (Fraction(1, 4), Fraction(1, 2)), [CellKey(C, 3)]
        )
        for values, got in zip([rows["a"], 2 * rows["b"]], found, strict=True):
            for cell in range(3):
                inside = np.sort(values[rows["c"] == cell])
                for share, place in zip((0.25, 0.5), got[:, cell], strict=True):
                    below, upto = np.searchsorted(inside, place), np.searchsorted(inside, place, "right")
                    assert below - 2 <= share * len(inside) <= upto + 2


def test_the_greatest_sums_are_chosen(lab: sf.Lab, arrays: ArrayTable, rows: dict[str, np.ndarray]) -> None:
    terms = [reaches_threshold(A, at) for at in (-3, 5, -9, 9)]
    for oracle in oracles(lab, arrays, "rich", 1000.0):
        assert oracle.select(terms, 2) == [2, 0]


def scanned(lab: sf.Lab, ask: Callable[[], Any]) -> list[Any]:
    """The programs that the engine was asked."""
    found: list[Any] = []
    run = type(lab.engine).run

    def seen(engine: Any, program: Any) -> Any:
        found.append(program)
        return run(engine, program)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(lab.engine), "run", seen)
        ask()
    return found


def test_choices_take_one_scan_and_cost_their_share(lab: sf.Lab, arrays: ArrayTable) -> None:
    paid: list[Any] = []
    declared, budget = Declared(tuple(FEATURES), None, SPANS), FitBudget.of({"epsilon": 1}, Fraction(0))
    own = ArrayOracle(declared, budget, arrays, paid.append)
    own.quantiles([A, B], (0.25, 0.5, 0.75), share=Fraction(1, 2))
    own.select([A, B], 1, share=Fraction(1, 2))
    assert [event.pure() for event in paid] == [Fraction(1, 2)] * 2
    scans = scanned(lab, lambda: oracles(lab, arrays, "people", 1.5)[1].quantiles([A, B], (0.25, 0.5, 0.75)))
    assert len(scans) == 1


def test_choices_are_not_paid_for_with_gaussian_noise(arrays: ArrayTable) -> None:
    budget = FitBudget.of({"epsilon": 1, "delta": 1e-6}, Fraction(0))
    own = ArrayOracle(Declared(tuple(FEATURES), None, SPANS), budget, arrays, lambda event: None)
    with pytest.raises(AssertionError, match="pure"):
        own.quantiles([A], (0.5,))
    assert own.quantiles([A], (0.5,), out_of=budget.alone)[0].shape == (1, 1)


def test_no_value_leaves_its_span(arrays: ArrayTable) -> None:
    for term in TERMS[1:]:
        low, high = value_range(term, SPANS)
        found = arrays.with_values([term])[0].column(Column(3, "v3"))
        assert low <= found.min()
        assert found.max() <= high


def test_wide_numbers_are_summed_exactly() -> None:
    wide = Column(0, "w")
    values = np.full(1000, float(2**40))
    big = ArrayTable({wide: values}, {wide: (0, 2**40)})
    squares = big.sums([], [Multiply(wide, Constant(2**20)), wide])
    assert [int(each) for each in squares[:, 0]] == [1000 * 2**60, 1000 * 2**40]


def test_shortened_rows_are_within_their_norm() -> None:
    rng = np.random.default_rng(2)
    rows = ONE * rng.normal(size=(5000, 7)) * 10.0 ** rng.integers(-8, 9, (5000, 1))
    for whole in (False, True):
        found = np.rint(rows) if whole else rows.copy()
        clip_integer_rows(found, norm=3 * ONE, whole=whole)
        assert np.array_equal(found, np.rint(found))
        assert int((found.astype(int) ** 2).sum(axis=1).max()) <= (3 * ONE) ** 2


# ---- behind the curator ----


def test_a_regression_behind_the_curator_is_the_one_of_own_arrays(tmp_path: Path) -> None:
    """Rows are shortened by other rules, and say the same."""
    rng = np.random.default_rng(4)
    X = np.clip(rng.normal(size=(4000, 3)) * [1.0, 20.0, 0.05], [-4, -80, -0.2], [4, 80, 0.2])
    y = np.clip(X @ [1.0, 0.05, 10.0] + 2 + rng.normal(size=4000) * 0.1, -6, 10)
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y})
    columns = {"a": sf.between(-4, 4), "b": sf.between(-80, 80), "c": sf.between(-0.2, 0.2)}
    lab = sf.create(tmp_path / "lab")
    budget = sf.Budget(epsilon=100, delta=1e-6)
    lab.register("t", table, unit=sf.ROW, columns={**columns, "y": sf.between(-6, 10)}, budget=budget)
    given = {"epsilon": 20, "delta": 1e-7}
    behind = lab.session().fit(
        sf.learn.LinearRegression(**given), table="t", features=["a", "b", "c"], target="y"
    )
    bounds = ([-4, -80, -0.2], [4, 80, 0.2])
    own = sf.learn.LinearRegression(**given, bounds=bounds, target_bounds=(-6, 10)).fit(X, y)
    assert behind.coef_ == pytest.approx([1.0, 0.05, 10.0], rel=0.05)
    assert own.coef_ == pytest.approx([1.0, 0.05, 10.0], rel=0.05)
    assert (behind.intercept_, own.intercept_) == pytest.approx((2, 2), abs=0.1)


@pytest.mark.parametrize(
    ("model", "target"),
    [(sf.learn.LinearRegression, "b"), (sf.learn.PCA, None), (sf.learn.GaussianNB, "c")],
    ids=["regression", "components", "bayes"],
)
@pytest.mark.parametrize(("epsilon", "scans"), [(10**5, 1), (0.2, 2)], ids=["many", "few"])
def test_many_rows_are_scanned_once(lab: sf.Lab, model: Any, target: Any, epsilon: Any, scans: int) -> None:
    """What is many depends on ε; then what is left of it is not spent."""
    features = ["a"] if target else ["a", "b"]
    ask = lambda: lab.session().fit(model(epsilon=epsilon), table="rich", features=features, target=target)  # noqa: E731
    assert len(scanned(lab, ask)) == (1 if target == "c" else scans)


def test_features_of_few_values_are_not_drowned_by_the_noise_of_others(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    ill = rng.integers(0, 2, 5000)
    smokes = np.where(rng.random(5000) < 0.9, ill, 1 - ill)
    table = pa.table({"ill": ill, "smokes": smokes, "age": rng.uniform(0, 110, 5000)})
    columns = {"ill": sf.one_of(0, 1), "smokes": sf.between(0, 1, step=1), "age": sf.between(0, 110)}
    lab = sf.create(tmp_path / "lab")
    lab.register("t", table, unit=sf.ROW, columns=columns, budget=sf.Budget(1))
    model = lab.session().fit(
        sf.learn.GaussianNB(epsilon=1), table="t", features=["smokes", "age"], target="ill"
    )
    assert model.score(pd.DataFrame({"smokes": smokes, "age": 50.0}), ill) > 0.85


def test_one_row_of_a_unit_counts_unless_more_are_paid_for(lab: sf.Lab) -> None:
    model = sf.learn.PCA(1, epsilon=10)
    one = lab.session().fit(model, table="people", features=["a", "b"])
    assert "one who, which is added" in str(one.guarantee_)
    two = lab.session().fit(sf.learn.PCA(1, epsilon=10), table="people", features=["a", "b"], rows_per_unit=2)
    assert "one who with up to 2 rows" in str(two.guarantee_)


def test_a_fit_is_charged_and_the_same_again_is_free(tmp_path: Path, rows: dict[str, np.ndarray]) -> None:
    lab = sf.create(tmp_path / "lab")
    columns = {"a": sf.between(-9, 9, step=1), "b": sf.between(-9, 9, step=1), "c": sf.one_of(0, 1, 2)}
    lab.register("all", pa.table(rows), unit=sf.ROW, columns=columns, budget=sf.Budget(epsilon=3))
    s = lab.session()

    def fit() -> Any:
        return s.fit(sf.learn.KMeans(2, epsilon=2), table="all", features=["a", "b"])

    first = fit()
    left = s.budget.accounts[0].left_epsilon
    assert left == pytest.approx(1)
    assert np.array_equal(fit().cluster_centers_, first.cluster_centers_)
    assert s.budget.accounts[0].left_epsilon == left
    entries = len(list(lab.ledger.read_entries()))
    with pytest.raises(BudgetError):
        s.fit(sf.learn.KMeans(2, epsilon=2.5), table="all", features=["a", "b"])
    assert len(list(lab.ledger.read_entries())) == entries


FITS = [
    (sf.learn.GaussianNB(epsilon=5), "c"),
    (sf.learn.CategoricalNB(epsilon=5), "c"),
    (sf.learn.LinearRegression(epsilon=50, delta=1e-6), "b"),
    (sf.learn.PCA(1, epsilon=5, delta=1e-6), None),
    (sf.learn.DecisionTree(epsilon=5, max_depth=2), "c"),
    (sf.learn.GradientBoosting(epsilon=5, trees=6, depth=2), "c"),
    (sf.learn.GradientBoostingRegressor(epsilon=5, trees=6, depth=2), "b"),
]


@pytest.mark.parametrize(("model", "target"), FITS, ids=lambda each: type(each).__name__)
def test_every_learner_runs_behind_the_curator(lab: sf.Lab, model: Any, target: str | None) -> None:
    features = ["a"] if target == "b" else ["a", "b"]
    fitted = lab.session().fit(model, table="people", features=features, target=target)
    X = pd.DataFrame({"a": [1.0, -3.0], "b": [2.0, 4.0]})[features]
    shown = fitted.predict(X) if target else fitted.transform(X)
    assert len(shown) == 2
    assert np.isfinite(np.asarray(shown, dtype=float)).all()


@pytest.mark.parametrize(
    ("model", "features", "target", "code"),
    [
        (sf.learn.GaussianNB(epsilon=1), ["a"], "b", "SF-E112"),
        (sf.learn.GaussianNB(epsilon=1), ["nothing"], "c", "SF-Q107"),
        (sf.learn.PCA(1, epsilon=1), ["who"], None, "SF-Q107"),
    ],
)
def test_what_the_catalog_does_not_say_is_refused(
    lab: sf.Lab, model: Any, features: list[str], target: str | None, code: str
) -> None:
    with pytest.raises(PolicyError) as refused:
        lab.session().fit(model, table="people", features=features, target=target)
    assert refused.value.code == code
