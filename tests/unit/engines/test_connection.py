"""What the connection that reads snapshots must refuse, even to SQL that should never reach it."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.duckdb.connection import open_reader, open_writer
from sfumato.engines.snapshot import Preparation, StoredGrid

FRAME = pd.DataFrame({"secret": [1]})


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    engine = DuckDBEngine(folder)
    for name in ("t", "u"):
        engine.prepare(pa.table({"x": [1, 2]}), Preparation(None, 1, (StoredGrid("x", 0, 9),), b"k"), name)
    (folder / "other.csv").write_text("a\n1\n")
    return folder


@pytest.fixture(scope="module")
def reader(lab):
    with open_reader({"snapshot": lab / "t.duckdb"}, None) as connection:
        yield connection


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{lab}/other.csv')",
        "SELECT * FROM read_text('{lab}/other.csv')",
        "SELECT * FROM read_blob('{lab}/t.duckdb')",
        "SELECT * FROM read_parquet('{lab}/other.parquet')",
        "SELECT * FROM sniff_csv('{lab}/other.csv')",
        "SELECT * FROM glob('{lab}/*')",
        "SELECT * FROM '{lab}/other.csv'",
        "ATTACH '{lab}/new.duckdb'",
        "ATTACH '{lab}/u.duckdb' AS another (READ_ONLY)",
        "COPY snapshot.rows TO '{lab}/out.csv'",
        "COPY snapshot.rows FROM '{lab}/other.csv'",
        "EXPORT DATABASE '{lab}/out'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 1",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "RESET enable_external_access",
        "PRAGMA temp_directory = '{lab}'",
        "INSERT INTO snapshot.rows VALUES (1, 1)",
        "DELETE FROM snapshot.rows",
        "CREATE TABLE snapshot.more AS SELECT 1",
        "CREATE PERSISTENT SECRET s (TYPE http, BEARER_TOKEN 'x')",
        "SELECT * FROM FRAME",
        "SELECT * FROM local_frame",
    ],
)
def test_there_is_no_way_out(reader, lab, sql):
    import duckdb

    local_frame = FRAME
    before = sorted(lab.iterdir())
    cursor = reader.cursor()
    with pytest.raises(duckdb.Error):
        cursor.execute(sql.format(lab=lab)).fetchall()
    assert local_frame is FRAME
    assert sorted(lab.iterdir()) == before


def test_the_same_sql_works_where_nothing_is_locked(lab):
    """So that the refusals above are refusals and not mistakes of spelling."""
    import duckdb

    local_frame = FRAME
    with duckdb.connect() as connection:
        assert connection.execute(f"SELECT * FROM read_csv('{lab}/other.csv')").fetchall() == [(1,)]
        assert connection.execute(f"SELECT count(*) FROM glob('{lab}/*.csv')").fetchall() == [(1,)]
        assert connection.execute("SELECT * FROM local_frame").fetchall() == [(local_frame.iloc[0, 0],)]
        connection.execute("SET threads = 1")


def test_the_reader_reads(reader):
    assert reader.cursor().execute("SELECT sum(c0) FROM snapshot.rows").fetchall() == [(3,)]


def test_the_writer_folds_nothing_by_statistics(tmp_path):
    """The smallest and largest values that a Parquet file names do not count NaN."""
    table = pa.table({"x": [1.0, float("nan"), 2.0]})
    pq.write_table(table, tmp_path / "t.parquet")
    asked = f"""
        SELECT x > 2, x = 'nan'::DOUBLE, x <> x, x BETWEEN 1 AND 2, NULLIF(x, 'nan'::DOUBLE) IS NULL, isnan(x)
        FROM read_parquet('{tmp_path}/t.parquet')"""
    with open_writer(tmp_path / "w.duckdb", tmp_path / "spill", 1) as writer:
        odd = [row for row in writer.execute(asked).fetchall() if any(row[:3])]
        assert odd == [(True, True, False, False, True, True)]
        (disabled,) = writer.execute("SELECT current_setting('disabled_optimizers')").fetchone()
        (names,) = writer.execute("SELECT list(name) FROM duckdb_optimizers()").fetchone()
    assert set(names) - {name.strip() for name in disabled.split(",")} == {
        "common_subexpressions",
        "unused_columns",
    }
