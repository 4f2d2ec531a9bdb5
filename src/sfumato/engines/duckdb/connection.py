"""How DuckDB is opened: alone in memory, with snapshot files attached to it.

Opening the file directly would go through a cache that all of a process shares, and a forked child would be
handed its parent's database, whose threads it does not have.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sfumato.engines.limits import current_limits
from sfumato.errors import DiskError
from sfumato.files.disk_errors import full_disk_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
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

PREPARING_MEMORY = 2 * 2**30
"""Bytes that DuckDB may take to prepare a snapshot; the rest goes to disk, and takes an eighth more processor
time. The process takes some 0.2 GiB beside them. Privacy does not depend on it."""
_FULL = ("No space left on device", "Disk quota exceeded", "File too large")
_BLIND = {"common_subexpressions", "unused_columns"}
"""The optimizers that look at the query and at no data."""


def open_reader(
    paths: Mapping[str, Path], threads: int | None, spill: Path | None = None
) -> DuckDBPyConnection:
    """Open snapshots by these names, read-only, with no way to a file, an extension or a setting.

    What does not fit in memory goes to the folder `spill`; without one, no row reaches a disk.
    """
    limits = current_limits()
    settings = {
        "memory_limit": f"{limits.bytes_in_memory // 2**20}MiB",
        "temp_directory": "" if spill is None else str(spill),
    }
    connection = _connect(settings, threads)
    # DuckDB 2.0 shows this setting when it is given on opening, and does not keep to it.
    connection.execute(f"SET max_temp_directory_size = '{limits.spill // 2**20}MiB'")
    for name, path in paths.items():
        connection.execute(f"ATTACH {quote_text(str(path))} AS {name} (READ_ONLY)")
    # In this order: after the lock nothing can be attached or set, not even by a query of ours.
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def open_writer(path: Path, spill: Path, threads: int | None) -> DuckDBPyConnection:
    """Open a new snapshot file; what does not fit in memory goes to the folder `spill`.

    Expressions are computed row by row as written. Optimizers fold them by the smallest and largest values
    of a whole file, which do not count NaN, and so would let one row change how the others are read.
    """
    memory = min(PREPARING_MEMORY, current_limits().bytes_in_memory)
    settings = {"temp_directory": str(spill), "memory_limit": f"{memory // 2**20}MiB"}
    connection = _connect(settings, threads)
    connection.execute("SET TimeZone = 'UTC'")
    optimizers = [name for (name,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()]
    connection.execute(f"SET disabled_optimizers = {quote_text(','.join(sorted({*optimizers} - _BLIND)))}")
    connection.execute(f"ATTACH {quote_text(str(path))} AS snapshot")
    return connection


@contextmanager
def name_shortage() -> Iterator[None]:
    """Say in words of ours that memory or disk ran out; DuckDB's words may hold paths and rows."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException:
        raise DiskError(
            "SF-C223",
            "The table is too large to be prepared with the memory and disk that are there.",
            try_="free some of either, then the same call again",
        ) from None
    except duckdb.Error as problem:
        if any(words in str(problem) for words in _FULL):
            raise full_disk_error() from None
        raise


@contextmanager
def restore_interrupts() -> Iterator[None]:
    """Raise Ctrl-C as itself: DuckDB raises an error of its own in its place."""
    try:
        yield
    except RuntimeError as problem:
        if str(problem) == "Query interrupted":
            raise KeyboardInterrupt from problem
        raise


def quote_text(text: str) -> str:
    """Return the SQL literal of a text."""
    return "'" + text.replace("'", "''") + "'"


def _connect(settings: Mapping[str, str], threads: int | None) -> DuckDBPyConnection:
    import duckdb

    config: dict[str, Any] = {**_ALWAYS, **settings}
    if threads is not None:
        config["threads"] = str(threads)
    return duckdb.connect(":memory:", config=config)
