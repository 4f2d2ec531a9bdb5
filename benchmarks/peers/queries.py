"""What OpenDP and Tumult Analytics need for the questions of `benchmarks/queries.py`, beside plain DuckDB.

    PYTHONPATH=src python benchmarks/peers/queries.py [--rows 10_000_000] [--only OpenDP] [--limit 300]

`make bench` runs it in the environment of the other libraries, at a tenth of the rows because they are slow.
Each question runs in a process of its own; processor time and memory include all processes it starts. The
libraries scan the Parquet file, which is what they support, and bound each user's rows in every question;
DuckDB has the rows in its own file, as in `queries.py`. The output says which library is missing, refuses a
question or takes too long.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

BENCHMARKS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCHMARKS))

from parts import rows  # noqa: E402
from parts.measuring import best_of_turns, from_child  # noqa: E402

if TYPE_CHECKING:
    from parts.measuring import Cost, Work

TUMULT = BENCHMARKS.parent / ".venv-peers" / "tumult" / "bin" / "python"
LIBRARIES = {
    "OpenDP": (Path(sys.executable), BENCHMARKS / "parts" / "opendp_asks.py"),
    "Tumult": (TUMULT, BENCHMARKS / "parts" / "tumult_asks.py"),
}
GROUPED = "SELECT category, COUNT(*), SUM(amount) FROM purchases {} GROUP BY category"
PLAIN = {
    "count": "SELECT COUNT(*) FROM purchases",
    "sum, mean": "SELECT SUM(amount), AVG(amount) FROM purchases",
    "group-by": GROUPED.format(""),
    "filtered group-by": GROUPED.format("WHERE amount >= 20 AND amount < 200"),
    "median": "SELECT MEDIAN(amount) FROM purchases",
    "grouped median": "SELECT category, MEDIAN(amount) FROM purchases GROUP BY category",
}


def plainly(source: Path, path: Path, turns: int) -> dict[str, Cost]:
    """DuckDB's own cost of each question."""
    connection = duckdb.connect(str(path))
    connection.execute(f"CREATE TABLE purchases AS FROM read_parquet('{source}')")

    def ready(sql: str) -> Work:
        return lambda: connection.sql(sql).to_arrow_table()

    return best_of_turns({name: lambda sql=sql: ready(sql) for name, sql in PLAIN.items()}, turns)


def shown(answer: dict[str, Any], plain: Cost) -> str:
    if "refused" in answer:
        return f"NOT MEASURED: {answer['refused'][:120]}"
    times = f"{answer['cpu']:9.2f}{answer['wall']:9.2f}{answer['peak']:9.0f}"
    return f"{times}{answer['cpu'] / plain.cpu:12,.0f}{answer['wall'] / plain.wall:12,.0f}"


def ask(name: str, request: dict[str, Any], limit: float) -> dict[str, Any]:
    python, script = LIBRARIES[name]
    if not python.exists():
        return {"refused": f"{name} is not installed: `make bench` puts it into .venv-peers"}
    answer: dict[str, Any] = from_child(script, request, str(python), limit)
    return answer


def compare(source: Path, plain: dict[str, Cost], options: argparse.Namespace) -> None:
    """Print a line for each library, each unit of protection and each question."""
    names = [options.only] if options.only else list(LIBRARIES)
    for name, per_user, asked in product(names, (False, True), PLAIN):
        about = {"source": str(source), "rows": options.rows, "turns": options.turns}
        answer = ask(name, {**about, "per_user": per_user, "asked": asked}, options.limit)
        unit = "per user" if per_user else "per row"
        print(f"{name:10}{unit:12}{asked:22}{shown(answer, plain[asked])}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--limit", type=float, default=300, help="seconds a library may take per question")
    parser.add_argument("--only", choices=sorted(LIBRARIES))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "purchases.parquet"
        rows.write(source, options.rows)
        plain = plainly(source, Path(scratch) / "plain.duckdb", 5)
        print(f"{options.rows:,} rows; best of {options.turns}; ratios are to plain DuckDB's CPU and wall")
        print(f"{'':44}{'CPU s':>9}{'wall s':>9}{'MB':>9}{'CPU ratio':>12}{'wall ratio':>12}")
        compare(source, plain, options)


if __name__ == "__main__":
    main()
