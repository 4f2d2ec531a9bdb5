"""Feeds over HTTP: files, entity sets, who may read them, and that no refresh ever costs anything."""

from __future__ import annotations

import base64
import io
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from feed_clinic import ADAS, BY_WARD, make_clinic
from serving import ServedClinic, serve_clinic
from sfumato.lab.feeds.listing import find_published_feed
from sfumato.server.settings import ServerSettings

COLUMNS = ["ward", "n", "n_low", "n_high", "cost", "cost_low", "cost_high"]
EDM = "{http://docs.oasis-open.org/odata/ns/edm}"


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedClinic]:
    folder = tmp_path_factory.mktemp("feeds") / "clinic"
    fast = ServerSettings(address="http://testserver", requests_per_second=1e6, request_burst=10**6)
    with serve_clinic(folder, fast, make_clinic(folder)) as served:
        yield served


def get(clinic: ServedClinic, path: str, role: str = "public", **headers: str) -> Any:
    return clinic.send("GET", path, role, headers=headers)


def basic(clinic: ServedClinic, role: str = "analyst", name: str = "anyone") -> dict[str, str]:
    pair = base64.b64encode(f"{name}:{clinic.tokens[role]}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


# ---- files -------------------------------------------------------------------------------------------------


def test_everyone_reads_what_was_published_in_each_format(clinic: ServedClinic) -> None:
    expected = find_published_feed(clinic.lab, "by_ward").to_arrow()
    text = get(clinic, "/feeds/published/by_ward.csv")
    assert text.headers["content-type"].startswith("text/csv")
    # Arrow cannot tell a missing text from an empty one unless it is told that quotes make the difference.
    options = csv.ConvertOptions(
        strings_can_be_null=True, quoted_strings_can_be_null=False, column_types=expected.schema
    )
    assert csv.read_csv(io.BytesIO(text.content), convert_options=options).equals(expected)
    assert pd.read_csv(io.BytesIO(text.content))["n"].tolist() == expected["n"].to_pylist()
    columns = parquet.read_table(io.BytesIO(get(clinic, "/feeds/published/by_ward.parquet").content))
    assert columns.replace_schema_metadata().equals(expected)
    assert json.loads(columns.schema.metadata[b"sfumato"])["question"] == BY_WARD
    body = get(clinic, "/feeds/published/by_ward.json").json()
    assert pa.Table.from_pylist(body["rows"], schema=expected.schema).equals(expected)
    assert body["entries"] == list(find_published_feed(clinic.lab, "by_ward").card.entries)
    days = get(clinic, "/feeds/published/published_2.json").json()["rows"]
    assert [row["day"] for row in days][:2] == ["2026-01-01", "2026-01-02"]


def test_the_same_bytes_have_the_same_tag(clinic: ServedClinic) -> None:
    tags = set()
    for ending in ("csv", "parquet", "json"):
        first, again = (get(clinic, f"/feeds/published/by_ward.{ending}") for _ in range(2))
        assert first.content == again.content
        tag = first.headers["etag"]
        assert again.headers["etag"] == tag
        tags.add(tag)
        for sent in (tag, f'"x", {tag}', f"W/{tag}", "*"):
            unchanged = get(clinic, f"/feeds/published/by_ward.{ending}", **{"If-None-Match": sent})
            assert (unchanged.status_code, unchanged.content) == (304, b"")
        assert (
            get(clinic, f"/feeds/published/by_ward.{ending}", **{"If-None-Match": '"x"'}).status_code == 200
        )
    assert len(tags) == 3


def test_a_released_answer_is_for_who_paid_and_for_the_steward(clinic: ServedClinic) -> None:
    path = "/feeds/released/costly.csv"
    own = get(clinic, path, "analyst")
    assert own.status_code == 200
    assert own.headers["cache-control"] == "private, no-cache"
    assert get(clinic, f"{path}?of=ada", "analyst").content == own.content
    assert get(clinic, f"{path}?of=ada", "steward").content == own.content
    assert get(clinic, path, "public").status_code == 401
    assert "Basic" in get(clinic, path, "public").headers["www-authenticate"]
    assert get(clinic, path, "auditor").json()["code"] == "SF-W103"
    assert get(clinic, path, "steward").json()["code"] == "SF-F103"  # it has none of its own
    people = clinic.context.people
    people.add_person("bob", "analyst")
    bob = {"Authorization": f"Bearer {people.make_token('bob')}"}
    answers = [
        clinic.client.get(each, headers=bob)
        for each in (path, f"{path}?of=ada", f"{path}?of=nobody", "/feeds/released/none.csv")
    ]
    assert {each.status_code for each in answers} == {404}
    assert len({each.text.replace("costly", "none") for each in answers}) == 1


def test_spreadsheets_send_the_token_as_a_password(clinic: ServedClinic) -> None:
    for name in ("ada", "", "x y"):
        assert (
            clinic.client.get("/feeds/released/costly.csv", headers=basic(clinic, name=name)).status_code
            == 200
        )
    assert clinic.client.get("/api/tables", headers=basic(clinic)).status_code == 401  # feeds alone
    for wrong in ("Basic !", "Basic eDp5", "Basic " + base64.b64encode(b"\xff:\xff").decode(), "Digest x"):
        answer = clinic.client.get("/feeds/released/costly.csv", headers={"Authorization": wrong})
        assert (answer.status_code, answer.json()["code"]) == (401, "SF-W101")


def test_who_lost_their_quota_reads_what_everyone_reads(tmp_path: Any) -> None:
    with serve_clinic(tmp_path, None, make_clinic(tmp_path / "clinic")) as served:
        served.lab.revoke("ada")
        assert get(served, "/feeds/released/costly.csv", "analyst").json()["code"] == "SF-B103"
        assert get(served, "/feeds/published/by_ward.csv", "analyst").status_code == 200


@pytest.mark.parametrize(
    "file",
    [
        "by_ward",
        "by_ward.",
        "by_ward.xls",
        "by_ward.CSV",
        "none.csv",
        "costly.csv",
        "by_ward.csv.gz",
        "%2e%2e",
        "'",
        "a" * 90,
    ],
)
def test_other_files_are_not_there(clinic: ServedClinic, file: str) -> None:
    answer = get(clinic, f"/feeds/published/{file}")
    assert answer.status_code == 404
    assert answer.json()["code"] in ("SF-F103", "SF-F120", "SF-W106")


# ---- names for answers -------------------------------------------------------------------------------------


def test_what_is_released_has_an_address_at_once_and_can_be_named(clinic: ServedClinic) -> None:
    question = "SELECT COUNT(*) AS n FROM visits WHERE cost < 100"
    body: dict[str, Any] = {"name": "cheap", "question": {"sql": question}, "spend": {"epsilon": "0.5"}}
    refused = clinic.send("POST", "/api/feeds", json=body)
    assert (refused.status_code, refused.json()["code"]) == (403, "SF-F106")
    entry = clinic.ask(question, epsilon=0.5).json()["entry"]
    by_entry = get(clinic, f"/feeds/released/entry_{entry}.csv", "analyst")
    assert by_entry.status_code == 200
    before = clinic.lab.verify()
    kept = clinic.send("POST", "/api/feeds", json=body)
    assert kept.json()["path"] == "/feeds/released/cheap"
    assert get(clinic, "/feeds/released/cheap.csv", "analyst").content == by_entry.content
    listed = get(clinic, "/feeds", "analyst").json()["feeds"]
    assert {"cheap", f"entry_{entry}", "by_ward"} <= {each["name"] for each in listed}
    assert "cheap" not in get(clinic, "/feeds").text
    assert clinic.send("POST", "/api/feeds", json=body | {"name": "Cheap"}).json()["code"] == "SF-F101"
    assert clinic.send("DELETE", "/api/feeds/cheap").status_code == 200
    assert clinic.send("DELETE", "/api/feeds/cheap").json()["code"] == "SF-F103"
    assert clinic.lab.verify() == before


# ---- OData -------------------------------------------------------------------------------------------------


def excel(clinic: ServedClinic, path: str) -> Any:
    """A request as Excel's Power Query sends it."""
    kinds = (
        "application/json;odata.metadata=minimal;q=1.0",
        "application/json;odata=minimalmetadata;q=0.9",
        "application/atom+xml;q=0.5",
        "*/*;q=0.1",
    )
    accept = ",".join(kinds)
    headers = {"Accept": accept, "OData-MaxVersion": "4.0", "MaxDataServiceVersion": "3.0", **basic(clinic)}
    return clinic.client.get(path, headers=headers)


def test_a_spreadsheet_finds_and_loads_a_feed(clinic: ServedClinic) -> None:
    root = "http://testserver/feeds/odata"
    service = excel(clinic, "/feeds/odata/")
    assert service.headers["odata-version"] == "4.0"
    assert service.json()["@odata.context"] == f"{root}/$metadata"
    sets = {each["name"]: each["url"] for each in service.json()["value"]}
    assert {"by_ward", "published_2", "released_costly"} <= set(sets)
    metadata = ElementTree.fromstring(excel(clinic, "/feeds/odata/$metadata").content)
    kinds = {
        kind.get("Name"): {each.get("Name"): each.get("Type") for each in kind.iter(f"{EDM}Property")}
        for kind in metadata.iter(f"{EDM}EntityType")
    }
    assert kinds["by_ward"] == {"row": "Edm.Int64", "ward": "Edm.String", "n": "Edm.Int64"} | dict.fromkeys(
        COLUMNS[2:], "Edm.Double"
    )
    assert kinds["published_2"]["day"] == "Edm.Date"
    assert {each.get("Name") for each in metadata.iter(f"{EDM}EntitySet")} == set(sets)
    body = excel(clinic, "/feeds/odata/by_ward?$top=1000&$count=true").json()
    expected = find_published_feed(clinic.lab, "by_ward").to_arrow().to_pylist()
    assert body["@odata.count"] == len(expected) == 4
    assert [{name: row[name] for name in COLUMNS} for row in body["value"]] == expected
    assert excel(clinic, "/feeds/odata/released_costly").json()["value"][0]["row"] == 1
    assert excel(clinic, "/feeds/odata/by_ward/$count").text == "4"


def test_options_of_entity_sets(clinic: ServedClinic) -> None:
    def value(query: str) -> list[Any]:
        found: list[Any] = get(clinic, f"/feeds/odata/by_ward?{query}").json()["value"]
        return found

    assert [row["ward"] for row in value("$filter=ward eq 'A'&$select=ward,n")] == ["A"]
    assert list(value("$select=n,ward&$top=1")[0]) == ["n", "ward"]
    falling = [row["n"] for row in value("$orderby=n desc&$filter=n ne null")]
    assert falling == sorted(falling, reverse=True)
    assert [row["row"] for row in value("$skip=1&$top=2")] == [2, 3]
    assert value("$top=0") == []
    assert get(clinic, "/feeds/odata/by_ward(2)").json()["row"] == 2
    assert get(clinic, "/feeds/odata/by_ward/$count?$filter=ward eq 'A'").text == "1"
    exact = get(clinic, "/feeds/odata/by_ward?$top=1", Accept="application/json;IEEE754Compatible=true")
    assert isinstance(exact.json()["value"][0]["n"], str)


def test_pages_are_linked(clinic: ServedClinic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.server.feeds.odata_options.MOST_ROWS", 3)
    path, found = "/feeds/odata/by_ward?$orderby=ward desc&$filter=row gt 0", []
    while path:
        body = get(clinic, path).json()
        found += [row["row"] for row in body["value"]]
        path = body.get("@odata.nextLink", "").removeprefix("http://testserver")
    assert sorted(found) == [1, 2, 3, 4]
    assert "@odata.nextLink" not in get(clinic, "/feeds/odata/by_ward?$top=3").json()


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/feeds/odata/none", 404, "SF-F103"),
        ("/feeds/odata/released_costly", 404, "SF-F103"),
        ("/feeds/odata/by_ward(99)", 404, "SF-F103"),
        ("/feeds/odata/by_ward?$filter=salary gt 1", 400, "SF-F121"),
        ("/feeds/odata/by_ward?$top=-1", 400, "SF-F122"),
        ("/feeds/odata/by_ward?$apply=x", 400, "SF-F122"),
        ("/feeds/odata/none/$count", 404, "SF-F103"),
    ],
)
def test_errors_have_the_form_that_clients_show(
    clinic: ServedClinic, path: str, status: int, code: str
) -> None:
    answer = get(clinic, path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


# ---- the ledger --------------------------------------------------------------------------------------------


def refresh(clinic: ServedClinic, times: int) -> None:
    """Load every kind of feed again and again, as a dashboard does, and compare the ledger."""
    before, first = clinic.lab.verify(), {}
    paths = [
        "/feeds/published/by_ward.csv",
        "/feeds/published/by_ward.parquet",
        "/feeds/released/costly.json",
        "/feeds/odata/released_costly?$top=1000&$count=true",
    ]
    for path in paths * times:
        answer = excel(clinic, path)
        assert answer.status_code == 200
        assert first.setdefault(path, answer.content) == answer.content
    assert clinic.lab.verify() == before


def test_few_refreshes_cost_nothing(clinic: ServedClinic) -> None:
    refresh(clinic, 12)


@pytest.mark.slow
def test_a_thousand_refreshes_of_each_cost_nothing(clinic: ServedClinic) -> None:
    refresh(clinic, 1000)


def test_the_fixture_has_what_the_tests_say(clinic: ServedClinic) -> None:
    assert clinic.lab.session("ada").feeds()[0].card.question == ADAS
