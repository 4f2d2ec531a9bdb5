"""All the engines of a lab: a snapshot lies where its source was, in a database, or in a file of ours."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.rows import scans
from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.engines.preparation import GraphPreparation, Preparation
    from sfumato.engines.program import Asked, Engine

HERE = "duckdb"
"""The home of snapshots in the lab's own folder."""


class Engines:
    """An engine made of others. Only snapshots of one home are read together.

    Addresses of databases hold passwords. They are in one file that only its owner may read, by snapshot.
    """

    def __init__(self, folder: Path, schema: str) -> None:
        self._duckdb = DuckDBEngine(folder / "snapshots")
        self._addresses = folder / "databases.json"
        self._schema = schema

    def home(self, source: Any) -> str:
        """What tells apart the places where snapshots lie, and tells nothing else."""
        address = _address(source)
        return HERE if address is None else f"postgres:{_digest(address)}"

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

    def run(self, program: Asked) -> Any:
        """Exact integers, in the shape that the program says."""
        known = self._known()
        addresses = [known.get(scan.snapshot) for scan in scans(program.rows)]
        return self._engine(addresses[0]).run(program)

    def erase(self, snapshot: str) -> None:
        """Remove a snapshot; one that is not there is no error."""
        self._engine(self._known().get(snapshot)).erase(snapshot)
        self._forget(snapshot)

    def _engine(self, address: str | None) -> Engine:
        from sfumato.engines.postgres import PostgresEngine

        return self._duckdb if address is None else PostgresEngine(address, self._schema)

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
        fresh = self._addresses.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(known, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._addresses)


def _address(source: Any) -> str | None:
    """The database of a source that is in one."""
    from sfumato.engines.postgres.sources import is_address, parse

    return parse(source).dsn if is_address(source) else None


def _digest(address: str) -> str:
    """Of the database alone: two users of one have one home."""
    from sfumato.engines.postgres.connection import identity

    return sha256(repr(identity(address)).encode()).hexdigest()[:12]
