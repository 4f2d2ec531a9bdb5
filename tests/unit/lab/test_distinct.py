"""COUNT(DISTINCT …) counts different values with the noise of a count."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import sfumato as sf


def test_different_values_are_counted(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "who": [i // 2 for i in range(40)],
            "ward": ["A", "B", None, "A"] * 10,
            "note": [f"n{i % 7}" for i in range(40)],
            "cost": [float(i % 5) for i in range(40)],
        }
    )
    columns = {"ward": sf.one_of("A", "B", "C"), "note": sf.text(), "cost": sf.between(0, 9, step=1)}
    lab = sf.create(tmp_path / "lab")
    budget = sf.Budget(epsilon=1000)
    lab.register("t", rows, unit=sf.Unit("who", max_rows=2), columns=columns, budget=budget)
    sql = """SELECT COUNT(DISTINCT ward) AS w, COUNT(DISTINCT note) AS n, COUNT(DISTINCT cost + 1) AS c,
             COUNT(DISTINCT who) AS p FROM t"""
    found = lab.session().sql(sql).release(epsilon=400).to_arrow().to_pydict()
    assert found == {"w": [2], "n": [7], "c": [5], "p": [20]}
    frame = lab.session().table("t").agg(n=sf.distinct("note"))
    assert frame.release(epsilon=100).to_arrow().to_pydict() == {"n": [7]}
