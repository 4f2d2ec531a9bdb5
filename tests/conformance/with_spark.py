"""The same table on DuckDB and on Spark, and what each of them stores of it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from conformance.both_engines import Both, comparable
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.snapshot import Preparation
from sfumato.engines.spark import Folder, SparkEngine


@dataclass(frozen=True)
class Beside:
    duck: DuckDBEngine
    spark: SparkEngine
    session: Any

    @classmethod
    def at(cls, folder: Path, session: Any) -> Beside:
        duck = DuckDBEngine(folder / "lab", threads=1)
        return cls(duck, SparkEngine(Folder(folder / "spark")), session)

    def prepare(self, source: pa.Table, preparation: Preparation, snapshot: str) -> None:
        self.duck.prepare(source, preparation, snapshot)
        self.spark.prepare(self.frame(source), preparation, snapshot)

    def frame(self, source: pa.Table) -> Any:
        """By a file, which keeps Arrow's types."""
        path = self.duck.folder.with_name(f"source-{secrets.token_hex(4)}.parquet")
        pq.write_table(source, path)
        return self.session.read.parquet(str(path))

    def stored(self, snapshot: str) -> tuple[Any, Any]:
        return Both._in_duckdb(self, snapshot), self._in_spark(snapshot)  # type: ignore[arg-type]

    def run(self, program: Any) -> tuple[Any, Any]:
        return tuple(comparable(program, engine.run(program)) for engine in (self.duck, self.spark))

    def _in_spark(self, snapshot: str) -> Any:
        """As `both_engines` has it of the others."""
        folder = self.spark.place._whole(snapshot)
        rows = _tuples(folder / "rows")
        if not (folder / "units").exists():
            return sorted((row[2:] for row in rows), key=repr), None
        people = {
            unit: (str(UUID(bytes=person)), count, block)
            for unit, person, count, block in _tuples(folder / "units")
        }
        kept = sorted(((people[unit][0], *rest) for unit, *rest in rows), key=repr)
        return kept, sorted(people.values())


def _tuples(folder: Path) -> list[tuple[Any, ...]]:
    table = pq.read_table(folder)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
