"""What private questions cost beside the same questions asked of DuckDB plainly: 10 million rows by default.

    python benchmarks/queries.py [--turns 7]
    python benchmarks/queries.py --rows 100_000_000 --no-windows --memory 8 --turns 2 \\
        --only count "sum, mean" group-by median

Plain is the question on an ordinary DuckDB file with the raw rows. Private is the whole way of a release: SQL
in, priced, charged durably, summed, noise drawn, kept, an Arrow table out; each at another ε, since the same
question again would be free. A new ε needs new tables to draw noise from, which the process keeps: "known"
is what a release takes once it has them. They take turns in one process, and the best of several counts.
Memory is that of a process which asks the one question and ends. What is not supported yet says so.

Aims: a question within 1.0 times plain and 10 ms of processor; bounding inside a question within 1.3 times
the same bounding in plain SQL; preparing within 1.5 times the bare statement; memory within 1.3 times that
of DuckDB.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from parts import rows
from parts.measuring import Cost, best_of_turns, from_child, timed
from parts.peak import refusal
from parts.private import bounded, fresh_epsilon, prepared, with_known_noise

if TYPE_CHECKING:
    from parts.measuring import Work
    from sfumato.lab.lab import Lab

SOURCE = "purchases.parquet"
PEAK = Path(__file__).parent / "parts" / "peak.py"
RATIO, FIXED, BOUNDING, PREPARING, MEMORY = 1.0, 0.010, 1.3, 1.5, 1.3
GROUPS, ROWS = 2, 3
"""The bounds inside a question: of one user at most so many categories, with so many rows in each."""

BOUNDED = f"""WITH ranked AS (SELECT category, amount,
    row_number() OVER (PARTITION BY user_id, category ORDER BY hash(amount, day)) AS place,
    dense_rank() OVER (PARTITION BY user_id ORDER BY hash(user_id, category), category) AS nth FROM purchases)
SELECT category, COUNT(*), SUM(amount) FROM ranked
    WHERE place <= {ROWS} AND nth <= {GROUPS} GROUP BY category"""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, how DuckDB is asked it where that differs, and bounds inside it."""

    name: str
    sql: str
    plain: str = ""
    bounds: tuple[int, int] | None = None

    @property
    def plainly(self) -> str:
        return self.plain or self.sql

    def aim(self, plain: float) -> float:
        """The most seconds of processor, given those of the plain question."""
        return BOUNDING * plain if self.bounds else RATIO * plain + FIXED


QUESTIONS = (
    Asked("count", "SELECT COUNT(*) AS n FROM purchases"),
    Asked("sum, mean", "SELECT SUM(amount) AS total, AVG(amount) AS mean FROM purchases"),
    Asked(
        "group-by", "SELECT category, COUNT(*) AS n, SUM(amount) AS total FROM purchases GROUP BY category"
    ),
    Asked(
        "filtered group-by",
        "SELECT category, COUNT(*) AS n, SUM(amount) AS total FROM purchases "
        "WHERE amount >= 20 AND amount < 200 GROUP BY category",
    ),
    Asked(
        "group-by of some days",
        "SELECT category, COUNT(*) AS n FROM purchases WHERE day >= DATE '2023-07-01' GROUP BY category",
    ),
    Asked("variance", "SELECT VARIANCE(amount) AS spread FROM purchases"),
    Asked("correlation", "SELECT CORR(amount, LEAST(amount, 100)) AS together FROM purchases"),
    Asked("median", "SELECT MEDIAN(amount) AS mid FROM purchases"),
    Asked("grouped median", "SELECT category, MEDIAN(amount) AS mid FROM purchases GROUP BY category"),
)
WITHIN = Asked(
    f"at most {GROUPS} × {ROWS} a user",
    "SELECT category, COUNT(*) AS n, SUM(amount) AS total FROM purchases GROUP BY category",
    BOUNDED,
    (GROUPS, ROWS),
)


HEADINGS = (
    f"{'':24}{'CPU ms':>24}{'wall ms':>24}{'CPU / plain':>14}  {'aim':>14}{'MB':>21}\n"
    f"{'':24}{2 * '   plain   new ε   known'}  new ε  known  {'new ε  known':14}  plain   ours  ratio  aim"
)


# ---- preparing ---------------------------------------------------------------------------------------------


