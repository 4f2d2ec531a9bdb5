"""The engines beside DuckDB: to add one, write its folder and name it in `list_hosts`.

DuckDB takes every source that no other engine claims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.engines.program import Engine


class EngineHost(Protocol):
    """What the module `hosting` of an engine's folder holds.

    `is_source` and `is_address` are asked about every source, so they do without the engine's library.
    """

    NAME: str
    """The engine's name in docs/engines.md."""

    LACKS: dict[str, str]
    """The code of the error for each kind of question, as support.py calls it, that the engine lacks."""

    RUNS_APART: bool
    """Whether any process can open the engine, and not only the one that the steward started it in."""

    def is_source(self, source: object) -> bool:
        """Return whether this engine prepares the source."""

    def is_address(self, source: object) -> bool:
        """Return whether this is a text that this engine understands: a source, or where snapshots lie."""

    def locate_snapshots(self, source: Any) -> str:
        """Return the address where snapshots of a source will lie."""

    def name_home(self, address: str) -> str:
        """Return a name for that place, which tells it apart from others and tells nothing else."""

    def list_tables(self, address: str) -> dict[str, str]:
        """Return the tables at the address of a database or schema: the source of each, by its name."""

    def open_engine(self, address: str, folder: Path, schema: str) -> Engine:
        """Return the engine of an address, for a lab with this folder of snapshots and schema."""


def list_hosts() -> tuple[EngineHost, ...]:
    """Return the engines beside DuckDB, imported when they are asked for."""
    from sfumato.engines.postgres import hosting as postgres
    from sfumato.engines.spark import hosting as spark

    return postgres, spark


def find_host(source: object) -> EngineHost | None:
    """Return the engine that prepares a source; none where DuckDB does."""
    return next((host for host in list_hosts() if host.is_source(source)), None)


def find_host_at(address: str) -> EngineHost:
    """Return the engine of an address that `locate_snapshots` gave."""
    return next(host for host in list_hosts() if host.is_address(address))


def list_tables(address: str) -> dict[str, str]:
    """Return the tables at the address of a database or schema: the source of each, by its name."""
    return find_host_at(address).list_tables(address)


def is_address(source: object) -> bool:
    """Return whether a text is the address of a table, and not a path."""
    return any(host.is_address(source) for host in list_hosts())
