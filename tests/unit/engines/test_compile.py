from __future__ import annotations

import pytest

from sfumato.engines.duckdb.compile import compile_program
from sfumato.engines.program import (
    Among,
    AtLeast,
    AtMost,
    Every,
    Key,
    Missing,
    Not,
    Present,
    Program,
    Rows,
    Some,
    Square,
    Units,
    Value,
    Weight,
)

COLUMNS = {"cost; DROP TABLE rows": "c0", "ward": "c1", "grade": "c2"}
COST = "cost; DROP TABLE rows"


ALL = Every(())
COUNT = (Rows(),)


def compiled(where=ALL, keys=(), terms=COUNT) -> str:
    return compile_program(Program("visits-1", where, keys, terms), COLUMNS)


def test_a_count():
    assert compiled() == (
        "SELECT CAST(0 AS BIGINT), CAST(count(*) AS HUGEINT) FROM snapshot.rows WHERE (true) GROUP BY ()"
    )


def test_a_group_by():
    sql = compiled(AtLeast(COST, 3), (Key("ward", 4), Key("grade", 9)), (Value(COST, -2),))
    assert sql == (
        "SELECT ((CAST(0 AS BIGINT) * 4 + c1) * 9 + c2), "
        "CAST(COALESCE(sum(c0), 0) - CAST(-2 AS HUGEINT) * count(c0) AS HUGEINT) FROM snapshot.rows "
        "WHERE (c0 >= 3) AND (c1 BETWEEN 0 AND 3) AND (c2 BETWEEN 0 AND 8) GROUP BY c1, c2"
    )


@pytest.mark.parametrize(
    ("predicate", "sql"),
    [
        (AtMost(COST, -7), "c0 <= -7"),
        (AtMost(COST, 10**40), f"c0 <= {2**62}"),
        (Among("ward", (1, 3)), "c1 IN (1, 3)"),
        (Among("ward", ()), "c1 <> c1"),
        (Missing("ward"), "c1 IS NULL"),
        (Not(Missing("ward")), "NOT (c1 IS NULL)"),
        (Every((Missing("ward"), AtLeast(COST, 1))), "(c1 IS NULL) AND (c0 >= 1)"),
        (Some((Missing("ward"), AtLeast(COST, 1))), "(c1 IS NULL) OR (c0 >= 1)"),
        (Some(()), "false"),
    ],
)
def test_predicates(predicate, sql):
    assert f"WHERE ({sql}) GROUP BY" in compiled(predicate)


@pytest.mark.parametrize(
    ("term", "sql"),
    [
        (Units(), "count(DISTINCT unit)"),
        (Present("ward"), "count(c1)"),
        (Weight("ward", (5, -1)), "COALESCE(sum(w0[CAST(c1 AS BIGINT) + 1]), 0)"),
    ],
)
def test_terms(term, sql):
    assert f"CAST({sql} AS HUGEINT)" in compiled(terms=(term,))


def test_weights_stand_beside_the_rows():
    sql = compiled(terms=(Rows(), Weight("ward", (5, -1))))
    assert "FROM snapshot.rows, (SELECT CAST('[5, -1]' AS BIGINT[]) AS w1) AS lists WHERE" in sql


@pytest.mark.parametrize(
    "term",
    [
        Value(COST, 2**62 + 1),
        Weight("ward", (0, -(2**63))),
        Square(COST, 2**62 + 1, 0),
        Square(COST, 0, 127),
        Square(COST, 0, -1),
    ],
)
def test_what_could_overflow_is_refused(term):
    with pytest.raises(OverflowError):
        compiled(terms=(term,))


@pytest.mark.parametrize(
    "program",
    [
        {"where": AtLeast(COST, "0); DROP TABLE rows; --")},
        {"where": Among("ward", ("0) OR (true",))},
        {"terms": (Value(COST, "0"),)},
        {"terms": (Weight("ward", ("0",)),)},
        {"terms": (Square(COST, "0", 0),)},
        {"terms": (Square(COST, 0, "0"),)},
        {"keys": (Key("ward", "4) OR (true"),)},
    ],
)
def test_no_text_passes_for_an_integer(program):
    with pytest.raises(TypeError):
        compiled(**program)


def test_a_column_that_was_not_declared_is_not_there():
    with pytest.raises(KeyError):
        compiled(Missing("c0"))
