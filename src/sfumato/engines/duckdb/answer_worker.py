"""The process that runs SQL over an answer: it has the released numbers, and no file, network or extension.

It imports nothing of ours, so that it starts quickly and holds nothing else. `answer_sql.py` starts it.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
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


_AGAIN = 0.1
"""Seconds after which a SELECT that was interrupted is interrupted again: it may not have begun before."""


class RefusedError(Exception):
    """A text that is not one SELECT."""


class TimeLimit:
    """Interrupts whatever a connection runs in its `with` block once its time is over.

    One thread serves all blocks. Of threads that are started for one block each, several may exist at a time
    on a busy machine, and every thread takes a sixteenth of the address space that the process may have.
    """

    def __init__(self, connection: Any, seconds: float) -> None:
        self._connection, self._seconds = connection, seconds
        self._turn = threading.Condition()
        self._deadline: float | None = None
        threading.Thread(target=self._watch, daemon=True).start()

    def __enter__(self) -> None:
        with self._turn:
            self._deadline = time.monotonic() + self._seconds
            self._turn.notify()

    def __exit__(self, *_: object) -> None:
        with self._turn:
            self._deadline = None

    def _watch(self) -> None:
        with self._turn:
            while True:
                if self._deadline is None:
                    self._turn.wait()
                elif (left := self._deadline - time.monotonic()) > 0:
                    self._turn.wait(left)
                else:
                    self._connection.interrupt()
                    self._turn.wait(_AGAIN)


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
    limit = TimeLimit(connection, header["seconds"])
    for text in header["texts"]:
        _reply(connection, text, limit, header["rows"])


def _reply(connection: Any, text: str, limit: TimeLimit, most_rows: int) -> None:
    try:
        with limit:
            found = _select(connection, text, most_rows)
        said: dict[str, Any] = {"answered": True}
    except (duckdb.Error, pa.ArrowException, MemoryError, RefusedError) as problem:
        found, said = None, {"kind": type(problem).__name__, "error": str(problem)[:400]}
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
