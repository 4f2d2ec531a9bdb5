"""Plans: what is summed, what it costs, and which questions are the same."""

from fractions import Fraction
from itertools import product
from typing import Any

import pytest

import sfumato as sf
from sfumato.curator.catalog import Table, declared
from sfumato.curator.plan import Plan, plan
from sfumato.curator.reach import Reach
from sfumato.curator.spend import Pure
from sfumato.curator.summands import Summand
from sfumato.engines.program import Counted, Present, Term, Total, Units
from sfumato.engines.values import (
    Add,
    Among,
    AtLeast,
    AtMost,
    Column,
    Constant,
    Every,
    Lookup,
    Missing,
    Multiply,
    Not,
    Some,
)
from sfumato.errors import PolicyError
from sfumato.noise import Laplace
from sfumato.queries.sql import question

TABLE: Table = declared(
    "t",
    sf.Unit("who", max_rows=5),
    {
        "age": sf.between(0, 100, step=1),
        "ward": sf.one_of("A", "B"),
        "flag": sf.one_of(0, 1),
        "other": sf.one_of(*range(1000)),
    },
)


AGE, FLAG = Column(0, "age"), Column(0, "flag")
DEVIATION = Add(AGE, Constant(-50))


def _plan(sql: str, epsilon: Fraction = Fraction(1)) -> Plan:
    return plan(lambda name: TABLE, question(sql), Pure(epsilon))


def _terms(sql: str) -> set[Term]:
    return {each.summand.term for each in _plan(sql).measured}


@pytest.mark.parametrize(
    ("shown", "terms"),
    [
        ("COUNT(*)", {Counted()}),
        ("COUNT(1)", {Counted()}),
        ("COUNT(age)", {Present(AGE)}),
        ("COUNT(age * 2 + 1)", {Present(AGE)}),
        ("SUM(age)", {Total(AGE)}),
        ("SUM(age * 2)", {Total(AGE)}),
        ("AVG(age)", {Total(DEVIATION), Present(AGE)}),
        ("SUM(flag)", {Total(Lookup(FLAG, (0, 1)))}),
        ("AVG(flag)", {Total(Lookup(FLAG, (-1, 1))), Present(FLAG)}),
        ("COUNT(DISTINCT who)", {Units()}),
        ("COUNT(DISTINCT WHO)", {Units()}),
        ("VARIANCE(age)", {Total(Multiply(DEVIATION, DEVIATION)), Total(DEVIATION), Present(AGE)}),
        ("STDDEV(age), AVG(age)", {Total(Multiply(DEVIATION, DEVIATION)), Total(DEVIATION), Present(AGE)}),
        ("VAR_POP(flag)", {Total(Lookup(FLAG, (1, 1))), Total(Lookup(FLAG, (-1, 1))), Present(FLAG)}),
        ("AVG(age), COUNT(age), COUNT(*), COUNT(*) AS again", {Total(DEVIATION), Present(AGE), Counted()}),
    ],
)
def test_each_sum_is_measured_once(shown: str, terms: set[Term]) -> None:
    aliased = ", ".join(
        f"{part} AS x{i}" for i, part in enumerate(shown.replace(" AS again", "").split(", "))
    )
    assert _terms(f"SELECT {aliased} FROM t") == terms


def test_the_price_is_the_spend_and_noise_follows_the_sensitivity() -> None:
    priced = _plan("SELECT COUNT(*), SUM(age) FROM t GROUP BY ward", Fraction(3, 10))
    assert priced.event.pure() == Fraction(3, 10)
    by_term = {each.summand.term: each for each in priced.measured}
    assert by_term[Counted()].moves.l1 == 5
    assert by_term[Counted()].noise == Laplace(5 / Fraction(3, 20))
    assert by_term[Total(AGE)].moves.l1 == 500


@pytest.mark.parametrize(
    ("groups", "l1"), [("", 1), ("GROUP BY ward", 2), ("GROUP BY ward, flag", 4), ("GROUP BY other", 5)]
)
def test_a_unit_counts_once_in_each_cell_it_has_rows_in(groups: str, l1: int) -> None:
    moves = _plan(f"SELECT COUNT(DISTINCT who) FROM t {groups}").measured[0].moves
    assert (moves.l1, moves.l2_squared) == (l1, l1)


