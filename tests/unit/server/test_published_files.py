"""Publications as files over HTTP: each format, and no refresh ever costs anything."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import date
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import sfumato as sf
from published_clinic import BY_WARD, make_clinic
from serving import ServedClinic, serve_clinic
from sfumato.lab.publications.names import make_unique, simplify_name
from sfumato.lab.publications.public_tables import find_public_table, tabulate_answer
from sfumato.server.settings import ServerSettings


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedClinic]:
    folder = tmp_path_factory.mktemp("published") / "clinic"
    fast = ServerSettings(address="http://testserver", requests_per_second=1e6, request_burst=10**6)
    with serve_clinic(folder, fast, make_clinic(folder)) as served:
        yield served


def get(clinic: ServedClinic, path: str, role: str = "public", **headers: str) -> Any:
    return clinic.send("GET", path, role, headers=headers)


def test_everyone_reads_what_was_published_in_each_format(clinic: ServedClinic) -> None:
    table = find_public_table(clinic.lab, "by_ward")
    text = get(clinic, "/published/by_ward.csv")
    assert text.headers["content-type"].startswith("text/csv")
    # Arrow cannot tell a missing text from an empty one unless it is told that quotes make the difference.
    options = csv.ConvertOptions(
        strings_can_be_null=True, quoted_strings_can_be_null=False, column_types=table.rows.schema
    )
    assert csv.read_csv(io.BytesIO(text.content), convert_options=options).equals(table.rows)
    assert pd.read_csv(io.BytesIO(text.content))["n"].tolist() == table.rows["n"].to_pylist()
    columns = parquet.read_table(io.BytesIO(get(clinic, "/published/by_ward.parquet").content))
    assert columns.replace_schema_metadata().equals(table.rows)
    assert json.loads(columns.schema.metadata[b"sfumato"])["question"] == BY_WARD
    body = get(clinic, "/published/by_ward.json").json()
    assert pa.Table.from_pylist(body["rows"], schema=table.rows.schema).equals(table.rows)
    assert (body["entry"], body["head"]) == (table.entry, table.head)
    days = get(clinic, "/published/published_2.json").json()["rows"]
    assert [row["day"] for row in days][:2] == ["2026-01-01", "2026-01-02"]
    listed = {each["path"]: each for each in get(clinic, "/published").json()["tables"]}
    assert {"/published/by_ward", "/published/published_2"} <= set(listed)
    assert [each["name"] for each in listed["/published/by_ward"]["columns"]] == table.rows.column_names


def test_the_same_bytes_have_the_same_tag(clinic: ServedClinic) -> None:
    tags = set()
    for ending in ("csv", "parquet", "json"):
        path = f"/published/by_ward.{ending}"
        first, again = (get(clinic, path) for _ in range(2))
        assert first.content == again.content
        tag = first.headers["etag"]
        assert again.headers["etag"] == tag
        tags.add(tag)
        for sent in (tag, f'"x", {tag}', f"W/{tag}", "*"):
            unchanged = get(clinic, path, **{"If-None-Match": sent})
            assert (unchanged.status_code, unchanged.content) == (304, b"")
        assert get(clinic, path, **{"If-None-Match": '"x"'}).status_code == 200
    assert len(tags) == 3


@pytest.mark.parametrize(
    "file",
    [
        "by_ward",
        "by_ward.",
        "by_ward.xls",
        "by_ward.CSV",
        "none.csv",
        "by_ward.csv.gz",
        "%2e%2e",
        "'",
        "a" * 90,
    ],
)
def test_other_files_are_not_there(clinic: ServedClinic, file: str) -> None:
    answer = get(clinic, f"/published/{file}")
    assert answer.status_code == 404
    assert answer.json()["code"] == "SF-U101"


def test_reading_again_costs_nothing(clinic: ServedClinic) -> None:
    before, first = clinic.lab.verify(), {}
    for path in ["/published/by_ward.csv", "/published/by_ward.parquet", "/published/published_2.json"] * 12:
        answer = get(clinic, path)
        assert answer.status_code == 200
        assert first.setdefault(path, answer.content) == answer.content
    assert clinic.lab.verify() == before


def test_a_released_answer_is_a_file_for_who_paid(clinic: ServedClinic) -> None:
    entry = clinic.ask("SELECT COUNT(*) AS n FROM visits WHERE cost < 100", epsilon=0.5).json()["entry"]
    path = f"/releases/{entry}/answer.csv"
    own = get(clinic, path, "analyst")
    assert (own.status_code, pd.read_csv(io.BytesIO(own.content)).columns[0]) == (200, "n")
    assert get(clinic, path, "steward").content == own.content
    assert get(clinic, path, "public").status_code == 401
    assert get(clinic, path, "auditor").json()["code"] == "SF-W103"


def test_a_name_moves_to_what_is_published_later(clinic: ServedClinic) -> None:
    clinic.lab.publish("SELECT COUNT(*) AS n FROM visits", epsilon=0.25, name="total")
    first = get(clinic, "/published/total.json").json()
    clinic.lab.publish("SELECT COUNT(*) AS n FROM visits", epsilon=0.125, name="total")
    again = get(clinic, "/published/total.json").json()
    assert first["entry"] < again["entry"]
    assert first["digest"] != again["digest"]


def test_synthetic_rows_are_a_file_too(clinic: ServedClinic) -> None:
    clinic.lab.publish(sf.synth.Twin(), table="visits", rows=20, name="made_up")
    made = pd.read_csv(io.BytesIO(get(clinic, "/published/made_up.csv").content))
    assert (len(made), set(made)) == (20, {"patient_id", "cost", "ward", "day"})
    assert get(clinic, "/published/made_up.json").json()["entry"] is None


def test_columns_have_one_of_six_types_and_names_of_their_own() -> None:
    table = pa.table(
        [
            pa.array([1], pa.uint8()),
            pa.array([1.5], pa.float32()),
            pa.array(["a"]).dictionary_encode(),
            pa.array([date(2026, 1, 1)]),
        ],
        names=["n", "N", "text", "day"],
    )
    found = tabulate_answer(table)
    assert {each.name: str(each.type) for each in found.schema} == {
        "n": "int64",
        "N_2": "double",
        "text": "string",
        "day": "date32[day]",
    }


def test_names() -> None:
    assert simplify_name("Visits (2026)") == "visits_2026"
    assert simplify_name("2026") == "t_2026"
    assert simplify_name("") == "t_"
    assert len(simplify_name("x" * 200)) == 60
    assert make_unique(["n", "N", "n", "m"]) == ["n", "N_2", "n_3", "m"]
