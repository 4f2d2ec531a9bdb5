"""What people see of an answer, whatever it is made of, and what they see before they pay."""

import json
from collections.abc import Mapping
from datetime import date, datetime
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.curator.answers.expected_error import QuestionError, find_cheapest_spend
from sfumato.curator.answers.quote import Quote
from sfumato.curator.answers.release import Release
from sfumato.curator.catalog.catalog import declare_table
from sfumato.curator.catalog.columns import text
from sfumato.curator.gate import encode_answer
from sfumato.curator.payer import Standing
from sfumato.curator.plan.plan import QuestionPlan, plan_question, price_question
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.spend import GaussianSpend, PureSpend, Spend
from sfumato.curator.plan.steps import Choices, DiscoveredKeys
from sfumato.curator.question.measurement import (
    Arithmetic,
    CountOf,
    CovarianceOf,
    Figure,
    GroupKey,
    HavingComparison,
    MeanOf,
    Output,
    QuantileOf,
    Question,
    SortKey,
    SumOf,
    VarianceOf,
)
from sfumato.curator.question.relation import BaseTable, FunctionCall, Name
from sfumato.engines.program import Counted, Present, SumsByKey
from sfumato.errors import PolicyError, UsageError
from sfumato.ledger import Released

HALF = Fraction(1, 2)
N, S, X = CountOf(), SumOf(Name("x")), MeanOf(Name("x"))
PER = Arithmetic("/", S, N)
TABLE = declare_table(
    "t",
    sf.Unit("who", max_rows=1),
    {
        "x": sf.between(0, 8, step=1),
        "ward": sf.one_of("C", "A", "B", missing="C"),
        "flag": sf.one_of(True, False),
        "grade": sf.one_of(1, 2.5),
        "day": sf.between(date(2024, 1, 1), date(2024, 12, 31)),
        "at": sf.between(datetime.fromisoformat("2024-01-01"), datetime.fromisoformat("2024-01-02")),
        "name": text(),
        "age": sf.between(0, 9, step=2**-16),
    },
)
ROWS, TOTALS, PRESENT = [4000, 900, -3], [8000, 3600, 5], [4000, 900, -3]


def _plan(*outputs: tuple[str, GroupKey | Figure], keys: tuple[Any, ...] = (), **rest: Any) -> QuestionPlan:
    spend: Spend = rest.pop("spend", PureSpend(Fraction(1)))
    question = Question(BaseTable("t"), keys, tuple(Output(*each) for each in outputs), **rest)
    return plan_question(lambda _: TABLE, question, spend)


def _given(asked: QuestionPlan, *answers: Any, again: Any = None) -> Release:
    return Release(asked, _released(asked, list(answers)), again=again)


def _released(asked: QuestionPlan, answers: list[Any]) -> Released:
    return Released(seq=1, head="", cost=asked.cost, answer=encode_answer(answers), replayed=False)


def _wards(**rest: Any) -> Release:
    asked = _plan(("ward", GroupKey(0)), ("n", N), ("per", PER), keys=(Name("ward"),), **rest)
    kinds = {Counted: ROWS, Present: PRESENT}
    return _given(asked, [kinds.get(type(each.of.term), TOTALS) for each in asked.measured])


# ---- tables ----


def test_tables_and_intervals_follow_the_order_and_say_null() -> None:
    release = _wards(order=(SortKey(PER, True),))
    assert release.to_arrow().to_pydict() == {
        "ward": ["A", "C", "B"],
        "n": [900, 4000, -3],
        "per": [4.0, 2.0, None],
    }
    ends = release.interval().to_pydict()
    assert ends["ward"] == ["A", "C", "B"]
    assert ends["per_low"][0] < 4 < ends["per_high"][0]
    assert (ends["per_low"][2], ends["per_high"][2]) == (None, None)
    json.dumps(release.to_dict(), allow_nan=False)


def test_an_answer_without_groups_keeps_its_types() -> None:
    full, empty = _wards(), _wards(having=HavingComparison(N, ">", Fraction(9999)))
    assert empty.to_arrow().num_rows == 0
    assert empty.to_arrow().schema == full.to_arrow().schema
    assert empty.interval().schema == full.interval().schema
    assert full.to_arrow().schema.field("n").type == pa.int64()
    assert "ward" in str(empty)
    assert empty.plot().to_json()


