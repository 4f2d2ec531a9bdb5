"""Promises: grids, codes and bounds follow from what was declared alone."""

from fractions import Fraction

import pytest

import sfumato as sf
from sfumato.curator.columns import Between, OneOf, promise_from_dict
from sfumato.engines.program import Among, AtLeast, AtMost, Every, Weight
from sfumato.errors import UsageError


@pytest.mark.parametrize(
    ("low", "high", "step"),
    [
        (0, 110, 2.0**-13),
        (0, 5000, 2.0**-7),
        (0, 1, 2.0**-20),
        (-3, 0.1, 2.0**-18),
        (0, 2**30, 2.0**10),
        (0, 1e-9, 2.0**-49),
    ],
)
def test_the_step_follows_from_the_bounds(low: float, high: float, step: float) -> None:
    promise = sf.between(low, high)
    assert promise.step == Fraction(step)
    assert 2**19 <= max(map(abs, promise.ends)) <= 2**20


def test_whole_numbers_are_exact_on_the_default_grid() -> None:
    promise = sf.between(0, 5000)
    for value in (0, 1, 17, 4999, 5000):
        assert promise.nearest(Fraction(value)) * promise.step == value


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (">=", AtLeast("x", 6)),
        (">", AtLeast("x", 7)),
        ("<=", AtMost("x", 6)),
        ("<", AtMost("x", 5)),
        ("=", Every((AtLeast("x", 6), AtMost("x", 6)))),
    ],
)
def test_literals_go_to_the_grid_like_values(operator: str, expected: object) -> None:
    promise = Between(Fraction(0), Fraction(10), exponent=-1)
    assert promise.compare("x", operator, Fraction("3.1")) == expected


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (">=", AtLeast("x", 65)),
        (">", AtLeast("x", 65)),
        ("<=", AtMost("x", 64)),
        ("<", AtMost("x", 64)),
        ("=", Every((AtLeast("x", 65), AtMost("x", 64)))),
    ],
)
def test_a_literal_between_declared_steps_stays_between(operator: str, expected: object) -> None:
    assert sf.between(0, 110, step=1).compare("x", operator, Fraction("64.5")) == expected


def test_sums_are_bounded_by_the_declared_bounds() -> None:
    total = sf.between(-3, 8, step=1).total("x")
    assert (total.bound, total.step) == (8, 1)
    deviation = sf.between(10, 21, step=1).deviation("x")
    assert (deviation.centre, deviation.bound) == (15, 6)


def test_listed_numbers_have_weights() -> None:
    flag = sf.one_of(0, 1)
    assert flag.total("f").term == Weight("f", (0, 1))
    deviation = flag.deviation("f")
    assert deviation.term == Weight("f", (-1, 1))
    assert (deviation.bound, deviation.step, deviation.centre) == (1, Fraction(1, 2), 1)


def test_listed_numbers_are_ordered_by_value() -> None:
    assert sf.one_of(3, 1, 2).compare("x", ">=", Fraction(2)) == Among("x", (0, 2))
    assert sf.one_of(3, 1).compare("x", ">", Fraction(9)) == Among("x", ())


@pytest.mark.parametrize(
    ("promise", "shown"),
    [
        (sf.one_of("b", "a"), ["b", "a"]),
        (sf.one_of(2, 1), [2, 1]),
        (sf.one_of(0.5, 1), [0.5, 1.0]),
        (sf.one_of(True, False), [True, False]),
    ],
)
def test_keys_are_shown_as_declared(promise: OneOf, shown: list[object]) -> None:
    assert promise.shown() == shown
    assert [type(value) for value in promise.shown()] == [type(value) for value in shown]


@pytest.mark.parametrize(
    "promise",
    [
        sf.between(0, 110),
        sf.between(-1, 0.3, step=0.25),
        sf.one_of("A", "B"),
        sf.one_of(0, 1),
        sf.one_of(True),
    ],
)
def test_promises_survive_the_catalog(promise: Between | OneOf) -> None:
    assert promise_from_dict(promise.to_dict()) == promise


@pytest.mark.parametrize(
    ("declare", "code"),
    [
        (lambda: sf.between(3, 3), "SF-C104"),
        (lambda: sf.between(3, 1), "SF-C104"),
        (lambda: sf.between(float("nan"), 1), "SF-N105"),
        (lambda: sf.between(0, float("inf")), "SF-N105"),
        (lambda: sf.between("0", 1), "SF-N104"),  # type: ignore[arg-type]
        (lambda: sf.between(0, 1, step=0.3), "SF-C105"),
        (lambda: sf.between(0, 1, step=4), "SF-C105"),
        (lambda: sf.between(0, 2**60, step=1), "SF-C105"),
        (lambda: sf.between(0, 1, step=0), "SF-N102"),
        (lambda: sf.one_of(), "SF-C106"),
        (lambda: sf.one_of("A", 1), "SF-C107"),
        (lambda: sf.one_of(True, 1), "SF-C107"),
        (lambda: sf.one_of("A", "A"), "SF-C108"),
        (lambda: sf.one_of(1, 1.0), "SF-C108"),
        (lambda: sf.one_of(2**53 + 1), "SF-C109"),
        (lambda: sf.one_of(None), "SF-N104"),  # type: ignore[arg-type]
        (lambda: sf.Unit("", max_rows=1), "SF-C101"),
        (lambda: sf.Unit("who", max_rows=0), "SF-N102"),
        (lambda: sf.Unit("who", max_rows=1.5), "SF-N103"),  # type: ignore[arg-type]
        (lambda: sf.Unit("who"), "SF-C121"),
        (lambda: sf.one_of(["A", "B"]), "SF-C122"),  # type: ignore[arg-type]
    ],
)
def test_bad_declarations_are_refused(declare: object, code: str) -> None:
    with pytest.raises(UsageError) as refusal:
        declare()  # type: ignore[operator]
    assert refusal.value.code == code
