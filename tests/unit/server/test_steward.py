"""What stewards and auditors do over HTTP."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from serving import ServedClinic, serve_clinic
from sfumato.server.settings import ServerSettings

DECLARED: dict[str, Any] = {
    "unit": {"column": "who", "max_rows": 1},
    "columns": {
        "day": {"between": ["2024-01-01", "2024-12-31"]},
        "kind": {"one_of": ["x", "y"]},
        "size": {"between": [0, 10.5]},
    },
    "budget": {"epsilon": "0.5", "delta": 1e-9},
}
ROWS = pa.table(
    {"who": [1, 2, 3], "day": ["2024-03-01"] * 3, "kind": ["x", "y", "z"], "size": [1.0, 2.0, 99.0]}
)


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("steward")
    (folder / "data" / "deep").mkdir(parents=True)
    pyarrow.parquet.write_table(ROWS, folder / "data" / "deep" / "events.parquet")
    pyarrow.parquet.write_table(ROWS, folder / "secret.parquet")
    (folder / "data" / "link.parquet").symlink_to(folder / "secret.parquet")
    settings = ServerSettings("http://testserver", sources=(folder / "data",), most_upload_bytes=20_000)
    with serve_clinic(folder / "clinic", settings) as served:
        yield served


def register(
    clinic: ServedClinic, name: str, source: dict[str, str], path: str = "/api/tables", **more: Any
) -> Any:
    body = {"name": name, "source": source} | (more or {"declaration": DECLARED})
    body |= {"confirm_losses": True} if path == "/api/tables" else {}
    return clinic.send("POST", path, "steward", json=body)


def send_csv(clinic: ServedClinic, content: bytes) -> Any:
    return clinic.send("POST", "/api/uploads?format=csv", "steward", content=content)


def test_the_part_of_delta_is_declared_over_http(clinic: ServedClinic) -> None:
    declared = {
        "unit": {"column": "who", "max_rows": 2, "of": "guests"},
        "columns": {"kind": {"one_of": ["a", "b"], "constant": True}},
        "budget": {"epsilon": 1, "delta": "1e-6", "side_share": "0.25"},
    }
    made = register(clinic, "guests", {"path": "deep/events.parquet"}, declaration=declared)
    assert made.status_code == 200, made.text
    account = clinic.send("GET", "/api/budget", "steward").json()["accounts"]["population:guests"]
    assert account["side_delta"] == 2.5e-7
    place = "/api/tables/guests/advance"
    source = {"source": {"path": "deep/events.parquet"}, "confirm_losses": True}
    assert clinic.send("POST", place, "steward", json=source).status_code == 200
    assert clinic.send("DELETE", "/api/tables/guests", "steward").status_code == 200


def test_a_table_from_a_folder_of_the_machine(clinic: ServedClinic) -> None:
    assert clinic.send("GET", "/api/sources", "steward").json() == {
        "sources": ["deep/events.parquet", "link.parquet"],
        "databases": [],
    }
    source = {"path": "deep/events.parquet"}
    checked = register(clinic, "events", source, "/api/tables/check").json()
    assert (checked["rows"], checked["columns"]["kind"]["unlisted"]) == (3, 1)
    drafted = clinic.send("POST", "/api/tables/draft", "steward", json={"source": source})
    assert "who" in drafted.text
    made = register(clinic, "events", source).json()
    assert made["report"]["columns"]["size"]["above"] == 1
    shown = clinic.send("GET", "/api/tables/events", "steward").json()
    assert [each["type"] for each in shown["columns"]] == ["date", "text", "number"]
    again = {"source": source, "confirm_losses": True}
    moved = clinic.send("POST", "/api/tables/events/advance", "steward", json=again)
    assert moved.json()["report"]["rows"] == 3
    assert clinic.send("GET", "/api/tables/events", "steward").json()["snapshot"] == 2
    assert register(clinic, "events", source).json()["code"] == "SF-C110"
    assert clinic.send("DELETE", "/api/tables/events", "steward").json() == {"dropped": "events"}
    assert clinic.send("GET", "/api/tables/events", "steward").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "../secret.parquet",
        "link.parquet",
        "/etc/passwd",
        "deep",
        "no.parquet",
        "deep/*.parquet",
        "a\x00b",
        "x" * 999,
    ],
)
def test_files_outside_of_the_folders_are_not_read(clinic: ServedClinic, path: str) -> None:
    answer = register(clinic, "outside", {"path": path})
    assert (answer.status_code, answer.json()["code"]) == (404, "SF-W124")


def test_a_table_that_is_sent(clinic: ServedClinic) -> None:
    file = io.BytesIO()
    pyarrow.csv.write_csv(ROWS, file)
    sent = send_csv(clinic, file.getvalue()).json()
    assert sent["bytes"] == len(file.getvalue())
    kept = clinic.lab.folder / "uploads" / sent["upload"]
    assert kept.stat().st_mode & 0o077 == 0
    schema = 'unit = "row"\n[columns.kind]\none_of = ["x", "y"]\n[budget]\nepsilon = 1\n'
    made = register(clinic, "sent", {"upload": sent["upload"]}, schema=schema).json()
    assert made["report"]["rows"] == 3
    assert not kept.exists()
    assert register(clinic, "more", {"upload": sent["upload"]}).json()["code"] == "SF-U101"
    assert register(clinic, "more", {"upload": "../people.sqlite"}).json()["code"] == "SF-U101"


def test_sent_files_have_an_end(clinic: ServedClinic) -> None:
    assert send_csv(clinic, b"x" * 20_001).json()["code"] == "SF-W105"
    parts = (b"x" * 1000 for _ in range(30))
    assert clinic.send("POST", "/api/uploads?format=csv", "steward", content=parts).status_code == 413
    folder = clinic.lab.folder / "uploads"
    assert list(folder.iterdir()) == []
    old = folder / send_csv(clinic, b"a\n1\n").json()["upload"]
    import os

    os.utime(old, (time.time() - 90_000,) * 2)
    send_csv(clinic, b"a\n1\n")
    assert not old.exists()


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"declaration": {"unit": "row"}, "schema": ""}, "SF-U104"),
        ({"schema": "="}, "SF-C127"),
        ({"declaration": {"units": "row"}}, "SF-C127"),
        ({"declaration": {"unit": {"column": 5, "max_rows": []}}}, None),
        ({"declaration": {"columns": {"kind": {"one_of": [[], {}]}}}}, None),
        ({"declaration": {"columns": {"kind": {"between": [None, "x"]}}}}, None),
        ({"declaration": {"budget": {"epsilon": "NaN"}}}, None),
        ({"declaration": {"budget": {"epsilon": "1e99999999"}}}, None),
        ({"declaration": {"budget": []}}, "SF-C127"),
        ({"declaration": {"rows": {}}}, None),
    ],
)
def test_declarations_that_cannot_be_right(
    clinic: ServedClinic, more: dict[str, Any], code: str | None
) -> None:
    answer = register(clinic, "wrong", {"path": "deep/events.parquet"}, **more)
    assert answer.status_code in (400, 403)
    assert code in (None, answer.json()["code"])


def test_people_tokens_and_quotas(clinic: ServedClinic) -> None:
    def send(method: str, path: str, **body: Any) -> Any:
        return clinic.send(method, path, "steward", json=body or None).json()

    assert send("POST", "/api/people", name="eve", role="analyst") == {
        "name": "eve",
        "role": "analyst",
        "has_password": False,
    }
    made = send("POST", "/api/people/eve/tokens", days=1)
    eve = {"Authorization": f"Bearer {made['token']}"}
    assert clinic.client.get("/api/me", headers=eve).json() == {"name": "eve", "role": "analyst"}
    assert clinic.client.get("/api/budget", headers=eve).status_code == 403
    granted = send("POST", "/api/grants", analyst="eve", epsilon="1/4", tables=["visits"])
    assert granted["quotas"]["quota:patient_id:eve"]["epsilon"] == 0.25
    assert "eve" in [each["analyst"] for each in send("GET", "/api/grants")["grants"]]
    assert clinic.client.get("/api/budget", headers=eve).status_code == 200
    assert send("DELETE", "/api/grants/eve") == {"revoked": "eve"}
    assert clinic.client.get("/api/budget", headers=eve).status_code == 403
    send("POST", "/api/people/eve/password", password="four random words here")
    assert clinic.context.people.check_password("eve", "four random words here") is not None
    assert made["token"] not in json.dumps(send("GET", "/api/tokens"))
    send("DELETE", f"/api/tokens/{made['id']}")
    assert clinic.client.get("/api/me", headers=eve).status_code == 401
    assert send("DELETE", "/api/people/eve") == {"removed": "eve"}
    assert "eve" not in json.dumps(send("GET", "/api/people"))


def test_auditors_read_verify_and_export_the_ledger(clinic: ServedClinic, tmp_path: Path) -> None:
    clinic.ask(epsilon=0.5)
    first = clinic.send("GET", "/api/ledger?limit=2", "auditor").json()
    rest = clinic.send("GET", f"/api/ledger?after={first['next']}&limit=1000", "auditor").json()
    numbers = [each["entry"] for each in (*first["entries"], *rest["entries"])]
    verified = clinic.send("GET", "/api/ledger/verify", "auditor").json()
    assert numbers == list(range(1, verified["entries"] + 1))
    assert rest["next"] is None
    exported = clinic.send("GET", "/api/ledger/export", "auditor")
    assert exported.headers["content-type"] == "application/x-ndjson"
    assert len(exported.text.splitlines()) == verified["entries"]


def test_everyone_reads_what_was_published(clinic: ServedClinic) -> None:
    sql = "SELECT COUNT(*) AS n FROM visits"
    made = clinic.send(
        "POST", "/api/publications", "steward", json={"sql": sql, "spend": {"epsilon": "1/3"}}
    ).json()
    read = clinic.send("GET", "/api/publications", "public").json()["publications"]
    assert read[0]["question"] == sql
    assert read[0]["answer"]["columns"] == made["columns"]


def test_health_and_metrics(clinic: ServedClinic) -> None:
    assert clinic.send("GET", "/healthz", "public").json() == {"status": "ok"}
    text = clinic.send("GET", "/metrics", "auditor").text
    assert 'sfumato_requests_total{method="GET",route="/healthz",status="200"} ' in text
    assert "visits" not in text