def test_the_text_names_nulls_and_what_is_not_known() -> None:
    text = str(_wards(limit=3).all_groups())
    assert "null" in text
    assert "not known" in text
    assert text.splitlines()[0].split("  ")[-1] == "95 % interval"
    assert "n  ± 95 %  " in text


def test_charts_leave_out_what_is_not_known() -> None:
    chart = _wards(order=(SortKey(N),)).plot("per").to_json()
    assert '"A"' in chart
    assert '"B"' not in chart
    with pytest.raises(UsageError, match="SF-N112"):
        _wards().plot("ward")


# ---- keys ----

KEYS: list[tuple[Any, pa.DataType, list[Any]]] = [
    (Name("flag"), pa.bool_(), [True, False]),
    (Name("grade"), pa.float64(), [1.0, 2.5]),
    (Name("x"), pa.int64(), list(range(9))),
    (
        FunctionCall("truncate_quarter", (Name("day"),)),
        pa.date32(),
        [date(2024, month, 1) for month in (1, 4, 7, 10)],
    ),
    (FunctionCall("truncate_day", (Name("at"),)), pa.date32(), [date(2024, 1, 1), date(2024, 1, 2)]),
    (
        FunctionCall("truncate_hour", (Name("at"),)),
        pa.timestamp("s"),
        [datetime.fromisoformat(f"2024-01-01T{hour:02}:00") for hour in range(24)],
    ),
]


@pytest.mark.parametrize(("key", "kind", "shown"), KEYS)
def test_listed_keys_are_shown_as_declared(key: Any, kind: pa.DataType, shown: list[Any]) -> None:
    asked = _plan(("k", GroupKey(1)), ("w", GroupKey(0)), ("n", N), keys=(Name("ward"), key))
    cells = asked.resolved.cells
    table = _given(asked, [list(range(cells))]).all_groups().to_arrow()
    assert table.schema.field("k").type == kind
    assert table.column("k").to_pylist()[: len(shown)] == shown
    size = cells // 3
    assert table.column("w").to_pylist() == ["C"] * size + ["A"] * size + ["B"] * size
    assert table.column("n").to_pylist() == list(range(cells))


def test_keys_that_follow_from_each_other_have_a_group_for_each_pair_that_can_be() -> None:
    lower = FunctionCall("lower", (Name("ward"),))
    asked = _plan(("k", GroupKey(1)), ("w", GroupKey(0)), ("n", N), keys=(Name("ward"), lower))
    table = _given(asked, [list(range(asked.resolved.cells))]).all_groups().to_arrow()
    assert table.column("k").to_pylist() == ["c", "a", "b"]
    assert table.column("w").to_pylist() == ["C", "A", "B"]


BOUGHT = PureSpend(Fraction(2), Fraction(1, 10**8))


def _bought(keys: list[list[Any]], *sums: list[int], spend: Spend = BOUGHT) -> Release:
    key = (Name("name"), Name("grade"), Name("day"), Name("x"))
    shown = tuple((f"k{at}", GroupKey(at)) for at in range(4))
    return _given(_plan(*shown, ("n", N), keys=key, spend=spend), [keys, *sums])


def test_bought_keys_are_shown_as_what_they_stand_for() -> None:
    table = _bought([["Ann", 1, 19750, 3], ["Bo", 0, 19751, 4]], [40, 50]).to_arrow()
    assert table.to_pydict() == {
        "k0": ["Ann", "Bo"],
        "k1": [2.5, 1.0],
        "k2": [date(2024, 1, 28), date(2024, 1, 29)],
        "k3": [3, 4],
        "n": [40, 50],
    }


def test_types_do_not_say_whether_any_key_was_bought() -> None:
    none, some = _bought([], []), _bought([["Ann", 1, 19750, 3]], [40])
    assert none.to_arrow().num_rows == 0
    assert none.to_arrow().schema == some.to_arrow().schema
    assert none.interval().schema == some.interval().schema
    assert none.plot().to_json()
    json.dumps(some.to_dict())