@pytest.mark.parametrize("rows", range(1, 8))
@pytest.mark.parametrize("cells", range(1, 5))
@pytest.mark.parametrize("each", range(1, 8))
def test_norms_are_those_of_the_worst_split(rows: int, cells: int, each: int) -> None:
    """Against all ways to put a unit's rows into cells."""
    splits = [split for split in product(range(min(each, rows) + 1), repeat=cells) if sum(split) <= rows]
    moves = Reach(min(rows, cells * each), cells, min(each, rows)).moves(Summand(Counted(), 3, Fraction(1)))
    assert moves.l1 == max(3 * sum(split) for split in splits)
    assert moves.l2_squared == max(9 * sum(part**2 for part in split) for split in splits)


@pytest.mark.parametrize(
    ("condition", "predicate"),
    [
        ("age >= 65", AtLeast(AGE, 65)),
        ("65 <= age", AtLeast(AGE, 65)),
        ("NOT age < 65", AtLeast(AGE, 65)),
        ("age > 64", AtLeast(AGE, 65)),
        ("NOT (NOT (age >= 65))", AtLeast(AGE, 65)),
        ("age >= 65 AND (age >= 65)", AtLeast(AGE, 65)),
        ("age IS NOT NULL", Not(Missing(AGE))),
        ("age BETWEEN 3 AND 4", Every((AtLeast(AGE, 3), AtMost(AGE, 4)))),
        ("age NOT BETWEEN 3 AND 4", Some((AtLeast(AGE, 5), AtMost(AGE, 2)))),
        ("age <= 4 AND age >= 3", Every((AtLeast(AGE, 3), AtMost(AGE, 4)))),
        ("age <> 3", Not(Among(AGE, (3,)))),
    ],
)
def test_conditions_have_one_form(condition: str, predicate: object) -> None:
    step = _plan(f"SELECT COUNT(*) FROM t WHERE {condition}").steps[0]
    assert step.program.where == predicate


SAME = [
    "SELECT ward, COUNT(*) AS n, SUM(age) AS s FROM t WHERE age >= 3 AND flag = 1 GROUP BY ward",
    "select ward as w, sum(AGE), count(*) from t where flag = 1 and not age < 3 group by WARD",
    "SELECT COUNT(1), SUM(age) FROM t WHERE (flag = 1 AND age > 2) AND flag = 1 GROUP BY ward",
    "SELECT v.ward, COUNT(*), SUM(v.age) FROM t AS v WHERE v.age >= 3 AND v.flag = 1 GROUP BY v.ward",
    "SELECT COUNT(*), SUM(a) FROM (SELECT ward, age AS a FROM t WHERE flag = 1) WHERE a > 2 GROUP BY ward",
]
OTHER = [
    "SELECT ward, COUNT(*) AS n, SUM(age) AS s FROM t WHERE age >= 4 AND flag = 1 GROUP BY ward",
    "SELECT ward, COUNT(*) AS n FROM t WHERE age >= 3 AND flag = 1 GROUP BY ward",
    "SELECT COUNT(*) AS n, SUM(age) AS s FROM t WHERE age >= 3 AND flag = 1",
    "SELECT ward, COUNT(*) AS n, SUM(age) AS s FROM t WHERE age >= 3 OR flag = 1 GROUP BY ward",
]


def test_equal_questions_have_equal_requests() -> None:
    assert len({_plan(sql).request for sql in SAME}) == 1
    assert len({_plan(sql).request for sql in [SAME[0], *OTHER]}) == 1 + len(OTHER)
    assert _plan(SAME[0]).request != _plan(SAME[0], Fraction(2)).request


def test_too_many_groups_are_refused() -> None:
    wide = declared("t", sf.ROW, {name: sf.one_of(*range(1001)) for name in ("a", "b")})
    with pytest.raises(PolicyError, match="SF-Q117"):
        plan(lambda name: wide, question("SELECT COUNT(*) FROM t GROUP BY a, b"), Pure(Fraction(1)))


@pytest.mark.parametrize(
    ("unit", "columns", "name"),
    [
        (sf.ROW, {}, "who"),
        (sf.Unit("who", max_rows=5), {"age": sf.between(0, 1)}, "age"),
        (sf.Unit("who", max_rows=5), {"WHO": sf.one_of(1, 2)}, "WHO"),
    ],
)
def test_only_units_are_counted_once_each(unit: sf.Unit, columns: dict[str, Any], name: str) -> None:
    table = declared("t", unit, columns)
    with pytest.raises(PolicyError, match="SF-Q130"):
        plan(lambda _: table, question(f"SELECT COUNT(DISTINCT {name}) FROM t"), Pure(Fraction(1)))
