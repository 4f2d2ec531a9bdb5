"""Frozen values check themselves: what `replace` makes of one is refused, or is valid."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import pickle
import pkgutil
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato import curator, noise, privacy, queries
from sfumato.curator.plan.distances import CountReaches, plan_distance
from sfumato.curator.plan.noisy_sum import NoisySum
from sfumato.curator.plan.plan import plan_question
from sfumato.curator.plan.priced import Plan
from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.curator.plan.spend import PureSpend
from sfumato.curator.plan.summands import Summand
from sfumato.curator.question.measurement import ContributionLimits
from sfumato.engines.program import Total
from sfumato.engines.values import Column
from sfumato.errors import SfumatoError
from sfumato.errors.checked import checked
from sfumato.oracle.over_tables import lower_private_table
from sfumato.privacy import events
from sfumato.privacy.neighbours import Neighbours
from sfumato.queries.sql import parse_question


class Liar(int):
    """An integer that equals everything and has a lie for its parts."""

    numerator = property(lambda self: 0)  # type: ignore[assignment]
    denominator = property(lambda self: 1)  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __lt__(self, other: object) -> bool:
        return False

    def __ge__(self, other: object) -> bool:
        return True


class Text(str):
    """A text that equals every text."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


HOSTILE: list[Any] = [
    0, -1, 2**200, True, float("nan"), float("inf"), 1.5, Decimal(-1), Fraction(-1), Fraction(0), None,
    "", "*", Text("x"), Liar(1), (), [], [1], (0,), ((0, 0),), {}, object(), int, Column(0, "x"),
]  # fmt: skip


def checked_kinds() -> Iterator[type[Any]]:
    """Every frozen value of the rooms that questions, prices and noise are made of."""
    for room in (curator, queries, privacy, noise):
        for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            for each in vars(importlib.import_module(found.name)).values():
                if (
                    isinstance(each, type)
                    and dataclasses.is_dataclass(each)
                    and each.__module__ == found.name
                ):
                    yield each


