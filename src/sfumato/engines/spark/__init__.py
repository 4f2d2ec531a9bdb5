"""Spark: snapshots as Parquet or as tables, answered by the cluster that has the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.engines.snapshot import GraphPreparation
from sfumato.engines.spark.connection import own_session, setting, steward_session
from sfumato.engines.spark.places import Folder, Tables
from sfumato.engines.spark.prepare import build
from sfumato.engines.spark.run import answer
from sfumato.engines.spark.sources import SCHEME, is_address, is_frame, opened
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sfumato.engines.program import EngineProgram
    from sfumato.engines.snapshot import Preparation
    from sfumato.engines.spark.places import SnapshotPlace

__all__ = ["Folder", "SparkEngine", "Tables", "is_address", "is_frame", "place_at", "snapshots_of"]

SETTING = "spark.sfumato.snapshots"
"""The catalog and schema for snapshots, where workers cannot reach the lab's folder."""


class SparkEngine:
    """Keeps each snapshot in a place that the whole cluster reads, and answers in a session of its own."""

    def __init__(self, place: SnapshotPlace) -> None:
        self.place = place

    def prepare(self, source: Any, preparation: Preparation | GraphPreparation, snapshot: str) -> None:
        """Make the snapshot durable under this name, or leave nothing behind.

        The source is a Spark DataFrame, or spark:catalog.schema.table.
        """
        if isinstance(preparation, GraphPreparation):
            raise UsageError(
                "SF-C213", "A graph is not prepared in Spark.", try_="a parquet file with its edges"
            )
        base = _session_of(source)
        build(opened(source, base), preparation, own_session(base), self.place, snapshot)

    def run(self, program: EngineProgram) -> Any:
        """Exact integers, in the shape that the program says."""
        return answer(program, own_session(steward_session()), self.place)

    def erase(self, snapshot: str) -> None:
        """Remove a snapshot; one that is not there is no error."""
        session = None if isinstance(self.place, Folder) else own_session(steward_session())
        self.place.erase(session, snapshot)


def _session_of(source: Any) -> SparkSession:
    session: SparkSession = source.sparkSession if is_frame(source) else steward_session()
    return session


# ---- where snapshots are kept ------------------------------------------------------------------------------


def snapshots_of(source: Any) -> str:
    """The address of the place for a source's snapshots: what its session was set to, else the lab's folder.

    Only a Spark that runs on this machine reaches that folder.
    """
    session = _session_of(source)
    schema = setting(session, SETTING)
    if schema is None and not str(setting(session, "spark.master")).startswith("local"):
        raise UsageError(
            "SF-C215",
            "The workers of this cluster cannot reach the lab's folder.",
            needed="a schema for the snapshots, in a catalog that the cluster knows",
            try_=f'spark.conf.set("{SETTING}", "catalog.schema")',
        )
    return f"{SCHEME}{schema or ''}"


def place_at(address: str, folder: Path) -> SnapshotPlace:
    """Where an address of `snapshots_of` leads."""
    schema = address.removeprefix(SCHEME)
    return Tables(schema) if schema else Folder(folder)
