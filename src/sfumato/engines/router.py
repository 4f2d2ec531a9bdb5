"""All the engines of a lab: a snapshot lies in a database or in Spark, where its source was, or in a file."""

from __future__ import annotations

import json
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.rows import scans
from sfumato.errors import SfumatoError
from sfumato.files.durable import replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.engines.program import Engine, EngineProgram
    from sfumato.engines.snapshot import GraphPreparation, Preparation

HERE = "duckdb"
"""The home of snapshots in the lab's own folder."""


class EngineRouter:
    """An engine made of others. Only snapshots of one home are read together.

    Addresses of databases hold passwords. They are in one file that only its owner may read, by snapshot.
    """

    def __init__(self, folder: Path, schema: str) -> None:
        self._duckdb = DuckDBEngine(folder / "snapshots")
        self._snapshots = folder / "snapshots"
        self._addresses = folder / "databases.json"
        self._schema = schema

    def home(self, source: Any) -> str:
        """What tells apart the places where snapshots lie, and tells nothing else."""
        address = _address(source)
        return HERE if address is None else _home(address)

    def prepare(self, source: Any, preparation: Preparation | GraphPreparation, snapshot: str) -> None:
        """Make the snapshot durable under this name, or leave nothing behind.

        Where it will be is noted first, so that what an interruption leaves behind can be found.
        """
        address = _address(source)
        if address is None:
            self._duckdb.prepare(source, preparation, snapshot)
            return
        self._note({**self._known(), snapshot: address})
        try:
            self._engine(address).prepare(source, preparation, snapshot)
        except SfumatoError:
            self._forget(snapshot)  # it was refused, so there is nothing to be found
            raise

    def run(self, program: EngineProgram) -> Any:
        """Exact integers, in the shape that the program says."""
        known = self._known()
        addresses = [known.get(scan.snapshot) for scan in scans(program.rows)]
        return self._engine(addresses[0]).run(program)

    def erase(self, snapshot: str) -> None:
        """Remove a snapshot; one that is not there is no error."""
        self._engine(self._known().get(snapshot)).erase(snapshot)
        self._forget(snapshot)

    def _engine(self, address: str | None) -> Engine:
        from sfumato.engines.spark.sources import is_address

        if address is None:
            return self._duckdb
        return self._spark(address) if is_address(address) else self._postgres(address)

    def _postgres(self, address: str) -> Engine:
        from sfumato.engines.postgres import PostgresEngine

        return PostgresEngine(address, self._schema)

    def _spark(self, address: str) -> Engine:
        from sfumato.engines.spark import SparkEngine, place_at

        return SparkEngine(place_at(address, self._snapshots))

    # ---- the file of addresses ----

    def _known(self) -> dict[str, str]:
        with suppress(FileNotFoundError):
            found: dict[str, str] = json.loads(self._addresses.read_text(encoding="utf-8"))
            return found
        return {}

    def _forget(self, snapshot: str) -> None:
        known = self._known()
        if known.pop(snapshot, None) is not None:
            self._note(known)

    def _note(self, known: dict[str, str]) -> None:
        # An address may hold a password.
        replace_file(self._addresses, json.dumps(known).encode(), private=True)


def is_address(source: Any) -> bool:
    """Whether a text is the address of a table, and not a path."""
    from sfumato.engines.postgres import sources as postgres
    from sfumato.engines.spark import sources as spark

    return postgres.is_address(source) or spark.is_address(source)


def _address(source: Any) -> str | None:
    """Where the snapshot of a source will be: its database, or a place that Spark can reach."""
    from sfumato.engines.postgres import sources as postgres
    from sfumato.engines.spark import sources as spark

    if postgres.is_address(source):
        return postgres.parse(source).dsn
    if spark.is_frame(source) or spark.is_address(source):
        from sfumato.engines.spark import snapshots_of

        return snapshots_of(source)
    return None


def _home(address: str) -> str:
    """Of the database alone: two users of one have one home."""
    from sfumato.engines.postgres.connection import identity
    from sfumato.engines.spark.sources import is_address

    if is_address(address):
        return address
    return f"postgres:{sha256(repr(identity(address)).encode()).hexdigest()[:12]}"
