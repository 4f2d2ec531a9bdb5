"""Plans: what is summed, what it costs, and which questions are the same."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

import sfumato as sf
from sfumato.curator.catalog.catalog import Table, declare_table
from sfumato.curator.catalog.domains import Numbers
from sfumato.curator.lower.lowered_value import LoweredValue
from sfumato.curator.plan.plan import QuestionPlan, plan_question, price_question
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.sensitivity import ContributionBounds, SumSensitivity
from sfumato.curator.plan.spend import GaussianSpend, PureSpend
from sfumato.curator.plan.steps import Choices, DiscoveredKeys
from sfumato.curator.plan.summands import Summand, _deviations, _product
from sfumato.curator.question.measurement import ContributionLimits
from sfumato.engines.program import Counted, CountedUnits, Present, Total
from sfumato.engines.rows import Bounded
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
from sfumato.noise import ThresholdedNoise, TruncatedGeometric
from sfumato.privacy.neighbours import Neighbours
from sfumato.queries.sql import parse_question

TABLE: Table = declare_table(
    "t",
    sf.Unit("who", max_rows=5),
    {
        "age": sf.between(0, 100, step=1),
        "ward": sf.one_of("A", "B"),
        "flag": sf.one_of(0, 1),
        "other": sf.one_of(*range(1000)),
        "sex": sf.one_of("f", "m", constant=True),
        "note": sf.text(),
        "sure": sf.between(0, 9, step=1, missing=0),
    },
)
AGE, WARD, FLAG = Column(0, "age"), Column(0, "ward"), Column(0, "flag")
CENTRED = Add(AGE, Constant(-50))


def _plan(sql: str, epsilon: Fraction = Fraction(1), table: Table = TABLE) -> QuestionPlan:
    return plan_question(lambda _: table, parse_question(sql), PureSpend(epsilon, Fraction(1, 10**6)))


def _moves(sql: str, table: Table = TABLE, bounds: ContributionLimits | None = None) -> list[SumSensitivity]:
    asked = replace(parse_question(sql), bounds=bounds)
    spend = PureSpend(Fraction(1), Fraction(1, 10**6))
    return [
        each.sensitivity for each in price_question(ResolvedQuestion(lambda _: table, asked), spend).measured
    ]


# ---- sums --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "terms"),
    [
        ("COUNT(*)", {Counted()}),
        ("COUNT(1)", {Counted()}),
        ("COUNT(age)", {Present(AGE)}),
        ("COUNT(age + 1) AS n", {Present(AGE)}),
        ("COUNT(sure)", {Counted()}),
        ("SUM(age)", {Total(AGE)}),
        ("AVG(age)", {Total(CENTRED), Present(AGE)}),
        ("SUM(flag)", {Total(Lookup(FLAG, (0, 1)))}),
        ("COUNT(DISTINCT who)", {CountedUnits()}),
        ("COUNT(DISTINCT WHO)", {CountedUnits()}),
        ("VARIANCE(age)", {Total(Multiply(CENTRED, CENTRED)), Total(CENTRED), Present(AGE)}),
        ("STDDEV(age), AVG(age)", {Total(Multiply(CENTRED, CENTRED)), Total(CENTRED), Present(AGE)}),
        ("VAR_POP(flag)", {Total(Lookup(FLAG, (1, 1))), Total(Lookup(FLAG, (-1, 1))), Present(FLAG)}),
        ("AVG(age), COUNT(age), COUNT(*), COUNT(*) AS again", {Total(CENTRED), Present(AGE), Counted()}),
    ],
)
def test_each_sum_is_measured_once(shown: str, terms: set[object]) -> None:
    found = _plan(f"SELECT {shown} FROM t").steps[0].program.terms  # type: ignore[union-attr]
    assert set(found) == terms
    assert len(found) == len(terms)


def test_the_same_integers_of_another_step_are_another_sum() -> None:
    priced_plan = _plan("SELECT SUM(age) AS a, SUM(age / 3) AS b, SUM(age) / 3 AS c FROM t")
    sums = [priced_plan.sums(aggregate)[0] for aggregate in priced_plan.question.aggregates]
    assert [priced_plan.measured[place].of.step for place in sums] == [Fraction(1), Fraction(1, 3)]


def test_the_price_is_the_spend_and_noise_follows_the_sensitivity() -> None:
    found = _plan("SELECT COUNT(*), SUM(age) FROM t GROUP BY ward", Fraction(3, 10))
    assert found.event.pure() == Fraction(3, 10)
    by_term = {each.of.term: each for each in found.measured}
    assert by_term[Counted()].sensitivity.l1 == 5
    assert by_term[Counted()].noise == PureSpend(Fraction(3, 10)).noise(SumSensitivity(5, 25), Fraction(1, 2))
    assert by_term[Total(AGE)].sensitivity == SumSensitivity(500, 250_000)


def test_an_average_spends_more_on_its_sum_than_on_its_rows() -> None:
    """Of the variance (σ² + d²τ²)/n², d² is a third of the range squared over all places of the average."""
    found = _plan("SELECT AVG(age) FROM t", Fraction(3, 10))
    assert found.event.pure() == Fraction(3, 10)
    rows, total = sorted(found.measured, key=lambda each: each.sensitivity.l1)
    parts = [each.noise.event(each.sensitivity.l1).pure() / Fraction(3, 10) for each in (total, rows)]
    assert float(parts[0] / parts[1]) == pytest.approx(3 ** (1 / 3), rel=1e-4)


def test_gaussian_noise_follows_the_other_norm() -> None:
    spend = GaussianSpend(Fraction(2), "ρ")
    asked = parse_question("SELECT other, COUNT(DISTINCT who) FROM t GROUP BY other")
    (measured,) = price_question(ResolvedQuestion(lambda _: TABLE, asked), spend).measured
    assert measured.sensitivity == SumSensitivity(5, 5, ((1, 5),))
    assert measured.noise == spend.noise(SumSensitivity(5, 5), 1)


# ---- how far a unit reaches --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "l1"),
    [
        ("", 1),
        ("GROUP BY ward", 3),
        ("GROUP BY ward, flag", 5),
        ("GROUP BY other", 5),
        ("GROUP BY sex", 1),
        ("GROUP BY sex, ward", 5),
        ("GROUP BY note", 5),
    ],
)
def test_a_unit_counts_once_in_each_cell_it_has_rows_in(groups: str, l1: int) -> None:
    assert _moves(f"SELECT COUNT(DISTINCT who) FROM t {groups}") == [SumSensitivity(l1, l1, ((1, l1),))]


@pytest.mark.parametrize("rows", range(1, 8))
@pytest.mark.parametrize("cells", range(1, 5))
@pytest.mark.parametrize("each", range(1, 8))
def test_norms_are_those_of_the_worst_split(rows: int, cells: int, each: int) -> None:
    """Against all ways to put a unit's rows into cells."""
    splits = [split for split in product(range(min(each, rows) + 1), repeat=cells) if sum(split) <= rows]
    moves = ContributionBounds(min(rows, cells * each), cells, min(each, rows)).sensitivity(
        Summand(Counted(), 3, Fraction(1))
    )
    assert moves.l1 == max(3 * sum(split) for split in splits)
    assert moves.l2_squared == max(9 * sum(part**2 for part in split) for split in splits)
    # Of any number of cells, no split moves more than the largest moves do.
    farthest = [distance for distance, count in moves.moves for _ in range(count)]
    for most in range(1, cells + 1):
        assert sum(farthest[:most]) == max(3 * sum(sorted(split)[-most:]) for split in splits)


