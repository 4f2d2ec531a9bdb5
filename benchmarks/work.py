"""What the heaviest unit costs at the published limits: seconds and memory on DuckDB, with it and without it.

For each kind of question the largest that is still admitted is asked of two tables that differ in one unit,
whose every row is as heavy as the catalog allows. Chose MOST_BYTES and MOST_OPERATIONS of
curator/plan/work.py; no promise of privacy rests on the seconds.

    python benchmarks/work.py [--people 2000] [--turns 5]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import sfumato as sf
from sfumato.engines.duckdb.run import SNAPSHOTS
from sfumato.engines.limits import RunLimits, limit_runs
from sfumato.errors import PolicyError, SfumatoError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sfumato.curator.plan.work import Work

COLUMNS: dict[str, Any] = {"age": sf.between(0, 110, step=1), "cost": sf.between(0, 5000), "note": sf.text()}
SPEND = {"epsilon": 0.001}


def _joined(size: int) -> str:
    return "visits a " + " ".join(f"JOIN visits t{i} ON a.id = t{i}.id" for i in range(1, size))


def _likes(size: int, pattern: str) -> str:
    return " OR ".join(f"a.note LIKE '{pattern.format(i)}'" for i in range(size))


KINDS: dict[str, tuple[int, Callable[[int], str], bool]] = {
    "joins": (10, lambda n: f"SELECT COUNT(*) AS n FROM {_joined(n)} WHERE a.age = 99", False),
    "joins, bounded": (10, lambda n: f"SELECT SUM(a.cost) AS n FROM {_joined(n)} WHERE a.age = 99", True),
    "joins of ten rows and conditions": (
        10,
        lambda n: (
            f"SELECT SUM(a.cost) AS n FROM {_joined(3)} WHERE "
            + " AND ".join(f"a.cost + t1.cost * t2.cost > {i}" for i in range(n))
        ),
        False,
    ),
    "LIKE": (200, lambda n: f"SELECT COUNT(*) AS n FROM visits a WHERE {_likes(n, '%a%aa%a{}')}", False),
    "LIKE with _": (
        200,
        lambda n: f"SELECT COUNT(*) AS n FROM visits a WHERE {_likes(n, '%a_a%b{}_c%')}",
        False,
    ),
    "LIKE of long pieces": (
        200,
        lambda n: f"SELECT COUNT(*) AS n FROM visits a WHERE {_likes(n, '%' + 'a' * 300 + '{}%')}",
        False,
    ),
    "LIKE of a gap": (
        20,
        lambda n: f"SELECT COUNT(*) AS n FROM visits a WHERE {_likes(n, '%a' + '_' * 28 + 'b{}%')}",
        False,
    ),
    "LIKE of a long piece with _": (
        20,
        lambda n: f"SELECT COUNT(*) AS n FROM visits a WHERE {_likes(n, '%' + 'a' * 100 + '_b{}%')}",
        False,
    ),
    "LIKE of several gaps": (
        10,
        lambda n: f"SELECT COUNT(*) AS n FROM visits a WHERE {_likes(n, '%a_a%aa_a%b{}%')}",
        False,
    ),
    "LIKE of a long end": (
        200,
        lambda n: f"SELECT COUNT(*) AS n FROM visits a WHERE {_likes(n, '%{}_' + 'a' * 100)}",
        False,
    ),
    "LIKE in the other case": (
        200,
        lambda n: f"SELECT COUNT(*) AS n FROM visits a WHERE {_likes(n, '%aaab{}%')}".replace(
            "a.note", "LOWER(a.note)"
        ),
        False,
    ),
    "texts that are compared": (
        15,
        lambda n: (
            f"SELECT COUNT(*) AS n FROM {_joined(2)} WHERE "
            + " AND ".join(f"(a.note = t1.note OR a.age > {i})" for i in range(n))
        ),
        True,
    ),
    "rows": (
        5000,
        lambda n: "SELECT " + ", ".join(f"SUM(age + {i}) AS s{i}" for i in range(n)) + " FROM visits",
        False,
    ),
}


def _sessions(folder: Path, rows: int, people: int) -> list[sf.Session]:
    made = []
    for heavy in (False, True):
        lab = sf.create(folder / f"{rows}-{heavy}")
        listed = [(f"p{i}", i % 90, 10.0, "came back with a cough") for i in range(people)]
        listed += [("heavy", 99, 5000.0, "a" * 1000)] * rows if heavy else []
        table = pa.table({name: [row[at] for row in listed] for at, name in enumerate(("id", *COLUMNS))})
        budget, unit = sf.Budget(epsilon=10**6, delta=1e-6), sf.Unit("id", max_rows=rows)
        lab.register("visits", table, unit=unit, columns=COLUMNS, budget=budget)
        made.append(lab.session())
    return made


def _question(session: sf.Session, sql: str, bounded: bool) -> Any:
    asked = session.sql(sql)
    return asked.bounded(groups=1, rows=2) if bounded else asked


def _largest(session: sf.Session, write: Callable[[int], str], bounded: bool) -> tuple[int, Work]:
    """Return the largest size that is admitted, and its bound."""
    found: tuple[int, Work] | None = None
    for size in _sizes():
        try:
            found = size, _question(session, write(size), bounded).quote(**SPEND).plan.work
        except PolicyError:
            if found is not None:
                return found
    raise AssertionError(write(1))


def _sizes() -> Iterator[int]:
    yield from range(1, 40)
    yield from range(40, 400, 20)


def _seconds(session: sf.Session, sql: str, bounded: bool, turns: int) -> float:
    taken = []
    for turn in range(turns + 1):
        asked = _question(session, sql, bounded)
        begun = time.perf_counter()
        asked.release(epsilon=0.001 * (1 + turn / 1000))
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken[1:])


def _memory(session: sf.Session, sql: str, bounded: bool) -> int:
    """Return the fewest bytes, to a megabyte, with which DuckDB answers."""
    low, high = 1, 1024
    while low < high:
        middle = (low + high) // 2
        SNAPSHOTS._open.clear()  # a limit holds from when a snapshot is opened
        with limit_runs(RunLimits(memory=middle * 2**20)):
            try:
                _question(session, sql, bounded).release(epsilon=0.002 * (1 + middle / 5000))
                high = middle
            except SfumatoError:
                low = middle + 1
    return low * 2**20


def main() -> None:
    """Print one line for each kind."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--people", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for kind, (rows, write, bounded) in KINDS.items():
            without, heavy = _sessions(Path(name) / kind.replace(" ", "-"), rows, options.people)
            size, work = _largest(without, write, bounded)
            sql = write(size)
            seconds = [_seconds(each, sql, bounded, options.turns) for each in (without, heavy)]
            memory = [_memory(each, sql, bounded) / 2**20 for each in (without, heavy)]
            bound = f"rows {work.rows:7,} operations {work.operations:7,} bytes {work.bytes:9,}"
            taken = f"{seconds[0] * 1e3:6.1f} → {seconds[1] * 1e3:6.1f} ms"
            needed = f"{memory[0]:4.0f} → {memory[1]:4.0f} MiB"
            print(f"{kind:34} size {size:3} {bound}  {taken}  {needed}", flush=True)


if __name__ == "__main__":
    main()
