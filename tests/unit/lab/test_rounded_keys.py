"""Keys that are rounded to whole numbers list the groups that rows can be in, and no others."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf


@pytest.mark.parametrize("key", ["CAST(FLOOR(age / 10) * 10 AS INTEGER)", "ROUND(FLOOR(age / 10) * 10)"])
def test_a_cast_of_tens_lists_tens(tmp_path: Path, key: str) -> None:
    lab = sf.create(tmp_path / "lab")
    rows = pa.table({"who": list(range(100)), "age": list(range(100))})
    columns = {"age": sf.between(0, 99, step=1, missing=0)}
    lab.register("t", rows, unit=sf.Unit("who", max_rows=1), columns=columns, budget=sf.Budget(epsilon=1000))
    session = lab.session()
    cast = session.sql(f"SELECT {key} AS decade, COUNT(*) AS n FROM t GROUP BY decade").release(epsilon=100)
    plain = session.sql("SELECT FLOOR(age / 10) * 10 AS decade, COUNT(*) AS n FROM t GROUP BY decade")
    assert cast.to_arrow().to_pylist() == plain.release(epsilon=100).to_arrow().to_pylist()
