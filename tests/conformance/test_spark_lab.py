"""A lab over Spark DataFrames and tables: what it keeps, what it refuses, and how it reads them."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import sfumato as sf
from conformance import endless
from sfumato.cli.main import main
from sfumato.curator.plan.plan import plan_question
from sfumato.curator.plan.spend import PureSpend
from sfumato.engines.limits import RunLimits, limit_runs
from sfumato.engines.program import CellSums, Counted
from sfumato.engines.rows import ALL, Scan
from sfumato.engines.spark import SparkEngine, hosting
from sfumato.engines.spark.connection import open_own_session
from sfumato.engines.spark.java import make_shim
from sfumato.engines.spark.run import write_sql
from sfumato.errors import PolicyError, SfumatoError
from sfumato.queries.sql import parse_question
from waiting import wait_until

VISITS = pa.table({"who": [1, 1, 2, 3, 3, 3], "cost": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "ward": list("AABBAB")})
SAID: dict[str, Any] = {
    "unit": sf.Unit("who", max_rows=2, of="people"),
    "columns": {"cost": sf.between(0, 10), "ward": sf.one_of("A", "B")},
    "budget": sf.Budget(epsilon=1000),
}


def count_rows(folder: Path) -> list[list[int]]:
    """Rows that a lab opened anew finds where the snapshot lies."""
    lab = sf.open(folder)
    program = CellSums(Scan(lab.table("visits").snapshot_name), ALL, (), (Counted(),))
    found: list[list[int]] = lab.engine.run(program).tolist()
    return found


@pytest.fixture
def frame(spark: Any) -> Any:
    return spark.createDataFrame(VISITS)


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    """In a folder whose name means other things in addresses and in patterns."""
    return sf.create(tmp_path / "a lab, 100% [ours] {#1}*")


@pytest.fixture
def in_tables(spark: Any) -> Iterator[str]:
    """A schema that the steward's session is told to keep snapshots in."""
    schema = f"kept_{secrets.token_hex(4)}"
    spark.sql(f"CREATE SCHEMA {schema}")
    spark.conf.set(hosting.SETTING, f"spark_catalog.{schema}")
    yield schema
    spark.conf.unset(hosting.SETTING)


