"""Promises: grids, codes and bounds follow from what was declared alone."""

import json
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction

import pytest

import sfumato as sf
from sfumato.curator.catalog.columns import DateColumn, DeclaredColumn, ListedColumn, column_from_dict
from sfumato.curator.catalog.domains import FreeTexts, Listed, Numbers, Periods
from sfumato.engines import snapshot as preparation
from sfumato.errors import UsageError

FIRST, LAST = date(2020, 1, 1), date(2024, 12, 31)
TOKYO = timezone(timedelta(hours=9))


@pytest.mark.parametrize(
    ("low", "high", "step"),
    [
        (0, 110, "1e-6"),
        (0, 5000, "1e-5"),
        (0, 1, "1e-9"),
        (-3, 0.1, "1e-8"),
        (0, 2**30, "10"),
        (0, 2**30 - 1, "1"),
        (0, 10**12, "1000"),
        (0, 1e-9, "1e-18"),
    ],
)
def test_the_step_is_a_power_of_ten_that_follows_from_the_bounds(low: float, high: float, step: str) -> None:
    promise = sf.between(low, high)
    assert promise.step == Fraction(step)
    assert 2**30 // 10 <= max(map(abs, promise.ends)) < 2**30


def test_any_rational_step_may_be_declared() -> None:
    price = sf.between(0, 5000, step=0.01)
    assert price.domain == Numbers(0, 500_000, Fraction(1, 100), rounded=False)
    assert sf.between(0, 1, step=Fraction(1, 3)).domain == Numbers(0, 3, Fraction(1, 3))


def test_whole_numbers_are_exact_on_the_default_grid() -> None:
    for value in (1, 17, 4999, 5000):
        stored = sf.between(0, 5000, missing=value).make_stored_column("x")
        assert stored.missing * sf.between(0, 5000).step == value


def test_what_is_stored_and_what_it_stands_for() -> None:
    grid = sf.between(-1, 3, step=0.5, missing=0)
    assert grid.make_stored_column("x") == preparation.StoredGrid("x", -2, 6, Fraction(1, 2**1), 0)
    assert grid.domain == Numbers(-2, 6, Fraction(1, 2), rounded=False)
    assert sf.between(0, 1).domain.rounded
    ward = sf.one_of("A", "B", missing="B")
    assert ward.make_stored_column("w") == preparation.StoredCodes("w", ("A", "B"), 1)
    assert ward.domain == Listed(("A", "B"))
    assert sf.one_of(1, 2).make_stored_column("n") == preparation.StoredCodes("n", (1.0, 2.0))
    assert sf.text().make_stored_column("t") == preparation.StoredText("t")
    assert sf.text().domain == FreeTexts()


def test_dates_are_days_and_moments_seconds() -> None:
    day = sf.between(date(1970, 1, 2), date(1970, 1, 31), missing=date(1970, 1, 3))
    assert day.make_stored_column("d") == preparation.StoredTime("d", 1, 30, False, 2)
    assert day.domain == Periods(1, 30, "day")
    moment = sf.between(datetime(1969, 12, 31, 23, 59, 59, 999), datetime(1970, 1, 1, 1))
    assert moment.make_stored_column("m") == preparation.StoredTime("m", -1, 3600, True)
    assert moment.domain == Periods(-1, 3600, "second")


def test_moments_with_a_zone_are_those_in_utc() -> None:
    far = sf.between(datetime(2020, 1, 1, 9, tzinfo=TOKYO), datetime(2020, 1, 2))
    assert far == sf.between(datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC))
    assert isinstance(far, DateColumn)
    assert far.low == datetime(2020, 1, 1)


