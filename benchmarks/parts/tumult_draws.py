"""The noise of Tumult Analytics for the questions of `usefulness.py`.

Runs as a script in Tumult's environment: a request as JSON in, laws of noise as JSON out. One answer takes
Spark many seconds, so Tumult is asked which mechanisms and scales it would use for a question, with its own
bounding in place. It answers one aggregate a query, so that a question with several is several queries, each
with an equal part of the budget. Two ways are tried and the better one counts: its own averages and
variances; and sums of deviations from the middle of the bounds, and of squared ones from the middle of
theirs, with one count for all of them. With a δ, everything is at the largest ρ that is (ε, δ)-private, and
quantiles also at the pure ε.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pandas as pd
from tmlt.analytics import (
    AddOneRow,
    AddRowsWithID,
    KeySet,
    MaxRowsPerID,
    PureDPBudget,
    QueryBuilder,
    RhoZCDPBudget,
    Session,
)

from parts.spark import session

KINDS = {"GEOMETRIC": "laplace", "DISCRETE_GAUSSIAN": "gaussian", "EXPONENTIAL": "exponential"}


class Asked:
    """The rows of one study, in sessions of both kinds of budget."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._request = request
        change = AddOneRow() if request["unit"] is None else AddRowsWithID(request["unit"])
        frame = with_deviations(session().read.parquet(request["path"]), request["numbers"])
        self._sessions = [
            Session.from_dataframe(budget, "rows", frame, protected_change=change)
            for budget in (PureDPBudget(10**6), RhoZCDPBudget(10**6))
        ]
        self.rows = pd.read_parquet(request["path"])

    def noises(self, cell: dict[str, Any], queries: int, method: str, *of: Any) -> list[tuple[str, float]]:
        """Return the noises of one of so many queries that share the budget: kind and scale of each."""
        query = QueryBuilder("rows")
        if self._request["unit"] is not None:
            query = query.enforce(MaxRowsPerID(self._request["max_rows"]))
        grouped = query.groupby(KeySet.from_dict({cell["key"]: cell["keys"]})) if cell["key"] else query
        if cell["rho"] is None:
            asked, budget = self._sessions[0], PureDPBudget(cell["epsilon"] / queries)
        else:
            asked, budget = self._sessions[1], RhoZCDPBudget(cell["rho"] / queries)
        found = asked._noise_info(getattr(grouped, method)(*of), budget)
        numbers = [(KINDS[each["noise_mechanism"].name], float(each["noise_parameter"])) for each in found]
        # A discrete Gaussian is described by its variance.
        return [(kind, number**0.5 if kind == "gaussian" else number) for kind, number in numbers]


def guarantee(cell: dict[str, Any]) -> str:
    """Return what the scales of a law are for."""
    return "epsilon" if cell["rho"] is None else "rho"


def middle(number: dict[str, Any]) -> int:
    return (number["low"] + number["high"]) // 2


def half_square(number: dict[str, Any]) -> int:
    """Return half of the largest square of a deviation, rounded up."""
    return -(-(max(number["high"] - middle(number), middle(number) - number["low"]) ** 2) // 2)


def with_deviations(frame: Any, numbers: list[dict[str, Any]]) -> Any:
    """Return rows with the deviation of each number from the middle of its bounds, and with its square."""
    for number in numbers:
        name = number["name"]
        frame = frame.withColumn(f"{name}_dev", frame[name] - middle(number))
        frame = frame.withColumn(f"{name}_square", frame[f"{name}_dev"] * frame[f"{name}_dev"])
    return frame


def own_aggregates(asked: Asked, cell: dict[str, Any]) -> dict[str, Any]:
    """Return the law where every average or variance is Tumult's own, with a count beside it if asked for."""
    queries = len(cell["columns"]) + cell["counts_rows"]
    law: dict[str, Any] = {"by": guarantee(cell), "noise": "", "rows": None, "columns": {}}
    if cell["counts_rows"]:
        [(law["noise"], law["rows"])] = asked.noises(cell, queries, "count")
    for number in cell["columns"]:
        method = "variance" if cell["squares"] else "average"
        noises = asked.noises(cell, queries, method, number["name"], number["low"], number["high"])
        law["noise"] = noises[0][0]
        law["columns"][number["name"]] = {
            "centre": middle(number),
            "sum": noises[0][1],
            "about": 0,
            "square_centre": (number["low"] ** 2 + number["high"] ** 2) // 2,
            "square": noises[1][1] if method == "variance" else None,
            "count": noises[-1][1],
        }
    return law


def sums_and_count(asked: Asked, cell: dict[str, Any]) -> dict[str, Any]:
    """Return the law where deviations are summed, and counts are asked for once."""
    squares, nullable = cell["squares"], cell["nullable"]
    counted = cell["counts_rows"] or not nullable
    queries = len(cell["columns"]) * (1 + squares + nullable) + counted
    # Rows that have a value are counted like all rows.
    [(kind, count)] = asked.noises(cell, queries, "count")
    rows = count if counted else None
    law: dict[str, Any] = {"by": guarantee(cell), "noise": kind, "rows": rows, "columns": {}}
    for number in cell["columns"]:
        low, high = number["low"] - middle(number), number["high"] - middle(number)
        [(_, total)] = asked.noises(cell, queries, "sum", f"{number['name']}_dev", low, high)
        most = half_square(number)
        law["columns"][number["name"]] = {
            "centre": middle(number),
            "sum": total,
            "about": middle(number),
            "square_centre": most,
            # Squares less their middle are a column like any other, from −most to most.
            "square": asked.noises(cell, queries, "sum", f"{number['name']}_square", -most, most)[0][1]
            if squares
            else None,
            "count": count if nullable else None,
        }
    return law


def quantiles(asked: Asked, cell: dict[str, Any]) -> dict[str, Any]:
    """Return the law of each quantile, which is chosen among the intervals between values."""
    (number,) = cell["columns"]
    of, bounds = number["name"], (number["low"], number["high"])
    rows = asked.rows
    groups = [rows[rows[cell["key"]] == key] for key in cell["keys"]] if cell["key"] else [rows]
    found = []
    for share in cell["shares"]:
        [(_, epsilon)] = asked.noises(cell, len(cell["shares"]), "quantile", of, share, *bounds)
        found.append([{**intervals(g[of], *bounds), "share": share, "epsilon": epsilon} for g in groups])
    return {"by": guarantee(cell), "noise": "exponential", "choices": found}


def intervals(values: Any, low: int, high: int) -> dict[str, Any]:
    """Return the ends of the intervals between different values, and how many rows are below each."""
    inside = np.sort(values.clip(low, high).to_numpy())
    ends = np.unique(np.r_[low, inside, high])
    return {
        "ends": ends.tolist(),
        "below": np.searchsorted(inside, ends[:-1], side="right").tolist(),
        "rows": len(inside),
    }


def laws(asked: Asked, cell: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the ways in which Tumult can answer a question, each with its noise."""
    if cell["shares"]:
        guarantees = [cell] if cell["rho"] is None else [cell, {**cell, "rho": None}]
        return [quantiles(asked, each) for each in guarantees]
    if cell["kind"] == "count":
        return [own_aggregates(asked, cell)]
    return [own_aggregates(asked, cell), sums_and_count(asked, cell)]


def main(request: dict[str, Any]) -> None:
    asked = Asked(request)
    print(json.dumps([laws(asked, cell) for cell in request["cells"]]))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