def test_a_question_is_answered_by_spark(lab: sf.Lab, frame: Any) -> None:
    lab.register("visits", frame, **SAID)
    answer = lab.session().sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward").release(epsilon=500)
    assert sum(answer.to_arrow()["n"].to_pylist()) == 5
    kept = sorted(path.name for path in (lab.folder / "snapshots").iterdir())
    assert kept == [f"{lab.table('visits').snapshot_name}.spark"]
    assert (lab.folder / "snapshots").stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_a_drop_ends_questions_that_read_the_table(
    lab: sf.Lab, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.createDataFrame(endless.TABLE)
    lab.register("big", frame, **endless.SAID, budget=sf.Budget(epsilon=100))
    status = spark.sparkContext.statusTracker()

    def wait_until_read() -> None:
        wait_until(status.getActiveStageIds, "Spark reads")

    endless.check_drop_ends_questions(lab, "big", monkeypatch, wait_until_read)
    assert not list((lab.folder / "snapshots").glob("big-1*"))
    wait_until(lambda: not status.getActiveStageIds(), "nothing works for a question that was ended")


def test_a_hostile_session_refuses_what_no_worker_reads_before_the_charge(lab: sf.Lab, frame: Any) -> None:
    """Spark's driver is in this process. Answers that were kept before need no worker."""
    lab.register("visits", frame, **SAID)
    lab.grant("ada", epsilon=100)
    counted = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
    hostile = lab.session("ada", hostile=True)
    for ask in (
        lambda: hostile.sql(counted).quote(epsilon=1),
        lambda: hostile.sql(counted).release(epsilon=1),
        lambda: hostile.fit(sf.learn.GaussianNB(epsilon=1), table="visits", features=["cost"], target="ward"),
    ):
        with pytest.raises(PolicyError, match="SF-Q191"):
            ask()
    assert lab.ledger.verify().charges == 0
    kept = lab.session("ada").sql(counted).release(epsilon=1).to_arrow()
    assert hostile.sql(counted).release(epsilon=1).to_arrow() == kept


def test_a_lab_opened_again_needs_no_frame(lab: sf.Lab, frame: Any) -> None:
    lab.register("visits", frame, **SAID)
    assert count_rows(lab.folder) == [[5]]


def test_what_is_dropped_or_replaced_is_gone(lab: sf.Lab, frame: Any) -> None:
    lab.register("visits", frame, **SAID)
    lab.advance("visits", frame, max_rows=1)
    assert [path.name[:9] for path in (lab.folder / "snapshots").iterdir()] == ["visits-2."]
    lab.drop("visits")
    assert not list((lab.folder / "snapshots").iterdir())
    assert (lab.folder / "databases.json").read_text() == "{}"


def test_snapshots_are_tables_where_the_steward_says_so(
    lab: sf.Lab, frame: Any, spark: Any, in_tables: str
) -> None:
    frame.createOrReplaceTempView("visits_here")
    lab.register("visits", "spark:visits_here", **SAID)
    assert _tables(spark, in_tables) == 3
    spark.conf.unset(hosting.SETTING)
    assert count_rows(lab.folder) == [[5]]
    assert not list((lab.folder / "snapshots").glob("*"))
    lab.drop("visits")
    assert _tables(spark, in_tables) == 0


def _tables(spark: Any, schema: str) -> int:
    return sum(not table.isTemporary for table in spark.catalog.listTables(schema))


def test_tables_of_different_places_are_not_joined(lab: sf.Lab, frame: Any) -> None:
    lab.register("visits", frame, **SAID)
    lab.register("stays", VISITS, **SAID)
    with pytest.raises(PolicyError, match="SF-Q140"):
        lab.session().sql("SELECT COUNT(*) AS n FROM visits JOIN stays USING (who)").quote(epsilon=1)


def _refusal(lab: sf.Lab, source: Any, said: dict[str, Any] = SAID) -> SfumatoError:
    with pytest.raises(SfumatoError) as refused:
        lab.register("visits", source, **said)
    assert not lab.tables()
    assert not [path for path in lab.folder.rglob("*") if path.suffix in (".spark", ".making")]
    return refused.value


def test_what_cannot_be_registered_is_refused_and_leaves_nothing(lab: sf.Lab, frame: Any) -> None:
    assert _refusal(lab, "spark:nowhere.visits").code == "SF-C202"
    assert _refusal(lab, frame, SAID | {"columns": {"no_column": sf.between(0, 1)}}).code == "SF-C205"
    twice = frame.select("*", frame["cost"].alias("cost"))
    assert _refusal(lab, twice).code == "SF-C205"
    lists = frame.selectExpr("who", "ward", "sequence(1, 2) AS cost")
    assert _refusal(lab, lists).code == "SF-C205"
    days = frame.selectExpr("who", "ward", "current_date() AS cost")
    assert _refusal(lab, days).code == "SF-C205"
    graph = {"unit": sf.Node("who", "ward", max_degree=3), "budget": sf.Budget(9)}
    assert _refusal(lab, frame, graph).code == "SF-C213"


def test_a_frame_that_fails_on_a_row_does_not_show_it(lab: sf.Lab, frame: Any) -> None:
    failing = frame.selectExpr("who", "ward", "CAST('p42' || ward AS INT) AS cost")
    refusal = _refusal(lab, failing)
    assert refusal.code == "SF-C204"
    assert "p42" not in str(refusal)
    assert refusal.__suppress_context__


def test_a_frame_that_changes_is_read_once(lab: sf.Lab, spark: Any) -> None:
    drawn = spark.range(400).selectExpr("CAST(rand() * 40 AS INT) AS who", "rand() AS cost", "'A' AS ward")
    lab.register("visits", drawn, **SAID)
    rows, units = (
        sum(pq.read_table(path).num_rows for path in lab.folder.rglob(name)) for name in ("rows", "units")
    )
    assert units <= rows <= 2 * units


def test_settings_of_the_steward_change_nothing(lab: sf.Lab, spark: Any) -> None:
    settings = {
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.caseSensitive": "false",
    }
    said = {"unit": sf.ROW, "columns": {"at": sf.text()}, "budget": sf.Budget(9)}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        moments = spark.sql("SELECT timestamp_micros(1500000) AS at, 1 AS `At.`").toDF("at", "At.")
        lab.register("visits", moments, **said)
        rows = pq.read_table(next(lab.folder.rglob("rows")))
        assert rows["c0"].to_pylist() == ["1970-01-01 00:00:01.5+00"]
    finally:
        for name in settings:
            spark.conf.unset(name)


def test_a_cluster_needs_a_schema_for_snapshots(
    lab: sf.Lab, frame: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = {"spark.master": "k8s://https://cluster", hosting.SETTING: None}
    monkeypatch.setattr(hosting, "read_setting", lambda session, name: away[name])
    refusal = _refusal(lab, frame)
    assert refusal.code == "SF-C211"
    assert hosting.SETTING in refusal.facts["try"]


def test_a_question_past_its_time_is_ended_and_stays_charged(
    lab: sf.Lab, frame: Any, spark: Any, in_tables: str
) -> None:
    lab.register("visits", frame, **SAID)
    (rows,) = [f"{in_tables}.{t.name}" for t in spark.catalog.listTables(in_tables, "*_rows")]
    columns = ", ".join(f"CAST(id % 2 AS {kind}) AS {name}" for name, kind in spark.table(rows).dtypes)
    spark.sql(f"DROP TABLE {rows}")
    spark.sql(f"CREATE VIEW {rows} AS SELECT {columns} FROM range({10**15})")  # months of work
    question = lab.session().sql("SELECT ward, SUM(cost) AS c FROM visits GROUP BY ward")
    with limit_runs(RunLimits(seconds=2)), pytest.raises(SfumatoError) as refusal:
        question.release(epsilon=1)
    assert refusal.value.code == "SF-X901"
    assert lab.budget.accounts[0].left_epsilon == 999
    status = spark.sparkContext.statusTracker()
    wait_until(lambda: not status.getActiveJobsIds(), "nothing works for a question that was ended")
    spark.sql(f"DROP VIEW {rows}")
    lab.advance("visits", frame)
    answer = lab.session().sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=500)
    assert answer.to_arrow()["n"].to_pylist() == [5]


def test_without_the_library_its_name_is_said(lab: sf.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    assert _refusal(lab, "spark:visits").code == "SF-N113"


def test_the_shell_takes_a_table_of_spark(lab: sf.Lab, frame: Any) -> None:
    frame.createOrReplaceTempView("visits_of_shell")
    told = ["table", "add", "visits", "spark:visits_of_shell", "--lab", str(lab.folder), "--unit", "who"]
    told += ["--max-rows", "2", "--between", "cost", "0", "10", "--epsilon", "4"]
    assert CliRunner().invoke(main, told, catch_exceptions=False).exit_code == 0
    assert lab.table("visits").home == "spark:"


# ---- the plan ----------------------------------------------------------------------------------------------

PLAIN = (
    "SELECT ward, COUNT(*) AS n, SUM(cost) AS c FROM visits GROUP BY ward",
    "SELECT COUNT(*) AS n, AVG(cost) AS c FROM visits WHERE cost > 3",
    "SELECT COUNT(DISTINCT who) AS n FROM visits",
    "SELECT SUM(c) AS c FROM (SELECT who, SUM(cost) AS c FROM visits GROUP BY who) AS q",
)


def _exchanges(session: Any, sql: str) -> int:
    """Of the physical plan; what is sent to all once, or to one place at the end, counts too."""
    return str(session.sql(sql)._jdf.queryExecution().executedPlan().toString()).count("Exchange")


def test_the_plan_has_no_exchange_that_the_plain_question_lacks(lab: sf.Lab, frame: Any, spark: Any) -> None:
    frame.createOrReplaceTempView("visits")
    lab.register("visits", frame, **SAID)
    own = open_own_session(spark)
    spark_engine = lab.engine._engine("spark:")
    assert isinstance(spark_engine, SparkEngine)
    for sql in PLAIN:
        for step in plan_question(lab.table, parse_question(sql), PureSpend(Fraction(1))).steps:
            ours = _exchanges(own, write_sql(step.program, own, spark_engine.place))
            assert 0 < ours <= _exchanges(spark, sql), sql


# ---- Java --------------------------------------------------------------------------------------------------


def test_the_shim_leaves_one_module_out_and_nothing_else(tmp_path: Path) -> None:
    java = tmp_path / "its java"
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o700)
    told = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "--add-modules=java.sql", "", "*"]
    home = make_shim(java)
    ran = subprocess.run([home / "bin" / "java", *told], capture_output=True, text=True, check=True)
    shutil.rmtree(home)  # which the process would do at exit
    assert ran.stdout.splitlines() == ["-Xmx1g", "a b", "--add-modules=java.sql", "", "*"]


