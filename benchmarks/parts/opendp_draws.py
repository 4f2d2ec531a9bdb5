"""Answers of OpenDP's Polars interface, many to each question, for `usefulness.py`.

Runs as a script in the peers' environment: a request as JSON in, answers as JSON out. A question becomes one
measurement, which is then called once a draw: building it anew each time would change nothing but the time.
Contributions are bounded before (see studies.py), and the noise is checked to be what OpenDP adds when it
bounds them itself.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import opendp.prelude
import polars

dp: Any = opendp.prelude
pl: Any = polars
dp.enable_features("contrib", "honest-but-curious")
MOST_ROWS = 1_000_000
"""A public bound on the number of rows, which OpenDP wants to be told."""


def context(rows: Any, unit: Any, request: dict[str, Any], cell: dict[str, Any]) -> Any:
    keys = [[]] if cell["key"] is None else [[], [cell["key"]]]
    return dp.Context.compositor(
        data=rows,
        privacy_unit=unit,
        privacy_loss=dp.loss_of(epsilon=request["epsilon"]),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=by, max_length=MOST_ROWS) for by in keys],
    )


def asked(cell: dict[str, Any], centred: bool) -> list[Any]:
    if cell["kind"] == "count":
        return [dp.len(signed=True).alias("n")]
    low, high, column = cell["low"], cell["high"], pl.col(cell["column"])
    if cell["kind"] == "median":
        return [column.fill_null(low).dp.median(list(range(low, high + 1))).alias("x")]
    if not centred:
        return [column.fill_null(low).dp.sum((low, high)).alias("x"), dp.len(signed=True).alias("n")]
    middle = (low + high) // 2
    deviation = (column - middle).fill_null(0).dp.sum((low - middle, high - middle))
    return [deviation.alias("x"), dp.len(signed=True).alias("n")]


def query(begun: Any, cell: dict[str, Any], centred: bool) -> Any:
    expressions = asked(cell, centred)
    if cell["key"] is None:
        return begun.select(*expressions)
    keys = pl.LazyFrame({cell["key"]: cell["keys"]})
    return begun.group_by(cell["key"]).agg(*expressions).with_keys(keys)


def check_noise(rows: Any, request: dict[str, Any], cell: dict[str, Any], mine: Any) -> None:
    """Bounding by OpenDP itself gives the same noise scales."""
    if request["unit"] is None:
        return
    unit = dp.unit_of(contributions=1, identifier=pl.col(request["unit"]))
    begun = context(rows, unit, request, cell).query().truncate_per_group(request["max_rows"])
    theirs = query(begun, cell, False).summarize()["scale"].to_list()
    if not all(abs(one / other - 1) < 1e-3 for one, other in zip(mine, theirs, strict=True)):
        raise AssertionError(f"bounded before: scale {mine}; bounded by OpenDP: {theirs}")


def answers(request: dict[str, Any], cell: dict[str, Any], centred: bool) -> list[list[float]]:
    rows = pl.read_parquet(request["path"]).lazy()
    unit = dp.unit_of(contributions=request["max_rows"])
    question = query(context(rows, unit, request, cell).query(), cell, centred)
    if not centred:
        check_noise(rows, request, cell, question.summarize()["scale"].to_list())
    measurement = question.resolve()
    return [shown(measurement(rows).collect(), cell, centred) for _ in range(request["draws"])]


def shown(frame: Any, cell: dict[str, Any], centred: bool) -> list[float]:
    """One number a group, in the order of the keys; a mean is the noisy sum over the noisy count."""
    if cell["key"] is not None:
        order = pl.DataFrame({cell["key"]: cell["keys"]})
        frame = order.join(frame, on=cell["key"], how="left", maintain_order="left")
    if cell["kind"] != "mean":
        return [float(value) for value in frame["n" if cell["kind"] == "count" else "x"]]
    middle = (cell["low"] + cell["high"]) // 2 if centred else 0
    return [float(x) / max(1, n) + middle for x, n in zip(frame["x"], frame["n"], strict=True)]


def main(request: dict[str, Any]) -> None:
    drawn: dict[str, Any] = {"OpenDP": [answers(request, cell, False) for cell in request["cells"]]}
    drawn["OpenDP, centred"] = [
        answers(request, cell, True) if cell["kind"] == "mean" else None for cell in request["cells"]
    ]
    print(json.dumps(drawn))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
