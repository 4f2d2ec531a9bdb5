"""DuckDB: snapshots as files in a folder, answered inside this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.engines.duckdb.connection import restore_interrupts
from sfumato.engines.duckdb.prepare import (
    build_snapshot,
    name_snapshot_file,
    remove_snapshot,
    survey_source,
)
from sfumato.engines.duckdb.run import SNAPSHOTS, answer_program
from sfumato.engines.duckdb.sources import list_columns, list_required
from sfumato.engines.rows import list_scans

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.engines.program import Answer, EngineProgram
    from sfumato.engines.snapshot import GraphPreparation, Preparation, SourceSurvey

__all__ = ["DuckDBEngine"]


class DuckDBEngine:
    """Keeps each snapshot as one file that only its owner may read, and opens it read-only and locked down.

    `threads` bounds the threads of one question; the answers do not depend on it.
    """

    def __init__(self, folder: Path, *, threads: int | None = None) -> None:
        self.folder = folder
        self.threads = threads

    def prepare(
        self, source: Any, preparation: Preparation | GraphPreparation, snapshot: str, *, survey: bool = False
    ) -> SourceSurvey | None:
        """Make the snapshot durable under this name, or leave nothing behind.

        The source is a Parquet or CSV path, an Arrow table, or a pandas or polars frame.
        """
        with restore_interrupts():
            return build_snapshot(source, preparation, self._path(snapshot), self.threads, survey)

    def survey(self, source: Any, preparation: Preparation) -> SourceSurvey:
        """Return exact counts of what would be read, for the steward alone. Nothing is kept."""
        with restore_interrupts():
            return survey_source(source, preparation, self.folder, self.threads)

    def list_columns(self, source: Any) -> dict[str, str]:
        """Return what kind of values each column of a source has, by the source's own types and no row."""
        return list_columns(source)

    def list_required(self, source: Any) -> frozenset[str]:
        """Return the columns that the source declares to have a value in every row."""
        return list_required(source)

    def check(self, program: EngineProgram[Any]) -> None:
        """Raise EngineError unless the snapshots of a program can be opened now. No row is read."""
        with SNAPSHOTS.open_cursor(self._paths(program), self.threads):
            return

    def run(self, program: EngineProgram[Answer]) -> Answer:
        """Return exact integers, in the shape that the program says."""
        with restore_interrupts(), SNAPSHOTS.open_cursor(self._paths(program), self.threads) as opened:
            return answer_program(program, opened, self.folder)

    def erase(self, snapshot: str) -> None:
        """Remove a snapshot; one that is not there is no error."""
        path = self._path(snapshot)
        SNAPSHOTS.forget_file(path)
        remove_snapshot(path)

    def _paths(self, program: EngineProgram[Any]) -> dict[str, Path]:
        return {scan.snapshot: self._path(scan.snapshot) for scan in list_scans(program.rows)}

    def _path(self, snapshot: str) -> Path:
        return name_snapshot_file(self.folder, snapshot)
