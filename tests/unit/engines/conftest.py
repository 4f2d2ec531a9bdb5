"""A folder of prepared snapshots, read as they lie in their files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sfumato.engines.duckdb import prepare


@dataclass(frozen=True)
class Store:
    folder: Path

    def prepare(self, source: Any, preparation: Any, snapshot: str, threads: int | None = None) -> None:
        prepare.build_snapshot(source, preparation, self.folder / f"{snapshot}.duckdb", threads)

    def read(self, sql: str, snapshot: str = "t") -> list[tuple[Any, ...]]:
        path = self.folder / f"{snapshot}.duckdb"
        with _find_reader().cursor() as cursor:
            cursor.execute(f"ATTACH '{path}' AS snapshot (READ_ONLY)")
            try:
                return cursor.execute(f"USE snapshot; {sql}").fetchall()
            finally:
                cursor.execute("USE memory")
                cursor.execute("DETACH snapshot")


@cache
def _find_reader() -> duckdb.DuckDBPyConnection:
    """Open DuckDB once for all tests, because to open it takes longer than most of them."""
    return duckdb.connect(config={"threads": 1})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "deep" / "lab")