def gridded(source: Path) -> str:
    """The rows with codes for categories and whole steps for amounts, as a snapshot holds them."""
    steps = f"CASE WHEN amount < 0 THEN 0 WHEN amount > {rows.HIGHEST} THEN {rows.HIGHEST} ELSE amount END"
    return f"""SELECT user_id, code, CAST(floor({steps} * 2048 + 0.5) AS INTEGER) AS step,
        CAST(day - DATE '{rows.FIRST}' AS INTEGER) AS day
        FROM read_parquet('{source}') LEFT JOIN categories ON category = value"""


def ranked(source: Path, order: str) -> str:
    """The bare statement: each user's first rows in the order of a hash."""
    return f"""CREATE TABLE kept AS SELECT user_id, code, step, day FROM (
        SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY {order}) AS place
        FROM ({gridded(source)})) WHERE place <= {rows.MAX_ROWS}"""


def bare_statements(source: Path, per_user: bool) -> dict[str, str]:
    if not per_user:
        return {"bare, gridded": f"CREATE TABLE kept AS {gridded(source)}"}
    text = "md5('a key:' || code || ',' || step || ',' || day || ':' || user_id)"
    return {
        "bare, ranked by md5": ranked(source, text),
        "bare, ranked by hash()": ranked(source, "hash(code, step, day, user_id)"),
    }


def bare(path: Path) -> None:
    """An empty database that knows the codes of the categories."""
    with duckdb.connect(str(path)) as connection:
        listed = ", ".join(f"('{name}', {code})" for code, name in enumerate(rows.CATEGORIES))
        connection.execute("CREATE TABLE categories (value VARCHAR, code USMALLINT)")
        connection.execute(f"INSERT INTO categories VALUES {listed}")


def run_bare(path: Path, statement: str) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute(statement)
        connection.execute("CHECKPOINT")


def preparing(folder: Path, source: Path, per_user: bool, windows: bool) -> None:
    """Prepare once by each way and print what it took; ours stays as the lab `lab`."""
    mine = timed(lambda: prepared(folder / "lab", source, per_user))
    my_peak = _peak_of_preparing(folder / "again", source, per_user) if windows else {}
    print(f"{'preparing, once':28}{'CPU s':>9}{'wall s':>9}{'MB':>8}   ours / this: CPU, wall, MB")
    print(f"{'ours':28}{_row(mine, my_peak)}", flush=True)
    if not windows:
        print("the bare statement is left out, as --no-windows asks")
        return
    for name, statement in bare_statements(source, per_user).items():
        cost, peak = _bare_cost(folder / "bare.duckdb", statement)
        ratios = f"{mine.cpu / cost.cpu:.2f} {mine.wall / cost.wall:.2f} {_ratio(my_peak, peak)}"
        met = verdict(mine.cpu, PREPARING * cost.cpu)
        print(f"{name:28}{_row(cost, peak)}   {ratios}   {met}", flush=True)


def _peak_of_preparing(folder: Path, source: Path, per_user: bool) -> dict[str, Any]:
    peak = from_child(PEAK, {"lab": str(folder), "source": str(source), "per_user": per_user})
    shutil.rmtree(folder, ignore_errors=True)
    return peak


def _bare_cost(path: Path, statement: str) -> tuple[Cost, dict[str, Any]]:
    bare(path)
    cost = timed(lambda: run_bare(path, statement))
    path.unlink()
    bare(path)
    peak = from_child(PEAK, {"database": str(path), "sql": statement})
    path.unlink()
    return cost, peak


def _row(cost: Cost, peak: dict[str, Any]) -> str:
    return f"{cost.cpu:9.2f}{cost.wall:9.2f}{_megabytes(peak):>8}"


# ---- asking ------------------------------------------------------------------------------------------------


def asking(lab: Lab, database: Path, asked: Asked, turns: int) -> None:
    """Print what one question takes, asked privately and plainly, or why it cannot be asked."""
    session = lab.session()
    reader = duckdb.connect(str(database), read_only=True)

    def private(known: bool) -> Work:
        query, epsilon = bounded(session.sql(asked.sql), asked.bounds), fresh_epsilon()
        if known:
            with_known_noise(query, epsilon)
        return lambda: bounded(session.sql(asked.sql), asked.bounds).release(epsilon=epsilon).to_arrow()

    def plain() -> Work:
        return lambda: reader.sql(asked.plainly).to_arrow_table()

    try:
        private(known=True)()
    except Exception as error:  # a benchmark goes on to the next question and says so
        print(f"{asked.name:24}not supported yet: {refusal(error)}")
        return
    ways = {"private": lambda: private(False), "known": lambda: private(True), "plain": plain}
    costs = best_of_turns(ways, turns)
    reader.close()
    print(f"{asked.name:24}{_compared(asked, costs)}{_memories(lab, database, asked)}", flush=True)


