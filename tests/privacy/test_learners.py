"""Every estimator, replayed on worst-case neighbours: the same way, and inputs within their price."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sequential import audit_in_stages
from sfumato import audit
from sfumato.learn import (
    PCA,
    AutoClassifier,
    CategoricalNB,
    DecisionTree,
    GaussianNB,
    GradientBoosting,
    GradientBoostingRegressor,
    KMeans,
    LinearRegression,
    NearestNeighbors,
    Perceptron,
)
from sfumato.learn.linear.regression import _MOST_LOOK
from sfumato.oracle import moments as moments_room
from sfumato.oracle.blocks import SumBlock, share_of
from sfumato.oracle.fit_budget import to_event
from sfumato.privacy import composition
from sfumato.privacy.events import Pure, Sequential

BOUNDS = (-1.0, 1.0)
HUGE = 1e6
SPENDS = [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.1}]

Data = tuple[np.ndarray, np.ndarray]


def corners(features: int) -> list[np.ndarray]:
    """Rows that reach far: all bounds at once, one bound alone, far outside, and nothing but missing."""
    alone = np.zeros(features)
    alone[0] = HUGE
    signs = np.where(np.arange(features) % 2, -1.0, 1.0)
    return [np.full(features, HUGE), -np.full(features, HUGE), signs * HUGE, alone, np.full(features, np.nan)]


def neighbours(
    targets: list[float], rows: int = 60, features: int = 4, first: int = 0
) -> Iterator[tuple[Data, Data]]:
    """A table with and without one extreme row, one way round and the other in turn.

    The turns are such that every row and every target is added in some pairs and removed in others. With
    `first=1` each pair is turned round.
    """
    rng = np.random.default_rng(7)
    X = rng.uniform(-1.2, 1.2, (rows, features))
    y = rng.choice(targets, rows)
    for place, row in enumerate(corners(features)):
        for other, target in enumerate(targets):
            more = np.vstack([X, row]), np.append(y, target)
            yield (more, (X, y)) if (place + other + first) % 2 else ((X, y), more)


def learned(estimator: Any) -> dict[str, Any]:
    return {
        name: value for name, value in vars(estimator).items() if name.endswith("_") and name != "guarantee_"
    }


_BOOST: dict[str, Any] = {"bounds": BOUNDS, "trees": 12, "depth": 2}


def _boosted(**given: Any) -> GradientBoosting:
    return GradientBoosting(**_BOOST, **given)


def _few_numbers(**given: Any) -> GradientBoostingRegressor:
    return GradientBoostingRegressor(**(_BOOST | {"trees": 3}), target_bounds=BOUNDS, **given)


def _numbers(**given: Any) -> GradientBoostingRegressor:
    return GradientBoostingRegressor(**_BOOST, target_bounds=BOUNDS, **given)


CASES: list[tuple[Any, list[float]]] = [
    (lambda **spend: NearestNeighbors(bounds=BOUNDS, classes=[0, 1], waves=4, **spend), [0.0, 1.0]),
    (lambda **spend: Perceptron(bounds=BOUNDS, classes=[0, 1, 2], rounds=2, **spend), [0.0, 1.0, 2.0]),
    (lambda **spend: GaussianNB(bounds=BOUNDS, classes=[0, 1], **spend), [0.0, 1.0]),
    (lambda **spend: GaussianNB(row_norm=1.0, classes=[0, 1], **spend), [0.0, 1.0]),
    (lambda **spend: PCA(2, bounds=BOUNDS, **spend), [0.0]),
    (lambda **spend: PCA(2, row_norm=1.0, **spend), [0.0]),
    (lambda **spend: KMeans(3, bounds=BOUNDS, **spend), [0.0]),
    (lambda **spend: KMeans(2, row_norm=1.0, **spend), [0.0]),
    (lambda **spend: DecisionTree(bounds=BOUNDS, classes=[0, 1], max_depth=3, **spend), [0.0, 1.0]),
    (lambda **spend: _boosted(classes=[0, 1], **spend), [0.0, 1.0]),
    (lambda **spend: _boosted(classes=[0, 1, 2], **spend), [0.0, 1.0, 2.0, 3.0]),
    (lambda **spend: _boosted(classes=[0, 1], additive=True, **spend), [0.0, 1.0]),
    (lambda **spend: _few_numbers(**spend), [-HUGE, HUGE]),
    (lambda **spend: CategoricalNB(categories=[[-1.0, 1.0, HUGE]] * 4, classes=[0, 1], **spend), [0.0, 1.0]),
]
LINES: list[Any] = [
    lambda **spend: LinearRegression(bounds=BOUNDS, target_bounds=BOUNDS, **spend),
    lambda **spend: LinearRegression(row_norm=2.0, target_bounds=BOUNDS, **spend),
]


def audited(make: Any, spend: dict[str, float], events: Any, targets: list[float], rows: int = 60) -> Any:
    def program(data: Data) -> dict[str, Any]:
        return learned(make(**spend).fit(*data))

    first = SPENDS.index(spend) % 2  # so that each pair is tried both ways round, with one spend or another
    return audit.replay(program, neighbours(targets, rows, first=first), claim=Sequential(tuple(events)))


@pytest.mark.parametrize("spend", SPENDS, ids=["pure", "gaussian", "rho"])
@pytest.mark.parametrize(("make", "targets"), CASES)
def test_a_learner_keeps_its_price(
    make: Any, targets: list[float], spend: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that few rows are asked where they lie, too.
    monkeypatch.setattr("sfumato.learn.target_range._CLEAR_ROWS", -1e9)
    found = audited(make, spend, make(**spend).fit_budget().events, targets)
    assert found.finding is None
    assert found.reached > 0.5


@pytest.mark.parametrize(
    ("spend", "rows"),
    [
        pytest.param(SPENDS[1], 60, id="gaussian-line"),
        pytest.param(SPENDS[2], 60, id="rho-line", marks=pytest.mark.slow),
        pytest.param(SPENDS[1], 10**9, id="gaussian-trials", marks=pytest.mark.slow),
        pytest.param(SPENDS[2], 10**9, id="rho-trials", marks=pytest.mark.slow),
    ],
)
def test_an_automatic_choice_keeps_its_price(
    spend: dict[str, float], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With pure ε it perturbs an objective, which `test_convex.py` audits by its law."""
    monkeypatch.setattr("sfumato.learn.target_range._CLEAR_ROWS", -1e9)
    given: dict[str, Any] = {"bounds": BOUNDS, "classes": [0, 1], "rows": rows}
    budget = AutoClassifier(**given, **spend).fit_budget()
    found = audited(lambda **more: AutoClassifier(**given, **more), spend, budget.events, [0.0, 1.0])
    assert found.finding is None
    assert found.reached > 0.5


