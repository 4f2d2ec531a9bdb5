"""After the noise: arithmetic, nulls, which groups are shown, in which order, and what costs nothing."""

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.curator.answers.answer import NoisyAnswer, key_columns, read_answer
from sfumato.curator.answers.post_processing import (
    compute_figure,
    compute_interval,
    is_linear,
    order_groups,
    require_numbers,
)
from sfumato.curator.catalog.catalog import declare_table
from sfumato.curator.plan.plan import QuestionPlan, plan_question
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.spend import PureSpend
from sfumato.curator.question.measurement import (
    Arithmetic,
    CountOf,
    Figure,
    GroupKey,
    Having,
    HavingAnd,
    HavingComparison,
    HavingNot,
    HavingOr,
    MeanOf,
    Output,
    QuantileOf,
    Question,
    SortKey,
    SumOf,
)
from sfumato.curator.question.relation import BaseTable, FunctionCall, Name
from sfumato.engines.program import Counted, Present
from sfumato.errors import PolicyError

TABLE = declare_table(
    "t",
    sf.Unit("who", max_rows=3),
    {
        "x": sf.between(-10, 30, step=1),
        "flag": sf.one_of(0, 1),
        "ward": sf.one_of("C", "A", "B", "D", missing="D"),
    },
)
N, X, S, F = CountOf(), CountOf(Name("x")), SumOf(Name("x")), SumOf(Name("flag"))
ROWS, PRESENT, TOTALS, FLAGS = [40, 10, 0, 10], [40, 9, -1, 10], [80, -30, 7, 60], [4, 1, -2, 5]


def number(value: Any) -> Fraction:
    return Fraction(str(value))


def times(left: Figure, right: Figure) -> Arithmetic:
    return Arithmetic("*", left, right)


def over(left: Figure, right: Figure) -> Arithmetic:
    return Arithmetic("/", left, right)


def plus(left: Figure, right: Figure) -> Arithmetic:
    return Arithmetic("+", left, right)


def minus(left: Figure, right: Figure) -> Arithmetic:
    return Arithmetic("-", left, right)


def _plan(*outputs: GroupKey | Figure, keys: tuple[str, ...] = ("ward",), **rest: Any) -> QuestionPlan:
    shown = tuple(Output(f"c{at}", each) for at, each in enumerate(outputs))
    question = Question(BaseTable("t"), tuple(Name(key) for key in keys), shown, **rest)
    return plan_question(lambda _: TABLE, question, PureSpend(Fraction(1)))


def _noisy(priced: QuestionPlan) -> NoisyAnswer:
    """The cells above, by what each sum is of."""
    flag = {summand.term for summand in ResolvedQuestion(lambda _: TABLE, _question(F)).summands}
    found = []
    for each in priced.measured:
        term = each.of.term
        if isinstance(term, Counted):
            found.append(ROWS)
        elif isinstance(term, Present):
            found.append(PRESENT)
        else:
            found.append(FLAGS if term in flag else TOTALS)
    return read_answer(priced, json.dumps([found]))


def _question(figure: Figure) -> Question:
    return Question(BaseTable("t"), (Name("ward"),), (Output("a", figure),))


PER = over(S, N)


@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        (plus(N, number(1)), [41, 11, 1, 11]),
        (minus(number(2), N), [-38, -8, 2, -8]),
        (over(N, number(4)), [10, 2.5, 0, 2.5]),
        (over(N, number(-4)), [-10, -2.5, 0, -2.5]),
        (PER, [2, -3, None, 6]),
        (over(times(number(100), F), N), [10, 10, None, 50]),
        (over(number(1), F), [0.25, 1, None, 0.2]),
        (times(X, N), [1600, 90, 0, 100]),
        (plus(PER, number(1)), [3, -2, None, 7]),
        (times(plus(number(2), number(3)), N), [200, 50, 0, 50]),
        (over(N, minus(S, number(80))), [None, None, None, None]),
    ],
)
def test_arithmetic_and_its_nulls(figure: Figure, expected: list[float | None]) -> None:
    priced = _plan(figure)
    got = compute_figure(priced, figure, _noisy(priced)).tolist()
    assert [None if math.isnan(each) else each for each in got] == expected


def test_numbers_beyond_doubles_are_null() -> None:
    large: Figure = N
    for _ in range(11):
        large = times(large, times(number(1e30), N))
    priced = _plan(large)
    assert math.isnan(compute_figure(priced, large, _noisy(priced))[0])
    assert np.isnan(compute_interval(priced, large, _noisy(priced), 0.95)[0][0])


# ---- groups ----


def _shown(**clauses: Any) -> str:
    """The wards shown, in order. Declared order is C, A, B, D, and COUNT(*) is 40, 10, 0, 10."""
    priced = _plan(GroupKey(0), N, S, PER, **clauses)
    noisy = _noisy(priced)
    every = np.ones(4, dtype=np.bool_)
    return "".join("CABD"[at] for at in order_groups(priced, noisy, key_columns(priced, noisy), every))


TEN = number(10)


