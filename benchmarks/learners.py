"""Measure test scores of private learners by ε, next to scikit-learn, required scores and other libraries.

    python benchmarks/learners.py [--seeds 20] [--study "naive Bayes"] [--only-missing]
    python benchmarks/learners.py --page docs/learn-measured.md --plot docs/images/learners.svg

Features lie within [−1, 1] by fixed bounds that are given as bounds=(-1, 1). Splits are 70/30 by seed. Each
learner is measured at δ = 1e-6 (add/remove) and with pure ε. Scores are written to docs/measured/learners.csv
as they come; those of other libraries are in the same folder, from `benchmarks/peers/learners.py`. For
k-means the score is the inertia divided by that of scikit-learn's best of ten runs, so lower is better; for
PCA it is the variance that five components explain, divided by the most that five can explain. A score worse
than required or than another library's by more than two standard errors is marked with "!". With --page or
--plot nothing is measured.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from sklearn import cluster, decomposition, ensemble, linear_model, naive_bayes, tree

from parts import learned
from parts.learning import DELTA, EPSILONS, Timed, chosen
from parts.scores import APPROXIMATE, MINE, OPEN, OURS, PEERS, PLAIN, PURE, Score, keep, read
from sfumato import learn

if TYPE_CHECKING:
    from collections.abc import Callable

    from parts.learning import Data, Study

    Make = Callable[..., Any]

BOX = (-1, 1)
SPENDS: dict[str, dict[str, float]] = {APPROXIMATE: {"delta": DELTA}, PURE: {}}


def classified(kind: Any, **more: Any) -> Make:
    return lambda data, **spend: kind(bounds=BOX, classes=data.classes, **more, **spend)


def regressed(kind: Any) -> Make:
    return lambda data, **spend: kind(bounds=BOX, target_bounds=BOX, **spend)


MODELS: dict[str, tuple[Make, Any]] = {
    "logistic regression": (
        classified(learn.LogisticRegression),
        linear_model.LogisticRegression(max_iter=1000),
    ),
    "naive Bayes": (classified(learn.GaussianNB), naive_bayes.GaussianNB()),
    "linear regression": (regressed(learn.LinearRegression), linear_model.LinearRegression()),
    "PCA of 5": (lambda data, **spend: learn.PCA(5, bounds=BOX, **spend), decomposition.PCA(5)),
    "k-means": (
        lambda data, **spend: learn.KMeans(8, bounds=BOX, **spend),
        cluster.KMeans(8, n_init=1, random_state=0),
    ),
    "boosting": (
        classified(learn.GradientBoosting),
        ensemble.HistGradientBoostingClassifier(max_depth=4),
    ),
    "additive boosting": (
        classified(learn.GradientBoosting, additive=True),
        ensemble.HistGradientBoostingClassifier(max_depth=1, max_iter=300),
    ),
    "decision tree": (classified(learn.DecisionTree), tree.DecisionTreeClassifier(max_depth=5)),
}
"""Ours, and the same without noise."""


def cell_of(study: Study, guarantee: str, epsilon: float) -> tuple[str, str, str, float]:
    return study.name, PLAIN if guarantee == OPEN else OURS, guarantee, epsilon


def model_of(study: Study, data: Data, guarantee: str, epsilon: float, seed: int) -> Any:
    ours, plain = MODELS[study.name.partition(",")[0]]
    if guarantee == OPEN:
        return plain
    model = ours(data, epsilon=epsilon, **SPENDS[guarantee])
    return model.set_params(random_state=seed) if "random_state" in model.get_params() else model


def measured(study: Study, guarantee: str, epsilon: float, seeds: int) -> Score:
    data, scores, seconds = study.data(), [], []
    for seed in range(seeds):
        model = Timed(model_of(study, data, guarantee, epsilon, seed))
        scores.append(study.measure(model, data, seed))
        seconds.append(model.seconds)
    return Score.of(cell_of(study, guarantee, epsilon), scores, seconds)


def measure(options: argparse.Namespace) -> None:
    known = {each.cell for each in read(MINE)} if options.only_missing else set()
    cells = [(OPEN, float("inf"))]
    cells += [(guarantee, epsilon) for guarantee in SPENDS for epsilon in EPSILONS]
    for study in chosen(options.study):
        for guarantee, epsilon in cells:
            if cell_of(study, guarantee, epsilon) in known:
                continue
            found = measured(study, guarantee, epsilon, options.seeds)
            keep(found, MINE)
            print(f"{study.name:<34} {guarantee:<9} ε = {epsilon:<4} {found}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--study", default="", help="studies whose names hold this")
    parser.add_argument("--only-missing", action="store_true", help="leave out what the file holds already")
    parser.add_argument("--page", type=Path, help="write what the files hold as Markdown")
    parser.add_argument("--plot", type=Path, help="draw what the files hold")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if not (options.page or options.plot):
        measure(options)
    scores = [*read(MINE), *read(PEERS)]
    print(learned.verdict(scores))
    if options.page:
        options.page.write_text(learned.page(scores), encoding="utf-8")
    if options.plot:
        learned.picture(scores).save(options.plot)


if __name__ == "__main__":
    main()