@pytest.mark.parametrize(
    ("groups", "bounds", "moves"),
    [
        ("", ContributionLimits(1, 2), SumSensitivity(2, 4)),
        ("GROUP BY other", ContributionLimits(2, 2), SumSensitivity(4, 8, ((2, 2),))),
        ("GROUP BY other", ContributionLimits(2, 9), SumSensitivity(5, 25)),
        ("GROUP BY other", ContributionLimits(9, 1), SumSensitivity(5, 5, ((1, 5),))),
        ("GROUP BY ward", ContributionLimits(9, 2), SumSensitivity(5, 9, ((2, 2), (1, 1)))),
        ("GROUP BY sex", ContributionLimits(3, 2), SumSensitivity(2, 4)),
    ],
)
def test_bounding_inside_a_question_bounds_both_norms(
    groups: str, bounds: ContributionLimits, moves: SumSensitivity
) -> None:
    assert _moves(f"SELECT COUNT(*) FROM t {groups}", bounds=bounds) == [moves]


def test_bounding_is_left_out_where_a_unit_has_one_row() -> None:
    one = declare_table("t", sf.Unit("who", max_rows=1), {"ward": sf.one_of("A", "B")})
    asked = replace(parse_question("SELECT COUNT(*) FROM t GROUP BY ward"), bounds=ContributionLimits(1, 1))
    assert not isinstance(ResolvedQuestion(lambda _: one, asked).rows[0], Bounded)


