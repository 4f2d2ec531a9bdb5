"""PostgreSQL: snapshots in a schema of the lab's own, answered by the server that has the data."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sfumato.engines.postgres.connection import open_reader, open_writer
from sfumato.engines.postgres.prepare import (
    build_snapshot,
    remove_snapshot,
    survey_source,
)
from sfumato.engines.postgres.run import answer_program, require_snapshots
from sfumato.engines.postgres.sources import list_columns, list_required, parse_address
from sfumato.engines.rows import list_scans
from sfumato.engines.snapshot import GraphPreparation
from sfumato.engines.watch import watch_run
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.engines.program import Answer, EngineProgram
    from sfumato.engines.snapshot import Preparation, SourceSurvey

__all__ = ["PostgresEngine"]


class PostgresEngine:
    """Keeps each snapshot as tables that only their owner may read, and reads them in read-only transactions.

    `dsn` is the address of the database, `schema` the lab's own in it. `folder` is where the lab says which
    questions are to be ended.
    """

    def __init__(self, dsn: str, schema: str, folder: Path | None = None) -> None:
        self.dsn = dsn
        self.schema = schema
        self.folder = folder

    def prepare(
        self, source: Any, preparation: Preparation | GraphPreparation, snapshot: str, *, survey: bool = False
    ) -> SourceSurvey | None:
        """Make the snapshot durable under this name, or leave nothing behind.

        The source is postgresql://user@host/database#schema.table, with the engine's own database.
        """
        if isinstance(preparation, GraphPreparation):
            raise UsageError(
                "SF-C213", "A graph is not prepared in PostgreSQL.", try_="a parquet file with its edges"
            )
        return build_snapshot(source, preparation, self.schema, snapshot, survey)

    def survey(self, source: Any, preparation: Preparation) -> SourceSurvey:
        """Return exact counts of what would be read, for the steward alone. Nothing is kept."""
        return survey_source(source, preparation)

    def list_columns(self, source: Any) -> dict[str, str]:
        """Return what kind of values each column of a source has, by the source's own types and no row."""
        address = parse_address(source)
        with open_writer(address.dsn) as connection:
            return list_columns(connection, address)

    def list_required(self, source: Any) -> frozenset[str]:
        """Return the columns that the source declares to have a value in every row."""
        address = parse_address(source)
        with open_writer(address.dsn) as connection:
            return list_required(connection, address)

    def check(self, program: EngineProgram[Any]) -> None:
        """Raise EngineError unless the snapshots of a program can be opened now. No row is read."""
        require_snapshots(program, self.dsn, self.schema)

    def run(self, program: EngineProgram[Answer]) -> Answer:
        """Return exact integers, in the shape that the program says."""
        with open_reader(self.dsn) as connection:
            names = {scan.snapshot for scan in list_scans(program.rows)}
            with watch_run(partial(connection.cancel_safe, timeout=2), self.folder, names):
                return answer_program(program, connection, self.schema)

    def erase(self, snapshot: str) -> None:
        """Remove a snapshot; one that is not there is no error."""
        with open_writer(self.dsn) as connection:
            remove_snapshot(connection, self.schema, snapshot)