def _compared(asked: Asked, costs: dict[str, Cost]) -> str:
    plain, mine, known = costs["plain"], costs["private"], costs["known"]
    aim = asked.aim(plain.cpu)
    cpu = "".join(f"{cost.cpu * 1e3:8.1f}" for cost in (plain, mine, known))
    wall = "".join(f"{cost.wall * 1e3:8.1f}" for cost in (plain, mine, known))
    ratios = f"{mine.cpu / plain.cpu:7.2f}{known.cpu / plain.cpu:7.2f}"
    return f"{cpu}{wall}{ratios}  {verdict(mine.cpu, aim):7}{verdict(known.cpu, aim):7}"


def _memories(lab: Lab, database: Path, asked: Asked) -> str:
    request = {
        "lab": str(lab.folder),
        "sql": asked.sql,
        "bounded": asked.bounds,
        "epsilon": fresh_epsilon(),
    }
    mine = from_child(PEAK, request)
    plain = from_child(PEAK, {"database": str(database), "sql": asked.plainly})
    if "refused" in mine or "refused" in plain:
        return f"   {mine.get('refused') or plain.get('refused')}"
    met = verdict(mine["peak"], MEMORY * plain["peak"])
    return f"{plain['peak']:7.0f}{mine['peak']:7.0f}{_ratio(mine, plain):>7}  {met}"


def verdict(mine: float, aim: float) -> str:
    return "met" if mine <= aim else "MISSED"


def _ratio(mine: dict[str, Any], other: dict[str, Any]) -> str:
    return f"{mine['peak'] / other['peak']:.2f}" if "peak" in mine and "peak" in other else "-"


def _megabytes(peak: dict[str, Any]) -> str:
    return f"{peak['peak']:.0f}" if "peak" in peak else "-"


# ---- everything --------------------------------------------------------------------------------------------


def raw(source: Path, path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE purchases AS FROM read_parquet('{source}')")


def every_question(folder: Path, database: Path, per_user: bool, options: argparse.Namespace) -> None:
    import sfumato as sf

    print(f"\n{f'per user, at most {rows.MAX_ROWS} rows each' if per_user else 'each row is a person'}")
    folder.mkdir()
    preparing(folder, folder.parent / SOURCE, per_user, options.windows)
    lab = sf.open(folder / "lab")
    print(HEADINGS)
    within = (WITHIN,) if per_user and options.windows else ()
    for asked in (*QUESTIONS, *within):
        if not options.only or asked.name in options.only:
            asking(lab, database, asked, min(options.turns, 2) if asked.bounds else options.turns)


def kept(database: Path) -> str:
    """How many rows are left when each user keeps at most so many."""
    counted = (
        f"SELECT SUM(LEAST(n, {rows.MAX_ROWS})) FROM (SELECT COUNT(*) AS n FROM purchases GROUP BY user_id)"
    )
    with duckdb.connect(str(database), read_only=True) as reader:
        return f"{int(reader.sql(counted).fetchall()[0][0]):,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder if not given")
    parser.add_argument(
        "--no-windows",
        dest="windows",
        action="store_false",
        help="leave out the plain statements that rank all rows: half a kilobyte of memory a row",
    )
    parser.add_argument("--only", nargs="+", metavar="QUESTION", help="ask these, by the names in the tables")
    parser.add_argument("--memory", type=int, metavar="GB", help="of which DuckDB uses at most four fifths")
    options = parser.parse_args()
    if options.memory:
        os.environ["SLURM_MEM_PER_NODE"] = f"{options.memory}G"  # DuckDB asks it before the machine
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        folder = Path(scratch)
        database = folder / "plain.duckdb"
        made = timed(lambda: rows.write(folder / SOURCE, options.rows))
        raw(folder / SOURCE, database)
        print(f"{options.rows:,} rows, made in {made.wall:.0f} s; raw in DuckDB: {_size(database)}")
        print(f"per user at most {rows.MAX_ROWS} rows are kept: {kept(database)}")
        for per_user in (True, False):
            every_question(folder / f"per_user_{per_user}", database, per_user, options)


def _size(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:,.0f} MB"


if __name__ == "__main__":
    main()
