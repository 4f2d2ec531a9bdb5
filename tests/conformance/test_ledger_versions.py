"""A ledger states its version, and one of another version is refused and left alone."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING

import pytest
from tests.conformance import servers
from tests.conformance.stores import KINDS

from sfumato.errors import LedgerError
from sfumato.ledger import PostgresLedger, SqliteLedger

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_numbers = count()


@pytest.fixture(params=KINDS)
def ledger(
    request: pytest.FixtureRequest, tmp_path: Path
) -> tuple[Callable[[], object], Callable[[str], None]]:
    """A new ledger: how it is opened, and how its tables are changed by others."""
    if request.param == "sqlite":
        path = tmp_path / "ledger.sqlite"
        SqliteLedger.create(path).close()

        def change(sql: str) -> None:
            with closing(sqlite3.connect(path)) as db:
                db.executescript(sql)

        return lambda: SqliteLedger.open(path).close(), change
    import psycopg

    address, schema = servers.running().address, f"versions_{os.getpid()}_{next(_numbers)}"
    PostgresLedger.create(address, schema=schema, key=tmp_path / "key").close()

    def alter(sql: str) -> None:
        with psycopg.connect(address, options=f"-c search_path={schema}") as db:
            db.execute(sql.encode())

    return lambda: PostgresLedger.open(address, schema=schema).close(), alter


@pytest.mark.parametrize(
    ("version", "sentence"),
    [(9, "This ledger was made by a newer version"), (4, "is not a ledger of this version")],
)
def test_a_ledger_of_another_version_is_refused(
    ledger: tuple[Callable[[], object], Callable[[str], None]], version: int, sentence: str
) -> None:
    open_it, change = ledger
    open_it()
    change(f"UPDATE ledger SET version = {version}")
    with pytest.raises(LedgerError, match=f"SF-L103 .*{sentence}"):
        open_it()
    change("UPDATE ledger SET version = 5")
    open_it()
