"""One question to OpenDP's Polars interface, measured, for `peers/queries.py`.

Runs as a script in the peers' environment: a request as JSON in, `{"cpu", "wall", "peak"}` out. Keys are
public, the median is chosen among 201 candidates, and per user at most 20 rows count, as everywhere here.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import opendp.prelude
import polars

from parts.rows import CATEGORIES, HIGHEST, MAX_ROWS
from parts.tree import measured

dp: Any = opendp.prelude
pl: Any = polars
dp.enable_features("contrib", "honest-but-curious")
CANDIDATES = [HIGHEST * step / 200 for step in range(201)]


def ask(request: dict[str, Any]) -> Any:
    """A fresh context each time, as the budget is spent; the file is scanned anew too."""
    per_user = {"contributions": 1, "identifier": pl.col("user_id")}
    context = dp.Context.compositor(
        data=pl.scan_parquet(request["source"]),
        privacy_unit=dp.unit_of(**per_user) if request["per_user"] else dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=by, max_length=2 * request["rows"]) for by in ([], ["category"])],
    )
    begun = context.query()
    if request["per_user"]:
        begun = begun.truncate_per_group(MAX_ROWS)
    return shaped(begun, request["asked"]).release().collect()


def shaped(begun: Any, asked: str) -> Any:
    amount = pl.col.amount.fill_null(0.0).fill_nan(0.0)
    count, total = dp.len(signed=True).alias("n"), amount.dp.sum((0.0, float(HIGHEST))).alias("total")
    median = amount.dp.median(CANDIDATES).alias("mid")
    keys = pl.LazyFrame({"category": CATEGORIES})
    match asked:
        case "count":
            return begun.select(count)
        case "sum, mean":
            return begun.select(count, total)
        case "group-by":
            return begun.group_by("category").agg(count, total).with_keys(keys)
        case "filtered group-by":
            some = begun.filter((pl.col.amount >= 20) & (pl.col.amount < 200))
            return some.group_by("category").agg(count, total).with_keys(keys)
        case "median":
            return begun.select(median)
        case _:
            return begun.group_by("category").agg(median).with_keys(keys)


if __name__ == "__main__":
    wanted = json.loads(sys.argv[1])
    print(json.dumps(measured(lambda: ask(wanted), wanted["turns"])))
