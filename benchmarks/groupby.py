"""What a private group-by costs beside the plain one: 5 million rows, 500,000 people, 1,000 keys.

    python benchmarks/groupby.py [rows]

Plain is `SELECT key, COUNT(*), SUM(value) … GROUP BY key` on the same rows in an ordinary DuckDB file, which
holds the key as text and as an integer. Private is the exact part of the same question on a snapshot.
They take turns in one process, and the best of several turns counts: other work only ever adds.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa

from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.program import Codes, Every, Grid, Key, Preparation, Program, Rows, Value

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, KEYS, TURNS, MAX_ROWS = 5_000_000, 1_000, 15, 20
NAMES = [f"key_{i:04}" for i in range(KEYS)]


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


def private(data: pa.Table, folder: Path) -> Callable[[], object]:
    """Whatever is asked here is what is measured: the engine's part of the question."""
    engine = DuckDBEngine(folder)
    columns = (Grid("value", 0, 500 * 64, -6), Codes("name", tuple(NAMES)))
    engine.prepare(data, Preparation("user", MAX_ROWS, columns, bytes(16)), "visits-1")
    program = Program("visits-1", Every(()), (Key("name", KEYS),), (Rows(), Value("value")))
    return lambda: engine.run(program)


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
    mine = costs["private"]
    print(f"{'':20}{'CPU ms':>10}{'wall ms':>10}{'private / this, CPU':>22}")
    for name, cost in costs.items():
        print(f"{name:20}{cost.cpu * 1e3:10.1f}{cost.wall * 1e3:10.1f}{mine.cpu / cost.cpu:22.2f}")


def main(rows: int) -> None:
    data = table(rows)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        questions = plain(data, folder / "plain.duckdb")
        made: list[Callable[[], object]] = []
        preparing = timed(lambda: made.append(private(data, folder / "lab")))
        questions["private"] = made[0]
        print(f"{rows:,} rows; prepared in {preparing.wall:.1f} s ({preparing.cpu:.1f} s of CPU)")
        for path in (folder / "plain.duckdb", folder / "lab" / "visits-1.duckdb"):
            print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")
        report(best_of_turns(questions))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
