"""A steward registers tables of databases that the server was given, over HTTP, and no others."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from conformance.both_engines import load
from serving import serve_clinic
from sfumato.engines.registry import list_tables
from sfumato.server.settings import ServerSettings

if TYPE_CHECKING:
    from pathlib import Path

_GONE = "postgresql://maria:a_secret@127.0.0.1:1/no"
HTML = {"accept": "text/html"}


def test_a_table_of_a_given_database_is_listed_declared_and_registered(postgres: str, tmp_path: Path) -> None:
    name = f"stays_{secrets.token_hex(4)}"
    load(postgres, name, pa.table({"who": [1, 1, 2], "days": [1, 2, 90], "kind": ["a", "b", "c"]}))
    settings = ServerSettings("http://testserver", databases=(f"{postgres}&password=a_secret", _GONE))
    with serve_clinic(tmp_path / "clinic", settings) as clinic:

        def send(method: str, path: str, **more: Any) -> Any:
            return clinic.send(method, path, "steward", headers=HTML, **more)

        listed = send("GET", "/register").text
        assert f"public.{name}" in listed
        assert "a_secret" not in listed
        # One that is out of reach hides no other source.
        assert listed.count('class="problem"') == 1
        database, gone = clinic.send("GET", "/api/sources", "steward").json()["databases"]
        assert f"public.{name}" in database["tables"]
        assert (gone["database"], gone["tables"]) == ("postgresql://maria@127.0.0.1:1/no", [])
        source = f"database:{database['database']}#public.{name}"
        assert "days" in send("GET", "/register/declare", params={"source": source}).text
        said = {"source": source, "table": "stays", "protects": "column", "unit": "who", "max_rows": "1"}
        said |= {"kind-1": "number", "low-1": "0", "high-1": "60", "epsilon": "1"}
        report = send("POST", "/register", data=said).text
        assert "stays is registered" in report
        assert clinic.lab.table("stays").home.startswith("postgres:")
        # What is not listed cannot be named: other schemas, other databases, an address of one's own.
        for wrong in (
            f"database:{database['database']}#pg_catalog.pg_authid",
            f"database:{database['database']}#public.{name}#x",
            f"database:{postgres}#public.{name}",
            f"database:#public.{name}",
        ):
            refused = send("GET", "/register/declare", params={"source": wrong})
            assert (refused.status_code, "SF-W124" in refused.text) == (404, True), wrong
        # Snapshots of labs lie in the same database, and are no sources.
        assert not any(each.startswith("sfumato_") for each in list_tables(postgres))
