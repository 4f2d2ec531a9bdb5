"""A folder of prepared snapshots, read as they lie in their files."""

from __future__ import annotations

from dataclasses import dataclass
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
        with duckdb.connect(str(self.folder / f"{snapshot}.duckdb"), read_only=True) as connection:
            return connection.execute(sql).fetchall()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "deep" / "lab")
