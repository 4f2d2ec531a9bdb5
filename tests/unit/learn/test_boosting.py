"""Boosting that cannot learn stays at what it starts from: the private mean, or the commonest class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato.learn import GradientBoosting, GradientBoostingRegressor
from sfumato.oracle.blocks import value_range

SPENDS = [{"epsilon": 3.0}, {"epsilon": 3.0, "delta": 1e-6}]


def _targets(kind: str, rows: np.ndarray, rng: Any) -> tuple[np.ndarray, tuple[float, float]]:
    signal = 2 * rows[:, 0] - rows[:, 1] + np.abs(rows[:, 2])
    if kind == "offset":
        return 900 + signal + rng.normal(size=len(rows)) * 0.5, (0, 1000)
    return np.exp(signal + rng.normal(size=len(rows)) * 0.3), (0, 5000)


@pytest.mark.parametrize("spend", SPENDS, ids=["pure", "gaussian"])
@pytest.mark.parametrize("kind", ["offset", pytest.param("tailed", marks=pytest.mark.slow)])
def test_targets_far_from_the_middle_of_loose_bounds_are_learnt(kind: str, spend: dict[str, float]) -> None:
    """The median of five fits; before targets were located, R² was below −100 here."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (6000, 4))
    y, bounds = _targets(kind, X, rng)
    scores = [
        GradientBoostingRegressor(bounds=(-1, 1), target_bounds=bounds, random_state=seed, **spend)
        .fit(X, y)
        .score(X, y)
        for seed in range(5)
    ]
    assert np.median(scores) > 0.3
    assert min(scores) > -0.5


def test_few_rows_get_their_mean_and_no_trees() -> None:
    rng = np.random.default_rng(4)
    X, y = rng.uniform(-1, 1, (60, 3)), rng.uniform(0.2, 0.4, 60)
    model = GradientBoostingRegressor(bounds=(-1, 1), target_bounds=(-1, 1), epsilon=0.5, delta=1e-6).fit(
        X, y
    )
    assert model.rounds_ == 0
    assert len(set(model.predict(X))) == 1


@pytest.mark.parametrize(
    "spend", [{"epsilon": 0.3}, {"epsilon": 0.3, "delta": 1e-6}], ids=["pure", "gaussian"]
)
def test_where_features_say_nothing_the_commonest_class_wins(spend: dict[str, float]) -> None:
    rng = np.random.default_rng(5)
    X, y = rng.uniform(-1, 1, (2000, 6)), (rng.uniform(size=2000) < 0.2).astype(int)
    model = GradientBoosting(bounds=(-1, 1), classes=[0, 1], **spend).fit(X, y)
    assert (model.predict(X) == 0).mean() > 0.95


def test_fewer_than_four_trees_buy_nothing_else() -> None:
    X, y = np.zeros((50, 2)), np.zeros(50)
    model = GradientBoostingRegressor(trees=3, bounds=(-1, 1), target_bounds=(-1, 1), epsilon=1).fit(X, y)
    assert model.start_.tolist() == [0.0]
    assert model.target_.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("additive", [False, True])
def test_a_small_table_is_learnt_from_by_one_turn_of_each_feature(additive: bool) -> None:
    """The median of seven fits to 600 rows; four trees of two features each had 0.66."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(600, 8))
    y = (X[:, :4] @ np.array([2.0, -2.0, 1.5, 1.0]) + rng.logistic(size=600) > 0).astype(int)
    given: dict[str, Any] = {"bounds": (-5, 5), "classes": [0, 1], "epsilon": 1.0, "delta": 1e-6}
    fits = [GradientBoosting(additive=additive, random_state=seed, **given).fit(X, y) for seed in range(7)]
    assert np.median([each.score(X, y) for each in fits]) > 0.72


def test_cuts_lie_where_rows_do_however_loose_the_bounds_are() -> None:
    """Before, rows within a hundredth of the bounds were all in one leaf."""
    rng = np.random.default_rng(7)
    X = rng.normal(3, 1, (4000, 3))
    y = (np.abs(X[:, 0] - 3) > 0.7).astype(int)
    model = GradientBoosting(bounds=(-300, 300), classes=[0, 1], epsilon=2.0, delta=1e-6).fit(X, y)
    cuts = np.concatenate([each["cuts"] for each in model.parts_ if each["additive"]])
    assert np.abs(cuts - 3).max() < 30
    assert model.score(X, y) > 0.75


def test_a_gradient_is_priced_by_what_scores_can_be_so_far() -> None:
    """Scores start near even odds, so the first gradients are about half of what any score allows."""
    rng = np.random.default_rng(8)
    X, y = rng.uniform(-1, 1, (3000, 2)), rng.integers(0, 2, 3000)
    asked: list[int] = []

    class Watched(GradientBoosting):
        def _derivatives(self, declared: Any, scores: Any) -> Any:
            found = super()._derivatives(declared, scores)
            asked.append(max(map(abs, value_range(found[0][0], declared.ranges))))
            return found

    Watched(bounds=(-1, 1), classes=[0, 1], epsilon=1.0).fit(X, y)
    assert asked[0] < 0.6 * 1024
    assert all(each <= 1024 for each in asked)