def test_what_a_step_releases_can_be_read() -> None:
    asked = _plan(("name", GroupKey(0)), ("n", N), ("s", S), keys=(Name("name"),), spend=BOUGHT)
    (step,) = asked.steps
    assert isinstance(step, DiscoveredKeys)
    found = SumsByKey(
        [("Bo",), ("Ann",), ("Cy",)], np.array([900, 800, 1]), np.array([[900, 800, 1], [90, 80, 7]])
    )
    table = _given(asked, step.release(found)).to_arrow().to_pydict()
    assert table["name"] == ["Ann", "Bo"]
    assert abs(table["n"][0] - 800) < 400


# ---- quantiles ----


def _quantiles() -> QuestionPlan:
    shown = [("mid", Name("x")), ("when", Name("day")), ("moment", Name("at")), ("age", Name("age"))]
    return _plan(*((name, QuantileOf(of, HALF)) for name, of in shown), keys=(Name("ward"),))


def test_quantiles_are_numbers_dates_and_moments() -> None:
    asked = _quantiles()
    steps = [step for step in asked.steps if isinstance(step, Choices)]
    sizes = {9: [0, 4, 8], 366: [0, 1, 365], 86401: [0, 3600, 86400]}
    release = _given(asked, *([sizes.get(step.program.size, [0, 2**19, 10])] for step in steps))
    table = release.to_arrow()
    assert table.schema.types == [pa.int64(), pa.date32(), pa.timestamp("s"), pa.float64()]
    shown = table.to_pydict()
    assert shown["mid"] == [0, 4, 8]
    assert shown["when"] == [date(2024, 1, 1), date(2024, 1, 2), date(2024, 12, 31)]
    assert shown["moment"] == [
        datetime.fromisoformat("2024-01-01"),
        datetime.fromisoformat("2024-01-01T01:00"),
        datetime.fromisoformat("2024-01-02"),
    ]
    assert shown["age"][1] == 8.0
    ends = release.interval()
    assert ends.schema.field("when_low").type == pa.date32()
    assert all(column.null_count == 3 for column in ends.columns)
    assert json.loads(json.dumps(release.to_dict()))["columns"]["when"][0] == "2024-01-01"
    assert "rows from rank 0.5" in str(release)
    assert "when" in release._repr_html_()
    assert release.plot("mid").to_json()
    with pytest.raises(UsageError, match="SF-N112"):
        release.plot("when")


def test_groups_can_be_sorted_by_a_median_day() -> None:
    median = QuantileOf(Name("day"), HALF)
    asked = _plan(
        ("ward", GroupKey(0)), ("when", median), keys=(Name("ward"),), order=(SortKey(median, True),)
    )
    assert _given(asked, [[5, 7, 6]]).to_arrow().column("ward").to_pylist() == ["A", "B", "C"]


def test_several_shares_of_one_value_are_told_apart() -> None:
    shown = [(f"q{share}", QuantileOf(Name("x"), Fraction(share, 100))) for share in (75, 25, 50)]
    asked = _plan(*shown)
    assert _given(asked, [[1], [4], [6]]).to_arrow().to_pydict() == {"q75": [6], "q25": [1], "q50": [4]}


# ---- refining ----


class Asker:
    """Answers every round with the next of some answers, as a session does."""

    def __init__(self, resolved: ResolvedQuestion, answers: list[list[Any]]) -> None:
        self.resolved, self.answers, self.asked = resolved, answers, []  # type: ignore[var-annotated]

    def __call__(
        self, spend: Mapping[str, Any], rounds: tuple[str, ...], earlier: QuestionPlan
    ) -> tuple[QuestionPlan, Released]:
        assert earlier.resolved is self.resolved
        amount = PureSpend(Fraction(str(spend["epsilon"])), Fraction(str(spend.get("delta", 0))))
        refined = price_question(self.resolved, amount, refines=rounds)
        self.asked.append(refined)
        return refined, _released(refined, self.answers.pop(0))


