"""What a private group-by costs beside the plain one: 5 million rows, 500,000 people, 1,000 keys.

    python benchmarks/groupby.py [rows]

Plain is `SELECT key, COUNT(*), SUM(value) … GROUP BY key` on the same rows in an ordinary DuckDB file, which
holds the key as text and as an integer. Release is the whole way of the question: SQL in, priced, charged
durably, summed, noise drawn, kept, an Arrow table out. Engine is the part of it that sums. They take turns in
one process, and the best of several turns counts: other work only ever adds. The aim is a release within 1.3
times the CPU of the plain question and 20 ms.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.curator.plan.plan import plan_question
from sfumato.curator.plan.spend import PureSpend
from sfumato.queries.sql import parse_question

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, KEYS, TURNS, MAX_ROWS = 5_000_000, 1_000, 15, 20
NAMES = [f"key_{i:04}" for i in range(KEYS)]
SQL = "SELECT name, COUNT(*) AS n, SUM(value) AS total FROM visits GROUP BY name"


@dataclass(frozen=True)
class Cost:
    """Seconds of processor and of clock."""

    cpu: float
    wall: float


def table(rows: int) -> pa.Table:
    """The same rows every time: skewed keys, and one user for every ten rows."""
    rng = np.random.default_rng(20_240_229)
    key = np.minimum(rng.zipf(1.3, rows) - 1, rng.integers(0, KEYS, rows)).astype(np.int32)
    name = pa.DictionaryArray.from_arrays(pa.array(key), pa.array(NAMES)).cast(pa.string())
    user = rng.integers(0, max(rows // 10, 1), rows)
    return pa.table({"user": user, "name": name, "number": key, "value": rng.gamma(2.0, 25.0, rows)})


def plain(data: pa.Table, path: Path) -> dict[str, Callable[[], object]]:
    with duckdb.connect(str(path)) as connection:
        connection.register("data", data)
        connection.execute('CREATE TABLE visits AS SELECT "user", name, number, value FROM data')
    reader = duckdb.connect(str(path), read_only=True)

    def ask(key: str) -> object:
        return reader.sql(f"SELECT {key}, COUNT(*), SUM(value) FROM visits GROUP BY {key}").to_arrow_table()

    return {"plain, text key": lambda: ask("name"), "plain, integer key": lambda: ask("number")}


def private(data: pa.Table, folder: Path) -> dict[str, Callable[[], object]]:
    lab = sf.create(folder)
    lab.register(
        "visits",
        data,
        unit=sf.Unit("user", max_rows=MAX_ROWS),
        columns={"name": sf.one_of(*NAMES), "value": sf.between(0, 500)},
        budget=sf.Budget(1000),
    )
    spends = count(start=1)
    program = plan_question(lab.table("visits"), parse_question(SQL), PureSpend(Fraction(1))).program

    def release() -> object:
        """Each time at another ε, so that it is never the same question."""
        return lab.session().sql(SQL).release(epsilon=1 + next(spends) * 1e-6).to_arrow()

    return {"release": release, "engine": lambda: lab.engine.run(program)}


def timed(work: Callable[[], object]) -> Cost:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Cost(time.process_time() - cpu, time.perf_counter() - wall)


def best_of_turns(questions: dict[str, Callable[[], object]]) -> dict[str, Cost]:
    turns = [{name: timed(ask) for name, ask in questions.items()} for _ in range(TURNS + 1)][1:]
    return {
        name: Cost(min(turn[name].cpu for turn in turns), min(turn[name].wall for turn in turns))
        for name in questions
    }


def report(costs: dict[str, Cost]) -> None:
    mine = costs["release"]
    print(f"{'':20}{'CPU ms':>10}{'wall ms':>10}{'release / this, CPU':>22}")
    for name, cost in costs.items():
        print(f"{name:20}{cost.cpu * 1e3:10.1f}{cost.wall * 1e3:10.1f}{mine.cpu / cost.cpu:22.2f}")
    for name in ("plain, text key", "plain, integer key"):
        aim = 1.3 * costs[name].cpu + 0.020
        print(f"aim against {name}: {aim * 1e3:.1f} ms, {'met' if mine.cpu <= aim else 'missed'}")


def main(rows: int) -> None:
    data = table(rows)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        questions = plain(data, folder / "plain.duckdb")
        preparing = timed(lambda: questions.update(private(data, folder / "lab")))
        print(f"{rows:,} rows; prepared in {preparing.wall:.1f} s ({preparing.cpu:.1f} s of CPU)")
        for path in (folder / "plain.duckdb", folder / "lab" / "snapshots" / "visits-1.duckdb"):
            print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")
        report(best_of_turns(questions))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
