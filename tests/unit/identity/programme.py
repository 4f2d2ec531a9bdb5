"""What is asked of a lab whose answers must stay found: typical questions, choices, graphs and fits.

Only what people type stands here, so this runs with every version of the package. Run as a script, it makes a
lab and writes it to an archive: `python tests/unit/identity/programme.py lab.tar.gz`.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sfumato as sf

ROWS = 240
BOTH = {"epsilon": 1, "delta": 1e-7}


def visits() -> pa.Table:
    rng = np.random.default_rng(7)
    x = rng.normal(0, 0.5, ROWS)
    return pa.table(
        {
            "who": np.arange(ROWS) // 2,
            "age": rng.integers(0, 100, ROWS),
            "cost": rng.uniform(0, 5500, ROWS),
            "x": x,
            "z": rng.uniform(-1, 1, ROWS),
            "ward": rng.choice(["A", "B", "C"], ROWS),
            "ill": np.where(x + rng.normal(0, 0.2, ROWS) > 0, "yes", "no"),
            "note": rng.choice(["cough", "fever", "fall"], ROWS),
        }
    )


def build(folder: Path) -> sf.Lab:
    lab = sf.create(folder)
    columns = {
        "age": sf.between(0, 110, step=1),
        "cost": sf.between(0, 5000),
        "x": sf.between(-1, 1),
        "z": sf.between(-1, 1),
        "ward": sf.one_of("A", "B", "C"),
        "ill": sf.one_of("no", "yes"),
        "note": sf.text(),
    }
    budget = sf.Budget(epsilon=2000, delta=1e-3)
    lab.register("visits", visits(), unit=sf.Unit("who", max_rows=2), columns=columns, budget=budget)
    survey = visits().select(["x", "ward"])
    listed = {name: columns[name] for name in ("x", "ward")}
    lab.register(
        "survey", survey, unit=sf.ROW, columns=listed, neighbours=sf.REPLACE_ONE, rows=ROWS, budget=budget
    )
    rng = np.random.default_rng(8)
    edges = pa.table({"a": rng.integers(0, 60, 150), "b": rng.integers(0, 60, 150)})
    lab.register("calls", edges, unit=sf.Edge("a", "b", max_degree=9), budget=budget)
    lab.grant("ada", epsilon=1000, delta=1e-4)
    lab.publish("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon=0.5)
    return lab


def _fit(
    estimator: Callable[[], Any], features: list[str], target: str | None = None
) -> Callable[[Any], Any]:
    return lambda s: s.fit(estimator(), table="visits", features=features, target=target)


def _sql(text: str, **spend: Any) -> Callable[[Any], Any]:
    return lambda s: s.sql(text).release(**spend)


def _partition(s: Any) -> Any:
    parts = s.table("visits").partition("ward")
    return parts.ask({key: part.count() for key, part in parts.items()}).release(epsilon=1)


def _evaluate(s: Any) -> Any:
    """The model is learnt before; asked again, both are free."""
    return s.evaluate(ASKED["logistic"](s), table="visits", target="ill", epsilon=1)


ASKED: dict[str, Callable[[Any], Any]] = {
    "count": _sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.5),
    "groups": _sql(
        "SELECT ward, COUNT(*) AS n, AVG(cost) AS c FROM visits WHERE age >= 30 GROUP BY ward", epsilon=1
    ),
    "gaussian": _sql("SELECT ward, SUM(cost) AS c FROM visits GROUP BY ward", **BOTH),
    "rho": _sql("SELECT VARIANCE(cost) AS v, CORR(x, z) AS r FROM visits", rho=0.5),
    "share": _sql("SELECT COUNT(*) AS n, SUM(x) AS x FROM visits WHERE ill = 'yes'", share=0.001),
    "median": _sql("SELECT MEDIAN(age) AS m, MIN(cost) AS low FROM visits", epsilon=1),
    "bought keys": _sql("SELECT note, COUNT(*) AS n FROM visits GROUP BY note", epsilon=2, delta=1e-6),
    "people": _sql("SELECT COUNT(DISTINCT who) AS n FROM visits WHERE note LIKE 'f%'", epsilon=1),
    "subquery": _sql(
        "SELECT AVG(t) AS t FROM (SELECT who, SUM(cost) AS t FROM visits GROUP BY who) AS s", epsilon=1
    ),
    "case": _sql("SELECT SUM(CASE WHEN x > 0 THEN age ELSE 0 END) AS a FROM visits", epsilon=1),
    "survey": _sql("SELECT ward, AVG(x) AS x FROM survey GROUP BY ward", epsilon=1),
    "frame": lambda s: (
        s.table("visits").where("age >= 50").group_by("ward").agg(n=sf.count()).release(epsilon=1)
    ),
    "top": lambda s: s.table("visits").top("ward", k=2).release(epsilon=1),
    "distance": lambda s: s.table("visits").distance("COUNT(*) >= 100").release(epsilon=1),
    "subsample median": lambda s: (
        s.table("visits").subsample(sf.median("cost"), blocks=20).release(epsilon=1)
    ),
    "subsample mean": lambda s: s.table("visits").subsample(sf.mean("cost"), blocks=20).release(epsilon=1),
    "bounds": lambda s: s.table("visits").bounds("cost").release(epsilon=1),
    "partition": _partition,
    "oracle": lambda s: s.oracle("visits", epsilon=1.0).mean("age >= 65"),
    "degrees": lambda s: s.graph("calls").degrees().release(epsilon=1),
    "edges": lambda s: s.graph("calls").edges().release(epsilon=1),
    "naive bayes": _fit(lambda: sf.learn.GaussianNB(**BOTH), ["x", "z"], "ill"),
    "categorical": _fit(lambda: sf.learn.CategoricalNB(epsilon=1), ["ward"], "ill"),
    "linear": _fit(lambda: sf.learn.LinearRegression(**BOTH), ["x", "z"], "cost"),
    "linear pure": _fit(lambda: sf.learn.LinearRegression(epsilon=1), ["x"], "cost"),
    "components": _fit(lambda: sf.learn.PCA(1, **BOTH), ["x", "z"]),
    "k-means": _fit(lambda: sf.learn.KMeans(2, **BOTH), ["x", "z"]),
    "logistic": _fit(lambda: sf.learn.LogisticRegression(**BOTH), ["x", "z"], "ill"),
    "logistic pure": _fit(lambda: sf.learn.LogisticRegression(epsilon=1), ["x", "z"], "ill"),
    "objective": _fit(
        lambda: sf.learn.LogisticRegression(method="gaussian", epsilon=5, delta=1e-5), ["x", "z"], "ill"
    ),
    "vectors": _fit(lambda: sf.learn.LinearSVC(**BOTH), ["x", "z"], "ill"),
    "tree": _fit(lambda: sf.learn.DecisionTree(max_depth=2, **BOTH), ["x", "z"], "ill"),
    "boosting": _fit(lambda: sf.learn.GradientBoosting(trees=2, depth=2, **BOTH), ["x", "z"], "ill"),
    "boosted numbers": _fit(
        lambda: sf.learn.GradientBoostingRegressor(trees=2, depth=2, **BOTH), ["x"], "cost"
    ),
    "itemsets": _fit(lambda: sf.learn.FrequentItemsets(3, epsilon=1), ["ward"]),
    "perceptron": _fit(lambda: sf.learn.Perceptron(epsilon=1), ["x", "z"], "ill"),
    "evaluation": _evaluate,
}


def requests(lab: sf.Lab) -> list[str]:
    """The request of every charge of a lab, in order."""
    return [
        json.loads(entry.body)["request"] for entry in lab.ledger.read_entries() if entry.kind == "charge"
    ]


def ask_all(lab: sf.Lab) -> dict[str, str]:
    """Ask everything, some of it as ada; return the first request that each was charged for."""
    session, ada, first = lab.session(), lab.session("ada"), {}
    for name, ask in ASKED.items():
        before = len(requests(lab))
        ask(ada if name in ("groups", "linear") else session)
        first.update((name, request) for request in requests(lab)[before : before + 1])
    return first


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        ask_all(build(Path(folder) / "lab"))
        with tarfile.open(sys.argv[1], "w:gz") as archive:
            archive.add(Path(folder) / "lab", "lab")