@pytest.mark.parametrize("spend", SPENDS, ids=["pure", "gaussian", "rho"])
@pytest.mark.parametrize("make", LINES)
def test_a_regression_keeps_its_price(
    make: Any, spend: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a first look few rows are asked for their mean again, by pure ε; more for where they lie and then
    for their mean there, or along one direction; many for their products; very many for nothing more."""
    budget = make(**spend).fit_budget()
    first = [Pure(budget.aside.epsilon), to_event(share_of(budget.main, budget.first))]
    monkeypatch.setattr("sfumato.learn.linear.regression._MOST_LOOK", -1)
    few = audited(make, spend, [*first, Pure(budget.alone.epsilon)], [-HUGE, 0.3, HUGE])
    # From here on rows are asked where they lie, for the largest share that there is for that.
    monkeypatch.setattr("sfumato.learn.linear.regression._MOST_LOOK", _MOST_LOOK)
    monkeypatch.setattr("sfumato.learn.linear.regression.share_for_look", lambda *_: _MOST_LOOK)
    monkeypatch.setattr("sfumato.learn.target_range._CLEAR_ROWS", -1e9)
    monkeypatch.setattr("sfumato.learn.linear.regression._MANY_ROWS", 1e9)
    within = audited(make, spend, budget.events, [-HUGE, HUGE])
    monkeypatch.setattr("sfumato.learn.linear.one_direction._FEWEST", -1e9)
    along = audited(make, spend, budget.events, [-HUGE, HUGE])
    monkeypatch.setattr("sfumato.learn.linear.regression._MANY_ROWS", -1e9)
    many = audited(make, spend, budget.events, [-HUGE, HUGE])
    monkeypatch.setattr("sfumato.learn.linear.normal_equations._CLOSE", 1e300)
    once = audited(make, spend, first, [-HUGE, HUGE])
    findings = [each.finding for each in (few, within, along, many, once)]
    assert findings == [None] * 5
    assert few.reached > 0.9
    assert min(within.reached, many.reached, once.reached) > 0.5
    assert along.reached > 0.3


@pytest.mark.parametrize("spend", SPENDS, ids=["pure", "gaussian", "rho"])
def test_boosted_numbers_keep_their_price(spend: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are asked for their mean alone, by pure ε; others for where targets lie, then for leaves."""
    budget = _numbers(**spend).fit_budget()
    first = to_event(share_of(budget.main, budget.first))
    monkeypatch.setattr("sfumato.learn.target_range._MEAN_ERROR", 1e-9)
    few = audited(_numbers, spend, [first, Pure(budget.alone.epsilon)], [-HUGE, 0.3, HUGE])
    monkeypatch.setattr("sfumato.learn.target_range._MEAN_ERROR", 1e9)
    monkeypatch.setattr("sfumato.learn.target_range._CLEAR_ROWS", -1e9)
    many = audited(_numbers, spend, budget.events, [-HUGE, HUGE])
    assert (few.finding, many.finding) == (None, None)
    assert few.reached > 0.9
    assert many.reached > 0.5


_TWO = (lambda **spend: GradientBoosting(bounds=BOUNDS, classes=[0, 1], **spend), [0.0, 1.0])
_THREE = (lambda **spend: GradientBoosting(bounds=BOUNDS, classes=[0, 1, 2], **spend), [0.0, 2.0])
_ANY = (lambda **spend: GradientBoostingRegressor(bounds=BOUNDS, target_bounds=BOUNDS, **spend), [HUGE])


@pytest.mark.parametrize(
    ("make", "targets", "spend"),
    [(*_TWO, SPENDS[0]), (*_TWO, SPENDS[2]), (*_THREE, SPENDS[1]), (*_ANY, SPENDS[0]), (*_ANY, SPENDS[1])],
    ids=["two, pure", "two, rho", "three, gaussian", "numbers, pure", "numbers, gaussian"],
)
def test_trees_that_nobody_asked_for_keep_their_price(
    make: Any, targets: list[float], spend: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where features lie, a turn of each, trees of several, and the check: all that the plan can hold."""
    monkeypatch.setattr("sfumato.learn.target_range._MEAN_ERROR", 1e9)
    monkeypatch.setattr("sfumato.learn.target_range._CLEAR_ROWS", -1e9)
    for name in ("_FOR_BOTH", "_FOR_BOTH_PURE"):
        monkeypatch.setattr(f"sfumato.learn.trees.boosting_rounds.{name}", 0.0)
    for kind in (GradientBoosting, GradientBoostingRegressor):
        monkeypatch.setattr(kind, "_least_clear", 1e-6)
    found = audited(make, spend, make(**spend).fit_budget().events, targets)
    assert found.finding is None
    assert found.reached > 0.4


@pytest.mark.parametrize("spend", SPENDS, ids=["pure", "gaussian", "rho"])
def test_components_of_many_rows_keep_their_price(
    spend: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.learn.decomposition._CLEAR", 1e300)
    monkeypatch.setattr("sfumato.oracle.over_arrays.ArrayOracle.scans", True)
    found = audited(
        lambda **spend: PCA(2, bounds=BOUNDS, **spend), spend, PCA(**spend).fit_budget().events, [0.0]
    )
    assert found.finding is None


def test_what_is_left_after_a_first_look_costs_no_more_than_was_said() -> None:
    """Gaussian noise and then pure ε: at half of δ, by the exact profile."""
    for epsilon, delta in [(0.1, 1e-6), (1.0, 1e-6), (5.0, 1e-3)]:
        budget = LinearRegression(epsilon=epsilon, delta=delta).fit_budget()
        whole = composition.delta([to_event(budget.main)], budget.epsilon - budget.aside.epsilon)
        before = to_event(share_of(budget.main, budget.first))
        instead = composition.delta([before], budget.epsilon - budget.aside.epsilon - budget.alone.epsilon)
        assert whole + instead <= delta * (1 + 1e-9)


def test_a_matrix_priced_for_half_its_reach_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = moments_room.build_gram_block

    def planted(*args: Any) -> SumBlock:
        block = honest(*args)
        return SumBlock(block.terms, block.l1 // 4, block.l2_squared // 16, block.share)

    monkeypatch.setattr("sfumato.learn.decomposition.build_gram_block", planted)
    program = lambda data: learned(PCA(2, bounds=BOUNDS, epsilon=1.0, delta=1e-6).fit(*data))  # noqa: E731
    claim = Sequential(PCA(epsilon=1.0, delta=1e-6).fit_budget().events)
    assert audit.replay(program, neighbours([0.0]), claim=claim).violates


def test_a_centre_whose_deviations_are_not_cut_off_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.learn.cells.clip_value", lambda value, reach: value)
    program = lambda data: learned(KMeans(2, bounds=BOUNDS, epsilon=1.0, delta=1e-6).fit(*data))  # noqa: E731
    claim = Sequential(KMeans(epsilon=1.0, delta=1e-6).fit_budget().events)
    assert audit.replay(program, neighbours([0.0]), claim=claim).violates


def test_shares_that_were_swapped_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a library whose k-means gave its sums the part that was meant for its counts."""
    swapped = Fraction(1, 2), Fraction(25, 100), Fraction(25, 100), Fraction(35, 100)
    for name, share in zip(("_SPREAD", "_CELLS", "_MOMENTS", "_LLOYD"), swapped, strict=True):
        monkeypatch.setattr(f"sfumato.learn.cluster.{name}", share)
    program = lambda data: learned(KMeans(2, bounds=BOUNDS, epsilon=1.0).fit(*data))  # noqa: E731
    assert audit.replay(program, neighbours([0.0], rows=4000), claim=1.0).violates


def test_bounds_that_are_measured_are_found() -> None:
    def program(data: Data) -> dict[str, Any]:
        X, y = data
        bounds = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
        return learned(GaussianNB(bounds=bounds, classes=[0, 1], epsilon=1.0).fit(X, y))

    assert audit.replay(program, neighbours([0.0, 1.0]), claim=1.0).violates


# ---- from outside ----

ALPHA = 1e-6


def outputs(row: list[float]) -> Any:
    """Means and scales that were learned from two rows, one of them this."""

    def sampler(count: int) -> np.ndarray:
        X = np.array([[0.0], row])
        fits = (
            GaussianNB(epsilon=1.0, bounds=BOUNDS, classes=[0, 1], scaling=None).fit(X, [0, 0])
            for _ in range(count)
        )
        return np.array([np.concatenate([fit.theta_.ravel(), fit.var_.ravel()]) for fit in fits])

    return sampler


def test_an_audit_from_outside_finds_nothing() -> None:
    """A row far outside its bounds, or one that is missing: these are two neighbours of a common one."""
    target = outputs([HUGE]), outputs([np.nan])
    assert not audit.run(target, claim=2.0, samples=1500, alpha=ALPHA).violates


def test_an_audit_from_outside_finds_shares_of_more_than_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_COUNTS", "_SUMS", "_SQUARES"):
        monkeypatch.setattr(f"sfumato.learn.naive_bayes.{name}", Fraction(20))
    target = outputs([HUGE]), outputs([np.nan])
    assert audit_in_stages(target, 2.0, samples=1500, alpha=ALPHA).violates
