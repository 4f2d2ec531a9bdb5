"""The process that runs SQL over an answer: it has the released numbers, and no file, network or extension.

It imports nothing of ours, so that it starts quickly and holds nothing else. `answer_sql.py` starts it.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
from typing import Any

import duckdb
import pyarrow as pa

_SETTINGS = {
    "enable_external_access": "false",
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "extension_directory": "",
    "home_directory": "",
    "secret_directory": "none",
    "python_enable_replacements": "false",
    "temp_directory": "",
    "threads": "1",
}


class RefusedError(Exception):
    """A text that is not one SELECT."""


def main() -> None:
    """Read one request from standard input, and write one reply to standard output."""
    sent: Any = sys.stdin.buffer
    header = json.loads(sent.readline())
    tables = [pa.ipc.open_stream(sent).read_all() for _ in range(header["tables"])]
    most = header["bytes"]
    # A text that repeats itself without end takes memory that DuckDB does not count.
    resource.setrlimit(resource.RLIMIT_AS, (8 * most, 8 * most))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    connection = duckdb.connect(config={**_SETTINGS, "memory_limit": f"{most // 2**20}MiB"})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET lock_configuration = true")
    for name, table in zip(("answer", "draws"), tables, strict=False):
        connection.register("sent", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM sent")  # noqa: S608  our own names
        connection.unregister("sent")
    for text in header["texts"]:
        _reply(connection, text, header)


def _reply(connection: Any, text: str, header: dict[str, Any]) -> None:
    timer = threading.Timer(header["seconds"], connection.interrupt)
    timer.start()
    try:
        found = _select(connection, text, header["rows"])
        said: dict[str, Any] = {"answered": True}
    except (duckdb.Error, pa.ArrowException, MemoryError, RefusedError) as problem:
        found, said = None, {"kind": type(problem).__name__, "error": str(problem)[:400]}
    finally:
        timer.cancel()
    out: Any = sys.stdout.buffer
    out.write(json.dumps(said).encode() + b"\n")
    if found is not None:
        with pa.ipc.new_stream(out, found.schema) as stream:
            stream.write_table(found)
    out.flush()


def _select(connection: Any, text: str, most_rows: int) -> pa.Table:
    statements = connection.extract_statements(text)
    if [each.type for each in statements] != [duckdb.StatementType.SELECT]:
        raise RefusedError
    relation = connection.sql(statements[0].query).limit(most_rows + 1)
    table = relation.to_arrow_table()
    if table.num_rows > most_rows:
        raise RefusedError(f"at most {most_rows:,} rows")
    return _simplify(table)


def _simplify(table: pa.Table) -> pa.Table:
    """Return the table with the types that answers have."""
    columns = [_simplify_column(column) for column in table.columns]
    return pa.table(columns, names=table.column_names)


def _simplify_column(column: Any) -> Any:
    kind = column.type
    if pa.types.is_decimal(kind):
        whole = kind.scale == 0
        try:
            return column.cast(pa.int64() if whole else pa.float64())
        except pa.ArrowInvalid:
            return column.cast(pa.float64())
    if pa.types.is_integer(kind):
        return column.cast(pa.float64() if kind == pa.uint64() else pa.int64(), safe=False)
    if pa.types.is_floating(kind):
        return column.cast(pa.float64())
    return column


if __name__ == "__main__":
    main()
