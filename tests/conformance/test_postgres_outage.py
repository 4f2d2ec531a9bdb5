"""A server that is stopped and started again: nothing is charged while it is down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.conformance.servers import Server

import sfumato as sf
from sfumato.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server.make()
    server.start()
    yield server
    server.stop()


@pytest.mark.slow
def test_a_server_that_is_down_is_not_charged_for(server: Server, tmp_path: Path) -> None:
    with psycopg.connect(server.address) as connection:
        connection.execute("CREATE TABLE visits AS SELECT g AS who, g % 9 AS x FROM generate_series(1, 99) g")
    lab = sf.create(tmp_path / "lab")
    address = f"postgresql://postgres@/postgres?host={server.folder}#public.visits"
    columns = {"x": sf.between(0, 10, step=1)}
    lab.register(
        "visits", address, unit=sf.Unit("who", max_rows=1), columns=columns, budget=sf.Budget(epsilon=9)
    )
    session = lab.session()
    for number in range(3):
        query = session.sql(f"SELECT COUNT(*) AS n FROM visits WHERE x > {number}")
        spent = lab.ledger.read_spent("population:who")
        server.stop()
        for _ in range(30):
            with pytest.raises(EngineError, match="SF-C221"):
                query.release(epsilon=1)
        assert lab.ledger.read_spent("population:who") == spent
        server.start()
        query.release(epsilon=1)
    assert lab.ledger.verify().charges == 3
