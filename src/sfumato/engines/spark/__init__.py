"""Spark: snapshots as Parquet or as tables, answered by the cluster that has the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.engines.rows import list_scans
from sfumato.engines.snapshot import GraphPreparation
from sfumato.engines.spark.connection import find_steward_session, limit_run, open_own_session
from sfumato.engines.spark.places import Folder, Tables
from sfumato.engines.spark.prepare import build_snapshot, survey_source
from sfumato.engines.spark.run import answer_program
from sfumato.engines.spark.sources import is_frame, list_columns, open_source
from sfumato.engines.watch import reach_engine
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sfumato.engines.program import Answer, EngineProgram
    from sfumato.engines.snapshot import Preparation, SourceSurvey
    from sfumato.engines.spark.places import SnapshotPlace

__all__ = ["Folder", "SparkEngine", "Tables"]

_AWAY = "Spark does not start or answer, or the snapshot is not there"


class SparkEngine:
    """Keeps each snapshot in a place that the whole cluster reads, and answers in a session of its own.

    `folder` is where the lab says which questions are to be ended.
    """

    def __init__(self, place: SnapshotPlace, folder: Path | None = None) -> None:
        self.place = place
        self.folder = folder

    def prepare(
        self, source: Any, preparation: Preparation | GraphPreparation, snapshot: str, *, survey: bool = False
    ) -> SourceSurvey | None:
        """Make the snapshot durable under this name, or leave nothing behind.

        The source is a Spark DataFrame, or spark:catalog.schema.table.
        """
        if isinstance(preparation, GraphPreparation):
            raise UsageError(
                "SF-C213", "A graph is not prepared in Spark.", try_="a parquet file with its edges"
            )
        base = find_session(source)
        frame, session = open_source(source, base), open_own_session(base)
        return build_snapshot(frame, preparation, session, self.place, snapshot, survey)

    def survey(self, source: Any, preparation: Preparation) -> SourceSurvey:
        """Return exact counts of what would be read, for the steward alone. What is read is erased again."""
        base = find_session(source)
        return survey_source(open_source(source, base), preparation, open_own_session(base), self.place)

    def list_columns(self, source: Any) -> dict[str, str]:
        """Return what kind of values each column of a source has, by the source's own types and no row."""
        return list_columns(open_source(source, find_session(source)))

    def list_required(self, source: Any) -> frozenset[str]:
        """Return the columns that the source declares to have a value in every row."""
        frame = open_source(source, find_session(source))
        return frozenset(field.name for field in frame.schema.fields if not field.nullable)

    def check(self, program: EngineProgram[Any]) -> None:
        """Raise EngineError unless the snapshots of a program can be opened now. No row is read."""
        with reach_engine("Spark", _AWAY, Exception):
            session = open_own_session(find_steward_session())
            session.conf.get("spark.sql.session.timeZone")  # asks Java, or the server of Spark Connect
            for scan in list_scans(program.rows):
                self.place.description(session, scan.snapshot)

    def run(self, program: EngineProgram[Answer]) -> Answer:
        """Return exact integers, in the shape that the program says."""
        with reach_engine("Spark", _AWAY, Exception):
            session = open_own_session(find_steward_session())
        with limit_run(session, self.folder, {scan.snapshot for scan in list_scans(program.rows)}):
            return answer_program(program, session, self.place)

    def erase(self, snapshot: str) -> None:
        """Remove a snapshot; one that is not there is no error."""
        session = None if isinstance(self.place, Folder) else open_own_session(find_steward_session())
        self.place.erase(session, snapshot)


def find_session(source: Any) -> SparkSession:
    """Return the session of a frame, or for an address the one that the steward has started."""
    session: SparkSession = source.sparkSession if is_frame(source) else find_steward_session()
    return session
