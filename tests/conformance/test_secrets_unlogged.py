"""The keys of unit digests are in no log, view or plan of the engine that computes them.

Whoever has a key can hash every identifier there is, and find each person in the snapshot. That is what is
tried here, with everything in a log that could be a key.
"""

from __future__ import annotations

import re
from hashlib import md5
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset
from tests.conformance import servers

import sfumato as sf

if TYPE_CHECKING:
    from pathlib import Path

PEOPLE = [f"patient-{number}" for number in range(30)]
SAID: dict[str, Any] = {
    "unit": sf.Unit("who", max_rows=3),
    "columns": {"x": sf.between(0, 1)},
    "budget": sf.Budget(epsilon=1),
}


def find_people(log: str, persons: set[str]) -> list[str]:
    """Everyone whose digest can be made with a text in the log. Each key is hashed as the engines do."""
    keys = set(re.findall(r"[0-9a-f]{16,}", log))
    return [who for who in PEOPLE for key in keys if md5(f"{key}:{who}".encode()).hexdigest() in persons]


def test_a_server_that_logs_everything_logs_no_key(tmp_path: Path) -> None:
    import psycopg

    server = servers.adjustable()
    with psycopg.connect(server.address, autocommit=True) as db:
        db.execute("CREATE TABLE visits (who TEXT, x FLOAT)")
        db.cursor().executemany("INSERT INTO visits VALUES (%s, 0.5)", [(who,) for who in PEOPLE])
        for setting in (
            "log_statement = 'all'",
            "log_min_duration_statement = 0",
            "log_parameter_max_length = -1",
            "debug_print_plan = on",
        ):
            db.execute(f"ALTER ROLE postgres SET {setting}".encode())
        try:
            lab = sf.create(tmp_path / "lab")
            lab.register("visits", f"postgresql://postgres@/postgres?host={server.folder}#visits", **SAID)
        finally:
            db.execute("ALTER ROLE postgres RESET ALL")
        ((schema, table),) = db.execute(
            "SELECT schemaname, tablename FROM pg_tables WHERE tablename LIKE '%\\_units'"
        )
        found = db.execute(f'SELECT person FROM "{schema}"."{table}"'.encode()).fetchall()
    log = (server.folder / "log").read_text(encoding="utf-8", errors="replace")
    assert "CREATE TEMP TABLE units" in log
    assert find_people(log, {person.hex for (person,) in found}) == []


def test_plans_that_spark_shows_have_no_key(tmp_path: Path, spark: Any) -> None:
    lab = sf.create(tmp_path / "lab")
    store = spark._jsparkSession.sharedState().statusStore()
    before = store.executionsCount()
    frame = spark.createDataFrame(pa.table({"who": PEOPLE, "x": [0.5] * len(PEOPLE)}))
    lab.register("visits", frame, **SAID)
    shown = store.executionsList()
    log = "\n".join(
        f"{shown.apply(place).description()} {shown.apply(place).details()} "
        f"{shown.apply(place).physicalPlanDescription()}"
        for place in range(before, shown.size())
    )
    (folder,) = tmp_path.rglob("units")
    rows = pyarrow.dataset.dataset([str(each) for each in folder.glob("*.parquet")]).to_table()
    persons = {person.hex() for person in rows["person"].to_pylist()}
    assert len(persons) == len(PEOPLE)
    assert "md5" in log
    assert find_people(log, persons) == []
