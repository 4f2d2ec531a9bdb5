"""Each source has one engine, which is found without any engine's library."""

from __future__ import annotations

import pytest

from sfumato.engines.registry import find_host, find_host_at, is_address, list_hosts
from sfumato.engines.support import ENGINES, SUPPORT

POSTGRES = "postgresql://ada@db.example/clinic"


@pytest.mark.parametrize(
    ("source", "engine"),
    [
        ("visits.parquet", None),
        ("visits[1].csv", None),
        (object(), None),
        (f"{POSTGRES}#public.visits", "PostgreSQL"),
        ("spark:catalog.schema.visits", "Spark"),
    ],
)
def test_a_source_has_one_engine(source: object, engine: str | None) -> None:
    host = find_host(source)
    assert (host and host.NAME) == engine
    assert is_address(source) is (engine is not None)


def test_where_snapshots_lie_leads_back_to_the_engine() -> None:
    (postgres, spark) = list_hosts()
    address = postgres.locate_snapshots(f"{POSTGRES}#public.visits")
    assert address == POSTGRES
    assert find_host_at(address) is postgres
    assert find_host_at("spark:") is spark
    assert find_host_at("spark:catalog.schema") is spark


def test_a_home_tells_databases_apart_and_not_who_opens_them() -> None:
    postgres, _ = list_hosts()
    home = postgres.name_home(POSTGRES)
    assert home == postgres.name_home("postgresql://eve:secret@db.example/clinic")
    assert home != postgres.name_home("postgresql://ada@db.example/other")
    assert "db.example" not in home


def test_what_an_engine_lacks_is_in_the_matrix() -> None:
    assert ENGINES == ("DuckDB", "PostgreSQL", "Spark")
    lacking = {code for support in SUPPORT for code in support.lacking.values()}
    assert lacking == {code for host in list_hosts() for code in host.LACKS.values()}
