"""Measure what private questions cost on Spark compared with plain ones, and how that grows with the rows.

    python benchmarks/spark.py [--page docs/scale.md] [--turns 5] [rows …]

The table holds purchases, in 1 to 8 million rows; Spark has two cores on this machine. "Plain" is the
question as Spark SQL on the source's own Parquet; "private" is the whole path: priced, charged durably,
summed by Spark, noise drawn, stored. They take turns and the best of several turns counts, because other
work only adds time. Processor time is that of Python and Java together. The aim is a private question within
1.5 times the plain one. The physical plans are compared too: ours must have no Exchange that the plain one
lacks. One question is of the kind that brings a number of every unit to the driver, where Python computes
on: its time and the driver's memory are measured apart. The page derives from the cost per row what larger
tables cost, where the cost was seen to grow.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import tracemalloc
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sfumato as sf
from parts.private import BUDGET, fresh_epsilon, promises
from parts.rows import MAX_ROWS, write
from parts.scale import FEWEST, page
from parts.spark import java_seconds, session
from sfumato.curator.plan.plan import plan_question
from sfumato.curator.plan.spend import PureSpend
from sfumato.engines.spark.connection import open_own_session
from sfumato.engines.spark.run import write_sql
from sfumato.queries.sql import parse_question

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, TURNS, AIM = (1_000_000, 2_000_000, 4_000_000, 6_000_000, 8_000_000), 5, 1.5
WARM = 300_000
"""Rows that are prepared and asked about first, so that Java has compiled what is measured."""
QUESTIONS = {
    "count and sum by category": (
        "SELECT category, COUNT(*) AS n, SUM(amount) AS total FROM purchases GROUP BY category"
    ),
    "sum with a condition": "SELECT COUNT(*) AS n, SUM(amount) AS total FROM purchases WHERE amount > 100",
    "distinct users": "SELECT COUNT(DISTINCT user_id) AS n FROM purchases",
    "average of users' sums": (
        "SELECT AVG(t) AS a FROM (SELECT user_id, SUM(amount) AS t FROM purchases GROUP BY user_id) AS q"
    ),
}
GATHERED = "SUM(amount) >= 1000000000"
"""Its distance takes the sum of every unit to the driver (`UnitFigures`), as searches do too."""


@dataclass(frozen=True)
class Cost:
    """Seconds of processor, on all threads of Python and Java, and of the clock."""

    cpu: float
    wall: float


@dataclass(frozen=True)
class Measured:
    """One size of table."""

    rows: int
    preparing: Cost
    source_bytes: int
    snapshot_bytes: int
    plain: dict[str, Cost]
    private: dict[str, Cost]
    exchanges: dict[str, tuple[int, int]]
    units: int
    gathered: Cost
    gathered_bytes: int
    """The most that Python held at once on the driver, where every unit sent one number."""


def timed(spark: Any, work: Callable[[], object]) -> Cost:
    java, cpu, wall = java_seconds(spark), time.process_time(), time.perf_counter()
    work()
    return Cost(java_seconds(spark) - java + time.process_time() - cpu, time.perf_counter() - wall)


def best(costs: list[Cost]) -> Cost:
    return Cost(min(each.cpu for each in costs), min(each.wall for each in costs))


def measured(spark: Any, rows: int, folder: Path, turns: int) -> Measured:
    source, lab = folder / f"{rows}.parquet", sf.create(folder / f"lab{rows}")
    write(source, rows)
    frame = spark.read.parquet(str(source))
    frame.createOrReplaceTempView("purchases")
    unit = sf.Unit("user_id", max_rows=MAX_ROWS)
    preparing = timed(
        spark, lambda: lab.register("purchases", frame, unit=unit, columns=promises(), budget=BUDGET)
    )
    plain: dict[str, list[Cost]] = {name: [] for name in QUESTIONS}
    private: dict[str, list[Cost]] = {name: [] for name in QUESTIONS}
    for _ in range(turns + 1):
        for name, sql in QUESTIONS.items():
            plain[name].append(timed(spark, lambda sql=sql: spark.sql(sql).toArrow()))
            query, epsilon = lab.session().sql(sql), fresh_epsilon()
            private[name].append(timed(spark, lambda q=query, e=epsilon: q.release(epsilon=e).to_arrow()))
    units = spark.sql("SELECT COUNT(DISTINCT user_id) FROM purchases").toArrow()[0][0].as_py()
    gathered, grown = gather(spark, lab, turns)
    return Measured(
        rows,
        preparing,
        source.stat().st_size,
        sum(file.stat().st_size for file in (folder / f"lab{rows}" / "snapshots").rglob("*.parquet")),
        {name: best(costs[1:]) for name, costs in plain.items()},
        {name: best(costs[1:]) for name, costs in private.items()},
        {name: exchanges(spark, lab, sql) for name, sql in QUESTIONS.items()},
        units,
        gathered,
        grown,
    )


def gather(spark: Any, lab: sf.Lab, turns: int) -> tuple[Cost, int]:
    """Return the cost of a question for which every unit sends a number to the driver, and its memory."""
    costs, frame = [], lab.session().table("purchases")
    for _ in range(turns):
        epsilon = fresh_epsilon()
        costs.append(timed(spark, lambda e=epsilon: frame.distance(GATHERED).release(epsilon=e)))
    # Once more, as watching every allocation takes time.
    tracemalloc.start()
    frame.distance(GATHERED).release(epsilon=fresh_epsilon())
    largest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return best(costs), largest


def exchanges(spark: Any, lab: sf.Lab, sql: str) -> tuple[int, int]:
    """Of the plain plan and of ours."""
    own, place = open_own_session(spark), lab.engine._engine("spark:").place  # type: ignore[attr-defined]
    (step,) = plan_question(lab.table, parse_question(sql), PureSpend(Fraction(1))).steps
    return _exchanges(spark, sql), _exchanges(own, write_sql(step.program, own, place))


def _exchanges(spark: Any, sql: str) -> int:
    return str(spark.sql(sql)._jdf.queryExecution().executedPlan().toString()).count("Exchange")


def report(found: Measured) -> None:
    source, snapshot = found.source_bytes / 1e6, found.snapshot_bytes / 1e6
    print(f"\n{found.rows:,} rows; source {source:.0f} MB, snapshot {snapshot:.0f} MB")
    print(f"prepared in {found.preparing.wall:.1f} s ({found.preparing.cpu:.1f} s of processor)")
    print(f"{'':28}{'plain CPU':>10}{'wall s':>8}{'ours CPU':>13}{'wall s':>8}{'CPU ×':>8}{'wall ×':>8}")
    for name, plain in found.plain.items():
        ours, (theirs, mine) = found.private[name], found.exchanges[name]
        ratios = ours.cpu / plain.cpu, ours.wall / plain.wall
        met = "met" if ratios[1] <= AIM and mine <= theirs else "missed"
        print(
            f"{name:28}{plain.cpu:10.2f}{plain.wall:8.2f}{ours.cpu:13.2f}{ours.wall:8.2f}"
            f"{ratios[0]:8.2f}{ratios[1]:8.2f}  Exchange {theirs} plain, {mine} ours; aim {met}"
        )
    cost, mega = found.gathered, found.gathered_bytes / 1e6
    print(f"one number a unit, {found.units:,}: CPU {cost.cpu:.2f}, {cost.wall:.2f} s, {mega:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", type=int, default=list(ROWS))
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--page", type=Path, help="write the page on scale there")
    told = parser.parse_args()
    spark = session("5g")
    with tempfile.TemporaryDirectory() as scratch:
        every: list[Measured] = []
        measured(spark, WARM, Path(scratch), 1)
        for rows in sorted(told.rows):
            every.append(measured(spark, rows, Path(scratch), told.turns))
            report(every[-1])
            if told.page and len(every) >= FEWEST:
                told.page.write_text(page(every), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    sys.exit(main())