def test_sums_are_put_together_by_their_precision() -> None:
    asked = _plan(("n", N), ("s", S), spend=PureSpend(Fraction(1)))
    asker = Asker(asked.resolved, [[[[400], [1000]]], [[[460], [1600]]]])
    first = _given(asked, [[100], [100]], again=asker)
    second = first.refine(epsilon=1)
    assert second.to_arrow().to_pydict() == {"n": [250], "s": [550.0]}
    third = second.refine(epsilon=2)
    assert third.to_arrow().to_pydict()["n"][0] == 393  # (100 + 400 + 4.25 · 460) / 6.25
    assert [len(each.named[0]) - 1 for each in asker.asked] == [1, 2]
    assert len({asked.request, *(each.request for each in asker.asked)}) == 3
    assert "averaged with 2 earlier" in str(third)
    widths = [np.ptp([ends["n_low"][0], ends["n_high"][0]]) for ends in _ends(first, second, third)]
    assert widths == sorted(widths, reverse=True)
    assert widths[2] < widths[0] / 2
    assert all(
        float(end).is_integer() for ends in _ends(third) for end in (ends["n_low"][0], ends["n_high"][0])
    )
    json.dumps(third.to_dict())
    assert third.plot().to_json()


def _ends(*releases: Release) -> list[dict[str, list[Any]]]:
    return [each.interval().to_pydict() for each in releases]


def test_the_same_round_is_the_same_request() -> None:
    asked = _plan(("n", N))
    again = Asker(asked.resolved, [[[[1]]], [[[1]]]])
    release = _given(asked, [[1]], again=again)
    release.refine(epsilon=1)
    release.refine(epsilon=1)
    assert again.asked[0].request == again.asked[1].request != asked.request


def test_an_answer_from_elsewhere_is_not_refined() -> None:
    with pytest.raises(UsageError, match="SF-N117"):
        _wards().refine(epsilon=1)


def test_groups_that_one_round_shows_have_its_numbers() -> None:
    asked = _plan(("name", GroupKey(0)), ("n", N), ("mean", X), keys=(Name("name"),), spend=BOUGHT)
    kinds = [type(each.of.term) for each in asked.measured]

    def sums(*counts: int) -> list[list[int]]:
        return [[-7 for _ in counts] if kind not in (Counted, Present) else list(counts) for kind in kinds]

    asker = Asker(asked.resolved, [[[[["Bo"], ["Cy"]], *sums(50, 70)]], [[[["Al"]], *sums(50)]]])
    first = _given(asked, [[["Ann"], ["Bo"]], *sums(40, 60)], again=asker)
    second = first.refine(epsilon=2, delta=1e-8)
    assert second.to_arrow().to_pydict()["name"] == ["Ann", "Bo", "Cy"]
    assert second.to_arrow().to_pydict()["n"] == [40, 55, 70]
    width = {name: high - low for name, low, high in _widths(second)}
    assert width["Bo"] < width["Ann"] == pytest.approx(width["Cy"], abs=2)
    third = second.refine(epsilon=2, delta=1e-8)
    assert third.to_arrow().to_pydict()["name"] == ["Al", "Ann", "Bo", "Cy"]
    assert third.to_arrow().to_pydict()["n"] == [50, 40, 55, 70]
    assert {name for name, low, high in _widths(third) if high > low} == {"Al", "Ann", "Bo", "Cy"}


def _widths(release: Release) -> list[tuple[str, float, float]]:
    ends = release.interval().to_pydict()
    assert all(low < high for low, high in zip(ends["mean_low"], ends["mean_high"], strict=True))
    return list(zip(ends["name"], ends["n_low"], ends["n_high"], strict=True))


def test_chosen_places_are_averaged_by_the_square_of_epsilon() -> None:
    asked = _plan(("mid", QuantileOf(Name("x"), HALF)), ("when", QuantileOf(Name("day"), HALF)))
    sizes = [step.program.size for step in asked.steps if isinstance(step, Choices)]
    first, second = ([[[places[size]]] for size in sizes] for places in ({9: 1, 366: 100}, {9: 6, 366: 300}))
    refined = _given(asked, *first, again=Asker(asked.resolved, [second])).refine(epsilon=2)
    assert refined.to_arrow().to_pydict() == {"mid": [5], "when": [date(2024, 9, 17)]}


# ---- quotes ----