@pytest.mark.parametrize(
    ("says", "told"),
    [
        (None, "none"),
        ('java version "1.8.0_392"', "version 8"),
        ('openjdk version "11.0.21" 2023-10-17', "version 11"),
        ("not a Java", "version unknown"),
    ],
)
def test_a_java_that_spark_cannot_use_is_said(
    lab: sf.Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str | None, told: str
) -> None:
    from sfumato.engines.spark import connection, java

    monkeypatch.setattr(connection, "_is_running", lambda: False)
    monkeypatch.setattr(java, "_of_the_wheel", lambda: None)
    java._read_version.cache_clear()  # pytest may use the same folder for the next Java
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if says is not None:
        program = tmp_path / "bin" / "java"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\nprintf '%s\\n' '{says}' >&2\n")
        program.chmod(0o700)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    refusal = _refusal(lab, "spark:visits")
    assert refusal.code == "SF-C209"
    assert told in str(refusal)


def test_a_spark_that_does_not_start_is_said(lab: sf.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    def exited(_: object) -> None:
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", exited)
    assert _refusal(lab, "spark:visits").code == "SF-C209"


def test_tables_of_a_schema_of_spark_are_listed(spark: Any) -> None:
    spark.sql("CREATE OR REPLACE TEMP VIEW passing AS SELECT 1 AS x")
    spark.sql("CREATE DATABASE IF NOT EXISTS ward_lists")
    spark.sql("CREATE OR REPLACE VIEW ward_lists.beds AS SELECT 1 AS bed")
    try:
        assert hosting.list_tables("spark:ward_lists") == {"beds": "spark:ward_lists.beds"}
    finally:
        spark.sql("DROP DATABASE ward_lists CASCADE")