@pytest.mark.parametrize(
    ("clauses", "wards"),
    [
        ({}, "CABD"),
        ({"order": (SortKey(GroupKey(0)),)}, "ABCD"),
        ({"order": (SortKey(GroupKey(0), True),)}, "DCBA"),
        ({"order": (SortKey(N),)}, "BADC"),
        ({"order": (SortKey(N, True),)}, "CADB"),
        ({"order": (SortKey(N, True), SortKey(GroupKey(0), True))}, "CDAB"),
        ({"order": (SortKey(N), SortKey(S, True))}, "BDAC"),
        ({"order": (SortKey(PER),)}, "ACDB"),
        ({"order": (SortKey(PER, True),)}, "DCAB"),
        ({"order": (SortKey(minus(S, times(number(2), N))),)}, "ACBD"),
        ({"limit": 2}, "CA"),
        ({"order": (SortKey(N, True),), "limit": 1, "offset": 1}, "A"),
        ({"offset": 9}, ""),
        ({"having": HavingComparison(N, ">=", TEN)}, "CAD"),
        ({"having": HavingAnd(HavingComparison(N, "=", TEN), HavingComparison(F, ">", number(1)))}, "D"),
        ({"having": HavingComparison(PER, ">", number(0))}, "CD"),
        ({"having": HavingNot(HavingComparison(PER, ">", number(0)))}, "A"),
        (
            {"having": HavingOr(HavingComparison(PER, ">", number(0)), HavingComparison(N, "=", number(0)))},
            "CBD",
        ),
        (
            {
                "having": HavingNot(
                    HavingAnd(HavingComparison(PER, ">", number(0)), HavingComparison(N, ">", number(0)))
                )
            },
            "AB",
        ),
        ({"having": HavingComparison(TEN, "<>", N)}, "CB"),
        ({"having": HavingComparison(N, "<", S), "order": (SortKey(S),), "limit": 2}, "BD"),
    ],
)
def test_which_groups_are_shown(clauses: dict[str, Any], wards: str) -> None:
    assert _shown(**clauses) == wards


# ---- price and identity ----

LUCKY: list[tuple[bool, dict[str, Any]]] = [
    (False, {}),
    (True, {"order": (SortKey(N, True),), "limit": 3, "offset": 1}),
    (
        True,
        {
            "having": HavingAnd(HavingComparison(N, ">", TEN), HavingNot(HavingComparison(S, "<", TEN))),
            "order": (SortKey(PER),),
        },
    ),
    (False, {"order": (SortKey(PER),)}),
]


@pytest.mark.parametrize(("lucky", "clauses"), LUCKY)
def test_what_is_done_after_the_noise_changes_neither_price_nor_request(
    lucky: bool, clauses: dict[str, Any]
) -> None:
    plain, chosen = _plan(GroupKey(0), N, S), _plan(GroupKey(0), N, S, **clauses)
    assert (chosen.request, chosen.event) == (plain.request, plain.event)
    assert any("luck" in text for text in chosen.bias) is lucky


def test_computed_numbers_need_the_sums_they_are_made_of() -> None:
    assert (
        _plan(GroupKey(0), PER).request
        == _plan(N, S).request
        == _plan(N, having=HavingComparison(S, ">", TEN)).request
    )


# ---- what has no number ----


@pytest.mark.parametrize("clauses", ["figure", "having", "order"])
def test_nothing_is_computed_with_dates(clauses: str) -> None:
    from datetime import date

    table = declare_table("t", sf.ROW, {"day": sf.between(date(2024, 1, 1), date(2024, 12, 31))})
    median = QuantileOf(Name("day"), Fraction(1, 2))
    late = plus(median, number(1))
    having: Having = HavingComparison(median, ">", number(3))
    asked = {
        "figure": Question(BaseTable("t"), (), (Output("a", late),)),
        "having": Question(
            BaseTable("t"), (), (Output("a", median),), having=HavingNot(HavingAnd(having, having))
        ),
        "order": Question(BaseTable("t"), (), (Output("a", median),), order=(SortKey(late),)),
    }[clauses]
    with pytest.raises(PolicyError, match="SF-Q110"):
        require_numbers(ResolvedQuestion(lambda _: table, asked))
    require_numbers(
        ResolvedQuestion(
            lambda _: table, Question(BaseTable("t"), (), (Output("a", median),), order=(SortKey(median),))
        )
    )
    year = QuantileOf(FunctionCall("year", (Name("day"),)), Fraction(1, 2))
    require_numbers(
        ResolvedQuestion(lambda _: table, Question(BaseTable("t"), (), (Output("a", plus(year, number(1))),)))
    )


def test_nothing_is_known_where_a_divisor_may_be_zero() -> None:
    priced = _plan(PER)
    low, high = compute_interval(priced, PER, _noisy(priced), 0.95)
    assert np.isnan(low[1:]).all()
    assert np.isnan(high[1:]).all()
    assert low[0] < 2 < high[0]


@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        (plus(N, times(number(2), S)), True),
        (over(minus(N, number(3)), number(7)), True),
        (plus(MeanOf(Name("x")), number(1)), False),
        (PER, False),
        (times(N, N), False),
    ],
)
def test_widths_known_beforehand(figure: Figure, expected: bool) -> None:
    assert is_linear(figure) is expected