def _quote(
    *outputs: tuple[str, GroupKey | Figure], given: dict[str, int] | None = None, **rest: Any
) -> Quote:
    asked = _plan(*outputs, **rest)
    return Quote(asked, Standing(0.1, Fraction(1), Fraction(1), False), QuestionError(asked, given or {}))


@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        (Arithmetic("/", N, Fraction(2)), 0.5),
        (N, 1.0),
        (Arithmetic("+", Arithmetic("*", Fraction(3), N), Fraction(7)), 3.0),
        (Arithmetic("-", N, Arithmetic("*", Fraction(3), N)), 2.0),
    ],
)
def test_quotes_know_the_error_of_linear_numbers(figure: Figure, expected: float) -> None:
    one = _quote(("a", N)).error()["a"]
    assert one is not None
    assert _quote(("a", figure)).error()["a"] == pytest.approx(expected * one)


def test_quotes_say_which_errors_come_with_the_answer() -> None:
    quote = _quote(("per", PER), ("mean", X), ("r", CovarianceOf(Name("x"), Name("age"), scaled=True)))
    assert quote.error() == {"per": None, "mean": None, "r": None}
    assert "known only with the answer" in str(quote)
    assert "rows of the group" in str(quote)


@pytest.mark.parametrize(
    "figure",
    [
        X,
        VarianceOf(Name("x")),
        VarianceOf(Name("x"), root=True),
        CovarianceOf(Name("x"), Name("age")),
        CovarianceOf(Name("x"), Name("age"), scaled=True),
    ],
)
def test_errors_of_averages_fall_with_the_rows_given(figure: Figure) -> None:
    few, many = (_quote(("a", figure), given={"n": n}).error()["a"] for n in (1000, 100_000))
    assert few is not None
    assert many is not None
    assert many == pytest.approx(few / 100, rel=0.2)


def test_quotes_of_quantiles_are_in_ranks_and_of_bought_keys_in_units() -> None:
    quote = _quote(("mid", QuantileOf(Name("x"), HALF)))
    assert "rows in rank" in str(quote)
    assert 4 < (quote.error()["mid"] or 0) < 12  # (2 · ½ / 1) · ln(8 / 0.05)
    assert "units on" in str(_quote(("n", N), keys=(Name("name"),), spend=BOUGHT))
    assert "shared by  1 sum and the keys" in str(_quote(("n", N), keys=(Name("name"),), spend=BOUGHT))


def test_the_cheapest_meets_the_error_and_a_millionth_less_does_not() -> None:
    shown = (Output("n", N), Output("mid", QuantileOf(Name("x"), HALF)))
    resolved = ResolvedQuestion(lambda _: TABLE, Question(BaseTable("t"), (), shown))
    for wished in ({"n": 25}, {"mid": 40}, {"n": 10, "mid": 40}):
        spend = find_cheapest_spend(resolved, wished, {})
        for less, meets in ((0, True), (1, False)):
            tried = price_question(resolved, PureSpend(spend.epsilon - Fraction(less, 10**6)))
            error = QuestionError(tried, {}).half_widths(0.95)
            assert all((error[name] or 0) <= half for name, half in wished.items()) is meets


def test_errors_that_cannot_be_met_are_refused() -> None:
    def ask(figure: Figure, error: dict[str, Any], *keys: Any) -> None:
        find_cheapest_spend(
            ResolvedQuestion(lambda _: TABLE, Question(BaseTable("t"), keys, (Output("a", figure),))),
            error,
            {},
        )

    with pytest.raises(UsageError, match="SF-N112"):
        ask(N, {"b": 1})
    with pytest.raises(UsageError, match="SF-N116"):
        ask(X, {"a": 1})
    with pytest.raises(UsageError, match="SF-N116"):
        ask(PER, {"a": 1})
    with pytest.raises(UsageError, match="SF-N312"):
        ask(SumOf(Name("age")), {"a": 1e-9})
    with pytest.raises(PolicyError, match="SF-Q143"):
        ask(N, {"a": 9}, Name("name"))


def test_gaussian_quotes() -> None:
    quote = _quote(("n", N), ("s", S), spend=GaussianSpend(Fraction(3), "ρ = 1/18", shaped=False))
    assert quote.epsilon is None
    assert "shared by  2 sums" in str(quote)
    assert json.dumps(quote.to_dict())
