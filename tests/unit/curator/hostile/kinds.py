"""One question of every kind, on a pair of labs that differ by one unit with as much in it as is admitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import sfumato as sf

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sfumato.lab.session import Session

BUDGET = sf.Budget(epsilon=10_000, delta=1e-3)
SPEND: dict[str, Any] = {"epsilon": 1}
MAX_ROWS = 4
COLUMNS = {
    "age": sf.between(0, 100),
    "cost": sf.between(0, 1000),
    "ward": sf.one_of("A", "B", "C"),
    "note": sf.text(),
}
ASKED: dict[str, Callable[[Session], Any]] = {
    "counts by ward": lambda s: s.sql("SELECT ward, COUNT(*) AS n, AVG(cost) AS c FROM visits GROUP BY ward"),
    "texts": lambda s: s.sql("SELECT COUNT(*) AS n FROM visits WHERE note LIKE '%a%b%' AND note LIKE '%c%'"),
    "self join": lambda s: s.sql(
        "SELECT COUNT(*) AS n FROM visits AS a JOIN visits AS b ON a.who = b.who WHERE a.age = 99"
    ),
    "quantiles": lambda s: s.sql("SELECT ward, MEDIAN(cost) AS m FROM visits GROUP BY ward"),
    "people": lambda s: s.sql("SELECT COUNT(DISTINCT who) AS n FROM visits"),
    "top": lambda s: s.table("visits").top("ward", 2),
    "distance": lambda s: s.table("visits").distance("COUNT(*) >= 100"),
    "blocks": lambda s: s.table("visits").subsample(sf.median("cost"), blocks=5),
    "bounds": lambda s: s.table("visits").bounds("cost"),
    "parts": lambda s: s.table("visits").partition("ward").agg(n=sf.count()),
    "degrees": lambda s: s.graph("friends").degrees(),
    "edges": lambda s: s.graph("friends").edges(),
}
TARGET = 0


def make_lab(folder: Path, *, target: bool, empty: bool = False) -> sf.Lab:
    """Register a small table and a graph, with or without the unit that all is about, or of no rows."""
    rng = np.random.default_rng(5)
    who = np.concatenate([np.full(MAX_ROWS, TARGET), rng.integers(1, 60, 150)])
    mine = who == TARGET
    visits = pa.table(
        {
            "who": who,
            "age": np.where(mine, 99, rng.integers(0, 90, who.size)),
            "cost": np.where(mine, 1000, rng.integers(0, 900, who.size)),
            "ward": np.where(mine, "C", rng.choice(["A", "B"], who.size)),
            "note": ["a" * 990 + "b" if each else "abc" for each in mine],
        }
    )
    edges = [(0, other) for other in range(1, 10)] + [(other, other + 1) for other in range(1, 30)]
    lab = sf.create(folder)
    unit = sf.Unit("who", max_rows=MAX_ROWS)
    kept = visits.slice(0, 0) if empty else visits if target else visits.filter(pa.array(~mine))
    lab.register("visits", kept, unit=unit, columns=COLUMNS, budget=BUDGET)
    linked = [edge for edge in edges if target or TARGET not in edge]
    friends = pa.table({"from": [a for a, _ in linked], "to": [b for _, b in linked]})
    lab.register(
        "friends",
        friends.slice(0, 0) if empty else friends,
        unit=sf.Node("from", "to", max_degree=9),
        budget=BUDGET,
    )
    return lab
