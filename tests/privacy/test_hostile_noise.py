"""Every estimator under noise and rows at their worst: no error, no warning, the same names and shapes.

An error after the charge is an output like any other, and no one paid for it. What is refused is refused by
public facts alone, before anything is charged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato import learn
from sfumato.errors import UsageError
from sfumato.learn.perceptron import PerceptronGradient
from sfumato.noise import GaussianNoise, LaplaceNoise
from sfumato.noise.audit_hook import MechanismCall, recording
from sfumato.noise.bodies.shaped import JointNoise
from sfumato.oracle.gradients import FeatureMatrix, GradientQuestion

B = {"bounds": (-1.0, 1.0)}
N = {"row_norm": 1.0}
TWO, THREE = {"classes": [0, 1]}, {"classes": [0, 1, 2]}
GOAL = {"target_bounds": (0, 10)}
SMALL = {"trees": 3, "depth": 2}
HUGE, TINY = 1e300, 1e-300

CASES: list[tuple[str, dict[str, Any]]] = [
    ("AssociationRules", {"k": 4}),
    ("FrequentItemsets", {"k": 4}),
    ("AutoClassifier", {**B, **TWO}),
    ("AutoClassifier", {**B, **THREE, "rows": 10**6}),
    ("CategoricalNB", {**TWO, "categories": [[0, 1], [0, 1, 2], [0]]}),
    ("CategoricalNB", {**TWO, "categories": [[0, 1], [0, 1, 2], [0]], "alpha": -5}),
    ("ConvexERM", {**B, **TWO, "loss": "huber", "method": "output"}),
    ("ConvexERM", {**B, **TWO, "method": "gradient", "penalty": HUGE}),
    ("DecisionTree", {**B, **TWO, "max_depth": 2}),
    ("GaussianNB", {**B, **TWO}),
    ("GaussianNB", {**N, **THREE}),
    ("GradientBoosting", {**B, **TWO, **SMALL}),
    ("GradientBoosting", {**B, **THREE, **SMALL, "additive": True}),
    ("GradientBoosting", {**B, **TWO, **SMALL, "learning_rate": 1e17}),
    ("GradientBoosting", {**B, **TWO, **SMALL, "learning_rate": -HUGE}),
    ("GradientBoostingRegressor", {**B, **GOAL, **SMALL}),
    ("KMeans", {**N, "n_clusters": 2}),
    ("KernelSVC", {**B, **TWO, "waves": 5, "gamma": 1e20}),
    ("LinearRegression", {**B, **GOAL}),
    ("LinearRegression", {**N, **GOAL}),
    ("LinearSVC", {**B, **TWO, "width": TINY}),
    ("LinearSVC", {**B, **THREE, "method": "gradient", "steps": 2}),
    ("LogisticRegression", {**B, **TWO, "method": "objective"}),
    ("LogisticRegression", {**B, **TWO, "method": "gaussian"}),
    ("LogisticRegression", {**B, **THREE, "method": "gradient", "rows": HUGE}),
    ("LogisticRegression", {**B, **THREE, "method": "gradient", "rows": TINY, "steps": 2}),
    ("NearestNeighbors", {**B, **TWO, "waves": 5, "width": TINY}),
    ("NearestNeighbors", {**B, **TWO, "waves": 5}),
    ("PCA", {**B, "n_components": 2}),
    ("PCA", {**N}),
    ("Perceptron", {**B, **TWO, "rounds": 3}),
]
SPENDS: list[dict[str, float]] = [{"epsilon": 1e-6}, {"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}]
GROWN = {"AssociationRules", "AutoClassifier", "FrequentItemsets", "DecisionTree"}
"""How many itemsets, nodes or quantiles there are, and a model's family, is learnt from noisy answers."""


class Worst:
    """Gives in the place of noise what noise can be at its worst, however rarely."""

    def __init__(self, values: list[int] | None) -> None:
        self._values = values
        self._turn = 0

    def answer(self, call: MechanismCall, draw: Any) -> Any:
        found = draw()
        if not isinstance(call.mechanism, LaplaceNoise | GaussianNoise | JointNoise):
            return found
        if self._values is None:
            return np.asarray(call.exact)
        count = math.prod(np.shape(found))
        listed = [self._values[(self._turn + at) % len(self._values)] for at in range(count)]
        self._turn += 1
        return np.array(listed, dtype=object).reshape(np.shape(found))


