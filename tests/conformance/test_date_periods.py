"""Months, weeks and other periods are compared and counted as DuckDB does it, on every engine."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from conformance.both_engines import find_loader
from exact_answers import without_noise

DAYS = (date(2019, 12, 28), date(2024, 3, 2))
CONDITIONS = (
    "DATE_TRUNC('year', day) <= since",
    "DATE_TRUNC('month', day) < DATE_TRUNC('week', since)",
    "DATE_TRUNC('quarter', day) = DATE_TRUNC('month', since)",
    "DATE_TRUNC('hour', seen) >= DATE_TRUNC('minute', seen)",
    "DATE_TRUNC('month', seen) = CAST(seen AS DATE)",
    "DATE_TRUNC('year', seen) < seen",
    "DATE_TRUNC('week', day) = day",
    "DATE_TRUNC('year', DATE_TRUNC('month', day)) = DATE '2021-01-01'",
    "EXTRACT(MONTH FROM DATE_TRUNC('quarter', day)) = 4",
    "LEAST(DATE_TRUNC('year', day), since) = since",
    "DATE_DIFF('day', DATE_TRUNC('month', day), day) > 9",
)
NUMBERS = (
    "DATE_DIFF('week', since, day)",
    "DATE_DIFF('week', day, DATE '2021-01-31')",
    "DATE_DIFF('week', seen, TIMESTAMP '2020-02-01 00:00:00')",
    "DATE_DIFF('week', DATE '2019-12-28', day)",
)


def _make_rows() -> pa.Table:
    draw = random.Random(0)

    def pick_day() -> date | None:
        return draw.choice([None, *[DAYS[0] + timedelta(days=draw.randint(0, 1525))] * 9])

    days = [pick_day() for _ in range(300)]
    near = [
        draw.choice([pick_day(), day and min(day + timedelta(days=draw.randint(0, 15)), DAYS[1])])
        for day in days
    ]
    seen = [datetime(2020, 1, 1) + timedelta(minutes=30 * draw.randint(0, 3000)) for _ in days]
    types = {"day": pa.date32(), "since": pa.date32(), "seen": pa.timestamp("us")}
    columns = zip(types.items(), (days, near, seen), strict=True)
    return pa.table({name: pa.array(values, of) for (name, of), values in columns})


@pytest.mark.parametrize("engine", ["DuckDB", "PostgreSQL", "Spark"])
def test_periods_are_those_of_duckdb(tmp_path: Path, request: pytest.FixtureRequest, engine: str) -> None:
    rows, lab, plain = _make_rows(), sf.create(tmp_path / "lab"), duckdb.connect()
    seen = sf.between(datetime(2020, 1, 1), datetime(2020, 3, 5))
    columns = {"day": sf.between(*DAYS), "since": sf.between(*DAYS), "seen": seen}
    lab.register(
        "t", find_loader(engine, request)(rows), unit=sf.ROW, columns=columns, budget=sf.Budget(epsilon=9)
    )
    plain.register("t", rows)
    shown = [f"COUNT(*) FILTER (WHERE {each}) AS n{at}" for at, each in enumerate(CONDITIONS)]
    shown += [f"SUM({each}) AS s{at}" for at, each in enumerate(NUMBERS)]
    sql = f"SELECT {', '.join(shown)} FROM t"
    with without_noise():
        answer = lab.session().sql(sql).release(epsilon=1).to_arrow().to_pylist()[0]
    assert list(answer.values()) == list(plain.execute(sql).fetchall()[0])
    assert all(answer[f"n{at}"] for at in (0, 1, 4, 5, 6, 7, 8, 9, 10)), "conditions that hold somewhere"
