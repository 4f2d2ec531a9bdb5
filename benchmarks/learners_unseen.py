"""Measure private learners on tables that chose none of their constants, beside trivial baselines and peers.

    python benchmarks/learners_unseen.py [--table iris] [--system perceptron] [--only-missing]
    python benchmarks/learners_unseen.py --pool development      prints and stores nothing
    python benchmarks/learners_unseen.py --choose                writes the table of methods from development
    python benchmarks/learners_unseen.py --curator               own arrays beside the curator
    python benchmarks/learners_unseen.py --page docs/learn-unseen.md

Tables are those of `parts/unseen.py`; scores of other libraries come from `peers/learners_unseen.py`.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from parts import unseen_page
from parts.unseen import DEVELOPMENT, KNOWN, REPORTED, find_sources
from parts.unseen_scores import (
    APPROXIMATE,
    CURATOR,
    DELTA,
    EPSILONS,
    OURS,
    PEERS,
    PURE,
    SEEDS,
    SeedScores,
    keep_scores,
    read_scores,
)
from sfumato import learn

if TYPE_CHECKING:
    from collections.abc import Callable

    from parts.unseen import Source, Table

    Make = Callable[..., Any]

BOX = (-1, 1)
SPENDS: dict[str, dict[str, float]] = {PURE: {}, APPROXIMATE: {"delta": DELTA}}


def classifier(kind: Any, **more: Any) -> Make:
    return lambda table, **spend: kind(bounds=BOX, classes=table.classes, **more, **spend)


def regressor(kind: Any, **more: Any) -> Make:
    return lambda table, **spend: kind(bounds=BOX, target_bounds=BOX, **more, **spend)


CLASSIFIERS: dict[str, Make] = {
    "automatic": classifier(learn.AutoClassifier),
    "logistic regression": classifier(learn.LogisticRegression),
    "support vectors": classifier(learn.LinearSVC),
    "naive Bayes": classifier(learn.GaussianNB),
    "decision tree": classifier(learn.DecisionTree),
    "boosting": classifier(learn.GradientBoosting),
    "additive boosting": classifier(learn.GradientBoosting, additive=True),
    "nearest neighbours": classifier(learn.NearestNeighbors),
    "perceptron": classifier(learn.Perceptron),
}
REGRESSORS: dict[str, Make] = {
    "linear regression": regressor(learn.LinearRegression),
    "boosted regression": regressor(learn.GradientBoostingRegressor),
    "additive boosted regression": regressor(learn.GradientBoostingRegressor, additive=True),
}
METHODS = {PURE: ("objective", "output", "gradient"), APPROXIMATE: ("gradient", "gaussian")}


def systems_of(table: Table, guarantee: str) -> dict[str, Make]:
    if not table.classes:
        return REGRESSORS
    found = dict(CLASSIFIERS)
    for name, kind in (
        ("logistic regression", learn.LogisticRegression),
        ("support vectors", learn.LinearSVC),
    ):
        for method in METHODS[guarantee]:
            found[f"{name}, {method}"] = classifier(kind, method=method)
    return found


# ---- scores ------------------------------------------------------------------------------------------------


def score_baseline(table: Table, epsilon: float, seed: int) -> float:
    """Score the commonest class, or the mean, by all of ε: Laplace noise on counts, or on Σ(1 ± y)/2."""
    _, _, target, wanted = table.split(seed)
    rng = np.random.default_rng(seed)
    if table.classes:
        counts = np.bincount(target, minlength=len(table.classes)) + rng.laplace(
            0, 1 / epsilon, len(table.classes)
        )
        return float((wanted == counts.argmax()).mean())
    upper, lower = ((1 + sign * target).sum() / 2 + rng.laplace(0, 1 / epsilon) for sign in (1, -1))
    mean = np.clip((upper - lower) / max(1.0, upper + lower), -1, 1)
    return float(1 - ((wanted - mean) ** 2).sum() / ((wanted - wanted.mean()) ** 2).sum())


def measure_cell(
    source: Source, name: str, make: Make, guarantee: str, epsilon: float, seeds: int = SEEDS
) -> SeedScores:
    table, scores, began = source.load(), [], time.process_time()
    for seed in range(seeds):
        rows, held, target, wanted = table.split(seed)
        model = make(table, epsilon=epsilon, **SPENDS[guarantee])
        if "random_state" in model.get_params():
            model.set_params(random_state=seed)
        scores.append(float(model.fit(rows, target).score(held, wanted)))
    seconds = (time.process_time() - began) / seeds
    return SeedScores(source.name, name, guarantee, epsilon, seconds, tuple(scores))


def measure(options: argparse.Namespace) -> None:
    stored = options.pool == REPORTED
    known = read_scores(OURS) if options.only_missing else {}
    began = time.monotonic()
    for source in find_sources(options.pool, options.table):
        table = source.load()
        for guarantee, epsilon in product(SPENDS, EPSILONS):
            if time.monotonic() - began > options.limit:
                raise SystemExit(f"stopped before {source.name}; --only-missing goes on from there")
            base = tuple(score_baseline(table, epsilon, seed) for seed in range(SEEDS))
            found = [SeedScores(source.name, "baseline", guarantee, epsilon, 0.0, base)]
            for name, make in systems_of(table, guarantee).items():
                if options.system not in name or (source.name, name, guarantee, epsilon) in known:
                    continue
                found.append(measure_cell(source, name, make, guarantee, epsilon))
                low = found[-1].mean < found[0].mean - 0.02
                print(
                    f"{source.name:<24} {guarantee:<9} ε = {epsilon:<4} {name:<32} {found[-1].mean:7.3f}"
                    f" ± {found[-1].error:.3f}  baseline {found[0].mean:.3f}{' !' if low else ''}",
                    flush=True,
                )
            if stored:
                keep_scores(found, OURS)


# ---- which method ------------------------------------------------------------------------------------------

STRENGTHS = (0.03, 0.1, 0.3)


def choose_methods() -> None:
    """Measure methods and penalties for pure ε on development tables, and print the scores."""
    totals: dict[tuple[bool, bool], dict[tuple[str, float], list[float]]] = {}
    for source in (*find_sources(DEVELOPMENT), *find_sources(KNOWN)):
        table = source.load()
        if not table.classes:
            continue
        outputs = 1 if len(table.classes) == 2 else len(table.classes)
        weights = outputs * (table.rows.shape[1] + 1)
        kinds = totals.setdefault((outputs > 1, weights > 64), {})
        for kind, method, strength, epsilon in product(
            (learn.LogisticRegression, learn.LinearSVC), ("objective", "output"), STRENGTHS, (0.5, 3.0)
        ):
            make = classifier(kind, method=method, penalty=max(1.0, strength * weights / epsilon))
            found = measure_cell(source, method, make, PURE, epsilon, seeds=3)
            kinds.setdefault((method, strength), []).append(found.mean)
    for key, each in sorted(totals.items()):
        print(key, {one: round(float(np.mean(scores)), 3) for one, scores in each.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pool", choices=[DEVELOPMENT, KNOWN, REPORTED], default=REPORTED)
    parser.add_argument("--table", default="", help="tables whose names hold this")
    parser.add_argument("--system", default="", help="systems whose names hold this")
    parser.add_argument("--only-missing", action="store_true", help="leave out what the file holds already")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds after which to stop")
    parser.add_argument("--choose", action="store_true", help="compare methods on development tables")
    parser.add_argument("--curator", action="store_true", help="measure the same fits behind the curator")
    parser.add_argument("--page", type=Path, help="write what the files hold as Markdown")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.choose:
        choose_methods()
    elif options.page:
        scores = {cell: each for path in (OURS, PEERS, CURATOR) for cell, each in read_scores(path).items()}
        shown = unseen_page.write_page(scores)
        options.page.write_text(shown, encoding="utf-8")
    elif options.curator:
        from parts.unseen_curator import measure_curator

        measure_curator(options.table, options.system)
    else:
        measure(options)


if __name__ == "__main__":
    main()