NOISES: list[list[int] | None] = [[0], [-(2**70), 2**70, 0], [2**62, 1, -1, -(2**62)], None]


def tables() -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    yield np.zeros((0, 3)), np.zeros(0)
    yield np.zeros((1, 3)), np.zeros(1)
    yield np.ones((20, 3)), np.zeros(20)
    worst = np.array([1e308, -1e308, np.nan, np.inf, -np.inf, 0.0])
    yield np.tile(worst[:, None], (1, 3)), worst


def _is_refused(estimator: Any, X: Any, y: Any) -> bool:
    """Fit, or say that public facts did not allow it, and check that nothing was charged then."""
    try:
        estimator.fit(X, y)
    except UsageError:
        assert set(estimator._tally()._fits) <= {()}
        return True
    return False


def _shapes(estimator: Any) -> dict[str, Any]:
    kept = {name: value for name, value in vars(estimator).items() if name.endswith("_")}
    return {
        name: (type(value), np.shape(value) if isinstance(value, np.ndarray) else None)
        for name, value in kept.items()
    }


def _drive(name: str, given: dict[str, Any], spend: dict[str, float]) -> None:
    seen: list[Any] = []
    for X, y in tables():
        for noise in NOISES:
            estimator = getattr(learn, name)(**given, **spend)
            # NumPy would raise what it otherwise warns of; and so a warning of ours is an error too.
            with np.errstate(all="raise"), recording(Worst(noise)):
                refused = _is_refused(estimator, X, y)
            seen.append(refused if refused or name in GROWN else _shapes(estimator))
    assert all(each == seen[0] for each in seen), seen


def test_every_estimator_is_driven() -> None:
    assert {name for name, _ in CASES} == set(learn.ESTIMATORS)


LONG = ("AutoClassifier", {"epsilon": 1.0})
"""With many rows as long as with a δ too, which stays; `test_so_it_is_for_every_epsilon` has this one."""


def _with_spends(spends: list[dict[str, float]]) -> list[Any]:
    """Every learner with every spend that it takes."""
    return [
        pytest.param(
            name, given, spend, marks=[pytest.mark.slow] if (name, spend) == LONG and "rows" in given else []
        )
        for name, given in CASES
        for spend in spends
        if {*spend} <= {*getattr(learn, name)().get_params()}
    ]


@pytest.mark.parametrize(("name", "given", "spend"), _with_spends(SPENDS))
def test_no_error_and_no_shape_depends_on_noise_or_rows(
    name: str, given: dict[str, Any], spend: dict[str, float]
) -> None:
    _drive(name, given, spend)


def test_trials_that_cannot_be_drawn_are_not_begun() -> None:
    _drive("AutoClassifier", {**B, "classes": [0, 1, 2], "rows": 10**6}, {"epsilon": 2.0**-7})


@pytest.mark.slow
@pytest.mark.parametrize(("name", "given", "delta"), _with_spends([{}, {"delta": 1e-9}]))
def test_so_it_is_for_every_epsilon(name: str, given: dict[str, Any], delta: dict[str, float]) -> None:
    """Noise that is nearly too wide to be drawn could be too wide for some rounds and not for others."""
    for power in range(26):
        _drive(name, given, {"epsilon": 2.0**-power, **delta})


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 20])
def test_gradients_are_exact_however_many_rows_there_are(rows: int) -> None:
    """Eight such rows have a sum that doubles do not hold: an error would tell seven from eight."""
    gradient = PerceptronGradient(2)
    reach = (2**53 - 1) // 7
    matrix = FeatureMatrix(np.full((rows, 2), float(reach)), np.ones((rows, 1)), reach, gradient, reach)
    asked = GradientQuestion(np.array([[-1, 0]]), gradient, reach)
    assert asked.sum_rows(matrix).tolist() == [[-rows * reach] * 2]
