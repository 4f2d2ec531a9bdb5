"""Plans: what is summed, what it costs, and which questions are the same."""

from fractions import Fraction
from typing import Any

import pytest

import sfumato as sf
from sfumato.curator.catalog import Table, declared
from sfumato.curator.plan import Plan, plan
from sfumato.curator.spend import Pure
from sfumato.engines.program import (
    AtLeast,
    AtMost,
    Every,
    Missing,
    Not,
    Present,
    Rows,
    Some,
    Square,
    Units,
    Value,
    Weight,
)
from sfumato.errors import PolicyError
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


def _plan(sql: str, epsilon: Fraction = Fraction(1)) -> Plan:
    return plan(TABLE, question(sql), Pure(epsilon))


@pytest.mark.parametrize(
    ("shown", "terms"),
    [
        ("COUNT(*)", {Rows()}),
        ("COUNT(1)", {Rows()}),
        ("COUNT(age)", {Present("age")}),
        ("SUM(age)", {Value("age")}),
        ("AVG(age)", {Value("age", 50), Present("age")}),
        ("SUM(flag)", {Weight("flag", (0, 1))}),
        ("COUNT(DISTINCT who)", {Units()}),
        ("COUNT(DISTINCT WHO)", {Units()}),
        ("VARIANCE(age)", {Square("age", 50, 0), Value("age", 50), Present("age")}),
        ("STDDEV(age), AVG(age)", {Square("age", 50, 0), Value("age", 50), Present("age")}),
        ("VAR_POP(flag)", {Weight("flag", (1, 1)), Weight("flag", (-1, 1)), Present("flag")}),
        ("AVG(age), COUNT(age), COUNT(*), COUNT(*) AS again", {Value("age", 50), Present("age"), Rows()}),
    ],
)
def test_each_sum_is_measured_once(shown: str, terms: set[object]) -> None:
    assert set(_plan(f"SELECT {shown} FROM t").program.terms) == terms


def test_the_price_is_the_spend_and_noise_follows_the_sensitivity() -> None:
    priced = _plan("SELECT COUNT(*), SUM(age) FROM t GROUP BY ward", Fraction(3, 10))
    assert priced.event.pure() == Fraction(3, 10)
    by_term = {each.summand.term: each for each in priced.measured}
    assert by_term[Rows()].l1 == 5
    assert by_term[Rows()].noise.scale == 5 / Fraction(3, 20)
    assert by_term[Value("age")].l1 == 500


@pytest.mark.parametrize(
    ("groups", "l1"), [("", 1), ("GROUP BY ward", 2), ("GROUP BY ward, flag", 4), ("GROUP BY other", 5)]
)
def test_a_unit_counts_once_in_each_cell_it_has_rows_in(groups: str, l1: int) -> None:
    assert _plan(f"SELECT COUNT(DISTINCT who) FROM t {groups}").measured[0].l1 == l1


@pytest.mark.parametrize("bounds", [(0, 1), (0, 110), (-1e-9, 1e-9), (-(2.0**90), 1), (0, 2**20 - 1)])
def test_squares_need_no_more_steps_than_numbers(bounds: tuple[float, float]) -> None:
    deviation = sf.between(*bounds).deviation("x")
    squared = deviation.squared()
    assert 2**18 <= squared.bound < 2**20
    largest = (deviation.bound * deviation.step) ** 2
    assert 0 <= largest - squared.bound * squared.step < squared.step


@pytest.mark.parametrize("step", [Fraction(1), Fraction(1, 2**40)])
def test_a_square_is_the_whole_square_or_less_than_a_step_below(step: Fraction) -> None:
    deviation = sf.between(-7, 5, step=step).deviation("x")
    squared = deviation.squared()
    shift = round(squared.step / deviation.step**2).bit_length() - 1
    assert squared.term == Square("x", deviation.centre, shift)
    assert squared.slack == min(shift, 1)


def test_the_squares_of_listed_numbers_are_weights() -> None:
    squared = sf.one_of(-2, 0.5, 3).deviation("x").squared()
    assert isinstance(squared.term, Weight)
    assert max(squared.term.weights) == squared.bound < 2**20


@pytest.mark.parametrize(
    ("condition", "predicate"),
    [
        ("age >= 65", AtLeast("age", 65)),
        ("65 <= age", AtLeast("age", 65)),
        ("NOT age < 65", AtLeast("age", 65)),
        ("age > 64", AtLeast("age", 65)),
        ("NOT (NOT (age >= 65))", AtLeast("age", 65)),
        ("age >= 65 AND (age >= 65)", AtLeast("age", 65)),
        ("age IS NOT NULL", Not(Missing("age"))),
        ("age BETWEEN 3 AND 4", Every((AtLeast("age", 3), AtMost("age", 4)))),
        ("age NOT BETWEEN 3 AND 4", Some((AtLeast("age", 5), AtMost("age", 2)))),
        ("age <= 4 AND age >= 3", Every((AtLeast("age", 3), AtMost("age", 4)))),
        ("age <> 3", Some((AtLeast("age", 4), AtMost("age", 2)))),
    ],
)
def test_conditions_have_one_form(condition: str, predicate: object) -> None:
    assert _plan(f"SELECT COUNT(*) FROM t WHERE {condition}").program.where == predicate


SAME = [
    "SELECT ward, COUNT(*) AS n, SUM(age) AS s FROM t WHERE age >= 3 AND flag = 1 GROUP BY ward",
    "select ward as w, sum(AGE), count(*) from t where flag = 1 and not age < 3 group by WARD",
    "SELECT COUNT(1), SUM(age) FROM t WHERE (flag = 1 AND age > 2) AND flag = 1 GROUP BY ward",
    "SELECT v.ward, COUNT(*), SUM(v.age) FROM t AS v WHERE v.age >= 3 AND t.flag = 1 GROUP BY v.ward",
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
        plan(wide, question("SELECT COUNT(*) FROM t GROUP BY a, b"), Pure(Fraction(1)))


@pytest.mark.parametrize(
    ("unit", "columns", "name"),
    [
        (sf.ROW, {}, "who"),
        (sf.Unit("who", max_rows=5), {"age": sf.between(0, 1)}, "age"),
        (sf.Unit("who", max_rows=5), {"WHO": sf.one_of(1, 2)}, "WHO"),
    ],
)
def test_only_units_are_counted_once_each(unit: sf.Unit, columns: dict[str, Any], name: str) -> None:
    with pytest.raises(PolicyError, match="SF-Q130"):
        plan(
            declared("t", unit, columns), question(f"SELECT COUNT(DISTINCT {name}) FROM t"), Pure(Fraction(1))
        )
