"""One question to Tumult Analytics, measured, for `peers/queries.py`.

Runs as a script in Tumult's environment: a request as JSON in, `{"cpu", "wall", "peak"}` out. Tumult answers
one aggregate a question: an average for "sum, mean", a count for the group-bys. Starting Spark is not timed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tmlt.analytics import AddOneRow, AddRowsWithID, KeySet, MaxRowsPerID, PureDPBudget, QueryBuilder, Session

from parts.rows import CATEGORIES, HIGHEST, MAX_ROWS
from parts.spark import session
from parts.tree import measured


def begun(request: dict[str, Any]) -> Any:
    frame = session().read.parquet(request["source"]).select("user_id", "category", "amount")
    change = AddRowsWithID("user_id") if request["per_user"] else AddOneRow()
    return Session.from_dataframe(PureDPBudget(1_000_000), "rows", frame, protected_change=change)


def query(request: dict[str, Any]) -> Any:
    rows = QueryBuilder("rows")
    if request["asked"] == "filtered group-by":
        rows = rows.filter("amount >= 20 AND amount < 200")
    if request["per_user"]:
        rows = rows.enforce(MaxRowsPerID(MAX_ROWS))
    keys = KeySet.from_dict({"category": list(CATEGORIES)})
    match request["asked"]:
        case "count":
            return rows.count()
        case "sum, mean":
            return rows.average("amount", 0, HIGHEST)
        case "median":
            return rows.median("amount", 0, HIGHEST)
        case "grouped median":
            return rows.groupby(keys).median("amount", 0, HIGHEST)
        case _:
            return rows.groupby(keys).count()


def main(request: dict[str, Any]) -> None:
    asking, asked = begun(request), query(request)
    print(json.dumps(measured(lambda: asking.evaluate(asked, PureDPBudget(1)).collect(), request["turns"])))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
