"""Test scores of learners that only ask for sums, over ε, beside scikit-learn's and what is asked for.

    python benchmarks/learners.py [--seeds 20] [--study "naive Bayes"] [--plot learners.png]

Features are scaled to [−1, 1] by fixed bounds that are given as bounds=(-1, 1); 70/30 splits by seed; δ =
1e-6 and add/remove, and pure ε beside it. For k-means the score is the inertia over that of scikit-learn's
best of ten runs, so lower is better; for principal components it is the variance that five of them hold
over the most that five can hold. "time" is CPU seconds of one fit at ε = 1 over those of scikit-learn's
own. Where a score is asked for, a cell that falls short of it by more than two standard errors is marked
with "!".
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn import cluster, datasets, decomposition, ensemble, linear_model, naive_bayes, tree
from sklearn.model_selection import train_test_split

from sfumato import learn
from sfumato.viz.chart import chart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Data = tuple[Floats, Floats]

EPSILONS = (0.1, 0.5, 1.0, 3.0)
DELTA = 1e-6
BOUNDS = (-1, 1)


def scaled(values: Floats) -> Floats:
    low, high = values.min(axis=0), values.max(axis=0)
    found: Floats = 2 * (values - low) / np.where(high > low, high - low, 1.0) - 1
    return found


@cache
def synthetic() -> Data:
    X, y = datasets.make_classification(50000, 20, n_informative=10, n_redundant=5, random_state=0)
    return scaled(X), y


@cache
def regression() -> Data:
    X, y = datasets.make_regression(50000, 20, noise=50, random_state=0)
    return scaled(X), scaled(y)


@cache
def diabetes() -> Data:
    X, y = datasets.load_diabetes(return_X_y=True)
    return scaled(X), scaled(y)


@cache
def wine() -> Data:
    X, y = datasets.load_wine(return_X_y=True)
    return scaled(X), y


@cache
def blobs() -> Data:
    X, y = datasets.make_blobs(50000, 10, centers=8, random_state=0)
    return scaled(X), y


# ---- what is measured --------------------------------------------------------------------------------------


def tested(model: Any, data: Data, seed: int) -> float:
    """The score on the rows that were left out."""
    X, held, y, wanted = train_test_split(*data, test_size=0.3, random_state=seed)
    return float(model.fit(X, y).score(held, wanted))


@cache
def least_inertia() -> float:
    return float(cluster.KMeans(8, n_init=10, random_state=0).fit(blobs()[0]).inertia_)


def inertia(model: Any, data: Data, seed: int) -> float:
    return float(-model.fit(data[0]).score(data[0])) / least_inertia()


def captured(model: Any, data: Data, seed: int) -> float:
    """The variance of all rows that components of seven tenths of them hold, of the most there is to hold."""
    X = train_test_split(data[0], test_size=0.3, random_state=seed)[0]
    centred = data[0] - data[0].mean(axis=0)
    most = float((np.linalg.svd(centred, compute_uv=False)[:5] ** 2).sum())
    return float(((centred @ model.fit(X).components_.T) ** 2).sum()) / most


@dataclass(frozen=True, slots=True)
class Study:
    name: str
    data: Callable[[], Data]
    ours: Callable[..., Any]
    plain: Any
    asked: tuple[float, ...] = ()
    """For δ = 1e-6; with none, nothing is asked for."""
    measure: Callable[[Any, Data, int], float] = tested
    lower: bool = False
    """Whether less is better."""


def classified(kind: Any, **more: Any) -> Callable[..., Any]:
    return lambda **spend: kind(bounds=BOUNDS, classes=[0, 1], **more, **spend)


def regressed(kind: Any, **more: Any) -> Callable[..., Any]:
    return lambda **spend: kind(bounds=BOUNDS, target_bounds=BOUNDS, **more, **spend)


STUDIES = (
    Study(
        "naive Bayes, synthetic",
        synthetic,
        classified(learn.GaussianNB),
        naive_bayes.GaussianNB(),
        (0.74, 0.81, 0.815, 0.818),
    ),
    Study(
        "linear regression, synthetic",
        regression,
        regressed(learn.LinearRegression),
        linear_model.LinearRegression(),
        (0.30, 0.84, 0.91, 0.94),
    ),
    Study(
        "linear regression, diabetes",
        diabetes,
        regressed(learn.LinearRegression),
        linear_model.LinearRegression(),
        (-0.02, -0.02, -0.02, -0.02),
    ),
    Study(
        "PCA of 5, wine",
        wine,
        lambda **spend: learn.PCA(5, bounds=BOUNDS, **spend),
        decomposition.PCA(5),
        (0.50, 0.64, 0.73, 0.86),
        captured,
    ),
    Study(
        "PCA of 5, blobs",
        blobs,
        lambda **spend: learn.PCA(5, bounds=BOUNDS, **spend),
        decomposition.PCA(5),
        (),
        captured,
    ),
    Study(
        "k-means, blobs",
        blobs,
        lambda **spend: learn.KMeans(8, bounds=BOUNDS, **spend),
        cluster.KMeans(8, n_init=1, random_state=0),
        (2.0, 1.3, 1.15, 1.05),
        inertia,
        lower=True,
    ),
    Study(
        "boosting, synthetic",
        synthetic,
        classified(learn.GradientBoosting),
        ensemble.HistGradientBoostingClassifier(max_depth=4),
        (0.78, 0.83, 0.85, 0.87),
    ),
    Study(
        "additive boosting, synthetic",
        synthetic,
        classified(learn.GradientBoosting, additive=True),
        ensemble.HistGradientBoostingClassifier(max_depth=1, max_iter=300),
    ),
    Study(
        "decision tree, synthetic",
        synthetic,
        classified(learn.DecisionTree),
        tree.DecisionTreeClassifier(max_depth=5),
    ),
)


# ---- the table ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Cell:
    scores: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores))

    @property
    def error(self) -> float:
        return float(np.std(self.scores, ddof=1) / np.sqrt(len(self.scores))) if len(self.scores) > 1 else 0.0

    def short_of(self, asked: float, lower: bool) -> bool:
        missing = self.mean - asked if lower else asked - self.mean
        return missing > 2 * self.error


def cpu(fit: Callable[[], Any]) -> float:
    begun = time.process_time()
    fit()
    return time.process_time() - begun


def measured(study: Study, seeds: int, spend: dict[str, float]) -> list[Cell]:
    found = []
    for epsilon in EPSILONS:
        cell = Cell()
        for seed in range(seeds):
            more = {"random_state": seed} if "random_state" in vars(study.ours()) else {}
            cell.scores.append(
                study.measure(study.ours(epsilon=epsilon, **spend, **more), study.data(), seed)
            )
        found.append(cell)
    return found


def line(study: Study, cells: Sequence[Cell], asked: Sequence[float], noise: str, tail: str) -> str:
    shown = []
    for place, cell in enumerate(cells):
        short = bool(asked) and cell.short_of(asked[place], study.lower)
        shown.append(f"{cell.mean:7.3f} ±{cell.error:.3f}{'!' if short else ' '}")
    return f"{study.name:<30} {noise:<9} {' '.join(shown)}  {tail}"


def timed(study: Study) -> float:
    X, y = study.data()
    ours = min(cpu(lambda: study.ours(epsilon=1.0, delta=DELTA).fit(X, y)) for _ in range(3))
    return ours / min(cpu(lambda: study.plain.fit(X, y)) for _ in range(3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--study", default="")
    parser.add_argument("--plot", default="")
    asked = parser.parse_args()
    points = []
    print(f"{'':<40} {' '.join(f'ε = {each:<11}' for each in EPSILONS)}  scikit-learn, time")
    for study in STUDIES:
        if asked.study not in study.name:
            continue
        plain = np.mean([study.measure(study.plain, study.data(), seed) for seed in range(3)])
        for noise, spend in (("δ = 1e-6", {"delta": DELTA}), ("pure ε", {})):
            cells = measured(study, asked.seeds, spend)
            tail = f"{plain:.3f}, ×{timed(study):.1f}" if spend else ""
            print(line(study, cells, study.asked if spend else (), noise, tail), flush=True)
            points += [
                {"study": study.name, "noise": noise, "epsilon": epsilon, "score": cell.mean}
                for epsilon, cell in zip(EPSILONS, cells, strict=True)
            ]
    if asked.plot:
        picture(points).save(asked.plot)


def picture(points: list[dict[str, Any]]) -> Any:
    body = {
        "data": {"values": points},
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "epsilon", "type": "quantitative", "scale": {"type": "log"}, "title": "ε"},
            "y": {"field": "score", "type": "quantitative", "title": "score", "scale": {"zero": False}},
            "color": {"field": "noise", "type": "nominal", "title": None},
            "facet": {"field": "study", "type": "nominal", "columns": 3, "title": None},
        },
        "resolve": {"scale": {"y": "independent"}},
    }
    return chart(body, title="What learners reach, by ε")


if __name__ == "__main__":
    main()
