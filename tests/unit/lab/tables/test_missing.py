"""Columns without missing values: declared, verified, taken over from sources, and without a group."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.curator.catalog.columns import column_from_dict
from sfumato.curator.catalog.schema_file import Schema, read_schema, write_schema
from sfumato.errors import StewardWarning, UsageError
from sfumato.privacy.neighbours import Neighbours

DAYS = (date(2024, 1, 1), date(2024, 12, 31))
ROWS = pa.table(
    {
        "ward": ["A", "B", "A", None],
        "age": [10, 20, 30, None],
        "day": [date(2024, 5, 6), date(2024, 5, 7), date(2024, 5, 8), None],
        "ill": [True, False, True, None],
    }
)
WHOLE = ROWS.slice(0, 3)
COLUMNS = {
    "ward": sf.one_of("A", "B", missing=False),
    "age": sf.between(1, 100, step=1, missing=False),
    "day": sf.between(*DAYS, missing=False),
    "ill": sf.one_of(True, False, missing=False),
}
OPEN = {
    "ward": sf.one_of("A", "B"),
    "age": sf.between(1, 100, step=1),
    "day": sf.between(*DAYS),
    "ill": sf.one_of(True, False),
}


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    return sf.create(tmp_path / "lab")


def register(lab: sf.Lab, source: Any, columns: Any, **more: Any) -> Any:
    return lab.register("t", source, unit=sf.ROW, columns=columns, budget=sf.Budget(epsilon=1000), **more)


def keys(lab: sf.Lab, key: str) -> list[Any]:
    sql = f"SELECT {key} AS k, COUNT(*) AS n FROM t GROUP BY k"
    answer = lab.session().sql(sql).release(epsilon=10)
    return answer.to_arrow()["k"].to_pylist()


@pytest.mark.parametrize("name", ["ward", "age", "day"])
def test_a_missing_value_is_refused_and_counts_as_stated_if_confirmed(lab: sf.Lab, name: str) -> None:
    with pytest.raises(
        UsageError, match=f"'{name}' is declared without missing values, but 1 value"
    ) as refused:
        register(lab, ROWS, {name: COLUMNS[name]})
    assert refused.value.code == "SF-C249"
    assert lab.tables() == ()
    with pytest.warns(StewardWarning, match="declared without missing values"):
        register(lab, ROWS, {name: COLUMNS[name]}, confirm_losses=True)
    stands = {"ward": "ward = 'A'", "age": "age = 1", "day": "day = DATE '2024-01-01'"}
    known = {"ward": 2, "age": 0, "day": 0}
    sql = f"SELECT COUNT(*) AS n FROM t WHERE {stands[name]}"
    found = lab.session().sql(sql).release(epsilon=50).to_arrow()["n"][0].as_py()
    assert round(found) == known[name] + 1


def test_a_missing_boolean_counts_as_the_value_that_missing_names(lab: sf.Lab) -> None:
    register(lab, ROWS, {"ill": COLUMNS["ill"]})
    found = lab.session().sql("SELECT COUNT(*) AS n FROM t WHERE ill = FALSE").release(epsilon=50)
    assert round(found.to_arrow()["n"][0].as_py()) == 2


def test_unlisted_and_unreadable_values_are_missing_values(lab: sf.Lab) -> None:
    rows = pa.table({"ward": ["A"] * 99 + ["X"], "age": ["1"] * 99 + ["?"]})
    with pytest.raises(UsageError) as refused:
        register(lab, rows, {name: COLUMNS[name] for name in ("ward", "age")})
    assert refused.value.facts["losses"].splitlines() == [
        "'ward' is declared without missing values, but 1 value (1 %) is missing. Missing values count as A.",
        "'age' is declared without missing values, but 1 value (1 %) is missing. Missing values count as 1.",
    ]


def test_a_later_snapshot_is_verified_too(lab: sf.Lab) -> None:
    register(lab, WHOLE, COLUMNS)
    with pytest.raises(UsageError, match="'ward' is declared without missing values"):
        lab.advance("t", ROWS)
    assert lab.table("t").snapshot == 1
    lab.advance("t", WHOLE)


EXPRESSIONS = {
    "ward": "ward",
    "ill": "ill",
    "EXTRACT(month FROM day)": "day",
    "DAYNAME(day)": "day",
    "MONTHNAME(day)": "day",
    "CASE WHEN age < 18 THEN 'child' ELSE 'adult' END": "age",
    "CASE ward WHEN 'A' THEN 1 WHEN 'B' THEN 2 ELSE 3 END": "ward",
    "age // 10": "age",
}


@pytest.mark.parametrize("key", EXPRESSIONS)
def test_keys_of_such_columns_have_no_group_of_missing_values(lab: sf.Lab, key: str) -> None:
    register(lab, WHOLE, COLUMNS)
    assert None not in keys(lab, key)


def test_a_case_without_else_has_one(lab: sf.Lab) -> None:
    register(lab, WHOLE, COLUMNS)
    sql = "SELECT CASE WHEN age < 18 THEN 'child' END AS k, COUNT(*) AS n FROM t GROUP BY k"
    assert None in lab.session().sql(sql).release(epsilon=100).to_arrow()["k"].to_pylist()


def not_null(rows: pa.Table) -> pa.Table:
    fields = [field.with_nullable(False) for field in rows.schema]
    return rows.cast(pa.schema(fields))


@pytest.mark.parametrize("as_file", [False, True])
def test_the_promise_is_taken_over_from_sources_that_make_it(
    lab: sf.Lab, tmp_path: Path, as_file: bool
) -> None:
    source: Any = not_null(WHOLE)
    if as_file:
        pq.write_table(source, tmp_path / "rows.parquet")
        source = tmp_path / "rows.parquet"
    register(lab, source, OPEN)
    table = lab.table("t")
    taken = {name: each.nullable for name, each in table.columns.items()}
    # Other texts than those of a list are missing values, so a list is declared by hand.
    assert taken == {"ward": None, "age": False, "day": False, "ill": False}
    assert "do not occur" in str(lab.session().tables["t"])
    assert None not in keys(lab, "DAYNAME(day)")


def test_missing_true_keeps_what_a_source_rules_out(lab: sf.Lab) -> None:
    said = {**OPEN, "age": sf.between(1, 100, step=1, missing=True), "day": sf.between(*DAYS, missing=4 > 3)}
    register(lab, not_null(WHOLE), said)
    assert [lab.table("t").columns[name].nullable for name in ("age", "day")] == [True, True]


def test_a_source_that_breaks_its_own_promise_is_refused(lab: sf.Lab) -> None:
    with pytest.raises(UsageError, match="'x' is declared without missing values, but 1 value"):
        register(
            lab,
            pa.table(
                {"x": pa.array([1.0, float("nan")])}, schema=pa.schema([pa.field("x", pa.float64(), False)])
            ),
            {"x": sf.between(0, 2)},
        )


def test_the_promise_is_kept_in_catalogs_and_schema_files(tmp_path: Path) -> None:
    written = {
        **COLUMNS,
        "flag": sf.one_of(True, False, missing=True),
        "maybe": sf.between(0, 1, missing=True),
        "cost": sf.between(0, 100, format="1.234,56"),
        "born": sf.between(*DAYS, format="12/31/2024"),
    }
    for column in written.values():
        assert column_from_dict(column.to_dict()) == column
    (tmp_path / "said.toml").write_text(
        write_schema(Schema(sf.ROW, written, None, Neighbours.ADD_REMOVE, None))
    )
    assert read_schema(tmp_path / "said.toml").columns == written
