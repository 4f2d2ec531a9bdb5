"""How DuckDB is opened: alone in memory, with one snapshot file attached to it as `snapshot`.

Opening the file directly would go through a cache that all of a process shares, and a forked child would be
handed its parent's database, whose threads it does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from duckdb import DuckDBPyConnection

_ALWAYS = {
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "ieee_floating_point_ops": "true",
    "preserve_insertion_order": "false",
    "python_enable_replacements": "false",
}


def open_reader(path: Path, threads: int | None) -> DuckDBPyConnection:
    """Read-only, with no way to a file, an extension, a Python variable or a setting."""
    connection = _connect({"temp_directory": ""}, threads)  # nothing read from a snapshot reaches a disk
    connection.execute(f"ATTACH {literal(str(path))} AS snapshot (READ_ONLY)")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def open_writer(path: Path, spill: Path, threads: int | None) -> DuckDBPyConnection:
    """A new snapshot file; what does not fit in memory goes to the folder `spill`."""
    connection = _connect({"temp_directory": str(spill)}, threads)
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"ATTACH {literal(str(path))} AS snapshot")
    return connection


def literal(text: str) -> str:
    """The SQL literal of a text."""
    return "'" + text.replace("'", "''") + "'"


def _connect(settings: Mapping[str, str], threads: int | None) -> DuckDBPyConnection:
    import duckdb

    config: dict[str, Any] = {**_ALWAYS, **settings}
    if threads is not None:
        config["threads"] = str(threads)
    return duckdb.connect(":memory:", config=config)
