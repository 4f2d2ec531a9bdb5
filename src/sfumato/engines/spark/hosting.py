"""Spark among the engines of a lab: which sources it prepares, and where their snapshots lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.engines.spark import Folder, SparkEngine, Tables, find_session
from sfumato.engines.spark.connection import read_setting
from sfumato.engines.spark.places import SETTING, unreachable_folder
from sfumato.engines.spark.sources import SCHEME, is_address, is_frame, list_tables_of

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

NAME = "Spark"
LACKS = {"graphs": "SF-C213"}
RUNS_APART = False


def is_source(source: object) -> bool:
    """Return whether this is a frame of Spark's, or the address of a table in its catalogs."""
    return is_frame(source) or is_address(source)


def locate_snapshots(source: Any) -> str:
    """Return the address of the schema that the source's session was set to, else of the lab's folder.

    Only a Spark that runs on this machine reaches that folder; preparing makes sure of it.
    """
    session = find_session(source)
    schema = read_setting(session, SETTING)
    if schema is None and not str(read_setting(session, "spark.master")).startswith("local"):
        raise unreachable_folder()
    return f"{SCHEME}{schema or ''}"


def name_home(address: str) -> str:
    """Return the address itself: it names a schema and holds no secret."""
    return address


def list_tables(address: str) -> dict[str, str]:
    """Return the tables and views of a schema: the source of each, by its name."""
    schema = address.removeprefix(SCHEME)
    return {name: f"{SCHEME}{schema}.{name}" for name in list_tables_of(find_session(address), schema)}


def open_engine(address: str, folder: Path, schema: str) -> SparkEngine:
    """Return the engine of a place for snapshots: a schema that the cluster knows, or the lab's folder."""
    tables = address.removeprefix(SCHEME)
    return SparkEngine(Tables(tables) if tables else Folder(folder), folder)
