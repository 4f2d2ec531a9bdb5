"""Answers of Tumult Analytics, many to each question, for `usefulness.py`.

Runs as a script in Tumult's environment: a request as JSON in, answers as JSON out. One answer takes Spark
many seconds, so Tumult is asked which mechanisms and scales it would use for the question, with its own
bounding in place, and the draws come from those mechanisms, called on the exact sums and rows.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pandas as pd
from tmlt.analytics import AddOneRow, AddRowsWithID, KeySet, MaxRowsPerID, PureDPBudget, QueryBuilder, Session
from tmlt.core.domains.numpy_domains import NumpyIntegerDomain
from tmlt.core.domains.pandas_domains import PandasSeriesDomain
from tmlt.core.measurements.noise_mechanisms import AddGeometricNoise
from tmlt.core.measurements.pandas_measurements.series import NoisyQuantile
from tmlt.core.measures import PureDP

from parts.spark import session


def scales(begun: Any, request: dict[str, Any], cell: dict[str, Any]) -> list[Any]:
    """The parameters of the noise that Tumult would add: for a mean, to the deviations and to the count."""
    query = QueryBuilder("rows")
    if request["unit"] is not None:
        query = query.enforce(MaxRowsPerID(request["max_rows"]))
    grouped = query.groupby(KeySet.from_dict({cell["key"]: cell["keys"]})) if cell["key"] else query
    info = begun._noise_info(asked(grouped, cell), PureDPBudget(request["epsilon"]))
    expected = {"count": ["GEOMETRIC"], "mean": ["GEOMETRIC"] * 2, "median": ["EXPONENTIAL"]}[cell["kind"]]
    if [each["noise_mechanism"].name for each in info] != expected:
        raise AssertionError(f"Tumult would use {info}")
    return [each["noise_parameter"] for each in info]


def asked(grouped: Any, cell: dict[str, Any]) -> Any:
    if cell["kind"] == "count":
        return grouped.count()
    ask = grouped.average if cell["kind"] == "mean" else grouped.median
    return ask(cell["column"], cell["low"], cell["high"])


def drawn(rows: pd.DataFrame, cell: dict[str, Any], parameters: list[Any], draws: int) -> list[list[float]]:
    """One list of numbers a draw: a number for each group, in the order of the keys."""
    groups = [rows[rows[cell["key"]] == key] for key in cell["keys"]] if cell["key"] else [rows]
    columns = [_of_group(group, cell, parameters, draws) for group in groups]
    return [list(row) for row in zip(*columns, strict=True)]


def _of_group(group: pd.DataFrame, cell: dict[str, Any], parameters: list[Any], draws: int) -> list[float]:
    if cell["kind"] == "count":
        noise = AddGeometricNoise(parameters[0])
        return [float(noise(len(group))) for _ in range(draws)]
    if cell["kind"] == "median":
        values = group[cell["column"]].clip(cell["low"], cell["high"])
        choose = NoisyQuantile(
            PandasSeriesDomain(NumpyIntegerDomain()),
            PureDP(),
            0.5,
            cell["low"],
            cell["high"],
            str(parameters[0]),
        )
        return [float(choose(values)) for _ in range(draws)]
    return _means(group[cell["column"]], cell, parameters, draws)


def _means(values: Any, cell: dict[str, Any], parameters: list[Any], draws: int) -> list[float]:
    """As Tumult computes a mean: deviations from the middle over the count, both noisy."""
    middle = (cell["low"] + cell["high"]) // 2
    total = int((values.clip(cell["low"], cell["high"]) - middle).sum())
    deviations, count = (AddGeometricNoise(parameter) for parameter in parameters)
    return [deviations(total) / max(1, count(len(values))) + middle for _ in range(draws)]


def main(request: dict[str, Any]) -> None:
    spark = session()
    change = AddOneRow() if request["unit"] is None else AddRowsWithID(request["unit"])
    frame = spark.read.parquet(request["path"])
    begun = Session.from_dataframe(PureDPBudget(1_000_000), "rows", frame, protected_change=change)
    rows = pd.read_parquet(request["path"])
    answers = [drawn(rows, cell, scales(begun, request, cell), request["draws"]) for cell in request["cells"]]
    print(json.dumps({"Tumult": answers}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
