"""Measure diffprivlib and DP-EBM on the unseen tables of `benchmarks/learners_unseen.py`, by ε.

    python benchmarks/peers/learners_unseen.py [--table iris] [--limit 40]

`make bench` runs it in the environment of the other libraries. Both get the same public bounds as ours. A
cell may use --limit seconds of processor time; the seeds that are done by then count.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from parts.unseen import REPORTED, find_sources
from parts.unseen_scores import (
    APPROXIMATE,
    DELTA,
    EPSILONS,
    PEERS,
    PURE,
    SEEDS,
    SeedScores,
    keep_scores,
    read_scores,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from parts.unseen import Table

    Make = Callable[[Table, float, int], Any]

BOX = (-1, 1)


def theirs(name: str, **more: Any) -> Make:
    def make(table: Table, epsilon: float, seed: int) -> Any:
        from diffprivlib import models

        given = {key: value(table) if callable(value) else value for key, value in more.items()}
        return getattr(models, name)(epsilon=epsilon, random_state=seed, **given)

    return make


def additive(table: Table, epsilon: float, seed: int) -> Any:
    from interpret import privacy

    places = range(table.rows.shape[1])
    given: dict[str, Any] = {
        "feature_types": ["continuous" for _ in places],
        "epsilon": epsilon,
        "delta": DELTA,
        "privacy_bounds": np.array([BOX for _ in places], dtype=float),
        "n_jobs": 1,
        "random_state": seed,
    }
    if table.classes:
        return privacy.DPExplainableBoostingClassifier(**given)
    return privacy.DPExplainableBoostingRegressor(**given, privacy_target_min=-1.0, privacy_target_max=1.0)


def longest(table: Table) -> float:
    return float(np.sqrt(table.rows.shape[1]))


def classes(table: Table) -> list[int]:
    return list(table.classes)


def peers_of(table: Table) -> dict[str, tuple[str, Make]]:
    ebm = {"DP-EBM": (APPROXIMATE, additive)} if len(table.classes) in (0, 2) else {}
    if not table.classes:
        return {"diffprivlib linear": (PURE, theirs("LinearRegression", bounds_X=BOX, bounds_y=BOX)), **ebm}
    return {
        "diffprivlib logistic": (PURE, theirs("LogisticRegression", data_norm=longest, max_iter=1000)),
        "diffprivlib Bayes": (PURE, theirs("GaussianNB", bounds=BOX)),
        "diffprivlib tree": (PURE, theirs("DecisionTreeClassifier", bounds=BOX, classes=classes)),
        "diffprivlib forest": (PURE, theirs("RandomForestClassifier", bounds=BOX, classes=classes)),
        **ebm,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--table", default="", help="tables whose names hold this")
    parser.add_argument("--limit", type=float, default=40, help="seconds of processor for one cell")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    known = read_scores(PEERS)
    for source in find_sources(REPORTED, options.table):
        table = source.load()
        for name, (guarantee, make) in peers_of(table).items():
            for epsilon in EPSILONS:
                if (source.name, name, guarantee, epsilon) in known:
                    continue
                scores, began = [], time.process_time()
                for seed in range(SEEDS):
                    rows, held, target, wanted = table.split(seed)
                    scores.append(float(make(table, epsilon, seed).fit(rows, target).score(held, wanted)))
                    if time.process_time() - began > options.limit:
                        break
                seconds = (time.process_time() - began) / len(scores)
                found = SeedScores(source.name, name, guarantee, epsilon, seconds, tuple(scores))
                keep_scores([found], PEERS)
                print(
                    f"{source.name:<24} {name:<22} ε = {epsilon:<4} {found.mean:9.3f}  {seconds:.2f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
