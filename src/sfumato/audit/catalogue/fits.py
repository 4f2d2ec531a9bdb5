"""Learners, replayed on tables with and without an extreme row; trainers, by canaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.audit.catalogue.entries import CatalogueEntry
from sfumato.audit.one_run import CanaryVerdict, draw_inclusion, one_run
from sfumato.audit.replay import replay
from sfumato.privacy.events import Sequential

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.audit.replay import Replayed

_BOUNDS = (-1.0, 1.0)
_FAR = 1e6
_LINE = {"bounds": _BOUNDS, "target_bounds": (0.0, 1.0)}
_TWO = {"bounds": _BOUNDS, "classes": [0, 1]}
_LEARNERS: dict[str, dict[str, Any]] = {
    "GaussianNB": _TWO,
    "CategoricalNB": {"categories": [[-1.0, 1.0, _FAR]] * 4, "classes": [0, 1]},
    "NearestNeighbors": {**_TWO, "waves": 4},
    "Perceptron": {**_TWO, "rounds": 2},
    "PCA": {"n_components": 2, "bounds": _BOUNDS},
    "KMeans": {"n_clusters": 3, "bounds": _BOUNDS},
    "DecisionTree": {**_TWO, "max_depth": 3},
    "GradientBoosting": {**_TWO, "trees": 6, "depth": 2},
    "GradientBoostingRegressor": {**_LINE, "trees": 6, "depth": 2},
    "LinearRegression": _LINE,
    "LogisticRegression": {**_TWO, "method": "gradient", "steps": 4},
    "LinearSVC": {**_TWO, "method": "gradient", "steps": 4},
    "KernelSVC": {**_TWO, "delta": 1e-6, "waves": 4},
    "AutoClassifier": {**_TWO, "delta": 1e-6},
}
"""Learners whose price does not depend on their answers, and the settings to audit them with.

Those that perturb an objective are in `objectives`; here they take noisy steps.
"""


def _neighbours() -> Iterator[tuple[Any, Any]]:
    rng = np.random.default_rng(7)
    rows, labels = rng.uniform(-1.2, 1.2, (40, 4)), rng.integers(0, 2, 40).astype(float)
    for added in (np.full(4, _FAR), np.array([_FAR, 0, 0, 0]), np.full(4, np.nan)):
        more = np.vstack([rows, added]), np.append(labels, 1.0)
        yield (rows, labels), more
        yield more, (rows, labels)


def _learn(name: str, settings: dict[str, Any]) -> Replayed:
    from sfumato import learn

    made = getattr(learn, name)
    claim = Sequential(tuple(made(epsilon=1.0, **settings).fit_budget().events))

    def program(data: tuple[Any, Any]) -> dict[str, Any]:
        fitted = vars(made(epsilon=1.0, **settings).fit(*data))
        return {key: value for key, value in fitted.items() if key.endswith("_") and key != "guarantee_"}

    return replay(program, _neighbours(), claim=claim)


def _train(effort: int, alpha: float, **settings: Any) -> CanaryVerdict:
    """Return what gradient canaries of one run show, seen at every step; all units are in every batch."""
    from sfumato import deep
    from sfumato.deep.ready.inputs import DeclaredInputs
    from sfumato.deep.ready.networks import LINEAR, build_network

    canaries, rows = 500 * min(effort, 8), 100
    values = np.random.default_rng(2).uniform(-1, 1, (rows, 6)).astype(np.float32)
    inputs = DeclaredInputs.of(values, _BOUNDS, None).read(values)
    trainer = deep.Trainer(
        build_network(LINEAR, inputs, 1),
        lambda came, targets: (came[:, 0] - targets) ** 2,
        epsilon=4,
        delta=1e-5,
        batch_size=rows + canaries,
        **settings,
    )
    included = draw_inclusion(canaries)
    run = deep.score_gradient_canaries(trainer, (inputs, values[:, 0]), included)
    return one_run(run.scores, included, run.event, delta=1e-5, independent=True, alpha=alpha)


def list_fits() -> list[CatalogueEntry]:
    """Return an entry for learners and trainers."""
    learners = [
        CatalogueEntry("learner", name, lambda *_, n=name, s=settings: _learn(n, s), "sklearn")
        for name, settings in _LEARNERS.items()
    ]
    trainers = [
        CatalogueEntry("deep", "one step", lambda effort, alpha: _train(effort, alpha, steps=1), "torch"),
        CatalogueEntry("deep", "four steps", lambda effort, alpha: _train(effort, alpha, steps=4), "torch"),
    ]
    return [*learners, *trainers]
