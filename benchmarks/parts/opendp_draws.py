"""The noise of OpenDP's Polars interface for the questions of `usefulness.py`.

Runs as a script in the peers' environment: a request as JSON in, laws of noise as JSON out. OpenDP gets its
best way that needs nothing but its documented calls: all sums of a question in one query, whose budget it
splits itself; sums of deviations from the middle of the bounds, and of squared deviations from the middle of
theirs, as columns that were computed before, because they have half the sensitivity of plain sums; public
keys; quantiles chosen among all whole numbers. With a δ, sums have Gaussian noise at the largest ρ that is
(ε, δ)-private, and quantiles have whichever is better of that ρ and the pure ε. Contributions are bounded
before (see studies.py), and the noise is checked to be what OpenDP adds when it bounds them itself.
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


def context(rows: Any, unit: Any, cell: dict[str, Any], loss: Any) -> Any:
    keys = [[]] if cell["key"] is None else [[], [cell["key"]]]
    return dp.Context.compositor(
        data=rows,
        privacy_unit=unit,
        privacy_loss=loss,
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=by, max_length=MOST_ROWS) for by in keys],
    )


def asked(cell: dict[str, Any]) -> list[Any]:
    """Return the noisy sums of a question, the number of rows first if it is needed; or its quantiles."""
    if cell["shares"]:
        (number,) = cell["columns"]
        column = pl.col(number["name"]).fill_null(number["low"])
        return [column.dp.quantile(s, candidates(number)).alias(f"q{s}") for s in cell["shares"]]
    counted = cell["counts_rows"] or not cell["nullable"]
    found = [dp.len(signed=True).alias("rows")] if counted else []
    for number in cell["columns"]:
        low, high, middle = number["low"], number["high"], (number["low"] + number["high"]) // 2
        deviation = (pl.col(number["name"]) - middle).fill_null(0)
        found.append(deviation.dp.sum((low - middle, high - middle)).alias(f"{number['name']}_sum"))
        if cell["squares"]:
            most = half_square(number)
            square = pl.col(f"{number['name']}_square").fill_null(0)
            found.append(square.dp.sum((-most, most)).alias(f"{number['name']}_squares"))
        if cell["nullable"]:
            found.append(pl.col(number["name"]).dp.count(signed=True).alias(f"{number['name']}_count"))
    return found


def candidates(number: dict[str, Any]) -> list[int]:
    return list(range(number["low"], number["high"] + 1))


def half_square(number: dict[str, Any]) -> int:
    """Return half of the largest square of a deviation, rounded up."""
    middle = (number["low"] + number["high"]) // 2
    return -(-(max(number["high"] - middle, middle - number["low"]) ** 2) // 2)


def with_squares(rows: Any, cell: dict[str, Any]) -> Any:
    """Return rows with squared deviations, less the middle of their bounds."""
    for number in cell["columns"]:
        middle = (number["low"] + number["high"]) // 2
        inside = pl.col(number["name"]).clip(number["low"], number["high"])
        square = (inside - middle) ** 2 - half_square(number)
        rows = rows.with_columns(square.alias(f"{number['name']}_square"))
    return rows.collect().lazy()


def query(begun: Any, cell: dict[str, Any]) -> Any:
    if cell["key"] is None:
        return begun.select(*asked(cell))
    keys = pl.LazyFrame({cell["key"]: cell["keys"]})
    return begun.group_by(cell["key"]).agg(*asked(cell)).with_keys(keys)


def stated(rows: Any, unit: Any, cell: dict[str, Any], loss: Any, rows_a_unit: int | None = None) -> Any:
    """Return the kind of each noise and its scale, as OpenDP states them."""
    begun = context(rows, unit, cell, loss).query()
    if rows_a_unit is not None:
        begun = begun.truncate_per_group(rows_a_unit)
    summary = query(begun, cell).summarize()
    return list(zip(summary["distribution"].to_list(), summary["scale"].to_list(), strict=True))


def check_bounding(rows: Any, request: dict[str, Any], cell: dict[str, Any], mine: Any, loss: Any) -> None:
    """Bounding by OpenDP itself gives the same noise scales."""
    unit = dp.unit_of(contributions=1, identifier=pl.col(request["unit"]))
    theirs = stated(rows, unit, cell, loss, request["max_rows"])
    if not all(abs(one[1] / other[1] - 1) < 1e-3 for one, other in zip(mine, theirs, strict=True)):
        raise AssertionError(f"bounded before: {mine}; bounded by OpenDP: {theirs}")


def law_of_sums(cell: dict[str, Any], noises: list[Any]) -> dict[str, Any]:
    kind = {"Integer Laplace": "laplace", "Integer Gaussian": "gaussian"}[noises[0][0]]
    scales = iter(scale for _, scale in noises)
    counted = cell["counts_rows"] or not cell["nullable"]
    law: dict[str, Any] = {"noise": kind, "rows": next(scales) if counted else None, "columns": {}}
    for number in cell["columns"]:
        middle = (number["low"] + number["high"]) // 2
        law["columns"][number["name"]] = {
            "centre": middle,
            "sum": next(scales),
            "about": middle,
            "square_centre": half_square(number),
            "square": next(scales) if cell["squares"] else None,
            "count": next(scales) if cell["nullable"] else None,
        }
    return law


def law_of_choices(rows: Any, cell: dict[str, Any], noises: list[Any]) -> dict[str, Any]:
    (number,) = cell["columns"]
    frame = rows.collect()
    groups = [frame.filter(pl.col(cell["key"]) == key) for key in cell["keys"]] or [frame]
    values = [group[number["name"]].clip(number["low"], number["high"]).to_list() for group in groups]
    found = []
    for share, (_, scale) in zip(cell["shares"], noises, strict=True):
        score = dp.t.make_quantile_score_candidates(
            dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance(), candidates(number), share
        )
        one = {"scale": scale, "candidates": candidates(number)}
        found.append([{**one, "scores": [float(s) for s in score(each)]} for each in values])
    return {"noise": noises[0][0], "choices": found}


def laws(rows: Any, request: dict[str, Any], cell: dict[str, Any], check: bool) -> list[dict[str, Any]]:
    """Return the ways in which OpenDP can answer a question, each with its noise."""
    losses = {"epsilon": dp.loss_of(epsilon=cell["epsilon"])}
    if cell["rho"] is not None:
        concentrated = {"rho": dp.loss_of(rho=cell["rho"])}
        losses = {**concentrated, **losses} if cell["shares"] else concentrated
    unit = dp.unit_of(contributions=request["max_rows"])
    rows = with_squares(rows, cell) if cell["squares"] else rows
    found = []
    for by, loss in losses.items():
        noises = stated(rows, unit, cell, loss)
        if check and request["unit"] is not None:
            check_bounding(rows, request, cell, noises, loss)
        of = law_of_choices(rows, cell, noises) if cell["shares"] else law_of_sums(cell, noises)
        found.append({"by": by, **of})
    return found


def main(request: dict[str, Any]) -> None:
    rows = pl.read_parquet(request["path"]).lazy()
    # Sums and their counts are bounded alike in all questions, so that one of them is checked.
    checked = [cell["kind"] == "average" and cell["rho"] is None for cell in request["cells"]]
    found = [laws(rows, request, *each) for each in zip(request["cells"], checked, strict=True)]
    print(json.dumps(found))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
