"""The SQL that a program becomes: our words, stored names, integers and hexadecimal digits."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from sfumato.engines.compile import Layout, compile_program
from sfumato.engines.duckdb.dialect import DuckDBDialect
from sfumato.engines.program import (
    CellHistogram,
    CellHistograms,
    CellKey,
    CellSums,
    Counted,
    CountedUnits,
    KeyedSums,
    Present,
    Total,
    UnitFigures,
)
from sfumato.engines.rows import ALL, Bounded, Joined, PerUnit, Scan, Smallest, UnitSizes
from sfumato.engines.values import (
    Add,
    Among,
    AtLeast,
    AtMost,
    Calendar,
    Choose,
    Column,
    Constant,
    Divide,
    Either,
    Every,
    Folded,
    Greatest,
    Least,
    Length,
    Less,
    Lookup,
    Matches,
    Missing,
    Multiply,
    Not,
    Same,
    Some,
    Spelled,
    UnitBlock,
)

NAME = "cost; DROP TABLE rows"
COLUMNS = {NAME: "c0", "ward": "c1", "note": "c2"}
TEXTS = frozenset({"note"})
LAYOUTS = {
    "visits": Layout("snapshot0.rows", "snapshot0.units", COLUMNS, has_places=True, texts=TEXTS),
    "stays": Layout("snapshot1.rows", "snapshot1.units", COLUMNS, has_places=False, texts=TEXTS),
    "wards": Layout("snapshot2.rows", None, COLUMNS, has_places=False, texts=TEXTS),
}
COST, WARD, NOTE = (Column(0, name) for name in COLUMNS)
COUNT = (Counted(),)
VISITS = Scan("visits")


def compiled(where=ALL, keys=(), terms=COUNT, rows=VISITS) -> str:
    return compile_program(CellSums(rows, where, keys, terms), LAYOUTS, DuckDBDialect())


def test_a_count():
    assert compiled() == (
        "SELECT CAST(0 AS BIGINT), CAST(count(*) AS HUGEINT) "
        "FROM (SELECT unit, place FROM snapshot0.rows) AS source0 WHERE (true) GROUP BY ()"
    )


def test_a_group_by_stored_columns():
    sql = compiled(AtLeast(COST, 3), (CellKey(WARD, 4), CellKey(NOTE, 9)), (Total(Add(COST, Constant(-2))),))
    assert sql == (
        "SELECT ((CAST(0 AS BIGINT) * 4 + r0_n2) * 9 + r0_n1), "
        "CAST(COALESCE(sum(r0_n0), 0) + CAST(-2 AS HUGEINT) * count(r0_n0) AS HUGEINT) "
        "FROM (SELECT unit, place, c0 AS r0_n0, c2 AS r0_n1, c1 AS r0_n2 FROM snapshot0.rows) AS source0 "
        "WHERE (r0_n0 >= 3) AND (r0_n2 BETWEEN 0 AND 3) AND (r0_n1 BETWEEN 0 AND 8) GROUP BY r0_n2, r0_n1"
    )


def test_a_group_by_a_shifted_column():
    assert compiled(keys=(CellKey(Add(WARD, Constant(1)), 4),)).endswith(
        "WHERE (true) AND (r0_n0 BETWEEN -1 AND 2) GROUP BY r0_n0"
    )


def test_a_group_by_something_computed():
    assert compiled(keys=(CellKey(Multiply(WARD, Constant(2)), 4),)).endswith(
        "WHERE (true) AND ((CAST(r0_n0 AS HUGEINT) * CAST(2 AS HUGEINT)) BETWEEN 0 AND 3) GROUP BY 1"
    )


@pytest.mark.parametrize(
    ("value", "sql"),
    [
        (Multiply(COST, COST), "(CAST(r0_n0 AS BIGINT) * CAST(r0_n0 AS BIGINT))"),
        (Multiply(COST, Constant(2**40)), "(CAST(r0_n0 AS HUGEINT) * CAST(1099511627776 AS HUGEINT))"),
        (
            Multiply(Add(COST, Constant(1)), Constant(2**40)),
            "(CAST((CAST(r0_n0 AS BIGINT) + CAST(1 AS BIGINT)) AS HUGEINT) * CAST(1099511627776 AS HUGEINT))",
        ),
        (
            Multiply(Constant(0), Constant(2**62)),
            "(CAST(0 AS HUGEINT) * CAST(4611686018427387904 AS HUGEINT))",
        ),
        (Add(WARD, Constant(1)), "(CAST(r0_n0 AS HUGEINT) + CAST(1 AS HUGEINT))"),
    ],
)
def test_what_fits_is_computed_in_64_bits(value, sql):
    """Of WARD nothing is known here."""
    layouts = {"visits": replace(LAYOUTS["visits"], reaches={NAME: 2**30})}
    program = CellSums(Scan("visits"), ALL, (), (Smallest(value),))
    assert f"min({sql})" in compile_program(program, layouts, DuckDBDialect())


def test_a_count_of_rows_is_not_the_column_of_that_name():
    """So a bound of the one says nothing of the other."""
    layouts = {"visits": replace(LAYOUTS["visits"], reaches={"rows": 1})}
    rows = Column(0, "rows")
    program = CellSums(UnitSizes("visits", 0), ALL, (), (Total(Multiply(rows, rows)),))
    assert "BIGINT) *" not in compile_program(program, layouts, DuckDBDialect())


@pytest.mark.parametrize(
    ("program", "sql"),
    [
        (
            CellHistogram(Scan("visits"), ALL, (CellKey(WARD, 4),), COST, 10),
            (
                "SELECT CAST((CAST(0 AS BIGINT) * 4 + r0_n1) * 10 + r0_n0 AS USMALLINT) "
                "FROM (SELECT unit, place, c0 AS r0_n0, c1 AS r0_n1 FROM snapshot0.rows) AS source0 "
                "WHERE (true) AND (r0_n1 BETWEEN 0 AND 3) AND (r0_n0 BETWEEN 0 AND 9)"
            ),
        ),
        (
            CellHistograms(Scan("visits"), ALL, (CellKey(WARD, 4),), (COST, WARD), 10),
            (
                "SELECT place, count(*) FROM (SELECT unnest([CASE WHEN r0_n0 BETWEEN 0 AND 9 THEN "
                "CAST(((CAST(0 AS BIGINT) * 4 + r0_n1) * 2 + 0) * 10 + r0_n0 AS BIGINT) END, "
                "CASE WHEN r0_n1 BETWEEN 0 AND 9 THEN "
                "CAST(((CAST(0 AS BIGINT) * 4 + r0_n1) * 2 + 1) * 10 + r0_n1 AS BIGINT) END]) AS place "
                "FROM (SELECT unit, place, c0 AS r0_n0, c1 AS r0_n1 FROM snapshot0.rows) AS source0 "
                "WHERE (true) AND (r0_n1 BETWEEN 0 AND 3)) AS places WHERE place IS NOT NULL GROUP BY place"
            ),
        ),
        (
            KeyedSums(Scan("visits"), ALL, (NOTE,), (Counted(),)),
            (
                "SELECT r0_n0, CAST(count(DISTINCT unit) AS HUGEINT), CAST(count(*) AS HUGEINT) "
                "FROM (SELECT unit, place, c2 AS r0_n0 FROM snapshot0.rows) AS source0 "
                "WHERE (true) AND (r0_n0 IS NOT NULL) GROUP BY 1"
            ),
        ),
        (
            UnitFigures(Scan("visits"), ALL, (Smallest(COST),)),
            (
                "SELECT CAST(min(r0_n0) AS HUGEINT) "
                "FROM (SELECT unit, place, c0 AS r0_n0 FROM snapshot0.rows) AS source0 "
                "WHERE true GROUP BY unit"
            ),
        ),
    ],
)
def test_other_programs(program, sql):
    assert compile_program(program, LAYOUTS, DuckDBDialect()) == sql


@pytest.mark.parametrize(
    ("rows", "sql"),
    [
        (UnitSizes("visits"), "SELECT unit, least(rows, 1048576) AS r0_n0 FROM snapshot0.units"),
        (
            Joined(Scan("visits"), Scan("wards", 1), ((WARD, Column(1, "ward")),), optional=True),
            (
                "SELECT l.unit, l.place, r0_n1, r1_n2 "
                "FROM (SELECT unit, place, c1 AS r0_n1 FROM snapshot0.rows) AS l "
                "LEFT JOIN (SELECT unit, c1 AS r1_n2 FROM snapshot2.rows) AS r ON (r0_n1 = r1_n2)"
            ),
        ),
        (
            Joined(Scan("visits"), Scan("visits", 1), same_unit=True),
            (
                "SELECT l.unit, l.place FROM (SELECT unit, place FROM snapshot0.rows) "
                "AS l JOIN (SELECT unit, place FROM snapshot0.rows) AS r ON (l.unit = r.unit)"
            ),
        ),
        (
            Joined(Scan("visits"), Scan("stays", 1), same_unit=True),
            (
                "SELECT l.unit, l.place FROM (SELECT unit, place FROM snapshot0.rows) AS l JOIN ("
                "SELECT own.unit AS unit "
                "FROM (SELECT unit FROM snapshot1.rows) AS inner_ "
                "JOIN snapshot1.units AS other ON other.unit = inner_.unit "
                "JOIN snapshot0.units AS own ON own.person = other.person) AS r ON (l.unit = r.unit)"
            ),
        ),
        (
            PerUnit(Scan("visits"), AtMost(COST, 7), (WARD,), (Counted(), Total(COST)), 1),
            (
                "SELECT unit, min(place) AS place, r0_n1 AS r1_k0 "
                "FROM (SELECT unit, place, c0 AS r0_n2, c1 AS r0_n1 FROM snapshot0.rows) AS source0 "
                "WHERE r0_n2 <= 7 GROUP BY unit, r0_n1"
            ),
        ),
    ],
)
def test_where_rows_come_from(rows, sql):
    names = " ".join(
        compiled(
            rows=rows, terms=(Total(Column(0, "rows")),) if rows == UnitSizes("visits") else COUNT
        ).split()
    )
    assert _numbered(sql) in _numbered(names)


WHOLE = "a_b\\%"


def _hex(text: str) -> str:
    return f"decode(from_hex('{text.encode().hex()}'))"


def _numbered(sql: str) -> str:
    """Columns by the order in which they stand there."""
    order: dict[str, str] = {}
    return re.sub(r"(?<=r\d_)n\d+", lambda found: order.setdefault(found[0], f"x{len(order)}"), sql)


def test_bounding_orders_by_place_and_where_there_is_none_by_what_is_looked_at():
    placed = compiled(rows=Bounded(Scan("visits"), ALL, (WARD,), 2, 3), keys=(CellKey(WARD, 4),))
    assert "row_number() OVER (PARTITION BY unit, r0_n0 ORDER BY place) AS nth_row" in placed
    assert "dense_rank() OVER (PARTITION BY unit ORDER BY first_row, r0_n0 NULLS LAST) AS nth_cell" in placed
    assert "WHERE nth_row <= 3" in placed
    assert "WHERE nth_cell <= 2" in placed
    joined = Joined(Scan("stays"), Scan("wards", 1), ((WARD, Column(1, "ward")),))
    without = compiled(rows=Bounded(joined, ALL, (), 2, 3), terms=(Present(Column(1, NAME)),))
    tied = ", ".join(f"{column} NULLS LAST" for column in ("r0_n0", "r1_n1", "r1_n2"))
    assert f"row_number() OVER (PARTITION BY unit ORDER BY 1, {tied}) AS nth_row" in without


@pytest.mark.parametrize(
    ("value", "sql"),
    [
        (Multiply(COST, Constant(3)), "(CAST(r0_n0 AS HUGEINT) * CAST(3 AS HUGEINT))"),
        (Divide(COST, Constant(3)), "(CAST(r0_n0 AS HUGEINT) // CAST(3 AS HUGEINT))"),
        (Divide(COST, WARD), "(CAST(r0_n0 AS HUGEINT) // nullif(CAST(r0_n1 AS HUGEINT), 0))"),
        (
            Least(COST, WARD),
            "CASE WHEN (r0_n0 IS NOT NULL) AND (r0_n1 IS NOT NULL) THEN least(r0_n0, r0_n1) END",
        ),
        (
            Greatest(COST, Greatest(WARD, Constant(3))),
            (
                "CASE WHEN (r0_n0 IS NOT NULL) AND (r0_n1 IS NOT NULL) "
                "THEN greatest(r0_n0, r0_n1, CAST(3 AS HUGEINT)) END"
            ),
        ),
        (Either(COST, Constant(None)), "COALESCE(CAST(r0_n0 AS HUGEINT), CAST(NULL AS HUGEINT))"),
        (Lookup(WARD, (5, None)), "CAST('[5, NULL]' AS BIGINT[])[greatest(CAST(r0_n0 AS BIGINT), -1) + 1]"),
        (
            Choose(Missing(COST), Constant(1), COST),
            "CASE WHEN r0_n0 IS NULL THEN CAST(1 AS HUGEINT) ELSE CAST(r0_n0 AS HUGEINT) END",
        ),
        (Calendar(COST, "weekday"), "isodow(DATE '1970-01-01' + CAST(r0_n0 AS INTEGER))"),
        (UnitBlock(0, 50), "((CAST(r0_n0 AS BIGINT) * 50) >> 16)"),
    ],
)
def test_values(value, sql):
    assert f"CAST(count({sql}) AS HUGEINT)" in compiled(terms=(Present(value),))


def test_letters_of_ascii_are_translated():
    small, large = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    assert f"length(translate(c2, '{small}', '{large}'))" in compiled(
        terms=(Total(Length(Folded(NOTE, True))),)
    )
    assert f"length(translate(c2, '{large}', '{small}'))" in compiled(
        terms=(Total(Length(Folded(NOTE, False))),)
    )


@pytest.mark.parametrize(
    ("predicate", "sql"),
    [
        (AtMost(COST, -7), "r0_n0 <= -7"),
        (AtMost(COST, 10**40), f"r0_n0 <= {2**62}"),
        (Among(WARD, (1, 3)), "r0_n0 IN (1, 3)"),
        (Among(WARD, ()), "r0_n0 <> r0_n0"),
        (
            Among(WARD, tuple(range(21))),
            f"r0_n0 IN (SELECT unnest(CAST('{list(range(21))}' AS BIGINT[])))",
        ),
        (Less(COST, WARD), "r0_n0 < r0_n1"),
        (Same(COST, WARD), "r0_n0 = r0_n1"),
        (Missing(WARD), "r0_n0 IS NULL"),
        (Not(Missing(WARD)), "NOT (r0_n0 IS NULL)"),
        (Every((Missing(COST), AtLeast(COST, 1))), "(r0_n0 IS NULL) AND (r0_n0 >= 1)"),
        (Some((Missing(COST), AtLeast(COST, 1))), "(r0_n0 IS NULL) OR (r0_n0 >= 1)"),
        (Some(()), "false"),
    ],
)
def test_predicates(predicate, sql):
    assert f"WHERE ({sql}) GROUP BY" in compiled(predicate)


@pytest.mark.parametrize(
    ("predicate", "test"),
    [
        (
            Spelled(NOTE, ("x'; --", "é")),
            "c2 IN (decode(from_hex('78273b202d2d')), decode(from_hex('c3a9')))",
        ),
        (Spelled(NOTE, ()), "c2 <> c2"),
        (Matches(NOTE, "a%"), "c2 LIKE decode(from_hex('6125'))"),
        (Matches(NOTE, "a_b\\%"), f"c2 LIKE {_hex(WHOLE)} ESCAPE '\\'"),
    ],
)
def test_texts_are_tested_where_they_are_read(predicate, test):
    sql = compiled(predicate)
    assert f"(SELECT unit, place, ({test}) AS r0_t0 FROM snapshot0.rows) AS source0 WHERE (r0_t0)" in sql


def test_no_text_goes_through_a_join_or_a_window():
    joined = Joined(Scan("visits"), Scan("visits", 1), (), same_unit=True, optional=True)
    where = Every((Matches(NOTE, "%a%b"), Not(Spelled(Column(1, "note"), ("x",)))))
    terms = (Present(Column(1, "note")), Total(Choose(Missing(Folded(NOTE, True)), COST, Length(NOTE))))
    sql = compiled(rows=Bounded(joined, where, (WARD,), 2, 3), terms=terms)
    assert sql.count("c2") == 5  # once in each test
    assert re.findall(r"c2 AS", sql) == []
    assert "CASE WHEN c2 IS NOT NULL THEN 1 END AS r1_t" in sql
    # A row that the join makes up has no text, and so no outcome of a test.
    assert re.search(r"count\(r1_t\d\)", sql)


def test_units_are_counted_once():
    assert "CAST(count(DISTINCT unit) AS HUGEINT)" in compiled(terms=(CountedUnits(),))


@pytest.mark.parametrize(
    "value",
    [Add(COST, Constant(2**120 + 1)), Divide(COST, Constant(-(2**121))), Lookup(WARD, (0, -(2**63)))],
)
def test_what_could_overflow_is_refused(value):
    with pytest.raises(OverflowError):
        compiled(terms=(Total(value),))


@pytest.mark.parametrize(
    "program",
    [
        {"where": AtLeast(COST, "0); DROP TABLE rows; --")},
        {"where": Among(WARD, ("0) OR (true",))},
        {"where": Spelled(NOTE, (7,))},
        {"terms": (Total(Add(COST, Constant("0"))),)},
        {"terms": (Total(Lookup(WARD, ("0",))),)},
        {"terms": (Total(Calendar(COST, "year(now()) --")),)},
        {"terms": (Total(UnitBlock(0, "2")),)},
        {"keys": (CellKey(WARD, "4) OR (true"),)},
        {"rows": Bounded(Scan("visits"), ALL, (), 1, "1) OR (true")},
        {"rows": Bounded(Scan("visits"), ALL, (WARD,), "1) OR (true", 1)},
    ],
)
def test_no_text_passes_for_an_integer(program):
    with pytest.raises((TypeError, ValueError, KeyError, AttributeError)):
        compiled(**program)


def test_a_column_that_was_not_declared_is_not_there():
    with pytest.raises(KeyError):
        compiled(Missing(Column(0, "c0")))


def test_rows_that_add_to_no_term_are_left_out_once() -> None:
    """Testing for a missing partner in each sum takes DuckDB three times as long."""
    x, y = Column(0, NAME), Column(0, "ward")
    both = [Choose(Missing(other), Constant(None), each) for each, other in ((x, y), (y, x))]
    terms = (Present(Add(x, y)), Total(both[0]), Total(Multiply(*both)))
    sql = compile_program(CellSums(Scan("visits"), ALL, (), terms), LAYOUTS, DuckDBDialect())
    assert "CASE" not in sql
    assert sql.count("IS NOT NULL") == 2
    for more, left_out in ((Counted(), 0), (CountedUnits(), 0), (Total(x), 1)):
        program = CellSums(Scan("visits"), ALL, (), (*terms, more))
        assert compile_program(program, LAYOUTS, DuckDBDialect()).count("IS NOT NULL") == left_out
