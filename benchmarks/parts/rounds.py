"""Learners of several rounds, and the sums of the same rounds in plain DuckDB: ten features of `wide`.

Plain are the sums alone, without noise and without a bound on anyone's rows: thresholds and centres are drawn
beforehand, so that no time goes into choosing them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from parts.wide import FEATURES, LABEL

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from sfumato.lab.lab import Lab

NAMES = FEATURES[:10]
TREES, TREES_A_ROUND, DEPTH, LEVELS, BINS, CENTRES, BITS = 80, 10, 3, 5, 12, 8, 10
SPEND = {"epsilon": 1.0, "delta": 1e-6}
ROUNDS = {
    "80 boosted trees": ("GradientBoosting", {"trees": TREES, "depth": DEPTH}, LABEL),
    "tree of depth 5": ("DecisionTree", {"max_depth": LEVELS}, LABEL),
    "k-means, 8 centres": ("KMeans", {"n_clusters": CENTRES}, None),
}


def fitted_in_rounds(lab: Lab, model: str) -> Any:
    from sfumato import learn

    name, settings, target = ROUNDS[model]
    # A tree stops where noise hides the gain of a split: with this much it goes down to the last level.
    spend = {"epsilon": 50.0, "delta": 1e-6} if name == "DecisionTree" else SPEND
    estimator = getattr(learn, name)(**spend, **settings)
    return lab.session().fit(estimator, table="wide", features=list(NAMES), target=target)


def plain_rounds(connection: DuckDBPyConnection, model: str) -> None:
    """Ask for all sums of a model, one round after the other."""
    draw = np.random.default_rng(0)
    {"80 boosted trees": _boosted, "tree of depth 5": _grown, "k-means, 8 centres": _clustered}[model](
        connection, draw
    )


def _sides(draw: Any, depth: int) -> str:
    """A leaf by the sides of as many thresholds."""
    chosen = draw.choice(len(NAMES), depth, replace=False)
    return " + ".join(
        f"CASE WHEN {NAMES[at]} >= {draw.normal() * 0.2} THEN {2**bit} ELSE 0 END"
        for bit, at in enumerate(chosen)
    )


def _boosted(connection: DuckDBPyConnection, draw: Any) -> None:
    connection.execute(f"CREATE TEMP TABLE scored AS SELECT {', '.join(NAMES)}, {LABEL}, 0.0 AS s FROM wide")
    for _ in range(TREES // TREES_A_ROUND):
        leaves = [_sides(draw, DEPTH) for _ in range(TREES_A_ROUND)]
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE slopes AS SELECT *, {LABEL} - p AS g, p * (1 - p) AS h "
            "FROM (SELECT *, 1 / (1 + exp(-s)) AS p FROM scored)"
        )
        for leaf in leaves:
            connection.sql(f"SELECT {leaf} AS leaf, SUM(g), SUM(h) FROM slopes GROUP BY leaf").fetchall()
        steps = " + ".join(f"({draw.normal(size=2**DEPTH).tolist()})[1 + {leaf}]" for leaf in leaves)
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE scored AS SELECT {', '.join(NAMES)}, {LABEL}, s + {steps} AS s "
            "FROM scored"
        )


def _grown(connection: DuckDBPyConnection, draw: Any) -> None:
    for level in range(LEVELS):
        leaf = _sides(draw, level) or "0"
        for name in NAMES:
            cuts = np.linspace(-0.5, 0.5, BINS - 1).tolist()
            bins = " + ".join(f"CASE WHEN {name} >= {cut} THEN 1 ELSE 0 END" for cut in cuts)
            connection.sql(
                f"SELECT {leaf} AS leaf, {bins} AS bin, {LABEL}, COUNT(*) FROM wide GROUP BY ALL"
            ).fetchall()


def _clustered(connection: DuckDBPyConnection, draw: Any) -> None:
    sums = ", ".join(f"SUM({name})" for name in NAMES)
    squares = ", ".join(f"SUM({name} * {name})" for name in NAMES)
    connection.sql(f"SELECT COUNT(*), {sums}, {squares} FROM wide").fetchall()
    cell = _sides(draw, BITS)
    connection.sql(f"SELECT {cell} AS cell, COUNT(*) FROM wide GROUP BY cell").fetchall()
    connection.sql(f"SELECT {cell} AS cell, {sums}, {squares} FROM wide GROUP BY cell").fetchall()
    for _ in range(2):
        centres = draw.normal(size=(CENTRES, len(NAMES))) * 0.3
        away = [
            " + ".join(f"({name} - {at}) * ({name} - {at})" for name, at in zip(NAMES, centre, strict=True))
            for centre in centres.tolist()
        ]
        named = ", ".join(f"{each} AS d{at}" for at, each in enumerate(away))
        least = f"least({', '.join(f'd{at}' for at in range(CENTRES))})"
        nearest = " ".join(f"WHEN d{at} = {least} THEN {at}" for at in range(CENTRES))
        connection.sql(
            f"SELECT CASE {nearest} END AS cell, COUNT(*), {sums} FROM (SELECT *, {named} FROM wide) "
            "GROUP BY cell"
        ).fetchall()
