"""The same fits on own arrays and behind the curator, on some of the unseen tables."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import sfumato as sf
from parts.unseen import REPORTED, find_sources
from parts.unseen_scores import APPROXIMATE, CURATOR, DELTA, PURE, SeedScores, keep_scores
from sfumato import learn

if TYPE_CHECKING:
    from collections.abc import Callable

    from parts.unseen import Table

TABLES = ("shells", "clusters", "events")
SEEDS = 3
EPSILON = 1.0
CLASSIFIERS: dict[str, Callable[..., Any]] = {
    "automatic": learn.AutoClassifier,
    "logistic regression": lambda **given: learn.LogisticRegression(
        scaling="private", method="gradient", **given
    ),
    "naive Bayes": lambda **given: learn.GaussianNB(scaling="private", **given),
    "boosting": learn.GradientBoosting,
}
REGRESSORS: dict[str, Callable[..., Any]] = {
    "linear regression": lambda **given: learn.LinearRegression(scaling="private", **given),
    "boosted regression": learn.GradientBoostingRegressor,
}


def measure_curator(table_name: str = "", system: str = "") -> None:
    """Fit on own arrays and behind the curator; store scores on rows that were left out.

    Only tables and estimators whose names hold these texts.
    """
    for name in (each for each in TABLES if table_name in each):
        (source,) = find_sources(REPORTED, name)
        table = source.load()
        for kind, make in (CLASSIFIERS if table.classes else REGRESSORS).items():
            if system not in kind:
                continue
            for guarantee, spend in ((PURE, {}), (APPROXIMATE, {"delta": DELTA})):
                given = {"epsilon": EPSILON, **spend}
                own = [_fit_own(table, make, given, seed) for seed in range(SEEDS)]
                began = time.process_time()
                behind = [_fit_behind(table, make, given, seed) for seed in range(SEEDS)]
                seconds = (time.process_time() - began) / SEEDS
                found = [
                    SeedScores(name, f"{kind}, own", guarantee, EPSILON, 0.0, tuple(own)),
                    SeedScores(name, f"{kind}, curator", guarantee, EPSILON, seconds, tuple(behind)),
                ]
                keep_scores(found, CURATOR)
                print(
                    f"{name:<12} {kind:<20} {guarantee:<9} own {found[0].mean:.3f} behind {found[1].mean:.3f}"
                    f"  {seconds:.1f} s",
                    flush=True,
                )


def _fit_own(table: Table, make: Callable[..., Any], given: dict[str, Any], seed: int) -> float:
    rows, held, target, wanted = table.split(seed)
    more: dict[str, Any] = {"classes": table.classes} if table.classes else {"target_bounds": (-1, 1)}
    return float(make(bounds=(-1, 1), **more, **given).fit(rows, target).score(held, wanted))


def _fit_behind(table: Table, make: Callable[..., Any], given: dict[str, Any], seed: int) -> float:
    rows, held, target, wanted = table.split(seed)
    names = [f"x{at}" for at in range(rows.shape[1])]
    columns: dict[str, Any] = {name: sf.between(-1, 1) for name in names}
    columns["y"] = sf.one_of(*table.classes) if table.classes else sf.between(-1, 1)
    data = {name: rows[:, at] for at, name in enumerate(names)} | {"y": target, "who": range(len(rows))}
    with tempfile.TemporaryDirectory() as folder:
        lab = sf.create(Path(folder) / "lab")
        unit, budget = sf.Unit("who", max_rows=1), sf.Budget(epsilon=10, delta=1e-5)
        lab.register("t", pa.table(data), unit=unit, columns=columns, budget=budget)
        fitted = lab.session().fit(make(**given), table="t", features=names, target="y")
    return float(fitted.score(held, wanted))