@pytest.mark.parametrize(
    ("promise", "shown"),
    [
        (sf.one_of("b", "a"), ["b", "a"]),
        (sf.one_of(2, 1), [2, 1]),
        (sf.one_of(0.5, 1), [0.5, 1.0]),
        (sf.one_of(True, False), [True, False]),
    ],
)
def test_keys_are_shown_as_declared(promise: ListedColumn, shown: list[object]) -> None:
    assert promise.domain.show_values() == shown
    assert [type(value) for value in promise.domain.show_values()] == [type(value) for value in shown]


@pytest.mark.parametrize(
    "promise",
    [
        sf.between(0, 110),
        sf.between(-1, 0.3, step=0.25),
        sf.one_of("A", "B"),
        sf.one_of(0, 1),
        sf.one_of(True),
        sf.between(0, 110, missing=40, constant=True),
        sf.one_of("A", "B", missing="B", constant=True),
        sf.one_of(0.5, 1, missing=0.5),
        sf.one_of(True, False, missing=False),
        sf.between(FIRST, LAST, missing=FIRST),
        sf.between(datetime(2020, 1, 1, 9, tzinfo=TOKYO), datetime(2021, 1, 1, tzinfo=UTC), constant=True),
        sf.text(),
        sf.text(constant=True),
    ],
)
def test_promises_survive_the_catalog(promise: DeclaredColumn) -> None:
    assert column_from_dict(json.loads(json.dumps(promise.to_dict()))) == promise


@pytest.mark.parametrize(
    ("declare", "code"),
    [
        (lambda: sf.between(3, 3), "SF-C104"),
        (lambda: sf.between(3, 1), "SF-C104"),
        (lambda: sf.between(float("nan"), 1), "SF-N105"),
        (lambda: sf.between(0, float("inf")), "SF-N105"),
        (lambda: sf.between("0", 1), "SF-C104"),
        (lambda: sf.between(0, 1, step=Fraction(1, 2**51)), "SF-C104"),
        (lambda: sf.between(0, 1, step=4), "SF-C104"),
        (lambda: sf.between(0, 2**60, step=1), "SF-C104"),
        (lambda: sf.between(0, 1, step=0), "SF-N101"),
        (lambda: sf.one_of(), "SF-C107"),
        (lambda: sf.one_of("A", 1), "SF-C107"),
        (lambda: sf.one_of(True, 1), "SF-C107"),
        (lambda: sf.one_of("A", "A"), "SF-C107"),
        (lambda: sf.one_of(1, 1.0), "SF-C107"),
        (lambda: sf.one_of(2**53 + 1), "SF-C107"),
        (lambda: sf.one_of(None), "SF-N104"),  # type: ignore[arg-type]
        (lambda: sf.between(0, 1, missing=2), "SF-C114"),
        (lambda: sf.one_of("A", missing="B"), "SF-C114"),
        (lambda: sf.between(FIRST, LAST, missing=date(2030, 1, 1)), "SF-C114"),
        (lambda: sf.between(LAST, FIRST), "SF-C104"),
        (lambda: sf.between(FIRST, 7), "SF-C104"),
        (lambda: sf.between(FIRST, datetime(2021, 1, 1)), "SF-C104"),
        (lambda: sf.between(FIRST, LAST, step=1), "SF-C104"),
        (lambda: sf.Unit("", max_rows=1), "SF-C114"),
        (lambda: sf.Unit("who", max_rows=0), "SF-N101"),
        (lambda: sf.Unit("who", max_rows=1.5), "SF-N104"),  # type: ignore[arg-type]
        (lambda: sf.Unit("who"), "SF-U104"),
        (lambda: sf.one_of(["A", "B"]), "SF-C107"),  # type: ignore[arg-type]
    ],
)
def test_bad_declarations_are_refused(declare: object, code: str) -> None:
    with pytest.raises(UsageError) as refusal:
        declare()  # type: ignore[operator]
    assert refusal.value.code == code


def test_the_last_date_there_is_can_be_a_bound() -> None:
    promise = sf.between(date(1, 1, 1), date.max)
    assert promise.domain == Periods(-719162, 2932896)
