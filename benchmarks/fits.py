"""What fitting behind the curator costs beside the same sums in plain DuckDB: 10 million rows by default.

    python benchmarks/fits.py [--rows 10_000_000] [--memory 4] [--turns 2] [--spark-rows 20_000]
    python benchmarks/fits.py --rows 0 --spark-rows 0 --rounds 1_000 1_000_000

Linear regression, naive Bayes and principal components of twenty columns, by `s.fit` on DuckDB: the whole
way, priced, charged, summed, noise drawn, solved. Plain are the sums that the same model needs without
privacy, asked of a DuckDB file with the raw rows. Each has a process of its own, whose largest memory is
shown, and DuckDB may use at most four fifths of --memory. "scans" counts what the engine was asked in one
fit. Then the exact sums that were asked of DuckDB are asked of Spark and compared to the last digit, each
with its seconds of processor, Java's on Spark; on fewer rows, since Spark first compiles hundreds of sums.

--rounds fits learners of several rounds on ten columns of as many rows: boosting, a tree, k-means. Beside
them are the sums of the same rounds in plain DuckDB; at most two seconds of processor more are asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from parts import wide
from parts.fitting import ESTIMATORS, fitted, prepared, recorded
from parts.measuring import from_child, timed
from parts.rounds import ROUNDS
from parts.scores import FITS
from parts.spark import java_seconds, session

if TYPE_CHECKING:
    from sfumato.lab.lab import Lab

FITTING = Path(__file__).parent / "parts" / "fitting.py"


def raw(source: Path, path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE wide AS FROM read_parquet('{source}')")


def keep(engine: str, found: dict[str, Any]) -> None:
    """What was measured of one engine, beside what is known of the other."""
    known = json.loads(FITS.read_text(encoding="utf-8")) if FITS.exists() else {}
    FITS.parent.mkdir(parents=True, exist_ok=True)
    FITS.write_text(json.dumps({**known, engine: found}, indent=1) + "\n", encoding="utf-8")


def best(request: dict[str, Any], turns: int) -> dict[str, Any]:
    """Of several processes, the least seconds; the memory and the scans of the last."""
    answers = [from_child(FITTING, request) for _ in range(turns)]
    refused = [each for each in answers if "refused" in each]
    if refused:
        return refused[0]
    return answers[-1] | {name: min(each[name] for each in answers) for name in ("cpu", "wall")}


def shown(name: str, ours: dict[str, Any], plain: dict[str, Any]) -> str:
    if "refused" in ours or "refused" in plain:
        return f"{name:22} NOT MEASURED: {ours.get('refused') or plain.get('refused')}"
    ratios = f"{ours['cpu'] / plain['cpu']:8.2f}{ours['wall'] / plain['wall']:8.2f}"
    costs = "".join(f"{each['cpu']:10.1f}{each['wall']:8.1f}{each['peak']:8.0f}" for each in (plain, ours))
    met = "met" if ours["scans"] == 1 else "MISSED"
    return f"{name:22}{costs}{ratios}{ours['scans']:7}   one scan: {met}"


def on_duckdb(folder: Path, options: argparse.Namespace) -> None:
    source, database, lab = folder / "wide.parquet", folder / "plain.duckdb", folder / "lab"
    wide.write(source, options.rows)
    raw(source, database)
    preparing = timed(lambda: prepared(lab, source))
    print(f"{options.rows:,} rows of {len(wide.FEATURES)} columns; memory for DuckDB {options.memory} GB")
    print(f"prepared once in {preparing.wall:.1f} s ({preparing.cpu:.1f} s of processor)")
    print(f"{'':22}{'plain CPU s':>10}{'wall':>7}{'MB':>8}{'ours CPU s':>10}{'wall':>8}{'MB':>8}", end="")
    print(f"{'CPU ×':>8}{'wall ×':>8}{'scans':>7}")
    models: dict[str, Any] = {}
    for name in ESTIMATORS:
        ours = best({"lab": str(lab), "model": name}, 1)  # the same fit again would be free
        plain = best({"database": str(database), "model": name}, options.turns)
        models[name] = {"ours": ours, "plain": plain}
        print(shown(name, ours, plain), flush=True)
    keep("duckdb", {"rows": options.rows, "memory": options.memory, "models": models})


# ---- learners of several rounds ----------------------------------------------------------------------------

MOST_MORE = 2.0
"""Seconds of processor that a fit may take beside its sums in plain DuckDB."""


def in_rounds(folder: Path, rows: int) -> None:
    """One fit each: the same fit again would be free, and its rounds would read nothing."""
    folder.mkdir()
    source, database, lab = folder / "wide.parquet", folder / "plain.duckdb", folder / "lab"
    wide.write(source, rows)
    raw(source, database)
    prepared(lab, source)
    found: dict[str, Any] = {}
    print(f"\n{rows:,} rows of ten columns, learners of several rounds")
    print(f"{'':22}{'plain CPU s':>11}{'wall':>7}{'MB':>7}{'ours CPU s':>12}{'wall':>7}{'MB':>7}{'scans':>7}")
    for name in ROUNDS:
        ours = best({"lab": str(lab), "model": name}, 1)
        plain = best({"database": str(database), "model": name}, 1)
        found[name] = {"ours": ours, "plain": plain}
        more = ours["cpu"] - plain["cpu"]
        print(
            f"{name:22}{plain['cpu']:11.2f}{plain['wall']:7.2f}{plain['peak']:7.0f}{ours['cpu']:12.2f}"
            f"{ours['wall']:7.2f}{ours['peak']:7.0f}{ours['scans']:7}   {more:+.2f} s: "
            f"{'met' if more <= MOST_MORE else 'MISSED'}",
            flush=True,
        )
    keep(f"rounds of {rows}", found)


# ---- the same sums on Spark --------------------------------------------------------------------------------


def on_spark(folder: Path, rows: int) -> None:
    """Every program that a fit asked of DuckDB, asked of a Spark that holds the same rows."""
    source = folder / "some.parquet"
    wide.write(source, rows)
    here = prepared(folder / "here", source)
    spark = session("4g")
    there = prepared(folder / "there", spark.read.parquet(str(source)))
    print(f"\n{rows:,} rows, the exact sums of every scan on DuckDB and on Spark")
    models = {}
    for name in ESTIMATORS:
        models[name] = _same(name, here, there, spark)
        print(f"{name:22}{models[name]}", flush=True)
        keep("spark", {"rows": rows, "models": models})
    spark.stop()


def _point_at(part: Any, snapshot: str) -> Any:
    """Return a program, or a part of one, that reads another snapshot."""
    if isinstance(part, tuple):
        return tuple(_point_at(each, snapshot) for each in part)
    if not is_dataclass(part) or isinstance(part, type):
        return part
    parts = {each.name: _point_at(getattr(part, each.name), snapshot) for each in fields(part) if each.init}
    return replace(part, **parts | ({"snapshot": snapshot} if "snapshot" in parts else {}))


def _same(name: str, here: Lab, there: Lab, spark: Any) -> str:
    """One after the other: a fit on DuckDB is recorded, and its questions are asked again."""
    asked = recorded(here)
    fit = timed(lambda: fitted(here, name))
    again: list[Any] = []
    java = java_seconds(spark)
    moved = [_point_at(program, there.table("wide").snapshot_name) for program, _ in asked]
    cost = timed(lambda: again.extend(map(there.engine.run, moved)))
    java = java_seconds(spark) - java + cost.cpu
    same = [
        np.array_equal(np.asarray(mine), np.asarray(theirs))
        for (_, mine), theirs in zip(asked, again, strict=True)
    ]
    sums = sum(np.asarray(each).size for each in again)
    verdict = "identical" if all(same) else "DIFFERENT"
    return (
        f"{sums} sums in {len(asked)} questions: {verdict}; DuckDB {fit.cpu:.1f} s of processor and "
        f"{fit.wall:.1f} s of the clock, Spark {java:.0f} and {cost.wall:.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--spark-rows", type=int, default=20_000, help="0 leaves Spark out")
    parser.add_argument("--memory", type=int, default=4, metavar="GB")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--rounds", type=int, nargs="*", default=[], metavar="ROWS")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder if not given")
    options = parser.parse_args()
    os.environ["SLURM_MEM_PER_NODE"] = f"{options.memory}G"  # DuckDB asks it before the machine
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        if options.rows:
            on_duckdb(Path(scratch), options)
        for rows in options.rounds:
            in_rounds(Path(scratch) / str(rows), rows)
        if options.spark_rows:
            on_spark(Path(scratch), options.spark_rows)


if __name__ == "__main__":
    main()
