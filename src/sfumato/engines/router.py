"""All the engines of a lab: a snapshot lies in a database or in Spark, where its source was, or in a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.limits import RunLimits, limit_more
from sfumato.engines.registry import find_host, find_host_at
from sfumato.engines.rows import list_scans
from sfumato.engines.watch import end_runs
from sfumato.errors import EngineError, SfumatoError
from sfumato.files.durable import replace_file, replace_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from sfumato.engines.program import Answer, Engine, EngineProgram
    from sfumato.engines.snapshot import GraphPreparation, Preparation, SourceSurvey

Parsed = TypeVar("Parsed")
_OTHER_LIMITS = "; or remove it, and lab.limit_questions(…)"
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
        self._limits = folder / "limits.json"
        self._schema = schema

    def home(self, source: Any) -> str:
        """Return a name that tells apart the places where snapshots lie, and tells nothing else."""
        host = find_host(source)
        return HERE if host is None else host.name_home(host.locate_snapshots(source))

    def prepare(
        self, source: Any, preparation: Preparation | GraphPreparation, snapshot: str, *, survey: bool = False
    ) -> SourceSurvey | None:
        """Make the snapshot durable under this name, or leave nothing behind.

        Where it will be is noted first, so that what an interruption leaves behind can be found.
        """
        host = find_host(source)
        if host is None:
            return self._duckdb.prepare(source, preparation, snapshot, survey=survey)
        address = host.locate_snapshots(source)
        self._note({**self._known(), snapshot: address})
        try:
            return self._engine(address).prepare(source, preparation, snapshot, survey=survey)
        except SfumatoError:
            self._forget(snapshot)  # it was refused, so there is nothing to be found
            raise

    def survey(self, source: Any, preparation: Preparation) -> SourceSurvey:
        """Return exact counts of what a source has, for the steward alone. Nothing is kept."""
        return self._engine_at(source).survey(source, preparation)

    def list_columns(self, source: Any) -> dict[str, str]:
        """Return what kind of values each column of a source has, by the source's own types and no row."""
        return self._engine_at(source).list_columns(source)

    def list_required(self, source: Any) -> frozenset[str]:
        """Return the columns that the source declares to have a value in every row."""
        return self._engine_at(source).list_required(source)

    def check(self, program: EngineProgram[Any]) -> None:
        """Raise EngineError unless the snapshots of a program can be opened now. No row is read."""
        with limit_more(self.limits):
            self._engine_of(program).check(program)

    def run(self, program: EngineProgram[Answer]) -> Answer:
        """Return exact integers, in the shape that the program says, within the lab's limits."""
        with limit_more(self.limits):
            return self._engine_of(program).run(program)

    def _engine_of(self, program: EngineProgram[Any]) -> Engine:
        # The planner refuses joins across homes, so the first snapshot's engine has them all.
        return self._engine(self._known().get(list_scans(program.rows)[0].snapshot))

    def runs_apart(self, program: EngineProgram[Any]) -> bool:
        """Return whether a process of its own can run a program, which reads nothing."""
        address = self._known().get(list_scans(program.rows)[0].snapshot)
        return address is None or find_host_at(address).RUNS_APART

    def erase(self, snapshot: str) -> None:
        """Remove a snapshot; one that is not there is no error."""
        self._engine(self._known().get(snapshot)).erase(snapshot)
        self._forget(snapshot)

    def _engine_at(self, source: Any) -> Engine:
        """Return the engine that prepares a source."""
        host = find_host(source)
        return self._engine(None if host is None else host.locate_snapshots(source))

    def _engine(self, address: str | None) -> Engine:
        if address is None:
            return self._duckdb
        return find_host_at(address).open_engine(address, self._snapshots, self._schema)

    # ---- limits ----

    @property
    def limits(self) -> RunLimits:
        """How long a question may take, and how much memory and disk, as the steward has set it."""
        return _read_json(self._limits, RunLimits.from_dict, _OTHER_LIMITS) or RunLimits()

    def set_limits(self, limits: RunLimits) -> None:
        """Set the limits of all questions that begin from now on."""
        replace_json(self._limits, limits.to_dict())

    def end_runs(self, snapshot: str) -> AbstractContextManager[None]:
        """Have every process end what it reads of a snapshot, until the block ends."""
        return end_runs(self._snapshots, snapshot)

    # ---- the file of addresses ----

    def _known(self) -> dict[str, str]:
        return _read_json(self._addresses, dict[str, str], "") or {}

    def _forget(self, snapshot: str) -> None:
        known = self._known()
        if known.pop(snapshot, None) is not None:
            self._note(known)

    def _note(self, known: dict[str, str]) -> None:
        # An address may hold a password.
        replace_file(self._addresses, json.dumps(known).encode(), private=True)


def _read_json(path: Path, parse: Callable[[dict[str, Any]], Parsed], otherwise: str) -> Parsed | None:
    """Return what a file of the lab's folder says, or none if there is none."""
    try:
        return parse(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise EngineError(
            "SF-C112",
            f"The file {path.name} in the lab's folder cannot be read, so no rows were.",
            try_=f"put it back from a copy of the folder{otherwise}",
        ) from None
