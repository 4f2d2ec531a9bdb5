"""Preparing a graph: from a list of edges to one row for each node, with its degree.

    rows(unit, c0)             a node with a kept edge, numbered in no particular order, and its degree
    columns(declared, stored, reach)  that `degree` is c0, and nothing of how large it is

Which edges are kept, and why one node cannot change much by it, is in docs/proofs/graphs.md.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.engines.duckdb.sources import Kind, scan_source, unreadable_source
from sfumato.engines.duckdb.stored import write_as_text
from sfumato.engines.ingest import EXACT_BELOW
from sfumato.engines.snapshot import DEGREE
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from sfumato.engines.snapshot import GraphPreparation

    Codes = NDArray[np.int64]


def write_degrees(connection: DuckDBPyConnection, source: Any, preparation: GraphPreparation) -> None:
    """Write the stored tables of a graph's snapshot."""
    _read(connection, source, preparation)
    left, right, nodes = _in_order(connection, preparation)
    degrees = count_kept_degrees(left, right, nodes, preparation.max_degree)
    _store(connection, degrees[degrees > 0])


# ---- reading: a row's two ends, by rules that look at one row ----------------------------------------------


def _read(connection: DuckDBPyConnection, source: Any, preparation: GraphPreparation) -> None:
    """Make the temporary table `ends`, both as texts, so that 7 is one node in either column."""
    import duckdb

    names = (preparation.left, preparation.right)
    with scan_source(connection, source, names) as rows:
        first, second = (write_as_text(f"s{i}", kind) for i, kind in enumerate(rows.kinds))
        sql = f"CREATE TEMP TABLE ends AS SELECT {first} AS a, {second} AS b FROM {rows.relation}"  # noqa: S608
        try:
            connection.execute(sql)
        except duckdb.OperationalError:
            raise  # the machine's disk or memory, not the source
        except duckdb.Error:
            raise unreadable_source("it is damaged, or has rows that do not fit its header") from None
    for end, name, kind in zip("ab", names, rows.kinds, strict=True):
        if kind is Kind.FLOAT:
            _refuse_rounded(connection, end, name)


def _refuse_rounded(connection: DuckDBPyConnection, end: str, name: str) -> None:
    """Refuse long integers that became doubles beside a missing value: two nodes may share a number."""
    rounded = f"SELECT count(*) FROM ends WHERE abs(TRY_CAST({end} AS DOUBLE)) >= {EXACT_BELOW}"  # noqa: S608
    if connection.execute(rounded).fetchall() != [(0,)]:
        raise UsageError(
            "SF-C205",
            f"The identifiers in '{name}' are floating-point numbers too large to tell nodes apart.",
            limit="2^53, about 16 digits",
            try_="read the column as integers or as text before it is rounded",
        )


# ---- the set of edges, in an order that is the same in every graph -----------------------------------------


def _in_order(connection: DuckDBPyConnection, preparation: GraphPreparation) -> tuple[Codes, Codes, int]:
    """Return the ends of each edge as numbers below the number of nodes.

    The order is that of a keyed md5 of both identifiers, and of these where two are equal: a place before or
    after another edge depends on these two edges alone. Where all edges are kept there is no order.
    """
    connection.execute("""
        CREATE TEMP TABLE edges AS SELECT DISTINCT least(a, b) AS a, greatest(a, b) AS b
        FROM ends WHERE a <> '' AND b <> '' AND a <> b""")
    connection.execute("DROP TABLE ends")
    connection.execute("""
        CREATE TEMP TABLE nodes AS SELECT node, row_number() OVER () - 1 AS code
        FROM (SELECT a AS node FROM edges UNION SELECT b FROM edges)""")
    # The length tells (ab, c) from (a, bc).
    digest = f"md5_number(concat('{_key(preparation)}:', length(a), ':', a, ':', b))"
    place = "0" if preparation.max_degree is None else f"row_number() OVER (ORDER BY {digest}, a, b)"
    found = connection.sql(f"""
        SELECT x.code AS x, y.code AS y, {place} AS place
        FROM edges JOIN nodes AS x ON a = x.node JOIN nodes AS y ON b = y.node""").to_arrow_table()  # noqa: S608
    left, right, places = (column.to_numpy() for column in found.columns)
    order = np.argsort(places)
    nodes = connection.execute("SELECT count(*) FROM nodes").fetchall()[0][0]
    return left[order], right[order], nodes


def _key(preparation: GraphPreparation) -> str:
    return hmac.new(preparation.key, b"edge", "sha256").hexdigest()[:32]


# ---- which edges are kept ----------------------------------------------------------------------------------


def count_kept_degrees(left: Codes, right: Codes, nodes: int, most: int | None) -> Codes:
    """Return the degree of every node by kept edges: in their order, one is if both ends have room."""
    degrees = _degrees(left, right, nodes)
    if most is None or degrees.max(initial=0) <= most:
        return degrees
    crowded = degrees > most
    doubtful = crowded[left] | crowded[right]
    kept = _degrees(left[~doubtful], right[~doubtful], nodes)  # at both ends there is room for all edges
    return _filled(kept, left[doubtful], right[doubtful], most)


def _degrees(left: Codes, right: Codes, nodes: int) -> Codes:
    return np.bincount(left, minlength=nodes) + np.bincount(right, minlength=nodes)


def _filled(degrees: Codes, left: Codes, right: Codes, most: int) -> Codes:
    """Add one edge after the other. An end that is not crowded has room, whatever it counts already."""
    counts = degrees.tolist()
    for one, other in zip(left.tolist(), right.tolist(), strict=True):
        if counts[one] < most and counts[other] < most:
            counts[one] += 1
            counts[other] += 1
    return np.asarray(counts, dtype=np.int64)


def _store(connection: DuckDBPyConnection, degrees: Codes) -> None:
    import pyarrow

    connection.register("degrees", pyarrow.table({"unit": np.arange(len(degrees)), "c0": degrees}))
    connection.execute("CREATE TABLE snapshot.rows AS SELECT unit, c0 FROM degrees")
    connection.execute("CREATE TABLE snapshot.columns (declared VARCHAR, stored VARCHAR, reach BIGINT)")
    connection.execute("INSERT INTO snapshot.columns VALUES (?, ?, NULL)", [DEGREE, "c0"])
