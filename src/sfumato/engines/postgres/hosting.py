"""PostgreSQL among the engines of a lab: which sources it prepares, and where their snapshots lie."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from sfumato.engines.postgres import PostgresEngine
from sfumato.engines.postgres.connection import identify_database, open_writer
from sfumato.engines.postgres.sources import is_address, list_tables_of, parse_address

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "LACKS",
    "NAME",
    "RUNS_APART",
    "is_address",
    "is_source",
    "list_tables",
    "locate_snapshots",
    "name_home",
    "open_engine",
]

NAME = "PostgreSQL"
LACKS = {"graphs": "SF-C213"}
RUNS_APART = True


def is_source(source: object) -> bool:
    """Return whether this is the address of a table in PostgreSQL."""
    return is_address(source)


def locate_snapshots(source: str) -> str:
    """Return the address of the database that has the table."""
    return parse_address(source).dsn


def name_home(address: str) -> str:
    """Return a name of the database alone: two users of one have one home."""
    return f"postgres:{sha256(repr(identify_database(address)).encode()).hexdigest()[:12]}"


def list_tables(address: str) -> dict[str, str]:
    """Return the tables and views of a database that its user may read: the source of each, by its name."""
    with open_writer(address) as connection:
        return {name: f"{address}#{name}" for name in list_tables_of(connection)}


def open_engine(address: str, folder: Path, schema: str) -> PostgresEngine:
    """Return the engine of a database, with snapshots in this schema."""
    return PostgresEngine(address, schema, folder)