OTHERS: list[Any] = [
    sf.Budget(1, 1e-6), sf.Unit("x", max_rows=2), sf.Node("a", "b", 5), sf.Edge("a", "b", 5),
    events.Pure(1), events.Laplace(1), events.DiscreteLaplace(2, 1), events.Gaussian(2),
    events.Exponential(1),
    events.ApproxDP(1, 0.01), events.Sequential([events.Pure(1)]), events.Parallel([events.Pure(1)]),
    events.Repeated(events.Pure(1), 2), events.Sampled(events.Gaussian(2), 0.1),
    events.Grouped(events.Pure(1), 2), events.BestOf(events.Gaussian(2), 0.1),
    noise.LaplaceNoise(Fraction(2)), noise.GaussianNoise(Fraction(2)), noise.TopK(Fraction(1), 2, 1),
    noise.QuantilesMechanism(Fraction(1), (Fraction(1, 2),)),
    noise.TruncatedGeometric(Fraction(1), Fraction(1, 100)),
    noise.ThresholdedNoise(Fraction(1), Fraction(1, 100), 2, False),
]  # fmt: skip
QUESTIONS = [
    """SELECT ward, COUNT(*) AS n, AVG(age) AS a, MEDIAN(age) AS m FROM visits WHERE age >= 65 AND ward <> 'A'
       GROUP BY ward HAVING COUNT(*) > 3 AND NOT SUM(age) / COUNT(*) < 4 OR AVG(age) > 2
       ORDER BY n DESC LIMIT 2""",
    """SELECT CASE WHEN age IS NULL OR ward = 'A' THEN 1 ELSE 2 END AS k, VARIANCE(age) AS v FROM visits
       GROUP BY k""",
    """SELECT COUNT(DISTINCT visits.who) AS n, CORR(visits.age, other.age * 2) AS c
       FROM visits JOIN visits AS other USING (who)""",
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> sf.Lab:
    lab = sf.create(tmp_path_factory.mktemp("values") / "lab")
    rows = pa.table({"who": [1, 1, 2], "age": [70, 71, 30], "ward": ["A", "B", "C"]})
    columns = {"age": sf.between(0, 110, step=1), "ward": sf.one_of("A", "B", "C")}
    lab.register("visits", rows, unit=sf.Unit("who", max_rows=2), columns=columns, budget=sf.Budget(9, 1e-6))
    return lab


def _walk(value: Any, seen: dict[int, Any]) -> None:
    """Collect the frozen values that a value is made of."""
    if id(value) in seen:
        return
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        seen[id(value)] = value
        for field in dataclasses.fields(value):
            # What a frame asks of is the session itself, which is no value of the analyst's.
            if field.name != "asks":
                _walk(getattr(value, field.name), seen)
    elif isinstance(value, tuple | list):
        for each in value:
            _walk(each, seen)


@pytest.fixture(scope="module")
def values(lab: sf.Lab) -> list[Any]:
    session, seen = lab.session(), {}
    frame = session.table("visits")
    _walk(frame.bounded(groups=1, rows=1).group_by("ward"), seen)
    for text in QUESTIONS:
        question = parse_question(text)
        _walk(question, seen)
        _walk(plan_question(lab.table, question, PureSpend(Fraction(1))).steps, seen)
    source = lower_private_table(session._payer, "visits")
    _walk(plan_distance(source, CountReaches(3, True), PureSpend(Fraction(1))).steps, seen)
    _walk([lab.table("visits").columns["age"].domain, *OTHERS], seen)
    return list({repr(each): each for each in seen.values()}.values())


OURS = ("sfumato.curator", "sfumato.queries", "sfumato.privacy", "sfumato.noise")


def test_what_is_replaced_is_refused_or_valid(values: list[Any]) -> None:
    tried = [
        (value, field, hostile)
        for value in values
        if type(value).__module__.startswith(OURS)
        for field in dataclasses.fields(value)
        if field.name != "asks"
        for hostile in HOSTILE
    ]
    assert len(tried) > 2000
    wrong = {
        (type(value).__name__, field.name, repr(hostile))
        for value, field, hostile in tried
        if _is_wrong(value, field, hostile)
    }
    assert not wrong


def _is_wrong(value: Any, field: dataclasses.Field[Any], hostile: Any) -> bool:
    """Return whether a value was made that holds something else than its class states."""
    try:
        held = getattr(dataclasses.replace(value, **{field.name: hostile}), field.name)
    except SfumatoError:
        return False
    stated = str(field.type)
    # What was let in is of the plain types that were stated, and so compares as they do.
    if type(held) is bool:
        return "bool" not in stated and "Scalar" not in stated
    return type(held) in (Liar, Text, float, list, dict, object, type, Decimal)


def test_copies_of_values_are_the_same(values: list[Any]) -> None:
    for value in values:
        if type(value).__module__.startswith("sfumato.curator.question"):
            assert copy.copy(value) == value == pickle.loads(pickle.dumps(value))


def test_every_value_of_a_question_and_a_plan_is_checked() -> None:
    rooms = (
        "sfumato.curator.question",
        "sfumato.curator.plan.s",
        "sfumato.curator.plan.n",
        "sfumato.curator.plan.d",
    )
    for kind in checked_kinds():
        if kind.__module__.startswith(rooms) and dataclasses.fields(kind):
            assert hasattr(kind, "__post_init__"), kind


# ---- what showed it ----------------------------------------------------------------------------------------


def test_bounds_of_no_groups_buy_nothing(lab: sf.Lab) -> None:
    limits = lab.session().table("visits").bounded(groups=1, rows=2).limits
    for changed in ({"groups": 0}, {"rows": 0}, {"groups": -1}, {"groups": True}, {"groups": Liar(0)}):
        with pytest.raises(SfumatoError):
            dataclasses.replace(limits, **changed)  # type: ignore[type-var]
    with pytest.raises(SfumatoError):
        ContributionLimits(0, 2)


def test_only_the_public_number_of_rows_is_released_as_it_is(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "lab")
    columns = {"x": sf.between(0, 9, step=1)}
    lab.register(
        "t", pa.table({"x": [1, 2, 3]}), unit=sf.ROW, columns=columns, budget=sf.Budget(9),
        neighbours=Neighbours.REPLACE_ONE, rows=3,
    )  # fmt: skip
    spend = PureSpend(Fraction(1))
    plan = plan_question(lab.table, parse_question("SELECT COUNT(*) AS n FROM t"), spend)
    (step,) = plan.steps
    (count,) = step.measured
    assert count.noise is None
    # The same step of another program, or of a table whose number of rows is not public, is no plan.
    other = plan_question(lab.table, parse_question("SELECT COUNT(*) AS n FROM t WHERE x > 1"), spend)
    with pytest.raises(AssertionError):
        Plan(plan.table, spend, (dataclasses.replace(step, program=other.steps[0].program),), None)
    secret = dataclasses.replace(plan.table, neighbours=Neighbours.ADD_REMOVE, public_rows=None)
    with pytest.raises(AssertionError):
        Plan(secret, spend, plan.steps, None)


def test_sums_that_nothing_moves_are_zeros_whatever_was_found() -> None:
    still = NoisySum(Summand(Total(Column(0, "x")), 0, Fraction(1)), SumSensitivity(0, 0), None)
    assert still.release([17, 4]).tolist() == [0, 0]  # type: ignore[arg-type]
    with pytest.raises(SfumatoError):
        NoisySum(Summand(Total(Column(0, "x")), 5, Fraction(1)), SumSensitivity(5, 25), None)


def test_a_field_of_a_type_that_is_not_found_is_an_error_of_ours() -> None:
    @dataclasses.dataclass(frozen=True)
    @checked
    class Held:
        of: Missing  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(NameError):
        Held(1)
