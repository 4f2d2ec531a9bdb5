"""Spark in processes of its own: `serve` is a server of Spark Connect, `remote` asks it, `alone` needs none.

A process has either a session of Spark Connect or a classic one, so that tests run this as a program.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa

import sfumato as sf
from conformance import spark_session
from conformance.with_spark import Beside
from sfumato.curator.plan.plan import plan_question
from sfumato.curator.plan.spend import PureSpend
from sfumato.engines.limits import RunLimits, limit_runs
from sfumato.engines.spark import Folder, SparkEngine, connection
from sfumato.errors import UsageError
from sfumato.queries.sql import parse_question

KEY = b"k" * 32
VISITS = pa.table(
    {
        "who": [f"p{i % 23}" for i in range(200)],
        "cost": [None if i % 17 == 0 else i * 0.37 - 5 for i in range(200)],
        "ward": [["A", "B", "ü", None][i % 4] for i in range(200)],
        "note": [["pain", "Pain", "", "no pain at all"][i % 4] for i in range(200)],
    }
)
SAID: dict[str, Any] = {
    "unit": sf.Unit("who", max_rows=5),
    "columns": {"cost": sf.between(0, 50), "ward": sf.one_of("A", "B", "ü"), "note": sf.text()},
    "budget": sf.Budget(epsilon=1000),
}
QUESTIONS = (
    "SELECT ward, COUNT(*) AS n, SUM(cost) AS c, VARIANCE(cost) AS v FROM visits GROUP BY ward",
    "SELECT MEDIAN(cost) AS m FROM visits WHERE LOWER(note) LIKE '%pain%'",
    "SELECT COUNT(DISTINCT who) AS n FROM visits WHERE cost > 10",
    "SELECT AVG(c) AS a FROM (SELECT who, SUM(cost) AS c FROM visits GROUP BY who) AS q",
)


def compared(session: Any, folder: Path) -> int:
    """How many programs had the same integers on DuckDB; and a lab is asked over the same frame."""
    lab = sf.create(folder / "of lab")
    beside = Beside.at(folder, session)
    lab.register("visits", beside.frame(VISITS), **SAID)
    answer = lab.session().sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=500)
    assert answer.to_arrow()["n"].to_pylist() == [23 * 5]
    table = lab.table("visits")
    beside.prepare(VISITS, table.make_preparation(KEY), table.snapshot_name)
    duck, spark = beside.stored(table.snapshot_name)
    assert duck == spark
    programs = [
        step.program
        for sql in QUESTIONS
        for step in plan_question(lab.table, parse_question(sql), PureSpend(Fraction(1))).steps
    ]
    for program in programs:
        duck, spark = beside.run(program)
        assert duck == spark, program
    return len(programs)


def ended(session: Any) -> str:
    """What becomes of months of work in a second."""
    own = connection.open_own_session(session)
    try:
        with limit_runs(RunLimits(seconds=1)), connection.limit_run(own, None, ()):
            own.sql(f"SELECT id % 2 AS k, sum(id % 7) AS n FROM range({10**15}) GROUP BY 1").toArrow()
    except Exception as error:
        return type(error).__name__
    return "answered"


def serve(port: str) -> None:
    settings = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
    }
    for _ in spark_session.running(settings):
        print("ready", flush=True)
        sys.stdin.read()


def remote(port: str) -> None:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        told = {"kind": type(session).__module__, "programs": compared(session, Path(folder))}
        told["elsewhere"] = prepared_elsewhere(session, Path(folder))
    print(json.dumps({**told, "late": ended(session)}))


def prepared_elsewhere(session: Any, folder: Path) -> str:
    """What becomes of rows in a folder that the server has under the same path and on another disk."""
    os.chdir(folder)
    preparation = sf.open(folder / "of lab").table("visits").make_preparation(KEY)
    frame = session.createDataFrame(VISITS)
    try:
        SparkEngine(Folder(Path("/proc/self/cwd/snapshots"))).prepare(frame, preparation, "apart")
    except UsageError as refusal:
        return refusal.code
    return "written"


def alone() -> None:
    for session in spark_session.running():
        java = session._jvm.java.lang.System.getProperty("java.home")
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps({"java": java, "programs": compared(session, Path(folder))}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    {"serve": serve, "remote": remote, "alone": alone}[sys.argv[1]](*sys.argv[2:])