@pytest.mark.parametrize(
    ("sql", "moves"),
    [
        ("SELECT COUNT(*) FROM t", [SumSensitivity(0, 0)]),
        ("SELECT COUNT(*) FROM t WHERE age > 3", [SumSensitivity(1, 1)]),
        ("SELECT COUNT(*) FROM t GROUP BY ward", [SumSensitivity(2, 2, ((1, 2),))]),
        ("SELECT SUM(age) FROM t", [SumSensitivity(100, 10_000)]),
        ("SELECT ward, SUM(age) FROM t GROUP BY ward", [SumSensitivity(200, 20_000, ((100, 2),))]),
        ("SELECT AVG(age) FROM t", [SumSensitivity(1, 1), SumSensitivity(100, 10_000)]),
        ("SELECT SUM(age - 50) AS s FROM t GROUP BY ward", [SumSensitivity(100, 10_000)]),
    ],
)
def test_replacing_a_unit_takes_one_away_and_adds_another(sql: str, moves: list[SumSensitivity]) -> None:
    columns = {"age": sf.between(0, 100, step=1), "ward": sf.one_of("A", "B")}
    table = Table("t", sf.ROW, columns, neighbours=Neighbours.REPLACE_ONE, public_rows=10)
    assert _moves(sql, table) == moves


@pytest.mark.parametrize(
    ("neighbours", "key", "kind", "per_unit"),
    [
        (Neighbours.ADD_REMOVE, "sex, note", ThresholdedNoise, 5),
        (Neighbours.ADD_REMOVE, "once", TruncatedGeometric, 1),
        (Neighbours.REPLACE_ONE, "once", ThresholdedNoise, 2),
    ],
)
def test_keys_are_bought_for_as_many_as_can_move(
    neighbours: Neighbours, key: str, kind: type[Any], per_unit: int
) -> None:
    table = replace(TABLE, columns={**TABLE.columns, "once": sf.text(constant=True)}, neighbours=neighbours)
    (step,) = _plan(f"SELECT COUNT(*) FROM t GROUP BY {key}", table=table).steps
    assert isinstance(step, DiscoveredKeys)
    assert isinstance(step.keys, kind)
    assert step.keys.per_unit == per_unit


def test_a_quantile_is_priced_by_all_rows_of_a_unit() -> None:
    (step,) = _plan("SELECT MEDIAN(age) FROM t GROUP BY ward").steps
    assert isinstance(step, Choices)
    assert step.rows == 5
    assert step.event().pure() == Fraction(1)


# ---- squares -----------------------------------------------------------------------------------------------


def _squared(promise: Any) -> tuple[Summand, Summand]:
    deviation = _deviations(LoweredValue(Column(0, "x"), promise.domain), 1)
    return deviation, _product(deviation, deviation)


@pytest.mark.parametrize("bounds", [(0, 1), (0, 110), (-1e-9, 1e-9), (-(2.0**90), 1), (0, 2**20 - 1)])
def test_squares_need_no_more_steps_than_numbers(bounds: tuple[float, float]) -> None:
    deviation, squared = _squared(sf.between(*bounds))
    assert 2**18 <= squared.bound < 2**20
    largest = (deviation.bound * deviation.step) ** 2
    assert abs(largest - squared.bound * squared.step) <= squared.step / 2


@pytest.mark.parametrize("step", [Fraction(1), Fraction(1, 2**40)])
def test_a_square_is_the_whole_square_or_half_a_step_from_it(step: Fraction) -> None:
    deviation, squared = _squared(sf.between(-7, 5, step=step))
    assert squared.slack >= Fraction(squared.step > deviation.step**2, 2)
    assert (squared.slack == 0) == (step == 1)


