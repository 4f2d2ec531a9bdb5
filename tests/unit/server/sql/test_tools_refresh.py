"""psql, pandas and DuckDB's postgres scanner load released answers a thousand times, and pay nothing.

DuckDB's scanner is an extension, and wheels that carry it exist for DuckDB 1.5, not for the 2.0 that runs
here. Both are installed into a folder of the test's own, and run in a process of their own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pandas as pd
import pytest
import sqlalchemy

from sfumato.lab.feeds.listing import find_published_feed
from sql_door import OpenDoor, open_door

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TIMES = 1_000
SCANNER = ("duckdb==1.5.5", "duckdb-extension-postgres-scanner==1.5.5")
SCAN = """
import json, sys
from pathlib import Path

import duckdb, duckdb_extension_postgres_scanner as packed

address, times = sys.argv[1], int(sys.argv[2])
[extension] = Path(packed.__file__).parent.rglob("postgres_scanner.duckdb_extension")
duckdb.load_extension(str(extension))
duckdb.sql(f"ATTACH '{address}' AS lab (TYPE postgres, READ_ONLY)")
asked = (
    "SELECT ward, n, n_low FROM lab.published.by_ward",
    "SELECT * FROM lab.released.costly WHERE n > -999",
    "SELECT count(*), sum(n) FROM lab.published.by_ward",
    "SELECT ward, n FROM postgres_query('lab', 'SELECT ward, n FROM by_ward')",
)
found = [duckdb.sql(text).fetchall() for text in asked]
for place in range(times):
    at = place % len(asked)
    assert duckdb.sql(asked[at]).fetchall() == found[at], asked[at]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenDoor]:
    with open_door(tmp_path_factory.mktemp("tools") / "clinic") as opened:
        yield opened


@pytest.mark.slow
def test_psql_costs_nothing(clinic: OpenDoor) -> None:
    if shutil.which("psql") is None:
        pytest.skip("PSQL IS MISSING: install postgresql-client")
    before = clinic.lab.verify()
    once = clinic.psql("SELECT * FROM by_ward").stdout
    many = clinic.psql(*["SELECT * FROM by_ward"] * TIMES)
    assert (many.stderr, many.stdout) == ("", once * TIMES)
    assert clinic.lab.verify() == before


@pytest.mark.slow
def test_pandas_costs_nothing(clinic: OpenDoor) -> None:
    before = clinic.lab.verify()
    address = f"postgresql+psycopg://ada:{clinic.tokens['ada']}@127.0.0.1:{clinic.door.port}/clinic"
    engine = sqlalchemy.create_engine(address)
    expected = find_published_feed(clinic.lab, "by_ward").to_arrow().to_pandas()
    for _ in range(TIMES):
        pd.testing.assert_frame_equal(pd.read_sql("SELECT * FROM published.by_ward", engine), expected)
    engine.dispose()
    assert clinic.lab.verify() == before


@pytest.mark.slow
def test_the_scanner_of_duckdb_costs_nothing(clinic: OpenDoor, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq", "install", "--no-deps"]
    subprocess.run([*pip, "--target", str(tmp_path / "scanner"), *SCANNER], check=True)
    before = clinic.lab.verify()
    done = subprocess.run(
        [sys.executable, "-c", SCAN, clinic.address(), str(TIMES)],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "scanner")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    read, own, counted, passed = json.loads(done.stdout)
    rows = find_published_feed(clinic.lab, "by_ward").to_arrow().to_pylist()
    assert read == [[row["ward"], row["n"], row["n_low"]] for row in rows]
    assert counted == [[len(rows), sum(row["n"] for row in rows)]]
    assert passed == [[row["ward"], row["n"]] for row in rows]
    assert len(own) == 4
    assert clinic.lab.verify() == before