def test_a_product_of_different_numbers_may_be_negative() -> None:
    one = Summand(Total(AGE), 50, Fraction(1), 0, Fraction(0), True)
    other = replace(one, term=Total(WARD), bound=7)
    product = _product(one, other)
    assert (product.bound, product.signed) == (350, True)
    assert isinstance(product.term, Total)
    assert Numbers(-350, 350).bound == product.bound


# ---- conditions, and which questions are the same ----------------------------------------------------------


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
        ("age = 5 OR age IN (3, 4) OR 3 = age", Among(AGE, (3, 4, 5))),
        ("age NOT IN (4, 3) AND age <> 5", Not(Among(AGE, (3, 4, 5)))),
        ("age IN (3, 4) AND age IN (4, 5)", Every((Among(AGE, (3, 4)), Among(AGE, (4, 5))))),
        ("age NOT IN (3, 4) OR age <> 5", Some((Not(Among(AGE, (3, 4))), Not(Among(AGE, (5,)))))),
    ],
)
def test_conditions_have_one_form(condition: str, predicate: object) -> None:
    assert _plan(f"SELECT COUNT(*) FROM t WHERE {condition}").steps[0].program.where == predicate


SAME = [
    "SELECT ward, COUNT(*) AS n, SUM(age) AS s FROM t WHERE age >= 3 AND flag = 1 GROUP BY ward",
    "select ward as w, sum(AGE), count(*) from t where flag = 1 and not age < 3 group by WARD",
    "SELECT COUNT(1), SUM(age) FROM t WHERE (flag = 1 AND age > 2) AND flag = 1 GROUP BY ward",
    "SELECT v.ward, COUNT(*), SUM(v.age) FROM t AS v WHERE v.age >= 3 AND v.flag = 1 GROUP BY v.ward",
    "WITH v AS (SELECT * FROM t WHERE flag = 1) SELECT COUNT(*), SUM(age) FROM v WHERE age > 2 GROUP BY ward",
    "SELECT COUNT(*), SUM(x) FROM (SELECT ward AS w, age AS x FROM t WHERE age > 2 AND flag = 1) GROUP BY w",
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


def test_another_snapshot_is_another_question() -> None:
    assert _plan(SAME[0]).request != _plan(SAME[0], table=replace(TABLE, snapshot=2)).request


# ---- refusals ----------------------------------------------------------------------------------------------


def test_too_many_groups_are_refused() -> None:
    wide = declare_table("t", sf.ROW, {name: sf.one_of(*range(1001)) for name in ("a", "b")})
    with pytest.raises(PolicyError, match="SF-Q113"):
        _plan("SELECT COUNT(*) FROM t GROUP BY a, b", table=wide)


@pytest.mark.parametrize(
    ("asked", "moves"),
    [
        ("SELECT COUNT(DISTINCT ward) AS n FROM t", ((2, 1),)),
        ("SELECT COUNT(DISTINCT other) AS n FROM t", ((5, 1),)),
        ("SELECT COUNT(DISTINCT note) AS n FROM t", ((5, 1),)),
        ("SELECT COUNT(DISTINCT flag) AS n FROM t GROUP BY ward", ((2, 2), (1, 1))),
        ("SELECT COUNT(DISTINCT flag) AS n FROM t GROUP BY sex", ((2, 1),)),
    ],
)
def test_different_values_move_by_rows_and_by_what_there_is(asked: str, moves: Any) -> None:
    """A unit has at most 5 rows, each of which brings one value at most into one group."""
    assert [each.moves for each in _moves(asked)] == [moves]


def test_groups_beyond_64_bits_are_shown_as_doubles() -> None:
    """A whole number that Arrow cannot hold must not be found out after the charge."""
    [key] = _plan("SELECT age * 1e20 AS k, COUNT(*) FROM t GROUP BY k").resolved.keys
    assert isinstance(key.domain, Numbers)
    assert key.domain.show_values()[:2] == [0.0, 1e20]
    assert all(isinstance(shown, float) for shown in key.domain.show_values())
